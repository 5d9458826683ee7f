"""Spans of earlier runs: those that may stand in a document of this run, too.

    cut/filters/METHOD.npy               (W,) uint64, a filter of the keys of this run's spans
    cut/spans/METHOD/earlier-RUN/...     the spans of earlier documents that pass it, as those of a run

An earlier text counts as it was before its own cuts. What was cut of it stands in a still better one, so
whatever is cut for its sake stands somewhere. A document that its cuts emptied is gone, with the words
that stood nowhere else. So it counts where documents are counted, but it is the first place of nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.run_file.deduplication import Dedup
from pipeline.steps.cut.spans import (
    SPAN_FILES,
    SpansAt,
    SpansRecord,
    count_pieces,
    kept_texts,
    spans_key,
)
from pipeline.steps.cut.table import method_of
from pipeline.steps.dedup.runs import UnitRun, unit_runs
from pipeline.steps.earlier_runs import EarlierRun, numbered
from pipeline.steps.records import UnitRecord
from pipeline.steps.selection import CUT_NAME, is_cut
from pipeline.steps.units import kept_mask
from stages.columns import utf8_of
from stages.dedup.bloom_filter import add_keys, filter_words, may_hold
from stages.dedup.repeats import GONE
from stages.kernels import lean_kernel
from stages.store.arrays import array_writer, open_array, write_array
from stages.store.mapped import mapped_npy

_BLOCK = 1 << 20
"""Spans that are read at a time."""
_HALF = np.uint64(32)


@dataclass(frozen=True)
class FilteredRuns:
    """The runs of units of this run whose spans of one method are looked for in earlier ones."""

    runs: int
    method: str


@dataclass(frozen=True)
class EarlierSpans:
    """A run of units of an earlier run whose spans of one method are compared with those of this run."""

    run: UnitRun
    method: str
    dedup: Dedup
    pieces: int
    cut: bool
    """Whether that run has cuts, which may have emptied documents."""


def earlier_runs(runs: Sequence[EarlierRun]) -> list[tuple[UnitRun, bool]]:
    """Return the runs of units of earlier runs as their cuts read them, and whether they have cuts."""
    found: list[EarlierRun] = []
    for run in runs:
        before = [name for name in run.selecting if name != CUT_NAME][-1]
        units = tuple(replace(unit, kept_by=before, cut=is_cut(unit)) for unit in run.units)
        found.append(replace(run, units=units))
    cut = {str(run.folder): CUT_NAME in run.selecting for run in runs}
    return [(run, cut[run.units[0].folder]) for run in unit_runs(numbered(found))]


def earlier_key(method: str, run: int) -> str:
    """Return the folder of the spans of a run of units of earlier runs."""
    return f"cut/spans/{method}/earlier-{run:05d}"


def filter_key(method: str) -> str:
    """Return the key of the filter of one method."""
    return f"cut/filters/{method}.npy"


def write_filter(workspace: Workspace, work: FilteredRuns) -> UnitRecord:
    """Write the filter of the keys of one method: 2 to 4 bytes for each."""
    paths = [workspace.path(spans_key(work.method, run)) / "keys.npy" for run in range(work.runs)]
    keys: list[Any] = [open_array(path, dtype="<u8") for path in paths]
    words = filter_words(sum(map(len, keys)))
    bits: Any = mapped_npy(workspace.create(filter_key(work.method)), "<u8", (words,))
    for column in keys:
        for start in range(0, len(column), _BLOCK):
            add_keys(bits, np.array(column[start : start + _BLOCK]))
    return UnitRecord()


def find_earlier_spans(workspace: Workspace, work: EarlierSpans) -> SpansRecord:
    """Write the spans of earlier documents that this run may have, ordered by piece."""
    folder = workspace.create(earlier_key(work.method, work.run.number))
    folder.mkdir(parents=True, exist_ok=True)
    counts = np.zeros(work.pieces, np.int64)
    with workspace.scratch() as scratch:
        _gather(workspace, work, scratch, counts)
        ptr = np.concatenate([[0], np.cumsum(counts)])
        write_array(folder / "ptr.npy", ptr)
        count, ends = int(ptr[-1]), ptr[:-1].copy()
        filled = tuple(mapped_npy(folder / f"{n}.npy", kind, (count,)) for n, kind in SPAN_FILES.items())
        gathered: list[Any] = [open_array(scratch / name, dtype=k) for name, k in SPAN_FILES.items()]
        for start in range(0, count, _BLOCK):
            block = tuple(np.array(column[start : start + _BLOCK]) for column in gathered)
            _put(block, ends, filled)
    return SpansRecord(spans=count)


def _gather(workspace: Workspace, work: EarlierSpans, scratch: Path, counts: NDArray[np.int64]) -> None:
    """Write the spans that pass the filter in the order of documents, and count those of each piece."""
    bits: Any = open_array(workspace.path(filter_key(work.method)), dtype="<u8")
    keys, checks, places = (array_writer(scratch / name, dtype=k) for name, k in SPAN_FILES.items())
    with keys as add_key, checks as add_check, places as add_place:
        for place, (found, numbers, ordinals) in _spans(workspace, work):
            chosen = np.flatnonzero(may_hold(bits, found))
            if len(chosen):
                count_pieces(found[chosen], counts)
                add_key(found[chosen])
                add_check(numbers[chosen])
                add_place(place + ordinals[chosen].astype(np.uint64))


def _spans(workspace: Workspace, work: EarlierSpans) -> Iterator[tuple[np.uint64, SpansAt]]:
    """Yield the spans of each document, with the place that the first one has in its run of units."""
    method = method_of(work.dedup, work.method)
    config = method.config(work.dedup)
    for unit in work.run.units:
        if not unit.cut:
            continue
        there = kept_mask(workspace, replace(unit, kept_by=CUT_NAME)) if work.cut else None
        for rows, table in kept_texts(workspace, unit):
            data, offsets = utf8_of(table.column("text"))
            places = (unit.first - work.run.first + rows).astype(np.uint64) << _HALF
            if there is not None:
                places[~there[rows]] |= GONE
            for place, start, end in zip(places, offsets[:-1], offsets[1:], strict=True):
                if place < GONE or not method.windows:  # of windows no documents are counted
                    keys, checks, starts, _ = method.spans(data[start:end], config)
                    ordinals = starts if method.sampled else np.arange(len(keys))
                    yield place, (keys, checks, ordinals)


@lean_kernel
def _put(block: tuple[Any, ...], ends: NDArray[np.int64], found: tuple[Any, ...]) -> None:
    """Put spans behind those of their pieces; `ends` goes on."""
    keys, checks, places = block
    for row in range(len(keys)):
        key = keys[row]
        piece = int(((key >> _HALF) * np.uint64(len(ends))) >> _HALF)
        place = ends[piece]
        found[0][place], found[1][place], found[2][place] = key, checks[row], places[row]
        ends[piece] = place + 1
