"""Edges: verified pairs of similar texts, in the one format that all methods write and resolve reads.

    FOLDER/GROUP/edges.npy      (E, 2) int64: ranks of the better and the worse document
    FOLDER/GROUP/similarity.npy  (E,) float64
    FOLDER/GROUP/ranges.npy     (B, R + 1) int64: of each of B batches, where the edges begin whose worse
                                document's rank lies in each of R ranges; the last one is where it ends

Within a batch edges ascend by worse, then by better. A range reaches from the number of a group's first
document to that of the next, taken as ranks. Where ranks are numbers, and the worse document of each
edge is one of the group's own, ascending, there is no ranges.npy.

Expand: candidate pairs of a range of documents, from the files of many partitions of keys.

A partition names for each document a slice of its bucket's best-ranked ones; pairs are written out for a
batch of documents at a time, where those of all partitions are merged.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.earlier_runs import ORDER, RANKS
from stages.dedup.survivors import CANONICAL, Edges, Ranks
from stages.errors import DataError
from stages.store.arrays import array_writer, open_array, write_array

SIMILARITIES = "similarity.npy"


@dataclass(frozen=True)
class FoundEdges:
    """What a method found."""

    method: str
    """Its name in the evidence."""
    folder: str
    """Of its edges by group; of its repeats by partition, if it compares values."""
    equal: bool = False
    """Whether it compares values, and not texts."""
    compared: int = 0
    """Pairs whose similarity was computed."""
    parts: int | None = None
    """Folders of edges; as many as groups by default."""


def ranks_of(workspace: Workspace, ranked: bool) -> Ranks:  # noqa: FBT001 - what each payload says
    """Return the ranks of all documents, mapped; without `ranked` they are the numbers."""
    if not ranked:
        return CANONICAL
    ranks: Any = open_array(workspace.path(RANKS), dtype="<u4")
    order: Any = open_array(workspace.path(ORDER), dtype="<u4")
    return Ranks(ranks, order)


class EdgeWriter:
    """Writes the edges of one group.

    Args:
        folder: of the group.
        firsts: the number of the first document of each group.
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


class OpenedEdges:
    """The edges of all methods; a file that has edges of many ranges is opened once.

    Args:
        workspace: where they are.
        found: of all methods; those that compare values have no edges.
        groups: how many there are.
    """

    def __init__(self, workspace: Workspace, found: Sequence[FoundEdges], *, groups: int) -> None:
        self._whole: dict[int, list[tuple[int, Path]]] = {}
        self._ranged: list[_RangedEdges] = []
        for method, one in enumerate(found):
            for group in () if one.equal else range(groups if one.parts is None else one.parts):
                folder = workspace.path(f"{one.folder}/{group:05d}")
                if (folder / "ranges.npy").exists():
                    ranges: Any = open_array(folder / "ranges.npy", dtype="<i8")
                    self._ranged.append(_RangedEdges(method, *_open_edges(folder), ranges))
                else:
                    self._whole.setdefault(group, []).append((method, folder))

    def read(self, number: int, ranks: Ranks) -> Edges:
        """Return the edges whose worse document has a rank of one range.

        Args:
            number: of the range.
            ranks: of all documents.
        """
        edges, similarities, methods = (
            [np.empty((0, 2), np.int64)],
            [np.empty(0)],
            [np.empty(0, np.uint8)],
        )
        for method, own, similarity in self._parts(number):
            edges.append(np.array(own))
            similarities.append(np.array(similarity))
            methods.append(np.full(len(own), method, np.uint8))
        pairs, similarity = np.concatenate(edges), np.concatenate(similarities)
        method_of = np.concatenate(methods)
        if len(edges) > 2:  # noqa: PLR2004 - one part is in order
            order = np.lexsort((method_of, pairs[:, 0], pairs[:, 1]))
            pairs, similarity, method_of = pairs[order], similarity[order], method_of[order]
        better, worse = (np.ascontiguousarray(ranks.at(side)) for side in (pairs[:, 0], pairs[:, 1]))
        return Edges(better, worse, similarity, method_of)

    def _parts(self, number: int) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.float64]]]:
        """Yield method, edges and similarities of one range, as they lie in the files."""
        for method, folder in self._whole.get(number, ()):
            yield method, *_open_edges(folder)
        for one in self._ranged:
            for low, high in one.ranges[:, number : number + 2]:
                if low < high:
                    yield one.method, one.edges[low:high], one.similarity[low:high]


