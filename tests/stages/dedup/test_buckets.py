"""What counting keys promises where one stands more often than a number has room for."""

import numpy as np

from stages.dedup.buckets import _count


def test_a_key_that_stands_two_thousand_million_times_is_still_one_key() -> None:
    table, counts = np.zeros(4, np.uint64), np.zeros(4, np.int32)
    keys = np.full(3, 2, np.uint64)
    assert _count((table, counts), 0, keys, 0) == (1, 3)
    counts[2] = np.iinfo(np.int32).max - 1
    assert _count((table, counts), 1, keys, 0) == (1, 3)
    assert counts.tolist() == [0, 0, np.iinfo(np.int32).max, 0]
