"""Ranges: what goes of the texts of a group of units, and which documents go with it.

    cut/ranges/UNIT.parquet    the ranges of bytes that go (`pipeline.steps.cut_texts`)
    cut/keep/UNIT.npy          which documents are kept
    cut/found/GROUP.parquet    evidence, with documents by number

Where a paragraph, a line and a substring overlap, the bytes are counted once, for the first of these.
A document of which fewer characters are left than ingest.min_chars goes, unless it holds the first copy
of something that is cut elsewhere and a word is left: these words may stand nowhere else.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.run_file.deduplication import Dedup
from pipeline.steps.cut.byte_windows import PlacedRanges, RepeatedRanges, byte_cuts, min_bytes_of
from pipeline.steps.cut.spans import kept_texts, placed_between, repeats_key
from pipeline.steps.cut.table import CutMethod, methods_of
from pipeline.steps.cut_texts import read_cuts
from pipeline.steps.dedup.unit_groups import UnitGroup
from pipeline.steps.selection import COUNTED, CUT_NAME, KeptCounts, SelectedRecord, as_kept_by
from pipeline.steps.units import Unit, fixed_array, kept_mask, row_groups
from stages.columns import CUT_RANGES, utf8_of
from stages.dedup.cuts import (
    Cut,
    blank_before,
    line_begin,
    lines_end,
    merged,
    outside,
    readable_cut,
    repeated_words,
    uncovered,
    without,
)
from stages.dedup.repeats import documents_of, ordinals_of
from stages.dedup.spans import words_of
from stages.filtering.length import LengthFilter, length_verdict
from stages.identity import DIGEST_BYTES, utf8_digest
from stages.store.arrays import open_array, write_array

EMPTIED = "cut_empty"
"""Why a document is gone of which too little is left."""
_EXCERPT = 120
"""Bytes of the cut text in the evidence."""
FOUND = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("first_document", pa.int64(), nullable=False),
        pa.field("first_at", pa.int64(), nullable=False),
        pa.field("method", pa.string(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        pa.field("cut_bytes", pa.int64(), nullable=False),
        pa.field("emptied", pa.bool_(), nullable=False),
        pa.field("excerpt", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True)
class CutGroup:
    """A group of units whose texts are cut."""

    group: UnitGroup
    dedup: Dedup
    length: LengthFilter
    partitions: Mapping[str, int]
    """Of the repeats, by method."""


class CutsRecord(SelectedRecord):
    """What was cut of a group of units."""

    documents: int
    """That lost something and are kept."""
    cuts: int


class _CutRange(NamedTuple):
    """One thing that is cut."""

    method: str
    cut: Cut
    size: int
    """Bytes of its range that no method before it cuts."""
    first: int
    """The first place of what it repeats."""


def find_cuts(workspace: Workspace, work: CutGroup) -> CutsRecord:
    """Write what goes of the texts of a group of units."""
    readers = [_reader(workspace, work, method) for method in methods_of(work.dedup)]
    counts, documents, cuts = KeptCounts(work.group.units, [EMPTIED]), 0, 0
    path = workspace.create(found_key(work.group.number))
    with pq.ParquetWriter(path, FOUND, compression="zstd") as writer:
        for unit in work.group.units:
            of_unit = _UnitCuts(unit, kept_mask(workspace, unit), work)
            if unit.cut:
                for rows, table in kept_texts(workspace, unit):
                    bounds = unit.first + int(rows[0]), unit.first + int(rows[-1]) + 1
                    found = of_unit.add(rows, table, [read(*bounds) for read in readers])
                    cuts += len(found)
                    writer.write_table(pa.Table.from_pylist(found, schema=FOUND))
            of_unit.write(workspace)
            documents += of_unit.documents
            _count(workspace, of_unit, counts)
    flows, languages = counts.flows, counts.languages
    return CutsRecord(flows=flows, languages=languages, documents=documents, cuts=cuts)


def found_key(group: int) -> str:
    """Return the key of the evidence of a group of units."""
    return f"cut/found/{group:05d}.parquet"


def _reader(
    workspace: Workspace, work: CutGroup, method: CutMethod
) -> Callable[[int, int], RepeatedRanges]:
    """Return what gives the repeats of some neighbouring documents of the group, or of more."""
    partitions = work.partitions[method.name]
    if method.sampled:
        return PlacedRanges(workspace, method.name, partitions).of
    paths = (workspace.path(repeats_key(method.name, partition)) for partition in range(partitions))
    files = (open_array(path, dtype="<u8") for path in paths)
    every = placed_between(files, work.group.first << 32, work.group.last << 32)
    counts = np.broadcast_to(np.int64(1), len(every))
    whole = RepeatedRanges(every[:, 0].copy(), every[:, 1].copy(), counts)
    return lambda *_: whole


class _UnitCuts:
    """What goes of one unit, on its way to files."""

    def __init__(self, unit: Unit, mask: NDArray[np.bool_], work: CutGroup) -> None:
        self.unit, self.work = unit, work
        self.before, self.kept = mask, mask.copy()
        self.gone = {method.name: 0 for method in methods_of(work.dedup)}
        """Bytes by method, of documents that are kept."""
        self.documents = 0
        self._table: dict[str, list[Any]] = {name: [] for name in CUT_RANGES.names}

    def add(
        self, rows: NDArray[np.int64], table: pa.Table, repeats: Sequence[RepeatedRanges]
    ) -> list[dict[str, object]]:
        """Cut some documents, and return the evidence."""
        data, offsets = utf8_of(table.column("text"))
        evidence: list[dict[str, object]] = []
        for row, start, end in zip(rows.tolist(), offsets[:-1], offsets[1:], strict=True):
            text = data[start:end]
            own = [one.of(self.unit.first + row) for one in repeats]
            if not any(one.have_others() for one in own):
                continue
            found = list(_found(text, own, self.work.dedup))
            if found:
                holds_first = any(one.have_first() for one in own)
                evidence += self._cut(row, text, found, holds_first=holds_first)
        return evidence

    def write(self, workspace: Workspace) -> None:
        """Write mask and ranges."""
        write_array(workspace.create(as_kept_by(self.unit, CUT_NAME).keep_mask), self.kept)
        if self.unit.cut:
            digests = np.frombuffer(b"".join(self._table["digest"]), np.uint8).reshape(-1, DIGEST_BYTES)
            columns = self._table | {"digest": fixed_array(digests)}
            table = pa.table(columns, schema=CUT_RANGES)
            pq.write_table(table, workspace.create(self.unit.cuts), compression="zstd")

    def _cut(
        self, row: int, text: NDArray[np.uint8], found: Sequence[_CutRange], *, holds_first: bool
    ) -> Iterator[dict[str, object]]:
        ranges = merged([(one.cut.start, one.cut.end) for one in found])
        rest = without(text, np.array(ranges, np.int64))
        left, holds_first = rest.tobytes(), holds_first and len(words_of(rest).hashes) > 0
        emptied = not holds_first and length_verdict(left, self.work.length) is not None
        self.kept[row] = not emptied
        if not emptied:
            self.documents += 1
            starts, ends = zip(*ranges, strict=True)
            values = (row, starts, ends, len(left), utf8_digest(left))
            for name, value in zip(CUT_RANGES.names, values, strict=True):
                self._table[name].append(value)
        for one in found:
            self.gone[one.method] += 0 if emptied else one.size
            first = np.array([one.first], np.uint64)
            yield {
                "document": self.unit.first + row,
                "first_document": int(documents_of(first)[0]),
                "first_at": int(ordinals_of(first)[0]),
                "method": one.method,
                "start": one.cut.start,
                "end": one.cut.end,
                "cut_bytes": one.size,
                "emptied": emptied,
                "excerpt": shown_cut(text[one.cut.start : one.cut.end]),
            }


def shown_cut(cut: NDArray[np.uint8]) -> str:
    """Return what the evidence shows of bytes that are cut: the characters that they begin with."""
    return cut[:_EXCERPT].tobytes().decode(errors="ignore").strip()


def _found(
    text: NDArray[np.uint8],
    repeats: Sequence[RepeatedRanges],
    dedup: Dedup,
) -> Iterator[_CutRange]:
    """Yield what goes of one text, method by method."""
    data = text.tobytes()
    taken = np.empty((0, 2), np.int64)
    for method, repeated in zip(methods_of(dedup), repeats, strict=True):
        if not len(repeated.places):
            continue
        if method.sampled:
            found = list(byte_cuts(text, repeated, taken, min_bytes=min_bytes_of(dedup)))
        elif method.windows:
            found = list(_windows(text, data, repeated, taken, dedup))
        else:
            found = list(_whole(method, text, data, repeated, dedup))
        if not found:
            continue
        own = np.array([(cut.start, cut.end) for cut, _ in found], np.int64)
        for (cut, first), size in zip(found, uncovered(own, taken).tolist(), strict=True):
            yield _CutRange(method.name, cut, size, first)
        every = np.concatenate([taken, own])
        taken = np.array(merged([(start, end) for start, end in every.tolist()]), np.int64)


def _whole(
    method: CutMethod,
    text: NDArray[np.uint8],
    data: bytes,
    repeats: RepeatedRanges,
    dedup: Dedup,
) -> Iterator[tuple[Cut, int]]:
    """Yield the spans that stand in a better document, with their line ends."""
    places, firsts, _ = repeats
    elsewhere = documents_of(places) != documents_of(firsts)  # the best document keeps all of its own
    if not elsewhere.any():
        return
    spans = method.spans(text, method.config(dedup))
    ordinals, firsts = ordinals_of(places[elsewhere]), firsts[elsewhere]
    lines = zip(ordinals.tolist(), spans.starts[ordinals], spans.ends[ordinals], firsts, strict=True)
    blank, done = False, -1  # before the lines that go together, and where they end
    for ordinal, start, last, first in lines:
        begin = line_begin(data, int(start))
        if begin > done:
            blank = blank_before(data, begin)
        end = lines_end(data, int(last), blank_before=blank)
        if max(begin, done) < end:
            yield Cut(max(begin, done), end, ordinal), int(first)
            done = end


def _windows(
    text: NDArray[np.uint8],
    data: bytes,
    repeats: RepeatedRanges,
    taken: NDArray[np.int64],
    dedup: Dedup,
) -> Iterator[tuple[Cut, int]]:
    """Yield the words that repeated windows cover, as far as they can be cut out readably.

    Words that other methods cut are no longer there: the words beside them are neighbours.
    """
    config = dedup.substrings
    assert config is not None
    chosen = repeats.places != repeats.firsts
    if not chosen.any():
        return
    places, firsts = repeats.places[chosen], repeats.firsts[chosen]
    words, ordinals = words_of(text), ordinals_of(places)
    own = np.where(documents_of(places) == documents_of(firsts), ordinals_of(firsts), -1)
    ranges = repeated_words(len(words.hashes), repeats=ordinals, firsts=own, min_words=config.min_words)
    words, ranges, begins = outside(words, ranges, taken)
    nearest = np.searchsorted(ordinals, begins, side="right") - 1  # the windows that cover these words
    done = 0
    for (low, high), first in zip(ranges.tolist(), firsts[nearest].tolist(), strict=True):
        cut = readable_cut(data, words, low, high, min_words=config.min_words)
        if cut is None:
            continue
        start = max(cut.start, done)
        if start < cut.end:
            yield cut._replace(start=start), first
            done = cut.end


def _count(workspace: Workspace, of_unit: _UnitCuts, counts: KeptCounts) -> None:
    """Count what is left of a unit, whose ranges are written."""
    unit, before, kept = of_unit.unit, of_unit.before, of_unit.kept
    cuts = read_cuts(workspace.create(unit.cuts)) if unit.cut else None
    gone = {EMPTIED: before & ~kept}
    for first, table in row_groups(workspace, unit, COUNTED):
        after = None if cuts is None else cuts.apply(table, first - unit.first)
        counts.count(unit, first, table, kept=kept, gone=gone, before=before, after=after)
    counts.count_cuts(unit, of_unit.gone)
