"""A sample of the inputs: records from the beginnings of files, a share of their bytes, for a forecast.

If the share of a file is less than `_LEAST` bytes, so many are read of it, but not of every such file:
only of as many files as make up the share together, at least one of each source. Which ones depends on
their names, and on which are empty. Nothing is scanned, and no file is read further than its sample.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import orjson
import xxhash

from pipeline.inputs.files import FoundFile, find_inputs
from pipeline.inputs.place_files import open_place
from pipeline.run_file.config import RunFile, Source
from stages.columns import Drop
from stages.errors import ConfigError
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.decompress import decompressed, reading_stream
from stages.reading.encodings import transcoded
from stages.reading.faults import reading_content
from stages.reading.reader import StreamReader, TableReader
from stages.reading.records import LanguageColumn, RawDocument, Record

_LEAST = 1 << 20
"""Bytes that are read of a file, at the least: fewer do not tell how well it is compressed."""
_ENOUGH = 3
"""Marks of a stream, its beginning among them, of which two are behind the first chunk."""
_SLICE = 1 << 20
"""Text in a slice of a table, about."""
_TEXT, _ID, _LANGUAGE, _SECTION = "_text", "_id", "_language", "_section_{}"
_DIALOGUE = "_messages"
"""Columns of a sample; what filters read beside them has the names that it had."""


@dataclass
class InputSample:
    """What was drawn of a run's inputs."""

    sources: tuple[Source, ...] = ()
    """Those of the run, as sources of JSON lines."""
    absent: tuple[str, ...] = ()
    """Those of which no document was drawn."""
    stored: int = 0
    """Bytes of all input files, as they lie on disk."""
    taken: float = 0.0
    """Bytes of them that hold what was read."""
    records: int = 0
    unreadable: int = 0
    """Records that gave no document."""
    text_bytes: int = 0
    largest_source: int = 0
    """Bytes of text drawn of one source, at the most."""
    largest_file: int = 0
    """Bytes of the largest input file, as it lies on disk."""


def draw_sample(run: RunFile, base: Path, folder: Path, *, share: float) -> InputSample:
    """Write a sample of each source as a file of JSON lines.

    Args:
        run: what the sample is of.
        base: folder that its paths are relative to.
        folder: where the sample goes.
        share: of the bytes of the inputs, in (0, 1].

    Raises:
        ShardmillError: an input cannot be found or read; or no record was drawn.
    """
    files = find_inputs(run, base).files
    sizes = list(map(_size, files))
    sample = InputSample(stored=sum(sizes), largest_file=max(sizes, default=0))
    chosen = _chosen(files, share)
    absent = []
    for source in run.sources:
        place = folder / f"{source.name}.jsonl"
        before = sample.text_bytes
        with place.open("wb") as target:
            for file, own in chosen:
                if file.source == source.name:
                    for record in _drawn(file, run, sample, share=own):
                        target.write(_line(record, file))
        sample.largest_source = max(sample.largest_source, sample.text_bytes - before)
        if sample.text_bytes == before:
            absent.append(source.name)
    if not sample.text_bytes:
        raise ConfigError(
            f"--sample {share}: no document was drawn of {sample.stored:,} bytes in {len(files):,}"
            " files; raise it"
        )
    sample.sources = tuple(_source(one, folder / f"{one.name}.jsonl") for one in run.sources)
    sample.absent = tuple(absent)
    return sample


def _chosen(files: Sequence[FoundFile], share: float) -> list[tuple[FoundFile, float]]:
    """Return the files that are read, each with the share of it that is read.

    All large files are read, and of the small ones as many as make up the share: at least one of each
    source that has no large file.
    """
    large = [(file, share) for file in files if share * _size(file) >= _LEAST]
    small = [file for file in files if share * _size(file) < _LEAST]
    left = share * sum(map(_size, small))
    # empty files last: the first of a source is read whatever is left
    small.sort(key=lambda file: (_size(file) == 0, xxhash.xxh3_64_intdigest(file.key.encode())))
    read = {file.source for file, _ in large}
    firsts = {file.source: file for file in reversed(small) if file.source not in read}
    small.sort(key=lambda file: file is not firsts.get(file.source))
    found = []
    for number, file in enumerate(small):
        if left <= 0 and number >= len(firsts):
            break
        own = min(1.0, _LEAST / max(_size(file), 1))
        found.append((file, own))
        left -= own * _size(file)
    return sorted([*large, *found], key=lambda one: (one[0].source, one[0].path))


