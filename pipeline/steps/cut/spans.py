"""Spans: the spans of a run of units, cut into pieces of the range of their keys.

    cut/spans/METHOD/RUN/keys.npy     (S,) uint64, piece after piece, in each by place
    cut/spans/METHOD/RUN/checks.npy   (S,) uint32
    cut/spans/METHOD/RUN/places.npy   (S,) uint64, the run's first document being 0
    cut/spans/METHOD/RUN/ptr.npy      (P + 1,) int64, where each piece begins

Texts are read twice: once to count, once to put each span in its place, so that nothing is held but one
row group.

Repeats: the spans of one piece of the range of keys that stand more than once.

cut/repeats/METHOD/PIECE.npy   (N, 2) uint64: the place of each, ascending, and the first place of it

Those of earlier runs are counted and may be first places; they are not listed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.run_file.deduplication import Dedup
from pipeline.steps.cut.table import method_of
from pipeline.steps.dedup.runs import UnitRun
from pipeline.steps.records import UnitRecord
from pipeline.steps.units import Unit, kept_mask, row_groups
from stages.columns import utf8_of
from stages.dedup.repeats import GONE, SpanBlock, documents_of, find_repeats, places_of
from stages.kernels import lean_kernel
from stages.store.arrays import array_writer, open_array, write_array
from stages.store.mapped import mapped_npy

PIECE_SPANS = 1 << 21
"""Spans of a piece, on average; a piece that is being worked on takes about 100 bytes for each."""
_WORD_BYTES = 6
"""Of a word with its space, on average of languages; decides the number of pieces."""
_HALF = np.uint64(32)
SpansAt = tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.int64]]
"""Keys, checks and ordinals of the spans of a document: their numbers, or of bytes where they begin."""
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


def earlier_key(method: str, run: int) -> str:
    """Return the folder of the spans of a run of units of earlier runs."""
    return f"cut/spans/{method}/earlier-{run:05d}"


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
    return SpansRecord(spans=write_spans(folder, lambda: _spans(workspace, work), pieces=work.pieces))


def write_spans(
    folder: Path, documents: Callable[[], Iterator[tuple[int, SpansAt]]], *, pieces: int
) -> int:
    """Write spans ordered by piece, and return how many there are.

    Args:
        folder: of the run's spans.
        documents: gives the number of each document in the run with its spans; called twice.
        pieces: that the range of keys is cut into.
    """
    folder.mkdir(parents=True, exist_ok=True)
    counts = np.zeros(pieces, np.int64)
    for _, (keys, *_) in documents():
        count_pieces(keys, counts)
    ptr = np.concatenate([[0], np.cumsum(counts)])
    write_array(folder / "ptr.npy", ptr)
    count, ends = int(ptr[-1]), ptr[:-1].copy()
    filled = tuple(
        mapped_npy(folder / f"{name}.npy", kind, (count,)) for name, kind in SPAN_FILES.items()
    )
    for document, spans in documents():
        _scatter(spans, document, ends, filled)
    return count


def _spans(workspace: Workspace, work: SpanRun) -> Iterator[tuple[int, SpansAt]]:
    """Yield the spans of each document with its number in the run."""
    method = method_of(work.dedup, work.method)
    config = method.config(work.dedup)
    for unit in work.run.units:
        for rows, table in kept_texts(workspace, unit) if unit.cut else ():
            data, offsets = utf8_of(table.column("text"))
            for row, start, end in zip(rows, offsets[:-1], offsets[1:], strict=True):
                keys, checks, starts, _ = method.spans(data[start:end], config)
                ordinals = starts if method.sampled else np.arange(len(keys))
                if len(keys):
                    yield unit.first + int(row) - work.run.first, (keys, checks, ordinals)


@lean_kernel
def count_pieces(keys: NDArray[np.uint64], counts: NDArray[np.int64]) -> None:
    """Count the keys of each piece."""
    for key in keys:
        counts[int(((key >> _HALF) * np.uint64(len(counts))) >> _HALF)] += 1


@lean_kernel
def _scatter(spans: SpansAt, document: int, ends: NDArray[np.int64], found: tuple[Any, ...]) -> None:
    """Put the spans of a document behind those of their pieces; `ends` goes on."""
    keys, checks, ordinals = spans
    for row in range(len(keys)):
        key = keys[row]
        piece = int(((key >> _HALF) * np.uint64(len(ends))) >> _HALF)
        place = ends[piece]
        found[0][place] = key
        found[1][place] = checks[row]
        found[2][place] = np.uint64(document) << _HALF | np.uint64(ordinals[row])
        ends[piece] = place + 1


_BLOCK = 1 << 19
"""Spans that are read at a time."""


@dataclass(frozen=True)
class SpanPiece:
    """A range of the keys of one method."""

    firsts: tuple[int, ...]
    """The number of the first document of each run of units."""
    method: str
    dedup: Dedup
    number: int
    spans: str
    """The name that the folders of the spans have in place of the method's."""
    earlier: tuple[int, ...] = ()
    """As `firsts`, of the runs of units of earlier runs."""


class RepeatsRecord(UnitRecord):
    """What was found in a piece."""

    repeats: int


def repeats_key(method: str, piece: int) -> str:
    """Return the key of a piece's repeats."""
    return f"cut/repeats/{method}/{piece:05d}.npy"


def write_repeats(workspace: Workspace, work: SpanPiece) -> RepeatsRecord:
    """Write the places of spans of a piece that stand more than once, each with the first place."""
    method = method_of(work.dedup, work.method)
    min_documents = method.min_documents(method.config(work.dedup))
    room = min(PIECE_SPANS, sum(high - low for *_, low, high in _ranges(workspace, work)))
    count, begin = 0, places_of(work.firsts[0], np.zeros(1, np.int64))
    path = workspace.create(repeats_key(work.method, work.number))
    with array_writer(path, dtype="<u8", shape=(2,)) as append:
        for found in find_repeats(
            lambda: piece_blocks(workspace, work), min_documents=min_documents, room=room
        ):
            own = found[(found[:, 0] >= begin) & (found[:, 0] < GONE)]
            append(own)
            count += len(own)
    return RepeatsRecord(repeats=count)


def piece_blocks(workspace: Workspace, work: SpanPiece) -> Iterator[SpanBlock]:
    """Yield the spans of a piece, those of earlier runs first."""
    for first, folder, low, high in _ranges(workspace, work):
        keys, checks, places = (_opened(folder / f"{name}.npy") for name in ("keys", "checks", "places"))
        for start in range(low, high, _BLOCK):
            part = slice(start, min(start + _BLOCK, high))
            own = places[part] + places_of(first, np.zeros(1, np.int64))
            yield SpanBlock(np.array(keys[part]), np.array(checks[part]), own, documents_of(own))


def _ranges(workspace: Workspace, work: SpanPiece) -> Iterator[tuple[int, Path, int, int]]:
    """Yield of each run its first document, the folder of its spans, and where the piece lies."""
    folders = [(first, earlier_key(work.spans, run)) for run, first in enumerate(work.earlier)]
    folders += [(first, spans_key(work.spans, run)) for run, first in enumerate(work.firsts)]
    for first, key in folders:
        folder = workspace.path(key)
        low, high = _opened(folder / "ptr.npy")[work.number : work.number + 2]
        yield first, folder, int(low), int(high)


def _opened(path: Path) -> Any:
    """Return a committed array, mapped; its dtype is that of the phase that wrote it."""
    return open_array(path)
