"""Survivors: which duplicates go, decided in rank order from verified edges alone.

A document goes if and only if it has an edge to a better-ranked document that is *kept*; the best-ranked
one of these is its witness. There are no chains (A~B, B~C, but C unlike A: B goes, C stays), no removal
without a kept witness, and the result depends on ranks alone.

Edges are of two sorts. *Equal values* (texts, URLs, keys) are classes: each document is linked to the
best-ranked of its class, and at most one of a class is kept. *Similar texts* are pairs, of the first
documents of their texts alone. A repeat of a text goes for what its first document went for as a text;
if that went for its URL or a key alone, the next document of the text stands in its place.

Memory: `Decisions` takes 17 bytes a document, and 4 for each sort of equal values; of more than 2^31
documents 25, and 8. The pipeline puts
them in files that are mapped, so that the system holds of them what memory it has to spare.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.store.mapped import mapped_zeros

NARROW = (1 << 31) - 1
"""Of at most so many documents, numbers are int32; of more, int64."""
KEPT = -1
_NONE = -1
"""Of a class: no document of it is kept, so far."""
_LEADER = 2
"""A link to the best-ranked of a class is -2 - its number."""
_FILL = 1 << 20
Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True)
class Edges:
    """Verified pairs of similar texts, of documents by number."""

    better: NDArray[np.int64]
    """(E,)."""
    worse: NDArray[np.int64]
    """(E,) ascending by rank; of each, the better ones ascend by rank, and then by method."""
    similarity: NDArray[np.float64]
    """(E,)."""
    method: NDArray[np.uint8]
    """(E,) its number in the table of methods."""


NO_EDGES = Edges(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0, np.uint8))


@dataclass(frozen=True)
class Witnesses:
    """For whom N documents go."""

    witness: NDArray[np.integer]
    """(N,) the kept document for which each goes, or KEPT."""
    similarity: NDArray[np.float64]
    """(N,) similarity with the witness; undefined where kept."""
    method: NDArray[np.uint8]
    """(N,) the method of the edge; undefined where kept."""


@dataclass(frozen=True)
class Decisions(Witnesses):
    """What was decided about each of N documents; `decide` fills it range after range of ranks."""

    cluster: NDArray[np.integer]
    """(N,) union-find parents over all edges; `final_clusters` gives clusters."""
    links: NDArray[np.integer]
    """(Q, N) for each sort of equal values: of the best-ranked of a class, the one of it that is kept,
    or -1; of each other, -2 - the number of the best-ranked. The first sort is texts."""
    equal: tuple[int, ...]
    """(Q,) the method of each."""
    texts: Witnesses
    """Of the first document of each text, for whom that text goes; the decisions themselves, unless a
    document can go for another value."""


def undecided(documents: int, folder: Path | None = None, *, equal: Sequence[int] = (0,)) -> Decisions:
    """Return decisions that keep everything, every document a class and a cluster of its own.

    Args:
        documents: N.
        folder: where to put the arrays as mapped files; by default they are in memory.
        equal: the methods that compare values; the first compares texts.
    """
    wide: type[np.integer] = np.int32 if documents <= NARROW else np.int64

    def array(name: str, kind: type[Number], rows: int = 1) -> NDArray[Number]:
        if folder is None or not documents:
            return np.empty((rows, documents), kind)
        return mapped_zeros(folder / name, kind, (rows, documents))

    def witnesses(name: str) -> Witnesses:
        found = Witnesses(
            array(f"{name}witness", wide)[0],
            array(f"{name}similarity", np.float64)[0],
            array(f"{name}method", np.uint8)[0],
        )
        found.witness[:] = KEPT
        found.similarity[:] = 1.0
        return found

    own = witnesses("")
    decisions = Decisions(
        own.witness,
        own.similarity,
        own.method,
        cluster=array("cluster", wide)[0],
        links=array("links", wide, len(equal)),
        equal=tuple(equal),
        texts=witnesses("text-") if len(equal) > 1 else own,
    )
    decisions.links[:] = _NONE
    for start in range(0, documents, _FILL):
        end = min(start + _FILL, documents)
        decisions.cluster[start:end] = np.arange(start, end)
    return decisions


def link_repeats(decisions: Decisions, sort: int, repeats: NDArray[np.int64]) -> None:
    """Link repeats of a value to the best-ranked document of that value, in place.

    Args:
        decisions: filled.
        sort: which of the values.
        repeats: (D, 2) document and the best-ranked one.
    """
    decisions.links[sort, repeats[:, 0]] = -_LEADER - repeats[:, 1]


def keep_first(decisions: Decisions, kept: NDArray[np.int64]) -> None:
    """Note of each class, in place, the first of some documents that is kept, unless one is noted.

    Args:
        decisions: filled, with repeats linked.
        kept: (K,) documents that are kept, the best-ranked first.
    """
    for links in decisions.links:
        _keep_first(links, kept)


def decide(
    decisions: Decisions, first: int, last: int, *, edges: Edges, ranks: "Ranks | None" = None
) -> None:
    """Decide about the documents of a range of ranks; the better-ranked ones are decided already.

    The one function here that fills its argument: the arrays are as long as the corpus.

    Args:
        decisions: filled in place.
        first: rank of the first of them.
        last: rank after the last.
        edges: those whose worse document has such a rank.
        ranks: None if they are the numbers.
    """
    used = ranks or CANONICAL
    _decide(
        (first, last, used.order, used.ranks),
        (edges.better, edges.worse, edges.similarity, edges.method),
        (decisions.witness, decisions.similarity, decisions.method),
        (decisions.texts.witness, decisions.texts.similarity, decisions.texts.method),
        (decisions.links, np.array(decisions.equal, np.uint8), decisions.cluster),
    )


@dataclass(frozen=True)
class Ranks:
    """Who outranks whom, among N documents; empty if ranks are numbers."""

    ranks: NDArray[np.uint32]
    """(N,) of each document by number; 0 is the best."""
    order: NDArray[np.uint32]
    """(N,) documents, the best-ranked first."""

    @property
    def canonical(self) -> bool:
        """Whether ranks are numbers."""
        return not len(self.ranks)

    def of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ranks of some documents."""
        return numbers if self.canonical else self.ranks[numbers].astype(np.int64)

    def at(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the documents of some ranks."""
        return ranks if self.canonical else self.order[ranks].astype(np.int64)


CANONICAL = Ranks(np.empty(0, np.uint32), np.empty(0, np.uint32))
"""The first of two documents in canonical order is the better-ranked."""


def join_clusters(decisions: Decisions, repeats: NDArray[np.int64], *, ranks: Ranks = CANONICAL) -> None:
    """Join the clusters of equal texts, whether they stay or not, in place.

    Args:
        decisions: of any documents, filled in place.
        repeats: (D, 2) document and another one of its text.
        ranks: of all documents.
    """
    _join(repeats, decisions.cluster, ranks.ranks)


def final_clusters(decisions: Decisions) -> NDArray[np.integer]:
    """Make each document's cluster its best-ranked member, in place, and give them: (N,)."""
    _roots(decisions.cluster)
    return decisions.cluster


@kernel
def _rank(ranks: NDArray[np.uint32], document: int) -> int:
    return int(ranks[document]) if len(ranks) else document


@kernel
def _find(parent: NDArray[np.integer], document: int) -> int:
    while parent[document] != document:
        parent[document] = parent[parent[document]]
        document = parent[document]
    return document


@kernel
def _union_of_roots(parent: NDArray[np.integer], a: int, b: int, ranks: NDArray[np.uint32]) -> int:
    """Join two clusters under the better-ranked of their roots, and return it."""
    if _rank(ranks, a) < _rank(ranks, b):
        parent[b] = a
        return a
    parent[a] = b
    return b


@kernel
def _union(parent: NDArray[np.integer], a: int, b: int, ranks: NDArray[np.uint32]) -> None:
    """Join the clusters of two documents."""
    _union_of_roots(parent, _find(parent, a), _find(parent, b), ranks)


@kernel
def _leader(links: NDArray[np.integer], document: int) -> int:
    """Return the best-ranked document of a class."""
    link = links[document]
    return document if link > -_LEADER else -_LEADER - link


@kernel
def _keep_first(links: NDArray[np.integer], kept: NDArray[np.int64]) -> None:
    for document in kept:
        leader = _leader(links, document)
        if links[leader] == _NONE:
            links[leader] = document


@kernel
def _best_text(
    document: int,
    edge: int,
    edges: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.uint8]],
    ranked: tuple[NDArray[np.uint32], NDArray[np.integer], NDArray[np.integer]],
) -> tuple[int, int, int]:
    """Return the best-ranked kept document that a text is like, its edge, and the one after its last.

    Args:
        document: the first of its text.
        edge: its first one.
        edges: better, worse, similarity, method.
        ranked: ranks, links of equal texts, and parents of clusters, which are joined.
    """
    ranks, links, parent = ranked
    chosen, at, root = _NONE, edge, _find(parent, document)
    while edge < len(edges[1]) and edges[1][edge] == document:
        better = edges[0][edge]
        other = _find(parent, better)
        if other != root:
            root = _union_of_roots(parent, other, root, ranks)
        leader = links[_leader(links, better)]
        if leader != _NONE and (chosen == _NONE or _rank(ranks, leader) < _rank(ranks, chosen)):
            chosen, at = leader, edge
        edge += 1
    return chosen, at, edge