def _drawn(file: FoundFile, run: RunFile, sample: InputSample, *, share: float) -> Iterator[RawDocument]:
    """Yield the documents of a share of a file, and count what was read of it."""
    size, limit = _size(file), int(run.ingest.max_document_bytes)
    with reading_stream(str(file.place)), open_place(file.place, key=f"sources.{file.source}") as opened:
        taken = 1.0  # of a file without a record, all was read
        for part, record in _records(file, opened, limit, share=share):
            taken = part
            sample.records += 1
            if isinstance(record, Drop):
                sample.unreadable += 1
                continue
            texts = [record.text, *record.sections, *(turn.content for turn in record.turns)]
            sample.text_bytes += sum(len(text.encode()) for text in texts)
            yield record
    sample.taken += taken * size


def _size(file: FoundFile) -> int:
    """Return the bytes of a file, as it lies on disk."""
    if file.status.size is None:
        raise ConfigError(
            f"{file.label}: its server does not say how long it is, so nobody knows what a sample is a"
            " share of; copy the file to a disk, or plan without --sample"
        )
    return file.status.size


def _records(
    file: FoundFile, opened: BinaryIO, limit: int, *, share: float
) -> Iterator[tuple[float, Record]]:
    """Yield the records of the first part of a file, each with the share of it that is read by then."""
    reader = file.reader
    if isinstance(reader, TableReader):
        yield from _rows(file, reader, opened, limit, share=share)
    else:
        yield from _pieces(file, reader, opened, limit, share=share)


def _rows(
    file: FoundFile, reader: TableReader, opened: BinaryIO, limit: int, *, share: float
) -> Iterator[tuple[float, Record]]:
    key, name = f"sources.{file.source}", str(file.place)
    slices, total = reader.slices(opened, file.fields, unit=_SLICE, name=name, key=key)
    wanted, done = math.ceil(share * total), 0
    for piece in slices:
        for record in reader.records(opened, piece, file.fields, max_bytes=limit, name=name):
            done += 1
            yield done / total, record
            if done >= wanted:
                return


def _pieces(
    file: FoundFile, reader: StreamReader, opened: BinaryIO, limit: int, *, share: float
) -> Iterator[tuple[float, Record]]:
    """Yield records until their share is read; of a compressed file, a share of the bytes on disk.

    Libraries read ahead. So the second chunk and those after it say how many bytes on disk one takes.
    """
    size, marks = max(_size(file), 1), [(0, 0)]

    def counted(chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            marks.append((marks[-1][0] + len(chunk), opened.tell()))
            yield chunk

    def share_until(position: int) -> float:
        (first, stored), (last, until) = marks[:2] if len(marks) < _ENOUGH else (marks[1], marks[-1])
        if last == marks[-1][0] == position and until == size:
            return 1.0
        return min(1.0, position * (until - stored) / max(last - first, 1) / size)

    chunks = decompressed(opened, file.path)
    if reader.is_text:
        chunks = transcoded(chunks, file.encoding)
    stream, columns = reader.open(file.fields, limit), ColumnsSeen(file.fields)
    with reading_content(file.label):
        for piece in stream.pieces(counted(chunks)):
            part = share_until(piece.end)
            yield part, stream.parse(piece, columns)
            if part >= share:
                return


def _line(record: RawDocument, file: FoundFile) -> bytes:
    """Return a document as a line of JSON."""
    content: dict[str, object] = dict(zip(file.fields.beside, record.values, strict=False))
    content |= {_TEXT: record.text, _LANGUAGE: record.language}
    content |= {_SECTION.format(number): text for number, text in enumerate(record.sections)}
    if record.turns:
        del content[_TEXT]
        content[_DIALOGUE] = [turn._asdict() for turn in record.turns]
    if record.own_id is not None:
        content[_ID] = record.own_id
    return orjson.dumps(content, default=str, option=orjson.OPT_APPEND_NEWLINE)


def _source(source: Source, place: Path) -> Source:
    """Return a source of the run as one of its sample."""
    sections = tuple(_SECTION.format(number) for number in range(len(source.section_columns)))
    chat = None if source.chat is None else source.chat.model_copy(update={"column": _DIALOGUE})
    return Source(
        name=source.name,
        paths=(str(place),),
        license=source.license,
        text_column=_TEXT if chat is None else Source.model_fields["text_column"].default,
        section_columns=sections,
        chat=chat,
        id_column=_ID if source.id_column is not None else None,
        language=LanguageColumn(column=_LANGUAGE),
    )
