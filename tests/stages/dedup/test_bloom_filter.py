"""What the Bloom filter promises: a yes for every key that was added, and for few others."""

import numpy as np
import pytest

from stages.dedup import bloom_filter
from stages.dedup.bloom_filter import add_keys, empty_filter, may_hold


def keys_of(seed: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return random keys."""
    return np.random.default_rng(seed).integers(1 << 64, size=count, dtype=np.uint64)


@pytest.mark.parametrize("count", [0, 1, 4, 5, 1000, 16_384, 16_385])
def test_every_added_key_is_found_and_few_others_are(count: int) -> None:
    words, added, others = empty_filter(count), keys_of(1, count), keys_of(2, 20_000)
    add_keys(words, added[::2])
    add_keys(words, added[1::2])
    assert may_hold(words, added).all()
    assert 16 * count <= 64 * len(words) <= max(64, 32 * count)
    assert np.count_nonzero(may_hold(words, others)) < 0.03 * len(others)


def test_a_filter_that_may_not_grow_lets_more_keys_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bloom_filter, "_MAX_CELLS", 64)
    words, added = empty_filter(1_000), keys_of(1, 1_000)
    add_keys(words, added)
    assert len(words) == 64
    assert may_hold(words, added).all()
    assert 0.1 < np.mean(may_hold(words, keys_of(2, 20_000))) < 0.9
