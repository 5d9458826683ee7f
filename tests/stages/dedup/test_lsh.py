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

from stages.dedup.buckets import BucketFiller, KeyBlock, _count, shared_keys
from stages.dedup.lsh import KEYS_PER_PARTITION, band_keys, band_shape, num_partitions, partition_of
from tests.campaign import examples

QUICK = settings(deadline=None, derandomize=True, max_examples=examples(50))
GOLDEN_KEYS = [12898778576980366991, 13938309054648672889, 11634735295908981667]
KEYS = st.lists(st.integers(0, 5), max_size=40)


def found(
    keys: list[int], documents: list[int], max_candidates: int, *, block: int = 1 << 20
) -> list[list[int]]:
    """Return (better, worse) of documents with some keys, from blocks in rank order."""
    order = np.argsort(np.array(documents, np.int64))
    blocks: list[KeyBlock] = [
        (np.array(keys, np.uint64)[rows], np.array(documents, np.int64)[rows])
        for rows in (order[start : start + block] for start in range(0, len(order), block))
    ]
    filler = BucketFiller(shared_keys(blocks), max_candidates)
    members = [row for part in filler.place(blocks) for row in part.tolist()]
    assert members == sorted(members)
    return [
        [better, worse]
        for worse, start, count in members
        for better in filler.heads[start : start + count].tolist()
    ]


def plain_pairs(keys: list[int], documents: list[int], max_candidates: int) -> list[list[int]]:
    """Return (better, worse) of each bucket in plain loops, ascending by worse."""
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


@pytest.mark.parametrize(
    ("threshold", "num_perm"),
    [(0.8, 128), (0.5, 64), (0.9, 256), (0.7, 16), *((tenths / 20, 128) for tenths in range(2, 20, 3))],
)
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
    assert found([7, 9, 7, 7], [0, 1, 2, 3], 64) == [[0, 2], [0, 3], [2, 3]]


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
    assert found([1, 1, 1, 1], [9, 4, 7, 6], max_candidates) == pairs


@QUICK
@given(KEYS, st.randoms(use_true_random=False), st.integers(1, 6), st.integers(1, 45))
def test_candidates_equal_the_plain_loops_however_documents_come_in_blocks(
    keys: list[int], random: Random, max_candidates: int, block: int
) -> None:
    documents = list(range(len(keys)))
    random.shuffle(documents)
    expected = plain_pairs(keys, documents, max_candidates)
    assert found(keys, documents, max_candidates, block=block) == expected


@pytest.mark.parametrize("room", [0, 1, 700, 5_000])
@pytest.mark.parametrize("block", [1, 700, 5_000])
def test_a_table_of_any_size_finds_the_same_keys(room: int, block: int) -> None:
    keys = np.random.default_rng(3).integers(0, 3_000, 5_000).astype(np.uint64)
    keys *= np.uint64(0x9E3779B97F4A7C15)  # one of them is 0
    blocks = [(part, np.arange(len(part))) for part in np.split(keys, range(block, len(keys), block))]
    shared = shared_keys(blocks, room=room)
    values, counts = np.unique(keys, return_counts=True)
    assert 1_000 < int((counts > 1).sum()) < len(counts)
    assert shared.keys.tolist() == values[counts > 1].tolist()
    assert shared.counts.tolist() == counts[counts > 1].tolist()
    places = shared.find(keys)
    assert (shared.keys[places[places >= 0]] == keys[places >= 0]).all()
    assert set(keys[places < 0].tolist()) == set(values[counts == 1].tolist())


def test_every_document_of_a_bucket_is_a_member_the_best_compared_with_none() -> None:
    keys, documents = np.array([7, 9, 7, 5, 7], np.uint64), np.array([2, 3, 4, 6, 8])
    filler = BucketFiller(shared_keys([(keys, documents)]), 64)
    (members,) = filler.place([(keys, documents)])
    assert members.tolist() == [[2, 0, 0], [4, 0, 1], [8, 0, 2]]
    assert filler.heads.tolist() == [2, 4, 8]


def test_no_documents_give_no_candidates() -> None:
    assert found([], [], 64) == []
    assert found([1, 2, 3], [0, 1, 2], 64) == []


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
    piece = partition_of(keys, partitions=pieces)
    assert piece.min() >= 0
    assert piece.max() < pieces
    even = 6_400 / pieces
    assert float(((np.bincount(piece, minlength=pieces) - even) ** 2 / even).sum()) < 120
    assert (np.diff(piece[np.argsort(keys)]) >= 0).all()


@pytest.mark.parametrize(
    ("documents", "pieces"),
    [(0, 1), (1, 1), (1 << 20, 1), ((1 << 20) + 1, 2), (10 << 20, 10), (10**9, 954)],
)
def test_a_band_is_cut_so_that_a_piece_is_bounded(documents: int, pieces: int) -> None:
    assert num_partitions(documents) == pieces
    assert documents <= pieces * KEYS_PER_PARTITION


def test_a_key_that_stands_two_thousand_million_times_is_still_one_key() -> None:
    table, counts = np.zeros(4, np.uint64), np.zeros(4, np.int32)
    keys = np.full(3, 2, np.uint64)
    assert _count((table, counts), 0, keys, 0) == (1, 3)
    counts[2] = np.iinfo(np.int32).max - 1
    assert _count((table, counts), 1, keys, 0) == (1, 3)
    assert counts.tolist() == [0, 0, np.iinfo(np.int32).max, 0]
