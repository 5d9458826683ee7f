"""Spans: the spans of a group of units, cut into partitions of the range of their keys.

    cut/spans/METHOD/GROUP/keys.npy   (S,) uint64, partition after partition, in each by place
    cut/spans/METHOD/GROUP/checks.npy  (S,) uint32
    cut/spans/METHOD/GROUP/places.npy  (S,) uint64, the group's first document being 0
    cut/spans/METHOD/GROUP/ptr.npy    (P + 1,) int64, where each partition begins; sums.npy, of its spans

Texts are read once, and their spans lie in a scratch folder until all partitions are counted.

Spans of earlier runs: those that may stand in a document of this run, too.

    cut/filters/METHOD.npy               (W,) uint64, a filter of the keys of this run's spans
    cut/spans/METHOD/earlier-GROUP/...   the spans of earlier documents that pass it, as those of a group

An earlier text counts as it was before its own cuts. What was cut of it stands in a still better one, so
whatever is cut for its sake stands somewhere. A document that its cuts emptied is gone, with the words
that stood nowhere else. So it counts where documents are counted, but it is the first place of nothing.

Repeats: the spans of one partition of the range of keys that stand more than once.

    cut/repeats/METHOD/PARTITION.npy  (N, 2) uint64: the place of each, ascending, and its first place

Those of earlier runs are counted and may be first places; they are not listed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.run_file.deduplication import Dedup
from pipeline.steps.cut.table import method_of
from pipeline.steps.dedup.unit_groups import UnitGroup, unit_groups
from pipeline.steps.earlier_runs import EarlierRun, numbered
from pipeline.steps.partitions import (
    RowKind,
    partition_bounds,
    read_partition,
    write_partitions,
)
from pipeline.steps.records import UnitRecord
from pipeline.steps.selection import CUT_NAME, as_kept_by, is_cut
from pipeline.steps.units import Unit, kept_mask, row_groups
from stages.columns import utf8_of
from stages.dedup.bloom_filter import add_keys, filter_cells, may_hold
from stages.dedup.repeats import GONE, SpanBlock, documents_of, find_repeats, places_of
from stages.kernels import lean_kernel
from stages.store.arrays import array_writer, open_array
from stages.store.mapped import mapped_npy

PARTITION_SPANS = 1 << 21
"""Spans of a partition, on average; one that is worked on takes about 100 bytes for each."""
_WORD_BYTES = 6
"""Of a word with its space, on average of languages; decides the number of partitions."""
_HALF = np.uint64(32)
_BLOCK = 1 << 19
"""Spans that are read at a time."""
SpansAt = tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.int64]]
"""Keys, checks and ordinals of the spans of a document: their numbers, or of bytes where they begin."""
_FILES = {"keys": "<u8", "checks": "<u4", "places": "<u8"}
"""The arrays of a group, with their types."""
_SPANS = {name: RowKind(kind) for name, kind in _FILES.items()}


@dataclass(frozen=True)
class SpanGroup:
    """A group of units whose spans of one method are cut into partitions."""

    group: UnitGroup
    method: str
    dedup: Dedup
    partitions: int
    earlier: bool = False
    """Whether the units are of an earlier run: then only spans that this run may have are."""
    emptied: bool = False
    """Whether that run has cuts, which may have emptied documents."""


@dataclass(frozen=True)
class FilteredGroups:
    """The groups of units of this run whose spans of one method are looked for in earlier ones."""

    groups: int
    method: str


class SpansRecord(UnitRecord):
    """The spans of a group of units."""

    spans: int


def spans_key(method: str, group: int, *, earlier: bool = False) -> str:
    """Return the folder of a group's spans."""
    return f"cut/spans/{method}/{'earlier-' if earlier else ''}{group:05d}"


def _filter_key(method: str) -> str:
    return f"cut/filters/{method}.npy"


