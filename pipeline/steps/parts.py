"""Parts: what one task of ingest reads of a file, and its records.

A file that has slices gives one part for each, read in any order. Any other is a chain of parts of
`unit_size` decompressed bytes, read from front to back by one worker, which holds the open stream; a
worker that takes over opens the file again and skips. Which of the two it is changes no record.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pipeline.config import Ingest
from pipeline.places import Place, open_place
from stages.dedup.lsh import MinHashConfig
from stages.reading.arrow import arrow_records
from stages.reading.decompress import decompressed, reading_stream
from stages.reading.formats import TABLES, Format, Slice, TextSplit, format_of
from stages.reading.jsonl import parse_line
from stages.reading.lines import Line, inked, lines_of_slice, split_lines
from stages.reading.parquet import parquet_records
from stages.reading.records import FieldMapping, Record
from stages.reading.structure import too_costly
from stages.reading.text import paragraphs, paragraphs_of_slice, parse_text, whole_text


@dataclass(frozen=True)
class Part:
    """One part of one file."""

    source: str
    path: str
    place: Place
    key: str
    number: int
    fields: FieldMapping
    ingest: Ingest
    minhash: MinHashConfig | None
    slice: Slice | None = None
    """What it reads; None for a part of a chain."""
    text_split: TextSplit = TextSplit.FILE

    @property
    def name(self) -> str:
        """Name of the unit."""
        return f"{self.key}-{self.number:05d}"

    @property
    def is_table(self) -> bool:
        """Whether its records are rows, which have numbers and no lines."""
        return format_of(self.path) in TABLES


@dataclass
class _Stream:
    """An open file between two of its parts."""

    key: str
    pieces: Iterator[Line]
    pending: Line | None


def records_of(cache: dict[str, Any], part: Part) -> Iterator[Record]:
    """Give the records of a part in order.

    Args:
        cache: what the worker keeps; the open stream of a chain stays in it.
        part: what to read.

    Raises:
        DataError: the file is missing, cut, damaged, or not what its ending says.
    """
    if part.slice is None:
        return _chain_records(_stream_at(cache, part), part)
    return _slice_records(part, part.slice)


def part_after(cache: dict[str, Any], part: Part) -> int | None:
    """Give the number of the part that continues a chain, once all records of a part are taken."""
    stream: _Stream | None = cache.get("stream") if part.slice is None else None
    if stream is None or stream.pending is None:
        return None
    return stream.pending.position // part.ingest.unit_size


def _slice_records(part: Part, piece: Slice) -> Iterator[Record]:
    max_bytes, kind, name = part.ingest.max_document_bytes, format_of(part.path), str(part.place)
    with reading_stream(name), open_place(part.place) as file:
        if kind is Format.PARQUET:
            yield from parquet_records(file, piece, part.fields, max_bytes=max_bytes, name=name)
        elif kind is Format.ARROW:
            yield from arrow_records(file, piece, part.fields, max_bytes=max_bytes, name=name)
        elif kind is Format.TEXT:
            yield from map(_parser(part), paragraphs_of_slice(file, piece, max_bytes=max_bytes))
        else:
            lines = lines_of_slice(file, piece, max_bytes=max_bytes)
            yield from map(_parser(part), inked(lines))


def _parser(part: Part) -> Callable[[Line], Record]:
    """Return what makes a record of a line or a text."""
    if format_of(part.path) is Format.TEXT:
        return lambda line: parse_text(line, part.fields)
    max_bytes = part.ingest.max_document_bytes
    return lambda line: too_costly(line, max_bytes=max_bytes) or parse_line(line, part.fields)


def _stream_at(cache: dict[str, Any], part: Part) -> _Stream:
    """Give the file's stream at the part's first piece: the one left open, or a new one."""
    stream: _Stream | None = cache.pop("stream", None)
    start = part.number * part.ingest.unit_size
    if stream is None or stream.key != part.key or stream.pending is None:
        pieces = _pieces(part)
        stream = _Stream(part.key, pieces, next(pieces, None))
    while stream.pending is not None and stream.pending.position < start:
        stream.pending = next(stream.pieces, None)
    cache["stream"] = stream
    return stream


def _pieces(part: Part) -> Iterator[Line]:
    """Give a file's lines that are not blank, or its paragraphs, or its whole text."""
    max_bytes = part.ingest.max_document_bytes
    with reading_stream(str(part.place)), open_place(part.place) as file:
        chunks = decompressed(file, part.path)
        if format_of(part.path) is not Format.TEXT:
            yield from inked(split_lines(chunks, max_bytes=max_bytes))
        elif part.text_split is TextSplit.FILE:
            yield from whole_text(chunks, max_bytes=max_bytes)
        else:
            yield from paragraphs(split_lines(chunks, max_bytes=max_bytes), max_bytes=max_bytes)


def _chain_records(stream: _Stream, part: Part) -> Iterator[Record]:
    end = (part.number + 1) * part.ingest.unit_size
    parse = _parser(part)
    while stream.pending is not None and stream.pending.position < end:
        record = [parse(stream.pending)]
        stream.pending = None  # a long line is not held beside its text, nor its text beside the next
        yield record.pop()
        stream.pending = next(stream.pieces, None)
