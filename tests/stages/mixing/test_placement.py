"""What placement promises.

A document's shard, order and side of the split are functions of its id and the seed alone: even over
shards, never changed by other documents, and each independent of the others.
"""

from itertools import pairwise

import numpy as np
import pytest
from pydantic import ValidationError

from stages.mixing.placement import (
    MAX_DOCUMENTS,
    ValidationConfig,
    component_hash,
    is_candidate,
    num_shards,
    order_of,
    shard_of,
    validation_hash,
)
from stages.seeding import Purpose, document_hash

IDS = [number.to_bytes(16, "big") for number in range(8_000)]
GOLDEN_SHARDS = [705, 558, 832, 155, 397, 402]
GOLDEN_ORDER = 10952842713257662985


def shards(seed: int, count: int, copy: int = 0) -> list[int]:
    """Return the shard of every id."""
    return [shard_of(identity, seed, copy=copy, shards=count) for identity in IDS]


def held_out(fraction: float, seed: int = 7) -> set[bytes]:
    """Return the clusters that may be held out."""
    config = ValidationConfig(fraction=fraction)
    return {identity for identity in IDS if is_candidate(identity, seed, config=config)}


def test_places_are_golden() -> None:
    assert shards(7, 1_000)[:6] == GOLDEN_SHARDS
    assert order_of(IDS[0], 7, copy=0) == GOLDEN_ORDER
    assert validation_hash(IDS[0], 7) == 6329814470967119006
    assert component_hash(IDS[0], 7, copy=0) == 10293055270654719797
    assert component_hash(IDS[0], 7, copy=1) == 17291883179589168400


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_documents_spread_evenly_over_shards(count: int) -> None:
    counts = np.bincount(shards(7, count), minlength=count)
    assert len(counts) == count
    even = len(IDS) / count
    assert float(((counts - even) ** 2 / even).sum()) < count + 4 * (2 * count) ** 0.5


def test_seed_and_copy_change_the_shard_and_nothing_else_does() -> None:
    base = shards(7, 1_000)
    assert base == shards(7, 1_000)
    for other in (shards(8, 1_000), shards(7, 1_000, copy=1)):
        assert sum(a == b for a, b in zip(base, other, strict=True)) < 30


def test_shard_order_split_component_and_sample_are_independent() -> None:
    columns = np.array(
        [
            [
                shard_of(i, 7, copy=0, shards=1 << 32),
                order_of(i, 7, copy=0) >> 32,
                validation_hash(i, 7) >> 32,
                component_hash(i, 7, copy=0) >> 32,
                component_hash(i, 7, copy=1) >> 32,
                document_hash(i, 7, purpose=Purpose.SAMPLE) >> 32,
            ]
            for i in IDS
        ],
        np.float64,
    )
    correlation = np.corrcoef(columns, rowvar=False)
    assert np.abs(correlation - np.eye(6)).max() < 0.05


def test_orders_differ() -> None:
    assert len({order_of(identity, 7, copy=0) for identity in IDS}) == len(IDS)


def test_a_larger_fraction_only_adds_candidates() -> None:
    sides = [held_out(fraction) for fraction in (0.0, 0.001, 0.01, 0.1, 0.3, 0.5)]
    assert sides[0] == set()
    assert all(a < b for a, b in pairwise(sides))
    assert abs(len(sides[-1]) - 4_000) < 4 * 2_000**0.5
    assert abs(len(sides[3]) - 800) < 4 * 720**0.5


def test_another_seed_holds_out_others() -> None:
    assert abs(len(held_out(0.5) & held_out(0.5, seed=8)) - 2_000) < 200


@pytest.mark.parametrize(
    ("kept_bytes", "shard_size", "expected"),
    [
        (0, 100, 1),
        (1, 100, 1),
        (100, 100, 1),
        (101, 100, 2),
        (1_000, 100, 10),
        (10**15 + 1, 10**9, 10**6 + 1),
    ],
)
def test_shards_follow_from_kept_bytes(kept_bytes: int, shard_size: int, expected: int) -> None:
    assert num_shards(kept_bytes, shard_size=shard_size) == expected


@pytest.mark.parametrize("over", [0, 1])
def test_short_documents_make_more_shards(over: int) -> None:
    documents = 3 * MAX_DOCUMENTS + over
    assert num_shards(1_000, shard_size=1_000, documents=documents) == 3 + over
    assert num_shards(9_000, shard_size=1_000, documents=documents) == 9


@pytest.mark.parametrize("wrong", [{"fraction": -0.1}, {"fraction": 0.6}, {"max_tokens": 0}])
def test_a_split_out_of_bounds_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        ValidationConfig.model_validate(wrong)
