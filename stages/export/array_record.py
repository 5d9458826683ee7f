"""ArrayRecord, for Grain and MaxText: a record is a document, or a chunk of one, as a tf.train.Example.

    SPLIT/NNNNN.array_record     one a shard that has a document

    record    tf.train.Example in protocol buffers' wire format:
                features { feature { key: "text"  value { int64_list { value: [ids] } } } }

A document longer than `seq_len` is cut into chunks of that many tokens, since MaxText leaves out what is
longer than its `max_target_length`. The chunks of a document follow each other, and the last one ends
in EOS. So chunks end to end are the documents end to end.

The library array_record writes the container, whose bytes are the same for the same records.

Source: the schema of tf.train.Example, and the encoding of protocol buffers (protobuf.dev, "Encoding").
"""

import glob
from collections.abc import Iterator, Sequence
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from stages.errors import ConfigError
from stages.export.files import ExportFiles
from stages.export.format import Format, FormatContents, quoted
from stages.export.source import ExportSource, StoredDocuments

FEATURE = b"text"
"""The feature that MaxText reads unless its config names another."""
_OPTIONS = "group_size:1,uncompressed"
"""Groups of one record are what Grain reads at random, and ids hardly compress."""
_COPIED = 1 << 22
"""Bytes that are copied together."""
_LENGTH_DELIMITED, _CONTINUED = 2, 0x80


def encoded_example(ids: NDArray[np.integer]) -> bytes:
    """Return a tf.train.Example whose only feature is a list of ids.

    Args:
        ids: (T,) none of them negative.
    """
    values = _field(1, b"".join(map(_varint, ids.tolist())))  # Int64List.value, packed
    entry = _field(1, FEATURE) + _field(2, _field(3, values))  # the key, and Feature.int64_list
    return _field(1, _field(1, entry))  # Example.features, Features.feature


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Return an integer seven bits a byte, the lowest first; the eighth says that more follow."""
    found = bytearray()
    while value >= _CONTINUED:
        found.append(value % _CONTINUED | _CONTINUED)
        value //= _CONTINUED
    found.append(value)
    return bytes(found)


def chunks_of(block: StoredDocuments, length: int) -> Iterator[NDArray[np.integer]]:
    """Yield each document, or its chunks of at most `length` tokens."""
    ends = np.cumsum(block.lengths)
    for start, end in zip(ends - block.lengths, ends, strict=True):
        for first in range(int(start), int(end), length):
            yield block.tokens[first : min(first + length, int(end))]


def _library() -> ModuleType:
    try:
        from array_record.python import array_record_module  # noqa: PLC0415  # an extra of its own
    except ImportError as error:
        raise ConfigError(
            f"--format array-record: needs the package array-record, and {error}; pip install"
            " 'shardmill[array-record]'"
        ) from error
    found: ModuleType = array_record_module
    return found


def _refuse(_: ExportSource) -> None:
    _library()


def _write_part(source: ExportSource, shard: int, files: ExportFiles) -> None:
    if not len(source.lengths(shard)):
        return
    name = f"{source.split}/{shard:05}.array_record"
    with files.append(name) as file, files.scratch(name) as place:
        writer = _library().ArrayRecordWriter(str(place), _OPTIONS)
        for block in source.blocks(shard):
            for chunk in chunks_of(block, source.manifest.seq_len):
                writer.write(encoded_example(chunk))
        writer.close()
        with place.open("rb") as written:
            while data := written.read(_COPIED):
                file.write(data)


def _read(sources: Sequence[ExportSource], folder: str) -> str:
    lines = ["import glob", "", "import grain", ""]
    for source in sources:
        found = f"sorted(glob.glob({quoted(f'{glob.escape(folder)}/{source.split}/*.array_record')}))"
        lines.append(f"{source.split} = grain.sources.ArrayRecordDataSource({found})")
    return "\n".join(lines)


def _notes(sources: Sequence[ExportSource]) -> tuple[str, ...]:
    source = sources[0]
    length = source.manifest.seq_len
    return (
        (
            f"A record is a tf.train.Example with one feature, `{FEATURE.decode()}`: the ids of a"
            f" document, or of a piece of one, of at most {length:,} tokens. {source.frame}."
        ),
        (
            "MaxText: dataset_type=grain, grain_file_type=arrayrecord, tokenize_train_data=False,"
            f" packing=True, max_target_length={length} or more, and a tokenizer whose pad id is"
            f" {source.manifest.special_ids['pad']}. It shifts the labels itself."
        ),
        "MaxText also reads an export of --format megatron: grain_file_type=mmap.",
    )


ARRAY_RECORD = Format(
    name="array-record",
    holds=FormatContents.DOCUMENTS,
    client="Grain, MaxText",
    files=("SPLIT/NNNNN.array_record",),
    write_part=_write_part,
    read=_read,
    refuse=_refuse,
    notes=_notes,
)
