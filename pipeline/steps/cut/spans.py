"""Spans: the spans of a run of units, cut into pieces of the range of their keys.

    cut/spans/METHOD/RUN/keys.npy     (S,) uint64, piece after piece, in each by place
    cut/spans/METHOD/RUN/checks.npy   (S,) uint32
    cut/spans/METHOD/RUN/places.npy   (S,) uint64, the run's first document being 0
    cut/spans/METHOD/RUN/ptr.npy      (P + 1,) int64, where each piece begins

Texts are read twice: once to count, once to put each span in its place, so that nothing is held but one
row group.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.run_file.deduplication import Dedup
from pipeline.steps.cut.methods import method_of
from pipeline.steps.dedup.runs import UnitRun
from pipeline.steps.records import UnitRecord
from pipeline.steps.units import Unit, kept_mask, row_groups
from stages.columns import utf8_of
from stages.dedup.spans import Spans
from stages.kernels import lean_kernel
from stages.store.arrays import write_array

PIECE_SPANS = 1 << 21
"""Spans of a piece, on average; a piece that is being worked on takes about 100 bytes for each."""
_WORD_BYTES = 6
"""Of a word with its space, on average of languages; decides the number of pieces."""
_HALF = np.uint64(32)
SPAN_FILES = {"keys": "<u8", "checks": "<u4", "places": "<u8"}
"""The arrays of a run, with their types."""


@dataclass(frozen=True)
class SpanRun:
    """A run of units whose spans of one method are cut into pieces."""

    run: UnitRun
    method: str
    dedup: Dedup
    pieces: int


class SpansRecord(UnitRecord):
    """The spans of a run of units."""

    spans: int


def spans_key(method: str, run: int) -> str:
    """Return the folder of a run's spans."""
    return f"cut/spans/{method}/{run:05d}"


def span_pieces(text_bytes: int) -> int:
    """Return the number of ranges that the keys are cut into: a function of the corpus alone."""
    return max(1, -(-text_bytes // (_WORD_BYTES * PIECE_SPANS)))


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


def cut_spans(workspace: Workspace, work: SpanRun) -> SpansRecord:
    """Write the spans of the kept documents of a run of units, ordered by piece."""
    folder = workspace.create(spans_key(work.method, work.run.number))
    folder.mkdir(parents=True, exist_ok=True)
    counts = np.zeros(work.pieces, np.int64)
    for _, spans in _spans(workspace, work):
        _count(spans.keys, counts)
    ptr = np.concatenate([[0], np.cumsum(counts)])
    write_array(folder / "ptr.npy", ptr)
    count, ends = int(ptr[-1]), ptr[:-1].copy()
    filled = tuple(
        mapped_array(folder / f"{name}.npy", kind, count) for name, kind in SPAN_FILES.items()
    )
    for document, spans in _spans(workspace, work):
        _scatter(spans.keys, spans.checks, document - work.run.first, ends, filled)
    return SpansRecord(spans=int(ptr[-1]))


def _spans(workspace: Workspace, work: SpanRun) -> Iterator[tuple[int, Spans]]:
    """Yield the spans of each document with its number."""
    method = method_of(work.method)
    config = method.config(work.dedup)
    for unit in work.run.units:
        for rows, table in kept_texts(workspace, unit) if unit.cut else ():
            data, offsets = utf8_of(table.column("text"))
            for row, start, end in zip(rows, offsets[:-1], offsets[1:], strict=True):
                spans = method.spans(data[start:end], config)
                if len(spans.keys):
                    yield unit.first + int(row), spans


def mapped_array(path: Path, dtype: str, length: int) -> Any:
    """Return an array to fill, in a mapped file."""
    if not length:
        write_array(path, np.empty(0, dtype))
        return np.empty(0, dtype)
    return np.lib.format.open_memmap(path, "w+", dtype, (length,)).view(np.ndarray)


@lean_kernel
def _count(keys: NDArray[np.uint64], counts: NDArray[np.int64]) -> None:
    """Count the keys of each piece."""
    for key in keys:
        counts[int(((key >> _HALF) * np.uint64(len(counts))) >> _HALF)] += 1


@lean_kernel
def _scatter(
    keys: NDArray[np.uint64],
    checks: NDArray[np.uint32],
    document: int,
    ends: NDArray[np.int64],
    found: tuple[Any, ...],
) -> None:
    """Put the spans of a document behind those of their pieces; `ends` goes on."""
    for ordinal in range(len(keys)):
        key = keys[ordinal]
        piece = int(((key >> _HALF) * np.uint64(len(ends))) >> _HALF)
        place = ends[piece]
        found[0][place] = key
        found[1][place] = checks[ordinal]
        found[2][place] = np.uint64(document) << _HALF | np.uint64(ordinal)
        ends[piece] = place + 1
