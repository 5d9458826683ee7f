"""What seeding promises.

Philox is the published one, bit for bit; no two draws share a block; a permutation is one, and another
for every field of its key; hashes of documents never change; nothing global is read or left changed.
"""

import random
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.objectives.mlm.config import MaskTag
from stages.seeding import (
    MAX_SHARDS,
    Key,
    OrderTag,
    Purpose,
    document_hash,
    draw_u64,
    permutation,
    philox4x32,
    scale,
    shard_field,
    threshold,
)
from tests.campaign import examples
from tests.material.every_kind import TAGS

ONES = 0xFFFFFFFF
KNOWN_ANSWERS = {
    "zeros": ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    "ones": (
        (ONES, ONES, ONES, ONES),
        (ONES, ONES),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    "pi": (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
}
"""Counter, key and output of philox4x32-10 in Random123's kat_vectors."""
IDENTITY = bytes(range(16))
GOLDEN_DRAWS = [
    [13108762546418295318, 7995432756027538502],
    [7736559949428387893, 4050542512932179126],
]
GOLDEN_PERMUTATION = [4, 3, 5, 6, 2, 0, 7, 1]
GOLDEN_HASHES = {
    Purpose.SHARD: 11209959621328699850,
    Purpose.ORDER: 12009933098894823841,
    Purpose.VALIDATION: 28736322494583787,
    Purpose.SAMPLE: 2319834576827417648,
    Purpose.COMPONENT: 9133278876033415054,
}
KEYS = st.builds(
    Key,
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 2**32 - 1),
    shard=st.integers(0, MAX_SHARDS - 1),
    tag=st.sampled_from(TAGS),
)


def draws(key: Key, *rows: int, block: int = 0) -> list[list[int]]:
    """Return the draws of some rows as Python numbers."""
    found: list[list[int]] = draw_u64(key, np.array(rows, np.uint64), block=block).tolist()
    return found


def words(key: Key, row: int, block: int) -> list[int]:
    """Return what one block must draw by the table of the module, from the known-answer generator."""
    counter = [[block, row, key.shard + (int(key.tag) << 24), key.epoch]]
    w0, w1, w2, w3 = philox4x32(
        np.array(counter, np.uint64), (key.seed % 2**32, key.seed // 2**32)
    ).tolist()[0]
    return [w0 + (w1 << 32), w2 + (w3 << 32)]


@pytest.mark.parametrize("name", KNOWN_ANSWERS)
def test_philox_gives_the_known_answers(name: str) -> None:
    counter, key, output = KNOWN_ANSWERS[name]
    assert philox4x32(np.array([counter], np.uint64), key).tolist() == [list(output)]


def test_philox_gives_each_counter_its_own_answer_in_a_batch() -> None:
    counters = np.array([[5, 6, 7, 8], [0, 0, 0, 0], [8, 7, 6, 5]], np.uint64)
    before = counters.copy()
    batch = philox4x32(counters, (0, 0))
    assert batch[1].tolist() == list(KNOWN_ANSWERS["zeros"][2])
    for row in range(3):
        assert (batch[row] == philox4x32(counters[row : row + 1], (0, 0))[0]).all()
    assert (counters == before).all()


@settings(deadline=None, derandomize=True, max_examples=examples(50))
@given(KEYS, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_the_fields_of_a_key_are_packed_as_the_table_says(key: Key, row: int, block: int) -> None:
    assert draws(key, row, block=block) == [words(key, row, block)]


def test_no_two_streams_share_a_block() -> None:
    edges = (0, 1, 2**24 - 1)
    found = [
        tuple(draws(Key(seed, epoch, shard, OrderTag.ROWS), row, block=block)[0])
        for seed, epoch, shard, row, block in product((*edges, 2**32, 2**63), edges, edges, edges, edges)
    ]
    assert len(found) == 5 * 3**4
    assert len(set(found)) == len(found)


def test_a_draw_is_golden() -> None:
    assert draws(Key(7, 1, 2, OrderTag.ROWS), 0, 3) == GOLDEN_DRAWS


@pytest.mark.parametrize(
    "fields", [(-1, 0, 0), (2**64, 0, 0), (0, 2**32, 0), (0, 0, MAX_SHARDS), (0, -1, 0), (0, 0, -1)]
)
def test_a_field_that_does_not_fit_its_bits_is_refused(fields: tuple[int, int, int]) -> None:
    with pytest.raises(AssertionError):
        Key(*fields, OrderTag.ROWS)


def test_tags_fit_their_eight_bits_and_are_distinct() -> None:
    numbers = [int(tag) for tag in TAGS]
    assert {1, 4, 32} < set(numbers)
    assert len(set(numbers)) == len(numbers)
    assert not {2, 3} & set(numbers), "retired"
    assert all(0 < number < 256 for number in numbers)


@settings(deadline=None, derandomize=True, max_examples=examples(30))
@given(KEYS, st.integers(0, 300))
def test_a_permutation_holds_every_number_once(key: Key, size: int) -> None:
    assert sorted(permutation(key, size).tolist()) == list(range(size))


def test_a_permutation_is_golden_and_another_for_each_field() -> None:
    base = Key(7, 0, 0, OrderTag.ROWS)
    assert permutation(base, 8).tolist() == GOLDEN_PERMUTATION
    others = [Key(8, 0, 0, OrderTag.ROWS), Key(7, 1, 0, OrderTag.ROWS), Key(7, 0, 1, OrderTag.ROWS)]
    orders = {tuple(permutation(key, 100).tolist()) for key in (base, *others)}
    assert len(orders) == 4


def test_permutations_are_uniform() -> None:
    counts = np.zeros(24, np.int64)
    for shard in range(2_400):
        order = permutation(Key(3, 0, shard, OrderTag.ROWS), 4)
        counts[rank(order)] += 1
    assert float(((counts - 100) ** 2 / 100).sum()) < 49.7  # chi-square, 23 degrees, p = 0.001


def rank(order: NDArray[np.int64]) -> int:
    """Return the number of a permutation of four among all 24."""
    left, number = [0, 1, 2, 3], 0
    for place, value in enumerate(order.tolist()):
        number = number * (4 - place) + left.index(value)
        left.remove(value)
    return number


@pytest.mark.parametrize("purpose", Purpose)
def test_hashes_of_documents_are_golden(purpose: Purpose) -> None:
    assert document_hash(IDENTITY, 7, purpose=purpose) == GOLDEN_HASHES[purpose]


def test_each_part_of_a_document_hash_counts() -> None:
    hashes = {
        document_hash(identity, seed, purpose=purpose, copy=copy)
        for identity in (IDENTITY, bytes(16))
        for seed in (0, 7, 2**63)
        for purpose in Purpose
        for copy in (0, 1, 2**32 - 1)
    }
    assert len(hashes) == 2 * 3 * len(Purpose) * 3


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=8), st.integers(1, 2**32 - 1))
def test_scaling_is_the_exact_product(numbers: list[int], size: int) -> None:
    found = scale(np.array([*numbers, 0, 2**64 - 1], np.uint64), size)
    assert found.tolist() == [number * size >> 64 for number in (*numbers, 0, 2**64 - 1)]


@given(st.integers(1, 2**32 - 1), st.data())
def test_scaling_changes_where_the_product_does(size: int, data: st.DataObject) -> None:
    number = data.draw(st.integers(1, size - 1)) if size > 1 else 0
    first = -(-(number << 64) // size)
    found = scale(np.array([first, max(first - 1, 0)], np.uint64), size)
    assert found.tolist() == [number, max(number - 1, 0)]


def test_each_row_may_have_a_block_of_its_own() -> None:
    key = Key(7, 3, 5, MaskTag.LEADING)
    together = draw_u64(key, np.array([4, 9, 4], np.uint64), block=np.array([0, 1, 2], np.uint64))
    assert together.tolist() == [
        draws(key, row, block=block)[0] for row, block in ((4, 0), (9, 1), (4, 2))
    ]


def test_shards_of_both_splits_key_draws_of_their_own() -> None:
    assert [shard_field("train", number) for number in (0, 2)] == [0, 2]
    assert [shard_field("validation", number) for number in (0, 2)] == [MAX_SHARDS - 1, MAX_SHARDS - 3]


def test_no_global_generator_is_touched() -> None:
    python = random.getstate()
    numpy_state = str(np.random.get_state())  # noqa: NPY002  # the state that must stay as it is
    permutation(Key(1, 2, 3, OrderTag.ROWS), 100)
    document_hash(IDENTITY, 1, purpose=Purpose.SHARD)
    first = permutation(Key(1, 2, 3, OrderTag.ROWS), 50)
    assert random.getstate() == python
    assert str(np.random.get_state()) == numpy_state  # noqa: NPY002
    random.seed(5)
    assert (permutation(Key(1, 2, 3, OrderTag.ROWS), 50) == first).all()
    random.setstate(python)


@pytest.mark.parametrize(
    ("probability", "bound"),
    [(0.0, 0), (0.5, 1 << 63), (0.25, 1 << 62), (1.0, 1 << 64), (2.0**-64, 1), (2.0**-65, 0)],
)
def test_a_threshold_is_the_probability_in_64_bits(probability: float, bound: int) -> None:
    assert threshold(probability) == bound


def test_thresholds_rise_with_the_probability() -> None:
    bounds = [threshold(step / 1000) for step in range(1001)]
    assert all(low < high for low, high in pairwise(bounds))


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_no_probability_is_no_threshold(probability: float) -> None:
    with pytest.raises(AssertionError):
        threshold(probability)
