"""What bounded mappings promise: the least recently used goes, and threads may share them."""

import pickle
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from stages.loading import split_reader
from stages.loading.dataset import open_dataset
from stages.loading.lru_cache import LruCache
from tests.stages.loading.test_dataset import EOS, write_dataset

THREADS, SHARDS, BATCHES = 4, 24, 100


@pytest.fixture
def _impatient() -> Iterator[None]:
    """Let threads take turns every ten microseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_the_least_recently_used_goes() -> None:
    made: list[int] = []

    def double(key: int) -> int:
        made.append(key)
        return 2 * key

    kept: LruCache[int, int] = LruCache(2)
    assert [kept.get(key, double) for key in (1, 2, 1, 3, 1, 2)] == [2, 4, 2, 6, 2, 4]
    assert made == [1, 2, 3, 2]
    assert len(kept) == 2


def test_a_bound_that_was_lowered_holds_from_the_next_value_on() -> None:
    kept: LruCache[int, int] = LruCache(9)
    for key in range(9):
        kept.get(key, abs)
    kept.bound = 2
    kept.get(8, abs)
    assert len(kept) == 2


def test_a_copy_for_another_process_is_empty_and_has_the_bound() -> None:
    kept: LruCache[int, int] = LruCache(3)
    kept.get(1, abs)
    again: LruCache[int, int] = pickle.loads(pickle.dumps(kept))  # noqa: S301  # our own bytes
    assert (len(kept), len(again), again.bound) == (1, 0, 3)


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("bound", [1, 2, 5])
def test_threads_share_few_mappings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: int) -> None:
    shards = tuple([[[100 + number, EOS]]] for number in range(SHARDS))
    path = write_dataset(tmp_path, shards)
    monkeypatch.setattr(split_reader, "MAX_OPEN_SHARDS", bound)
    dataset = open_dataset(path, check="size", shuffle=False)

    def firsts(number: int) -> list[int]:
        some = np.random.default_rng(number).integers(0, SHARDS, 5)
        found: list[int] = (dataset.batch(some)["input_ids"][:, 0] - 100 - some).tolist()
        return found

    assert firsts(BATCHES) == [0] * 5  # compiles what it needs before there are many
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(firsts, range(BATCHES)))
    assert found == [[0] * 5] * BATCHES
    assert len(dataset.reader._mapped) <= bound  # noqa: SLF001  # the bound itself