class _RangedEdges(NamedTuple):
    """The edges of one group by one method, mapped."""

    method: int
    edges: NDArray[np.int64]
    similarity: NDArray[np.float64]
    ranges: NDArray[np.int64]


def _open_edges(folder: Path) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    edges: Any = open_array(folder / "edges.npy", dtype="<i8")
    similarity: Any = open_array(folder / SIMILARITIES, dtype="<f8")
    return edges, similarity


BATCH_PAIRS = 1 << 20
"""Candidate pairs, repeated over partitions, that are expanded together (8 bytes each, and copies)."""
BATCH_DOCUMENTS = 1 << 14
"""Documents whose candidates are looked up together, unless these are too many."""
MAX_HEADS = 1 << 22
"""Candidates that are looked up together (8 bytes each, twice while they are joined)."""
OPEN_PARTITIONS = 256
"""Partitions of bands that a task keeps open: all of 18 million documents'."""

MergePairs = Callable[[Iterable[NDArray[np.uint64]]], NDArray[np.uint64]]
_Partition = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Members (M, 3) and heads (H,) of a partition."""
_PAIR_BITS = 64


@dataclass(frozen=True)
class _Members:
    """The candidates of some documents in all partitions, without writing out a pair."""

    document: NDArray[np.int64]
    """(M,) the worse document."""
    start: NDArray[np.int64]
    """(M,) where its slice begins in `heads`."""
    count: NDArray[np.int64]
    """(M,) documents that it is compared with."""
    heads: NDArray[np.int64]


@dataclass(frozen=True)
class PairCode:
    """How a pair is one number, so that pairs are sorted as fast as numbers.

    Its better document stands above, its worse one below, counted from a first one.
    """

    first: int = 0
    bits: int = 32
    """Of the worse document."""

    def join(self, better: NDArray[np.int64], worse: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return each pair as one number."""
        return better.astype(np.uint64) << np.uint64(self.bits) | (worse - self.first).astype(np.uint64)

    def better(self, pairs: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the better document of each pair."""
        return (pairs >> np.uint64(self.bits)).astype(np.int64)

    def worse(self, pairs: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the worse document of each pair."""
        return (pairs & np.uint64((1 << self.bits) - 1)).astype(np.int64) + self.first


PLAIN = PairCode()
"""Both documents by their numbers, of 32 bits."""


def pair_code(first: int, last: int, *, documents: int) -> PairCode:
    """Return how the pairs are written whose worse document is in [first, last), of some documents.

    Raises:
        DataError: no 64 bits hold two of the documents.
    """
    if documents <= 1 << 32:
        return PLAIN
    code = PairCode(first, (last - first).bit_length())
    if (documents - 1).bit_length() + code.bits > _PAIR_BITS:
        raise DataError(
            f"{documents:,} documents, of which {last - first:,} lie in one run of units: a pair of them"
            f" does not fit in {_PAIR_BITS} bits; lower ingest.unit_size"
        )
    return code


def all_distinct(parts: Iterable[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Return the distinct pairs of some arrays, ascending."""
    found = np.empty(0, np.uint64)
    for part in parts:
        found = distinct(np.concatenate([found, part]))
    return found


def distinct(pairs: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the distinct pairs, ascending: three times as fast as `np.unique`, which hashes them."""
    ordered = np.sort(pairs)
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    found: NDArray[np.uint64] = ordered[new]
    return found


def expanded(
    workspace: Workspace,
    partitions: Sequence[str],
    first: int,
    last: int,
    *,
    code: PairCode,
    merge: MergePairs = all_distinct,
) -> Iterator[NDArray[np.uint64]]:
    """Yield the candidate pairs of documents [first, last), of some documents at a time.

    Those of one document may be too many to be held before they are merged, so they come in parts.

    Args:
        workspace: where the partitions are.
        partitions: their folders, each with members.npy and heads.npy.
        first: number of the first document.
        last: number after the last one.
        code: how pairs are written.
        merge: makes the pairs of some documents, in parts and repeated over partitions, ascending and
            distinct.
    """
    opened = lru_cache(OPEN_PARTITIONS)(partial(_open_partition, workspace))
    starts = range(first, last, BATCH_DOCUMENTS)
    ranges = [(start, min(start + BATCH_DOCUMENTS, last)) for start in reversed(starts)]
    while ranges:
        low, high = ranges.pop()
        parts = _parts(map(opened, partitions), low, high)
        if high - low > 1 and sum(int(part[:, 2].sum()) for part, _ in parts) > MAX_HEADS:
            middle = (low + high) // 2
            ranges += [(middle, high), (low, middle)]
            continue
        if parts and high - low > 1:
            yield from _pairs_of(_members(parts), low, high, code, merge)
        elif parts:
            pairs = merge(_expand(_members([part]), low, high, code) for part in _cut_parts(parts))
            if len(pairs):
                yield pairs


def _cut_parts(parts: Sequence[_Partition]) -> Iterator[_Partition]:
    """Cut the members of each partition so that they have at most `BATCH_PAIRS` pairs, or are one."""
    for members, heads in parts:
        for low, high in _cuts(members[:, 2]):
            yield members[low:high], heads


def _pairs_of(
    members: _Members, first: int, last: int, code: PairCode, merge: MergePairs
) -> Iterator[NDArray[np.uint64]]:
    """Yield the pairs of documents [first, last), ascending by worse from array to array."""
    counts = np.bincount(members.document - first, members.count, last - first).astype(np.int64)
    for low, high in _cuts(counts):
        pairs = _expand(members, first + low, first + high, code)
        if len(pairs):
            yield merge([pairs])


def _cuts(counts: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of counts that are together at most `BATCH_PAIRS`, or of one that is more."""
    pairs = np.cumsum(counts)
    start = 0
    while start < len(counts):
        before = pairs[start - 1] if start else 0
        end = max(int(np.searchsorted(pairs, before + BATCH_PAIRS, side="right")), start + 1)
        yield start, end
        start = end


def _open_partition(workspace: Workspace, partition: str) -> _Partition:
    """Return the members and the heads of one partition, mapped."""
    folder = workspace.path(partition)
    members, heads = (open_array(folder / name, dtype="<i8") for name in ("members.npy", "heads.npy"))
    return cast("_Partition", (members, heads))


def _parts(partitions: Iterator[_Partition], first: int, last: int) -> list[_Partition]:
    """Return the members among documents [first, last) of each partition that has any, and its heads."""
    parts = []
    for members, heads in partitions:
        low, high = np.searchsorted(members[:, 0], (first, last))
        compared = members[low:high]
        compared = compared[compared[:, 2] > 0]
        if len(compared):
            parts.append((compared, heads))
    return parts


def _members(parts: Sequence[_Partition]) -> _Members:
    """Join the members of some partitions, with those heads alone that they need."""
    members, heads, offset = [], [], 0
    for compared, of_all in parts:
        part, needed = _with_heads(compared, of_all)
        part[:, 1] += offset
        members.append(part)
        heads.append(needed)
        offset += len(needed)
    joined = np.concatenate(members)
    return _Members(joined[:, 0], joined[:, 1], joined[:, 2], np.concatenate(heads))


def _with_heads(members: NDArray[np.int64], heads: NDArray[np.int64]) -> _Partition:
    """Return members that refer to a copy of those heads alone that they need, and that copy."""
    starts, bucket = np.unique(members[:, 1], return_inverse=True)
    sizes = np.zeros(len(starts), np.int64)
    np.maximum.at(sizes, bucket, members[:, 2])
    ends = np.cumsum(sizes)
    places = np.repeat(starts - (ends - sizes), sizes) + np.arange(ends[-1])
    return np.column_stack([members[:, 0], (ends - sizes)[bucket], members[:, 2]]), heads[places]


def _expand(members: _Members, first: int, last: int, code: PairCode) -> NDArray[np.uint64]:
    """Write out the pairs whose worse document lies in [first, last)."""
    chosen = np.flatnonzero((members.document >= first) & (members.document < last))
    counts = members.count[chosen]
    ends = np.cumsum(counts)
    within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
    better = members.heads[np.repeat(members.start[chosen], counts) + within]
    return code.join(better, np.repeat(members.document[chosen], counts))
