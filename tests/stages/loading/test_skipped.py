"""What a loader promises to trainers that resume by skipping batches.

`skip_first_batches` of accelerate, which the Trainer of transformers calls, gives the batches of the
current epoch from a number on, from any number of workers. No skipped row is read. The loader stands
behind what came out, and its length never depends on where it stands.
"""

from collections.abc import Iterable
from typing import Any

import pytest
from accelerate import skip_first_batches

from stages.errors import ConfigError
from stages.loading.batches import Batches, Last
from stages.loading.dataset import ShardDataset
from stages.loading.sequence import Sequence
from stages.loading.stage import Stage
from stages.loading.torch_loader import Loader, validation_loader
from tests.campaign import some_of
from tests.stages.loading.test_batches import numbered
from tests.stages.loading.test_dataset import PAD

pytestmark = pytest.mark.slow
ROWS, SIZE = 11, 3


def firsts(batches: Iterable[Any]) -> list[list[int]]:
    """Return the first ids of the rows of each batch."""
    return [batch["input_ids"][:, 0].tolist() for batch in batches]


def epochs_of(rows: ShardDataset, last: Last, count: int) -> list[list[list[int]]]:
    """Return the batches of some epochs."""
    loader = Loader(Batches(rows, SIZE, last=last))
    return [firsts(loader) for _ in range(count)]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> ShardDataset:
    return numbered(tmp_path_factory.mktemp("skipped"), ROWS)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("last", ["drop", "pad"])
@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_a_fresh_loader_skips_to_any_batch_of_any_epoch(
    rows: ShardDataset, last: Last, epoch: int, workers: int
) -> None:
    wanted = epochs_of(rows, last, epoch + 2)
    numbers = range(len(wanted[epoch]))
    for skipped in numbers if workers == 0 else some_of([*numbers], 1):
        loader = Loader(Batches(rows, SIZE, last=last), num_workers=workers)
        loader.set_epoch(epoch)
        left = skip_first_batches(loader, skipped)
        assert firsts(left) == wanted[epoch][skipped:]
        assert firsts(loader) == wanted[epoch + 1]


def test_the_epoch_may_be_set_after_the_skip_by_way_of_the_sampler(rows: ShardDataset) -> None:
    wanted = epochs_of(rows, "drop", 3)
    loader = Loader(Batches(rows, SIZE))
    left = skip_first_batches(loader, 2)
    left.batch_sampler.batch_sampler.set_epoch(2)
    assert firsts(left) == wanted[2][2:]


def test_skipped_rows_are_not_read(rows: ShardDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    at = type(rows).at

    def counted(self: ShardDataset, epoch: int, positions: Any) -> Any:
        read.extend(positions.tolist())
        return at(self, epoch, positions)

    monkeypatch.setattr(type(rows), "at", counted)
    assert len(firsts(skip_first_batches(Loader(Batches(rows, SIZE)), 2))) == 1
    assert read == [6, 7, 8]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_state_while_batches_are_skipped_is_that_of_what_came_out(
    rows: ShardDataset, workers: int
) -> None:
    wanted = epochs_of(rows, "pad", 2)
    loader = Loader(Batches(rows, SIZE, last="pad"), num_workers=workers)
    loader.set_epoch(1)
    taken = next(iter(skip_first_batches(loader, 1)))
    assert firsts([taken]) == wanted[1][1:2]
    again = Loader(Batches(rows, SIZE, last="pad"))
    again.load_state_dict(loader.state_dict())
    assert firsts(again) == wanted[1][2:]


def test_a_state_that_was_loaded_too_is_not_skipped_twice(rows: ShardDataset) -> None:
    wanted = epochs_of(rows, "drop", 2)
    first = Loader(Batches(rows, SIZE))
    first.set_epoch(1)
    next(iter(first))
    loader = Loader(Batches(rows, SIZE))
    loader.load_state_dict(first.state_dict())
    loader.set_epoch(1)
    assert firsts(skip_first_batches(loader, 1)) == wanted[1][1:]


@pytest.mark.parametrize("last", ["drop", "pad", "carry"])
def test_the_length_is_that_of_the_whole_epoch_wherever_it_stands(
    rows: ShardDataset, last: Last
) -> None:
    loader = Loader(Batches(rows, SIZE, last=last))
    for _ in range(4):
        whole = loader.remaining
        for taken, _batch in enumerate(loader, 1):
            if taken < whole:
                assert (len(loader), loader.remaining) == (whole, whole - taken)


def test_epochs_are_counted_from_the_one_that_the_dataset_was_opened_in(rows: ShardDataset) -> None:
    wanted = epochs_of(rows, "drop", 4)
    rows.set_epoch(2)
    loader = Loader(Batches(rows, SIZE))
    rows.set_epoch(0)
    loader.set_epoch(0)
    assert firsts(loader) == wanted[2]
    loader.set_epoch(1)
    assert firsts(loader) == wanted[3]
    loader.set_epoch(0)
    assert firsts(loader) == wanted[2]


def test_epochs_of_different_lengths_are_refused_where_a_trainer_counts_them_as_equal(
    rows: ShardDataset,
) -> None:
    loader = Loader(Batches(rows, SIZE, last="carry"))
    loader.set_epoch(0)
    with pytest.raises(ConfigError, match='epoch 2: with last="carry" and 11 rows an epoch'):
        loader.set_epoch(2)
    even = Loader(Batches(rows, 1, last="carry"))
    even.set_epoch(2)
    assert even.batches.place() == (2, 0)


@pytest.mark.parametrize("workers", [0, 2])
def test_stages_are_skipped_as_one_epoch(rows: ShardDataset, workers: int) -> None:
    def loader() -> Loader[Sequence]:
        stages = [Stage(rows, 3, epochs=2, name="one"), Stage(rows, 2, steps=4, name="two")]
        return Loader(Sequence(stages), num_workers=workers)

    whole = loader()
    wanted = firsts(whole)
    assert len(whole) == len(wanted) == 7 + 4
    assert whole.remaining == 0
    numbers = range(len(wanted))
    for skipped in numbers if workers == 0 else some_of([*numbers], 1):
        resumed = loader()
        resumed.set_epoch(0)
        assert firsts(skip_first_batches(resumed, skipped)) == wanted[skipped:]
        assert len(resumed) == len(wanted)
    whole.set_epoch(0)
    assert firsts(whole) == wanted
    whole.set_epoch(1)
    assert firsts(whole) == []


def test_a_loader_that_something_else_moves_says_so(rows: ShardDataset) -> None:
    loader = Loader(Batches(rows, SIZE))
    left = iter(skip_first_batches(loader, 1))
    next(left)
    loader.batches.advance()
    with pytest.raises(IndexError, match="batch 2: the epoch is over, or the loader was moved"):
        next(left)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_validation_begins_anew_each_time(rows: ShardDataset, workers: int) -> None:
    loader = validation_loader(rows, 4, num_workers=workers)
    wanted = [[number for number in batch if number != PAD] for batch in firsts(loader)]
    assert sorted(number for batch in wanted for number in batch) == [10 + n for n in range(ROWS)]
    for _ in range(2):
        assert [[number for number in batch if number != PAD] for batch in firsts(loader)] == wanted
    next(iter(loader))
    assert [[number for number in batch if number != PAD] for batch in firsts(loader)] == wanted
    parts = [validation_loader(rows, 2, rank=rank, world_size=3) for rank in range(3)]
    assert [len(part) for part in parts] == [2, 2, 2]
    shared = [number for part in parts for batch in firsts(part) for number in batch if number != PAD]
    assert sorted(shared) == [10 + n for n in range(ROWS)]
