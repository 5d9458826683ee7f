"""What the choice of survivors promises.

A document goes if and only if it has a verified pair with a better-ranked one that stays: no chains,
a kept witness for each removal, and the same outcome however the documents are cut into ranges.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.dedup.exact import exact_duplicates, stream_duplicates
from stages.dedup.jaccard import jaccard
from stages.dedup.survivors import (
    KEPT,
    Decisions,
    Edges,
    decide,
    final_clusters,
    join_clusters,
    link_repeats,
    undecided,
)
from tests.campaign import examples

QUICK = settings(deadline=None, derandomize=True, max_examples=examples(50))
SETS = st.sets(st.integers(0, 30), max_size=25)


@dataclass(frozen=True)
class Graph:
    """Verified pairs among first texts, and exact repeats of them."""

    documents: int
    edges: dict[tuple[int, int], float]
    """(better, worse): similarity."""
    repeats: dict[int, int]
    """Repeat: the first of its text."""


def random_graph(seed: int) -> Graph:
    """Return a graph of up to 40 documents, some of them repeats, in clumps."""
    rng = np.random.default_rng(seed)
    documents = int(rng.integers(1, 41))
    repeats: dict[int, int] = {}
    for document in range(1, documents):
        if rng.random() < 0.2:
            first = int(rng.integers(document))
            repeats[document] = repeats.get(first, first)
    firsts = [document for document in range(documents) if document not in repeats]
    share = float(rng.choice([0.02, 0.1, 0.3, 0.8]))
    edges = {
        (a, b): round(0.5 + float(rng.random()) / 2, 3)
        for a in firsts
        for b in firsts
        if a < b and rng.random() < share
    }
    return Graph(documents, edges, repeats)


def edges_of(pairs: Sequence[tuple[int, int]], similarities: Sequence[float]) -> Edges:
    """Return edges of one method."""
    better, worse = np.array(pairs, np.int64).reshape(-1, 2).T
    methods = np.ones(len(pairs), np.uint8)
    return Edges(better, worse, np.array(similarities, np.float64), methods)


def decided(graph: Graph, ranges: list[tuple[int, int]] | None = None) -> Decisions:
    """Decide about a graph, range after range."""
    decisions = undecided(graph.documents)
    for first, last in ranges or [(0, graph.documents)]:
        pairs = sorted(
            (pair for pair in graph.edges if first <= pair[1] < last),
            key=lambda pair: (pair[1], pair[0]),
        )
        exact = sorted(item for item in graph.repeats.items() if first <= item[0] < last)
        link_repeats(decisions, 0, np.array(exact, np.int64).reshape(-1, 2))
        edges = edges_of(pairs, [graph.edges[pair] for pair in pairs])
        decide(decisions, first, last, edges=edges)
    return decisions


def plain_rule(graph: Graph) -> dict[int, tuple[int, float]]:
    """Return who goes, for whom, and how alike they are, in plain loops."""
    removed: dict[int, tuple[int, float]] = {}
    for document in range(graph.documents):
        if document in graph.repeats:
            first = graph.repeats[document]
            removed[document] = removed.get(first, (first, 1.0))
            continue
        for better in range(document):
            if (better, document) in graph.edges and better not in removed:
                removed[document] = (better, graph.edges[better, document])
                break
    return removed


def removed_of(decisions: Decisions) -> dict[int, tuple[int, float]]:
    """Return the same of our decisions."""
    witness, similarity = decisions.witness.tolist(), decisions.similarity.tolist()
    return {n: (kept, similarity[n]) for n, kept in enumerate(witness) if kept != KEPT}


def plain_clusters(graph: Graph) -> list[int]:
    """Return the least document that each is linked to, by spreading until nothing changes."""
    least = list(range(graph.documents))
    links = [*graph.edges, *graph.repeats.items()]
    for _ in range(graph.documents):
        for a, b in links:
            least[a] = least[b] = min(least[a], least[b])
    return least


def test_there_are_no_chains() -> None:
    decisions = decided(Graph(3, {(0, 1): 0.9, (1, 2): 0.9}, {}))
    assert decisions.witness.tolist() == [KEPT, 0, KEPT]
    assert final_clusters(decisions).tolist() == [0, 0, 0]


def test_the_best_ranked_kept_document_is_named() -> None:
    edges = {(0, 1): 0.8, (1, 3): 0.99, (2, 3): 0.85, (0, 4): 0.81, (2, 4): 0.95}
    decisions = decided(Graph(5, edges, {}))
    assert removed_of(decisions) == {1: (0, 0.8), 3: (2, 0.85), 4: (0, 0.81)}


def test_a_repeat_shares_the_fate_of_its_text() -> None:
    decisions = decided(Graph(5, {(0, 1): 0.9}, {2: 0, 3: 1, 4: 1}))
    assert removed_of(decisions) == {1: (0, 0.9), 2: (0, 1.0), 3: (0, 0.9), 4: (0, 0.9)}


def test_random_graphs_are_decided_as_in_plain_loops() -> None:
    removed, spared = 0, 0
    for seed in range(200):
        graph = random_graph(seed)
        decisions = decided(graph)
        expected = plain_rule(graph)
        assert removed_of(decisions) == expected, seed
        assert final_clusters(decisions).tolist() == plain_clusters(graph), seed
        removed += len(expected)
        spared += len({worse for _, worse in graph.edges} - expected.keys())
    assert removed > 1_000
    assert spared > 100


def test_every_removal_has_a_kept_witness_that_it_was_verified_against() -> None:
    witnessed = 0
    for seed in range(200):
        graph = random_graph(seed)
        removed = removed_of(decided(graph))
        for document, (witness, similarity) in removed.items():
            assert witness not in removed
            text = graph.repeats.get(document, document)
            assert similarity == (1.0 if witness == text else graph.edges[witness, text])
            witnessed += 1
    assert witnessed > 1_000


@pytest.mark.parametrize("size", [1, 3, 7])
def test_deciding_range_after_range_equals_deciding_at_once(size: int) -> None:
    several = 0
    for seed in range(100):
        graph = random_graph(seed)
        ranges = [(n, min(n + size, graph.documents)) for n in range(0, graph.documents, size)]
        apart, at_once = decided(graph, ranges), decided(graph)
        assert removed_of(apart) == removed_of(at_once), seed
        assert (final_clusters(apart) == final_clusters(at_once)).all(), seed
        several += len(ranges) > 1
    assert several > 60


def test_nothing_verified_keeps_everything() -> None:
    assert removed_of(decided(Graph(4, {}, {}))) == {}
    assert final_clusters(undecided(4)).tolist() == [0, 1, 2, 3]
    assert len(undecided(0).witness) == 0


def test_pairs_that_are_not_in_rank_order_are_a_bug() -> None:
    with pytest.raises(AssertionError):
        decide(undecided(3), 0, 3, edges=edges_of([(0, 2), (0, 1)], [0.9, 0.9]))
    with pytest.raises(AssertionError):
        decide(undecided(3), 0, 2, edges=edges_of([(0, 2)], [0.9]))


def test_exact_duplicates_are_as_written_out() -> None:
    a, b = [1, 2], [1, 3]
    digests = np.array([a, b, a, a], np.uint64)
    assert exact_duplicates(digests, np.arange(4)).tolist() == [[2, 0], [3, 0]]
    assert exact_duplicates(digests, np.array([9, 8, 7, 3])).tolist() == [[7, 3], [9, 3]]
    assert exact_duplicates(np.empty((0, 2), np.uint64), np.arange(0)).tolist() == []


@QUICK
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=40), st.randoms())
def test_exact_duplicates_equal_the_plain_loop(halves: list[tuple[int, int]], random: Random) -> None:
    documents = list(range(100, 100 + len(halves)))
    random.shuffle(documents)
    by_rank = dict(zip(documents, halves, strict=True))
    firsts: dict[tuple[int, int], int] = {}
    expected = []
    for document in sorted(documents):
        first = firsts.setdefault(by_rank[document], document)
        if first != document:
            expected.append([document, first])
    digests = np.array(halves, np.uint64).reshape(-1, 2)
    assert exact_duplicates(digests, np.array(documents, np.int64)).tolist() == expected


@QUICK
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=40), st.integers(1, 9))
def test_exact_duplicates_are_the_same_however_documents_come_in_blocks(
    halves: list[tuple[int, int]], block: int
) -> None:
    digests, documents = np.array(halves, np.uint64).reshape(-1, 2), np.arange(len(halves))
    whole = exact_duplicates(digests, documents).tolist()
    cuts = range(0, len(halves), block)
    blocks = [(digests[cut : cut + block], documents[cut : cut + block]) for cut in cuts]
    assert [pair for pairs in stream_duplicates(lambda: blocks) for pair in pairs.tolist()] == whole


@QUICK
@given(SETS, SETS)
def test_jaccard_equals_pythons_sets(a: set[int], b: set[int]) -> None:
    left, right = (np.array(sorted(values), np.uint64) for values in (a, b))
    expected = len(a & b) / len(a | b) if a | b else 0.0
    assert jaccard(left, right, threshold=0.0) == expected
    assert jaccard(right, left, threshold=0.0) == expected
    for threshold in (0.3, 0.5, 0.8, 1.0):
        bounded = jaccard(left, right, threshold=threshold)
        assert bounded == (expected if expected >= threshold else 0.0)


def test_jaccard_at_the_bounds_of_64_bits() -> None:
    a = np.array([0, 2**63, 2**64 - 1], np.uint64)
    assert jaccard(a, a, threshold=1.0) == 1.0
    assert jaccard(a, a[1:], threshold=0.5) == 2 / 3
    assert jaccard(a[:0], a[:0], threshold=0.5) == 0.0


MANY = (1 << 21) + 5
"""Documents of more than one block that is filled in at a time."""


@pytest.mark.parametrize("mapped", [False, True])
def test_every_document_of_a_large_corpus_is_its_own_cluster_until_a_pair_joins_it(
    tmp_path: Path, *, mapped: bool
) -> None:
    decisions = undecided(MANY, tmp_path if mapped else None)
    assert np.array_equal(decisions.cluster, np.arange(MANY))
    assert (decisions.witness == KEPT).all()
    exact = np.array([[(1 << 20) + 1, 1 << 20], [MANY - 1, 3]], np.int64)
    edges = np.array([[MANY - 4, MANY - 3], [7, MANY - 2]], np.int64)
    link_repeats(decisions, 0, exact)
    pairs_of_texts = [(int(a), int(b)) for a, b in edges]
    decide(decisions, 0, MANY, edges=edges_of(pairs_of_texts, [0.9, 0.8]))
    wanted = np.arange(MANY)
    pairs = np.concatenate([exact[:, ::-1], edges])
    wanted[pairs[:, 1]] = pairs[:, 0]
    assert np.array_equal(final_clusters(decisions), wanted)
    removed = np.flatnonzero(decisions.witness != KEPT)
    assert removed.tolist() == sorted(pairs[:, 1].tolist())
    assert np.array_equal(decisions.witness[removed], wanted[removed])


@pytest.mark.parametrize("seed", range(20))
def test_equal_texts_that_all_stay_are_one_cluster_and_none_goes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    documents = int(rng.integers(2, 60))
    texts = rng.integers(0, documents // 2 + 1, documents)
    digests = np.column_stack([texts, texts]).astype(np.uint64)
    decisions = undecided(documents)
    join_clusters(decisions, exact_duplicates(digests, np.arange(documents)))
    firsts = {text: int(np.flatnonzero(texts == text)[0]) for text in set(texts.tolist())}
    assert final_clusters(decisions).tolist() == [firsts[text] for text in texts.tolist()]
    assert (decisions.witness == KEPT).all()


@pytest.mark.parametrize(("of_text", "named"), [(1, 1), (5, 3)])
def test_of_two_methods_with_one_witness_the_first_is_named(of_text: int, named: int) -> None:
    decisions = undecided(2, equal=(0, 3))
    link_repeats(decisions, 1, np.array([[1, 0]]))
    edges = Edges(np.array([0]), np.array([1]), np.array([0.97]), np.array([of_text], np.uint8))
    decide(decisions, 0, 2, edges=edges)
    assert decisions.witness.tolist() == [KEPT, 0]
    assert (decisions.method[1], decisions.similarity[1]) == (named, 0.97 if named == 1 else 1.0)