@kernel
def _decide(
    span: tuple[int, int, NDArray[np.uint32], NDArray[np.uint32]],
    edges: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.uint8]],
    found: tuple[NDArray[np.integer], NDArray[np.float64], NDArray[np.uint8]],
    texts: tuple[NDArray[np.integer], NDArray[np.float64], NDArray[np.uint8]],
    classes: tuple[NDArray[np.integer], NDArray[np.uint8], NDArray[np.integer]],
) -> None:
    first, last, order, ranks = span
    links, equal, parent = classes
    edge = 0
    for rank in range(first, last):
        document = int(order[rank]) if len(order) else rank
        leader = _leader(links[0], document)
        if leader == document:
            chosen, at, edge = _best_text(document, edge, edges, (ranks, links[0], parent))
            texts[0][document] = chosen
            if chosen != _NONE:
                texts[1][document], texts[2][document] = edges[2][at], edges[3][at]
        chosen, similarity, method = int(texts[0][leader]), texts[1][leader], texts[2][leader]
        for sort in range(len(links)):
            best = _leader(links[sort], document)
            best_leader = int(links[sort][best])
            if best != document:
                _union(parent, best, document, ranks)
            if best == document or best_leader == _NONE:
                continue
            before, own = _rank(ranks, best_leader), _rank(ranks, chosen) if chosen != _NONE else last
            if before < own or (before == own and equal[sort] < method):
                chosen, similarity, method = best_leader, 1.0, equal[sort]
        found[0][document], found[1][document], found[2][document] = chosen, similarity, method
        if chosen != _NONE:  # of documents of earlier runs, those that agree were not joined here
            _union(parent, chosen, document, ranks)
        else:
            for sort in range(len(links)):
                links[sort][_leader(links[sort], document)] = document
    assert edge == len(edges[1])


@kernel
def _join(repeats: NDArray[np.int64], parent: NDArray[np.integer], ranks: NDArray[np.uint32]) -> None:
    for row in range(len(repeats)):
        _union(parent, repeats[row, 1], repeats[row, 0], ranks)


@kernel
def _roots(parent: NDArray[np.integer]) -> None:
    for document in range(len(parent)):
        parent[document] = _find(parent, document)
