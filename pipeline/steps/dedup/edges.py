"""Edges: verified pairs of similar texts, in the one format that all methods write and resolve reads.

    FOLDER/RUN/edges.npy        (E, 2) int64: ranks of the better and the worse document
    FOLDER/RUN/similarity.npy   (E,) float64
    FOLDER/RUN/ranges.npy       (B, R + 1) int64: of each of B batches, where the edges begin whose worse
                                document's rank lies in each of R ranges; the last one is where it ends

Within a batch edges ascend by worse, then by better. A range reaches from the number of a run's first
document to that of the next, taken as ranks. Where ranks are numbers, and the worse document of each
edge is one of the run's own, ascending, there is no ranges.npy.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.earlier import ORDER, RANKS
from stages.dedup.survivors import CANONICAL, Edges, Ranks
from stages.store.arrays import array_writer, open_array, write_array

SIMILARITIES = "similarity.npy"


@dataclass(frozen=True)
class FoundEdges:
    """What a method found."""

    method: str
    """Its name in the evidence."""
    folder: str
    """Of its edges by run; of its repeats by piece, if it compares values."""
    equal: bool = False
    """Whether it compares values, and not texts."""
    compared: int = 0
    """Pairs whose similarity was computed."""
    parts: int | None = None
    """Folders of edges; as many as runs by default."""


def ranks_of(workspace: Workspace, ranked: bool) -> Ranks:  # noqa: FBT001 - what each payload says
    """Return the ranks of all documents, mapped; without `ranked` they are the numbers."""
    if not ranked:
        return CANONICAL
    ranks: Any = open_array(workspace.path(RANKS), dtype="<u4")
    order: Any = open_array(workspace.path(ORDER), dtype="<u4")
    return Ranks(ranks, order)


class EdgeWriter:
    """Writes the edges of one run.

    Args:
        folder: of the run.
        firsts: the number of the first document of each run.
        ranks: of all documents.
        own: whether all edges have documents of this run as their worse ones and come ascending; it
            matters if ranks are numbers.
    """

    def __init__(
        self, folder: Path, firsts: Sequence[int], *, ranks: Ranks = CANONICAL, own: bool = False
    ) -> None:
        self._folder, self._ranks = folder, ranks
        self._firsts = np.array(firsts, np.int64)
        self._in_order = own and ranks.canonical
        self._stack = ExitStack()
        self._ranges = [np.empty((0, len(firsts) + 1), np.int64)]
        self.written = 0
        self._edges: Callable[[NDArray[np.generic]], None]
        self._similarities: Callable[[NDArray[np.generic]], None]

    def __enter__(self) -> Self:
        """Open the files."""
        edges = array_writer(self._folder / "edges.npy", dtype="<i8", shape=(2,))
        self._edges = self._stack.enter_context(edges)
        similarities = array_writer(self._folder / SIMILARITIES, dtype="<f8")
        self._similarities = self._stack.enter_context(similarities)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close them, and write where ranges begin."""
        self._stack.__exit__(kind, error, trace)
        if kind is None and not self._in_order:
            write_array(self._folder / "ranges.npy", np.concatenate(self._ranges))

    def add(self, a: NDArray[np.int64], b: NDArray[np.int64], similarities: NDArray[np.float64]) -> None:
        """Write a batch of pairs; which of two documents is the better one, ranks say.

        Args:
            a: (E,) numbers.
            b: (E,) numbers.
            similarities: (E,).
        """
        a, b = self._ranks.of(a), self._ranks.of(b)
        better, worse = np.minimum(a, b), np.maximum(a, b)
        order = np.lexsort((better, worse))
        self._edges(np.column_stack([better, worse])[order])
        self._similarities(similarities[order])
        begins = np.searchsorted(worse[order], self._firsts)
        begins[0] = 0
        self._ranges.append((self.written + np.append(begins, len(order)))[None])
        self.written += len(order)


def read_edges(
    workspace: Workspace, found: Sequence[FoundEdges], number: int, *, runs: int, ranks: Ranks
) -> Edges:
    """Return the edges of all methods whose worse document has a rank of one range.

    Args:
        workspace: where they are.
        found: of all methods; those that compare values have no edges.
        number: of the range.
        runs: how many there are.
        ranks: of all documents.
    """
    edges, similarities, methods = [np.empty((0, 2), np.int64)], [np.empty(0)], [np.empty(0, np.uint8)]
    for method, one in enumerate(found):
        for run in () if one.equal else range(runs if one.parts is None else one.parts):
            for part, similarity in _slices(workspace.path(f"{one.folder}/{run:05d}"), run, number):
                edges.append(part)
                similarities.append(similarity)
                methods.append(np.full(len(part), method, np.uint8))
    pairs, similarity = np.concatenate(edges), np.concatenate(similarities)
    method_of = np.concatenate(methods)
    order = np.lexsort((method_of, pairs[:, 0], pairs[:, 1]))
    pairs = pairs[order]
    better, worse = (np.ascontiguousarray(ranks.at(side)) for side in (pairs[:, 0], pairs[:, 1]))
    return Edges(better, worse, similarity[order], method_of[order])


def _slices(folder: Path, run: int, number: int) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Return what a run's files hold of one range."""
    ranged = (folder / "ranges.npy").exists()
    if not ranged and run != number:
        return []
    edges: Any = open_array(folder / "edges.npy", dtype="<i8")
    similarity: Any = open_array(folder / SIMILARITIES, dtype="<f8")
    if not ranged:
        return [(np.array(edges), np.array(similarity))]
    ranges = open_array(folder / "ranges.npy", dtype="<i8")
    bounds = [(int(low), int(high)) for low, high in ranges[:, number : number + 2] if low < high]
    return [(np.array(edges[low:high]), np.array(similarity[low:high])) for low, high in bounds]
