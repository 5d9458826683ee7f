"""What MinHash-LSH promises.

Bands are those that datasketch chooses; a bucket's documents are each compared with its best-ranked
ones, as the plain loops would have it; and the pieces that a band is cut into lose and repeat no key.
"""

from collections import defaultdict
from random import Random

import numpy as np
import pytest
from datasketch import MinHashLSH
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.dedup.lsh import (
    MAX_KEYS,
    Candidates,
    band_keys,
    band_shape,
    bucket_candidates,
    in_piece,
    num_pieces,
)

QUICK = settings(deadline=None, derandomize=True, max_examples=50)
GOLDEN_KEYS = [12898778576980366991, 13938309054648672889, 11634735295908981667]
KEYS = st.lists(st.integers(0, 5), max_size=40)


def found(keys: list[int], documents: list[int], max_candidates: int) -> Candidates:
    """Give the candidates of documents with some keys."""
    return bucket_candidates(
        np.array(keys, np.uint64), np.array(documents, np.int64), max_candidates=max_candidates
    )


def plain_pairs(keys: list[int], documents: list[int], max_candidates: int) -> list[list[int]]:
    """Give (better, worse) of each bucket in plain loops, ascending by worse."""
    buckets: defaultdict[int, list[int]] = defaultdict(list)
    for document, key in sorted(zip(documents, keys, strict=True)):
        buckets[key].append(document)
    return sorted(
        (
            [better, worse]
            for bucket in buckets.values()
            for place, worse in enumerate(bucket)
            for better in bucket[: min(place, max_candidates)]
        ),
        key=lambda pair: (pair[1], pair[0]),
    )


@pytest.mark.parametrize(("threshold", "num_perm"), [(0.8, 128), (0.5, 64), (0.9, 256), (0.7, 16)])
def test_bands_are_those_that_datasketch_chooses(threshold: float, num_perm: int) -> None:
    index = MinHashLSH(threshold=threshold, num_perm=num_perm, weights=(0.1, 0.9))
    bands, rows = band_shape(threshold, num_perm)
    assert (bands, rows) == (index.b, index.r)
    assert bands * rows <= num_perm


def test_the_default_bands_find_most_pairs_at_the_threshold() -> None:
    bands, rows = band_shape(0.8, 128)
    assert (bands, rows) == (14, 9)
    assert 1 - (1 - 0.8**rows) ** bands > 0.85


def test_candidates_are_as_written_out() -> None:
    candidates = found([7, 9, 7, 7], [0, 1, 2, 3], 64)
    assert candidates.pairs(0, 4).tolist() == [[0, 2], [0, 3], [2, 3]]
    assert candidates.members[:, 0].tolist() == [2, 3]


@pytest.mark.parametrize(
    ("max_candidates", "pairs"),
    [
        (1, [[4, 6], [4, 7], [4, 9]]),
        (2, [[4, 6], [4, 7], [6, 7], [4, 9], [6, 9]]),
        (3, [[4, 6], [4, 7], [6, 7], [4, 9], [6, 9], [7, 9]]),
    ],
)
def test_a_bucket_is_compared_with_its_best_ranked_only(
    max_candidates: int, pairs: list[list[int]]
) -> None:
    assert found([1, 1, 1, 1], [9, 4, 7, 6], max_candidates).pairs(0, 10).tolist() == pairs


@QUICK
@given(
    KEYS, st.randoms(use_true_random=False), st.integers(1, 6), st.integers(0, 45), st.integers(0, 45)
)
def test_candidates_equal_the_plain_loops_over_any_range(
    keys: list[int], random: Random, max_candidates: int, first: int, last: int
) -> None:
    documents = list(range(len(keys)))
    random.shuffle(documents)
    candidates = found(keys, documents, max_candidates)
    expected = plain_pairs(keys, documents, max_candidates)
    everything = candidates.pairs(0, len(keys)).tolist()
    assert everything == expected
    chosen = [pair for pair in expected if first <= pair[1] < last]
    assert candidates.pairs(first, max(first, last)).tolist() == chosen


def test_no_documents_give_no_candidates() -> None:
    assert found([], [], 64).pairs(0, 10).tolist() == []
    assert found([1, 2, 3], [0, 1, 2], 64).pairs(0, 10).tolist() == []


def test_documents_share_a_key_if_and_only_if_they_agree_on_the_band() -> None:
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 3, (4, 2_000)).astype(np.uint32)
    rows[:, ::7] += np.uint32(2**32 - 3)
    by_key: defaultdict[int, set[tuple[int, ...]]] = defaultdict(set)
    for key, column in zip(band_keys(rows).tolist(), rows.T.tolist(), strict=True):
        by_key[key].add(tuple(column))
    bands = {tuple(column) for column in rows.T.tolist()}
    assert len(bands) > 100
    assert len(by_key) == len(bands)
    assert all(len(columns) == 1 for columns in by_key.values())


def test_keys_depend_on_the_order_of_rows_and_not_on_other_documents() -> None:
    rows = np.array([[1, 2, 3], [2, 1, 3]], np.uint32)
    keys = band_keys(rows)
    assert keys[0] != keys[1]
    assert band_keys(rows[:, 1:])[0] == keys[1]
    assert keys.tolist() == GOLDEN_KEYS


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 64])
def test_each_key_lies_in_one_piece_and_pieces_are_even(pieces: int) -> None:
    edges = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
    random = np.random.default_rng(2).integers(0, 2**64, 6_400, np.uint64)
    keys = np.concatenate([np.array(edges, np.uint64), random])
    inside = np.array([in_piece(keys, piece, pieces=pieces) for piece in range(pieces)])
    assert (inside.sum(axis=0) == 1).all()
    even = 6_400 / pieces
    assert float(((inside.sum(axis=1) - even) ** 2 / even).sum()) < 120
    assert (np.diff(inside[:, np.argsort(keys)].argmax(axis=0)) >= 0).all()


@pytest.mark.parametrize(
    ("documents", "pieces"),
    [(0, 1), (1, 1), (MAX_KEYS, 1), (MAX_KEYS + 1, 2), (10 * MAX_KEYS, 10), (10**9, 239)],
)
def test_a_band_is_cut_so_that_a_piece_is_bounded(documents: int, pieces: int) -> None:
    assert num_pieces(documents) == pieces
    assert documents <= pieces * MAX_KEYS
