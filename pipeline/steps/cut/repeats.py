"""Repeats: the spans of one piece of the range of keys that stand more than once.

cut/repeats/METHOD/PIECE.npy   (N, 2) uint64: the place of each, ascending, and the first place of it

Those of earlier runs are counted and may be first places; they are not listed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.engine.tasks import Workspace
from pipeline.run_file.deduplication import Dedup
from pipeline.steps.cut.earlier import earlier_key
from pipeline.steps.cut.methods import method_of
from pipeline.steps.cut.spans import PIECE_SPANS, spans_key
from pipeline.steps.records import UnitRecord
from stages.dedup.repeats import GONE, SpanBlock, documents_of, find_repeats, places_of
from stages.store.arrays import array_writer, open_array

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
    """Yield the spans of a piece."""
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
