"""What a loader promises that is used more than once: a second training, a copy, a closed loop."""

import itertools
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from stages.errors import ConfigError, FormatError
from stages.loading.batches import Batches
from stages.loading.dataset import ShardDataset
from stages.loading.grown import open_dataset
from stages.loading.sequence import Sequence
from stages.loading.stage import Stage
from stages.loading.torch_loader import Loader
from tests.stages.loading.test_batches import numbered
from tests.stages.loading.test_dataset import write_dataset
from tests.stages.loading.test_drawn_epochs import with_epochs
from tests.stages.loading.test_skipped import ROWS, SIZE, firsts


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> ShardDataset:
    return numbered(tmp_path_factory.mktemp("again"), ROWS)


def some(loader: Loader[Any], count: int) -> list[list[int]]:
    """Return the first ids of so many batches, and leave the loop there."""
    return firsts(itertools.islice(loader, count))


@pytest.mark.parametrize("taken", [0, 1, 2, 3])
@pytest.mark.parametrize("epoch", [0, 2])
def test_a_second_training_begins_with_the_first_batch(
    rows: ShardDataset, epoch: int, taken: int
) -> None:
    loader = Loader(Batches(rows, SIZE))
    loader.set_epoch(epoch)
    whole = firsts(loader)
    loader.set_epoch(epoch)
    assert some(loader, taken) == whole[:taken]
    loader.set_epoch(epoch)
    assert firsts(loader) == whole


def test_the_epoch_of_a_state_is_told_once(rows: ShardDataset) -> None:
    first = Loader(Batches(rows, SIZE))
    whole = [firsts(first), firsts(first)]
    first.set_epoch(0)
    some(first, 1)
    loader = Loader(Batches(rows, SIZE))
    loader.load_state_dict(first.state_dict())
    loader.set_epoch(0)  # of a trainer that resumes: the state stays
    assert some(loader, 1) == whole[0][1:2]
    loader.set_epoch(0)  # of one that trains once more
    assert firsts(loader) == whole[0]
    loader.set_epoch(1)
    assert firsts(loader) == whole[1]


def test_a_second_training_gives_all_stages_again(rows: ShardDataset) -> None:
    loader = Loader(Sequence([Stage(rows, 1, steps=2, name="a"), Stage(rows, 2, epochs=1, name="b")]))
    loader.set_epoch(0)
    whole = firsts(loader)
    for taken in (1, 3, len(whole)):
        loader.set_epoch(0)
        assert some(loader, taken) == whole[:taken]
        loader.set_epoch(0)
        assert firsts(loader) == whole


def test_the_state_of_the_end_may_be_loaded_twice(rows: ShardDataset) -> None:
    loader = Loader(Sequence([Stage(rows, 2, epochs=1, name="a")]))
    assert firsts(loader)
    end = loader.state_dict()
    for _ in range(2):
        loader.load_state_dict(end)
        assert firsts(loader) == []
    with pytest.raises(ConfigError, match="all 5 batches were given"):
        firsts(loader)


@pytest.mark.parametrize("how", ["pickle", "fork"])
def test_a_copy_in_another_process_loads_any_state(rows: ShardDataset, how: str) -> None:
    batches, other = Batches(rows, SIZE), Batches(rows, SIZE)
    other.set_epoch(3)
    other.advance(1)
    batches.set_epoch(1)
    if how == "pickle":
        copied = pickle.loads(pickle.dumps(batches))  # noqa: S301  # our own bytes
        copied._asked = True  # noqa: SLF001  # as in the process that it came from
        copied.load_state_dict(other.state_dict())
        assert copied.place() == other.place()
        return
    child = os.fork()
    if not child:
        batches.load_state_dict(other.state_dict())
        os._exit(0 if batches.place() == other.place() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("drawn", [False, True])
def test_files_of_a_folder_that_took_the_place_of_another_are_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, drawn: bool
) -> None:
    for name in ("first", "second"):
        if drawn:
            with_epochs(tmp_path / name)
        else:
            write_dataset(tmp_path / name)
    monkeypatch.chdir(tmp_path / "first")
    rows = open_dataset(next(Path().glob("*")))
    rows[0]
    kept = pickle.dumps(rows)
    (tmp_path / "first").rename(tmp_path / "gone")
    monkeypatch.chdir(tmp_path / "second")
    for place in Path().rglob("*.npy"):
        data = bytearray(place.read_bytes())
        data[-1] ^= 1
        place.write_bytes(data)
    with pytest.raises(FormatError):
        pickle.loads(kept)[0]  # noqa: S301  # our own bytes


@pytest.mark.slow
def test_a_closed_loader_has_no_workers_though_somebody_holds_its_loop(rows: ShardDataset) -> None:
    loader = Loader(Batches(rows, SIZE), num_workers=2)
    loop = iter(loader)
    first = firsts([next(loop)])
    workers = torch.multiprocessing.active_children()
    assert len(workers) == 2
    loader.close()
    assert not torch.multiprocessing.active_children()
    assert list(loop) == []
    assert first + firsts(loader) == firsts(Loader(Batches(rows, SIZE)))
    loader.close()


def test_an_error_of_the_collate_function_is_told_as_it_is(rows: ShardDataset) -> None:
    def ends(_: object) -> Any:
        raise EOFError("of the caller's own file")

    with pytest.raises(EOFError, match="of the caller's own file"):
        next(iter(Loader(Batches(rows, SIZE), collate=ends)))