def span_partitions(text_bytes: int) -> int:
    """Return the number of ranges that the keys are cut into: a function of the corpus alone."""
    return max(1, -(-text_bytes // (_WORD_BYTES * PARTITION_SPANS)))


def earlier_groups(runs: Sequence[EarlierRun]) -> list[tuple[UnitGroup, bool]]:
    """Return the groups of units of earlier runs as their cuts read them, and whether they have cuts."""
    found: list[EarlierRun] = []
    for run in runs:
        before = [name for name in run.selecting if name != CUT_NAME][-1]
        units = tuple(replace(unit, kept_by=before, cut=is_cut(unit)) for unit in run.units)
        found.append(replace(run, units=units))
    cut = {str(run.folder): CUT_NAME in run.selecting for run in runs}
    return [(group, cut[group.units[0].folder]) for group in unit_groups(numbered(found))]


def kept_texts(
    workspace: Workspace, unit: Unit, *columns: str
) -> Iterator[tuple[NDArray[np.int64], pa.Table]]:
    """Yield a unit's kept documents row group by row group, with their rows in the unit."""
    mask = kept_mask(workspace, unit)
    for first, table in row_groups(workspace, unit, ["text", *columns]):
        start = first - unit.first
        rows = np.flatnonzero(mask[start : start + table.num_rows])
        if len(rows):
            yield rows + start, table.take(pa.array(rows))


def write_filter(workspace: Workspace, work: FilteredGroups) -> UnitRecord:
    """Write the filter of the keys of one method: 2 to 4 bytes for each."""
    paths = [workspace.path(spans_key(work.method, group)) / "keys.npy" for group in range(work.groups)]
    keys: list[Any] = [open_array(path, dtype="<u8") for path in paths]
    cells = filter_cells(sum(map(len, keys)))
    bits: Any = mapped_npy(workspace.create(_filter_key(work.method)), "<u8", (cells,))
    for column in keys:
        for start in range(0, len(column), _BLOCK):
            add_keys(bits, np.array(column[start : start + _BLOCK]))
    return UnitRecord()


def cut_spans(workspace: Workspace, work: SpanGroup) -> SpansRecord:
    """Write the spans of the kept documents of a group of units, ordered by partition."""
    key = spans_key(work.method, work.group.number, earlier=work.earlier)
    spans = _spans(workspace, work)
    if work.earlier:
        spans = _passing(workspace, work.method, spans)
    return write_spans(workspace, key, spans, partitions=work.partitions)


def _spans(workspace: Workspace, work: SpanGroup) -> Iterator[tuple[np.uint64, SpansAt]]:
    """Yield the spans of each document, with the place that the first one has in its group of units."""
    method = method_of(work.dedup, work.method)
    config = method.config(work.dedup)
    for unit in work.group.units:
        if not unit.cut:
            continue
        there = kept_mask(workspace, as_kept_by(unit, CUT_NAME)) if work.emptied else None
        for rows, table in kept_texts(workspace, unit):
            data, offsets = utf8_of(table.column("text"))
            places = (unit.first - work.group.first + rows).astype(np.uint64) << _HALF
            if there is not None:
                places[~there[rows]] |= GONE
            for place, start, end in zip(places, offsets[:-1], offsets[1:], strict=True):
                if place < GONE or not method.windows:  # of windows no documents are counted
                    keys, checks, starts, _ = method.spans(data[start:end], config)
                    yield place, (keys, checks, starts if method.sampled else np.arange(len(keys)))


def _passing(
    workspace: Workspace, method: str, documents: Iterable[tuple[np.uint64, SpansAt]]
) -> Iterator[tuple[np.uint64, SpansAt]]:
    """Yield of each document the spans that pass the filter of a method."""
    bits: Any = open_array(workspace.path(_filter_key(method)), dtype="<u8")
    for place, (keys, checks, ordinals) in documents:
        chosen = np.flatnonzero(may_hold(bits, keys))
        yield place, (keys[chosen], checks[chosen], ordinals[chosen])


def write_spans(
    workspace: Workspace, key: str, documents: Iterable[tuple[np.uint64, SpansAt]], *, partitions: int
) -> SpansRecord:
    """Write spans ordered by partition.

    Args:
        workspace: where they are written.
        key: folder of the group's spans.
        documents: the spans of each document, with the place that the first one has in the run.
        partitions: that the range of keys is cut into.
    """
    folder, counts = workspace.create(key), np.zeros(partitions, np.int64)
    folder.mkdir(parents=True, exist_ok=True)
    with workspace.scratch() as scratch:
        of_keys, of_checks, of_places = (array_writer(scratch / n, dtype=k) for n, k in _FILES.items())
        with of_keys as append_keys, of_checks as append_checks, of_places as append_places:
            for place, (keys, checks, ordinals) in documents:
                if len(keys):
                    _count_partitions(keys, counts)
                    append_keys(keys)
                    append_checks(checks)
                    append_places(place + ordinals.astype(np.uint64))
        ptr = np.concatenate([[0], np.cumsum(counts)])
        count, ends = int(ptr[-1]), ptr[:-1].copy()
        filled = tuple(mapped_npy(folder / f"{n}.npy", kind, (count,)) for n, kind in _FILES.items())
        gathered: list[Any] = [open_array(scratch / name, dtype=kind) for name, kind in _FILES.items()]
        for start in range(0, count, _BLOCK):
            _put(tuple(np.array(column[start : start + _BLOCK]) for column in gathered), ends, filled)
        write_partitions(folder, _SPANS, ptr)
    return SpansRecord(spans=count)


@lean_kernel
def _count_partitions(keys: NDArray[np.uint64], counts: NDArray[np.int64]) -> None:
    """Count the keys of each partition."""
    for key in keys:
        counts[int(((key >> _HALF) * np.uint64(len(counts))) >> _HALF)] += 1


@lean_kernel
def _put(block: tuple[Any, ...], ends: NDArray[np.int64], found: tuple[Any, ...]) -> None:
    """Put spans behind those of their partitions; `ends` goes on."""
    keys, checks, places = block
    for row in range(len(keys)):
        key = keys[row]
        partition = int(((key >> _HALF) * np.uint64(len(ends))) >> _HALF)
        place = ends[partition]
        found[0][place], found[1][place], found[2][place] = key, checks[row], places[row]
        ends[partition] = place + 1


@dataclass(frozen=True)
class SpanPartition:
    """A range of the keys of one method."""

    firsts: tuple[int, ...]
    """The number of the first document of each group of units."""
    method: str
    dedup: Dedup
    number: int
    spans: str
    """The name that the folders of the spans have in place of the method's."""
    earlier: tuple[int, ...] = ()
    """As `firsts`, of the groups of units of earlier runs."""


class RepeatsRecord(UnitRecord):
    """What was found in a partition."""

    repeats: int


def repeats_key(method: str, partition: int) -> str:
    """Return the key of a partition's repeats."""
    return f"cut/repeats/{method}/{partition:05d}.npy"


def write_repeats(workspace: Workspace, work: SpanPartition) -> RepeatsRecord:
    """Write the places of spans of a partition that stand more than once, each with the first place."""
    method = method_of(work.dedup, work.method)
    min_documents = method.min_documents(method.config(work.dedup))
    parts = spans_of_groups(workspace, work)
    room = min(PARTITION_SPANS, sum(part.spans for part in parts))
    count, begin = 0, places_of(work.firsts[0], np.zeros(1, np.int64))
    path = workspace.create(repeats_key(work.method, work.number))
    with array_writer(path, dtype="<u8", shape=(2,)) as append:
        for found in find_repeats(lambda: span_blocks(parts), min_documents=min_documents, room=room):
            own = found[(found[:, 0] >= begin) & (found[:, 0] < GONE)]
            append(own)
            count += len(own)
    return RepeatsRecord(repeats=count)


class SpansOfGroup(NamedTuple):
    """The spans of a group in one partition, and what maps them: there may be thousands of groups."""

    begin: NDArray[np.uint64]
    """(1,) the place of its first document."""
    spans: int
    keys: Callable[[], NDArray[np.uint64]]
    checks: Callable[[], NDArray[np.uint32]]
    places: Callable[[], NDArray[np.uint64]]


def spans_of_groups(workspace: Workspace, work: SpanPartition) -> list[SpansOfGroup]:
    """Return the spans of a partition by group, those of earlier runs first."""
    firsts = [*work.earlier, *work.firsts]
    folders = [spans_key(work.spans, group, earlier=True) for group in range(len(work.earlier))]
    folders += [spans_key(work.spans, group) for group in range(len(work.firsts))]
    at = work.number
    rows = partition_bounds(workspace, folders, at)
    found: Any = read_partition(workspace, rows, _SPANS, (at,))
    begins = [places_of(first, np.zeros(1, np.int64)) for first in firsts]
    return [
        SpansOfGroup(begin, own.last - own.first, *arrays)
        for begin, own, arrays in zip(begins, rows, found, strict=True)
    ]


def span_blocks(parts: Iterable[SpansOfGroup]) -> Iterator[SpanBlock]:
    """Yield the spans of a partition, some at a time."""
    for part in parts:
        keys, checks, places = part.keys(), part.checks(), part.places()
        for start in range(0, part.spans, _BLOCK):
            block = slice(start, start + _BLOCK)
            own = places[block] + part.begin
            yield SpanBlock(np.array(keys[block]), np.array(checks[block]), own, documents_of(own))


def placed_between(files: Iterable[Any], low: int, high: int) -> NDArray[np.uint64]:
    """Return the rows of some files whose places are in [low, high): (N, 2) uint64, ascending by place.

    Args:
        files: (M, 2) uint64 each, ascending by place, which stands in the first column.
        low: a place.
        high: a place.
    """
    bounds = np.array([low, high], np.uint64)
    parts = [np.array(file[slice(*np.searchsorted(file[:, 0], bounds))]) for file in files]
    every = np.concatenate([np.empty((0, 2), np.uint64), *parts])
    return every[np.argsort(every[:, 0], kind="stable")]
