"""Survivors: which duplicates go, decided in rank order from verified pairs alone.

A document goes if and only if it has a verified pair with a better-ranked document that is *kept*.
There are no chains (A~B, B~C, but C unlike A: B goes, C stays), no removal without a kept witness at
or above the threshold, and the result depends on ranks alone.

Memory: `Decisions` takes 16 bytes a document. The pipeline puts them in files that are mapped, so that
the system holds of them what memory it has to spare.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel

MAX_DOCUMENTS = (1 << 31) - 1
KEPT = -1


_FILL = 1 << 20
Number = TypeVar("Number", np.int32, np.float64)


@dataclass(frozen=True)
class Decisions:
    """What was decided about each of N documents; `decide` fills it unit after unit."""

    witness: NDArray[np.int32]
    """(N,) the kept document for which each goes, or KEPT."""
    similarity: NDArray[np.float64]
    """(N,) exact Jaccard similarity with the witness; undefined where kept."""
    cluster: NDArray[np.int32]
    """(N,) union-find parents over verified pairs; `cluster_roots` gives clusters."""


def undecided(documents: int, folder: Path | None = None) -> Decisions:
    """Return decisions that keep everything, every document a cluster of its own.

    Args:
        documents: N.
        folder: where to put the arrays as mapped files; by default they are in memory.
    """
    assert documents <= MAX_DOCUMENTS, documents

    def array(name: str, kind: type[Number]) -> NDArray[Number]:
        if folder is None or not documents:
            return np.empty(documents, kind)
        return np.memmap(folder / name, kind, "w+", shape=(documents,)).view(np.ndarray)

    decisions = Decisions(
        witness=array("witness", np.int32),
        similarity=array("similarity", np.float64),
        cluster=array("cluster", np.int32),
    )
    decisions.witness[:] = KEPT
    decisions.similarity[:] = 1.0
    for start in range(0, documents, _FILL):
        end = min(start + _FILL, documents)
        decisions.cluster[start:end] = np.arange(start, end)
    return decisions


def decide(
    decisions: Decisions,
    exact: NDArray[np.int64],
    edges: NDArray[np.int64],
    *,
    similarities: NDArray[np.float64],
) -> None:
    """Decide about a range of documents whose better-ranked ones are decided already.

    The one function here that fills its argument: the arrays are as long as the corpus.

    Args:
        decisions: filled in place.
        exact: (D, 2) duplicate and the document it repeats, ascending by duplicate.
        edges: (E, 2) verified pairs (better, worse), ascending by (worse, better).
        similarities: (E,) float64 of the edges.
    """
    assert (edges[:, 0] < edges[:, 1]).all()
    assert (exact[:, 1] < exact[:, 0]).all()
    _decide_near(edges, similarities, decisions.witness, decisions.similarity, decisions.cluster)
    _decide_exact(exact, decisions.witness, decisions.similarity, decisions.cluster)


def join_clusters(decisions: Decisions, exact: NDArray[np.int64]) -> None:
    """Join the clusters of equal texts that all stay, in place.

    Args:
        decisions: of any documents, filled in place.
        exact: (D, 2) duplicate and the document it repeats.
    """
    assert (exact[:, 1] < exact[:, 0]).all()
    _join(exact, decisions.cluster)


def settle_clusters(decisions: Decisions) -> NDArray[np.int32]:
    """Make each document's cluster its best-ranked member, in place, and give them: (N,) int32."""
    _roots(decisions.cluster)
    return decisions.cluster


@kernel
def _find(parent: NDArray[np.int32], document: int) -> int:
    while parent[document] != document:
        parent[document] = parent[parent[document]]
        document = parent[document]
    return document


@kernel
def _union(parent: NDArray[np.int32], a: int, b: int) -> None:
    """Join two clusters under the better-ranked root."""
    a, b = _find(parent, a), _find(parent, b)
    if a < b:
        parent[b] = a
    else:
        parent[a] = b


@kernel
def _decide_near(
    edges: NDArray[np.int64],
    similarities: NDArray[np.float64],
    witness: NDArray[np.int32],
    similarity: NDArray[np.float64],
    parent: NDArray[np.int32],
) -> None:
    for edge in range(len(edges)):
        better, worse = edges[edge, 0], edges[edge, 1]
        _union(parent, better, worse)
        if witness[worse] == KEPT and witness[better] == KEPT:
            witness[worse] = better
            similarity[worse] = similarities[edge]


@kernel
def _decide_exact(
    exact: NDArray[np.int64],
    witness: NDArray[np.int32],
    similarity: NDArray[np.float64],
    parent: NDArray[np.int32],
) -> None:
    """A repeat shares its text's fate: for the first of that text, or for that one's witness."""
    for row in range(len(exact)):
        repeat, first = exact[row, 0], exact[row, 1]
        _union(parent, first, repeat)
        if witness[first] == KEPT:
            witness[repeat] = first
        else:
            witness[repeat] = witness[first]
            similarity[repeat] = similarity[first]


@kernel
def _join(exact: NDArray[np.int64], parent: NDArray[np.int32]) -> None:
    for row in range(len(exact)):
        _union(parent, exact[row, 1], exact[row, 0])


@kernel
def _roots(parent: NDArray[np.int32]) -> None:
    for document in range(len(parent)):  # a parent is better ranked, so it is settled already
        parent[document] = parent[parent[document]]
