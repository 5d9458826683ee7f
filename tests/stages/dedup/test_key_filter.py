"""What a key filter promises: each key that was added passes, and few others."""

import numpy as np
import pytest

from stages.dedup.key_filter import add_keys, filter_words, passing


@pytest.mark.parametrize("count", [0, 1, 5, 1_000, 40_000])
def test_added_keys_pass_and_few_others(count: int) -> None:
    rng = np.random.default_rng(count)
    keys = rng.integers(0, 1 << 64, count, np.uint64)
    bits = np.zeros(filter_words(count), np.uint64)
    add_keys(bits, keys)
    assert passing(bits, keys).tolist() == list(range(count))
    others = rng.integers(0, 1 << 64, 20_000, np.uint64)
    plain = {(int(key) >> 6) % len(bits) * 64 + int(key) % 64 for key in keys}
    expected = [
        n for n, key in enumerate(others) if (int(key) >> 6) % len(bits) * 64 + int(key) % 64 in plain
    ]
    assert passing(bits, others).tolist() == expected
    assert len(expected) < 20_000 / 12


def test_a_filter_takes_two_to_four_bytes_for_each_key() -> None:
    assert filter_words(0) == filter_words(4) == 1
    for keys in (5, 1_000, 1_024, 1_025, 10**9):
        assert 2 * keys <= 8 * filter_words(keys) <= 4 * keys + 8
