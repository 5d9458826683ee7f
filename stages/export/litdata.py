"""LitData, for its TokensLoader: chunks of documents, and the index that names them.

    SPLIT/chunk-NNNNN.bin     one a shard that has a document: D documents of T tokens together
      0          u32           D
      4          u32[D + 1]    where each document begins in the file; the last is the file's size
      8 + 4 D    <u2 or <i4    ids of the documents end to end, each closed by its EOS
    SPLIT/index.json          of each chunk its size, documents and tokens; the dtype of all

The invariant: size = 8 + 4 D + T * itemsize, below 4 GiB, since offsets are 32 bits wide. TokensLoader
looks at no border: it cuts each chunk into blocks of block_size tokens, without what remains at its end.
"""

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stages.errors import ConfigError
from stages.export.files import ExportFiles
from stages.export.format import Format, FormatContents, quoted
from stages.export.source import ExportSource
from stages.export.staged import ExportedStage, TrainerStages

MAX_OFFSET = (1 << 32) - 1
_WIDTH = 4
"""Bytes of a count or an offset."""
_DTYPES = {"<u2": "no_header_numpy:5", "<i4": "no_header_numpy:2"}


def chunk_header(lengths: NDArray[np.int64], itemsize: int) -> bytes:
    """Return what stands before the tokens of a chunk.

    Args:
        lengths: (D,) tokens of each document.
        itemsize: bytes of a token.
    """
    ends = np.concatenate([[0], np.cumsum(lengths)]) * itemsize
    offsets = ends + _WIDTH * (len(lengths) + 2)
    assert offsets[-1] <= MAX_OFFSET, "refused before anything is written"
    return np.uint32(len(lengths)).tobytes() + offsets.astype("<u4").tobytes()


def _name(shard: int) -> str:
    return f"chunk-{shard:05}.bin"


def _chunk_bytes(source: ExportSource, shard: int) -> int:
    lengths = source.lengths(shard)
    return _WIDTH * (len(lengths) + 2) + int(lengths.sum()) * source.id_dtype.itemsize


def _refuse(source: ExportSource) -> None:
    for shard in range(source.num_shards):
        size = _chunk_bytes(source, shard)
        if size > MAX_OFFSET:
            raise ConfigError(
                f"--format litdata: shard {shard} of {source.manifest.name} would be a chunk of {size:,}"
                f" bytes, but its offsets end at {MAX_OFFSET:,}; make the dataset with a smaller"
                " packing.shard_size"
            )


def _write_part(source: ExportSource, shard: int, files: ExportFiles) -> None:
    lengths = source.lengths(shard)
    if not len(lengths):
        return
    with files.append(f"{source.split}/{_name(shard)}") as file:
        file.write(chunk_header(lengths, source.id_dtype.itemsize))
        for block in source.blocks(shard):
            file.write(block.tokens)


def _finish(source: ExportSource, files: ExportFiles) -> None:
    chunks: list[dict[str, object]] = []
    for shard in range(source.num_shards):
        lengths = source.lengths(shard)
        if len(lengths):
            chunks.append(
                {
                    "chunk_bytes": _chunk_bytes(source, shard),
                    "chunk_size": len(lengths),
                    "dim": int(lengths.sum()),
                    "filename": _name(shard),
                }
            )
    config = {
        "chunk_bytes": max((_chunk_bytes(source, n) for n in range(source.num_shards)), default=0),
        "chunk_size": None,
        "compression": None,
        "data_format": [_DTYPES[source.id_dtype.str]],
        # one leaf: an item is an array, not a structure of several
        "data_spec": json.dumps([1, {"type": None, "context": None, "children_spec": []}]),
        "encryption": None,
        "item_loader": "TokensLoader",
    }
    # LitData takes this text as the version of the data when it caches; ours has no time in it
    index = {"chunks": chunks, "config": config, "updated_at": source.manifest.fingerprint}
    files.write(f"{source.split}/index.json", json.dumps(index, sort_keys=True).encode())


def _read(sources: Sequence[ExportSource], folder: str) -> str:
    block = sources[0].manifest.seq_len + 1
    lines = ["from litdata import StreamingDataset, TokensLoader", ""]
    for source in sources:
        loader = f"item_loader=TokensLoader(block_size={block}), shuffle=True"
        lines.append(
            f"{source.split} = StreamingDataset({quoted(f'{folder}/{source.split}')}, {loader})"
        )
    if len(sources) > 1:
        names = json.dumps([source.split for source in sources])
        lines += [
            "",
            "# litgpt takes both splits by their names",
            "from litgpt.data import LitData",
            "",
            f"data = LitData(data_path={quoted(folder)}, split_names=tuple({names}))",
        ]
    return "\n".join(lines)


def _notes(sources: Sequence[ExportSource]) -> tuple[str, ...]:
    block = sources[0].manifest.seq_len + 1
    return (
        (
            f"A block of {block} tokens is {block - 1} inputs and, one on, as many targets; blocks cross"
            f" the ends of documents. {sources[0].frame}."
        ),
        "Of each chunk, the tokens behind its last whole block are left out by LitData.",
    )


def _stages(_: Sequence[ExportedStage], __: str) -> TrainerStages:
    return TrainerStages(
        (
            (
                "litgpt has nothing for stages: call `litgpt pretrain` for each, with"
                " --initial_checkpoint_dir of the stage before. That loads the weights alone: the"
                " optimizer and the learning rate begin anew. --resume is for the same data, whose"
                " place it loads."
            ),
            "A StreamingDataset of LitData knows no stages either: open each folder in its turn.",
        )
    )


LITDATA = Format(
    name="litdata",
    holds=FormatContents.DOCUMENTS,
    client="LitData, litgpt",
    files=("SPLIT/index.json", "SPLIT/chunk-NNNNN.bin"),
    markers=("index.json",),
    write_part=_write_part,
    finish=_finish,
    read=_read,
    refuse=_refuse,
    notes=_notes,
    stages=_stages,
)
