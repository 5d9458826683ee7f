"""What the loader promises of worker processes.

Forked or spawned, one or several, they give the rows that this process gives, in the same order; a state
taken between two batches is that of the batches that came out; a trainer that stops and goes on misses
no row, even where workers were killed. A loop over a `Loader` ends where one over its `Batches` does.
What other processes get of a dataset is no copy of its rows.
"""

import multiprocessing
import pickle
import signal
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from stages.errors import ConfigError, FormatError
from stages.loading import split_reader
from stages.loading.batches import Batches
from stages.loading.dataset import ShardDataset, open_dataset
from stages.loading.drawn import check_digests
from stages.loading.torch_loader import Loader
from stages.store.digests import FileDigest
from tests.campaign import FULL, some_of
from tests.stages.loading.test_batches import numbered
from tests.stages.loading.test_dataset import SHARD, write_dataset

pytestmark = pytest.mark.slow

STARTS = ["fork", "spawn"]


def firsts(loader: Loader | Batches) -> list[list[int]]:
    """Return the first ids of the rows of each batch that is left of the epoch."""
    return [batch["input_ids"][:, 0].tolist() for batch in loader]


@pytest.mark.parametrize("start", some_of(STARTS, 1))  # a spawned one: `test_moved_folders`
def test_workers_give_what_this_process_gives(tmp_path: Path, start: str) -> None:
    rows = numbered(tmp_path, 23)
    expected = [firsts(Loader(Batches(rows, 3, last="pad"))), firsts(Loader(Batches(rows, 3)))]
    rows[0]  # maps a shard before the process is forked
    workers = 1 if start == "spawn" else 2  # each imports torch, which takes seconds
    loader = Loader(Batches(rows, 3, last="pad"), num_workers=workers, start=start)  # type: ignore[arg-type]
    assert firsts(loader) == expected[0]
    if start == "spawn":
        return
    other = firsts(loader)
    assert other != expected[0]
    assert sorted(chain(*other)) == sorted(chain(*expected[0]))


def test_a_state_is_that_of_what_came_out_and_not_of_what_is_read_ahead(tmp_path: Path) -> None:
    rows = numbered(tmp_path, 40)
    expected = firsts(Loader(Batches(rows, 2)))
    loader = Loader(Batches(rows, 2), num_workers=2)
    got = []
    for batch in loader:
        got.append(batch["input_ids"][:, 0].tolist())
        if len(got) == 3:
            break
    state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (0, 6)
    again = Loader(Batches(rows, 2), num_workers=1)
    again.load_state_dict(state)
    assert (len(again), again.remaining) == (20, 17)
    assert got + firsts(again) == expected
    assert got + firsts(loader) == expected  # whoever broke off may also simply go on


def test_columns_become_tensors_that_embeddings_and_losses_take(tmp_path: Path) -> None:
    batch = next(iter(Loader(Batches(numbered(tmp_path, 4), 4))))
    assert set(batch) == {"input_ids", "labels", "position_ids", "segment_ids"}
    assert {column.dtype for column in batch.values()} == {torch.int64}


def test_a_plain_dataloader_takes_batches_by_number(tmp_path: Path) -> None:
    walk = Batches(numbered(tmp_path, 20), 4)
    loader: DataLoader[dict[str, torch.Tensor]] = DataLoader(walk, batch_size=None)  # type: ignore[arg-type]
    assert [batch["input_ids"][:, 0].tolist() for batch in loader] == firsts(Loader(walk))


def test_a_pickled_dataset_holds_no_rows_and_reads_the_same(tmp_path: Path) -> None:
    documents = [[[10 + number % 90] * 6] for number in range(3000)]
    rows = open_dataset(write_dataset(tmp_path, (documents,)))
    fresh = len(pickle.dumps(rows))
    expected = rows.batch(np.arange(500))["input_ids"]
    assert len(pickle.dumps(rows)) < fresh + 3000 * 8 + 1000  # an order at most
    again: ShardDataset = pickle.loads(pickle.dumps(rows))  # noqa: S301  # our own bytes
    assert again.batch(np.arange(500))["input_ids"].tolist() == expected.tolist()


@pytest.mark.parametrize("start", some_of(STARTS, 1))
def test_a_worker_refuses_a_flipped_bit_too(tmp_path: Path, start: str) -> None:
    path = write_dataset(tmp_path)
    file = path / SHARD / "input_ids.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    before = set(multiprocessing.active_children())
    loader = Loader(Batches(open_dataset(path), 5), num_workers=1, start=start)  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="its bytes are not those of the manifest"):
        list(loader)
    assert (
        not set(multiprocessing.active_children()) - before
    )  # torch would wait 5 s for each, some time later


@pytest.mark.parametrize(("workers", "mapped"), [(0, 128), (1, 128), (0, 1)])
def test_files_are_hashed_once_however_many_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, mapped: int
) -> None:
    monkeypatch.setattr(split_reader, "MAX_OPEN_SHARDS", mapped)  # 1 maps each shard again and again
    rows = numbered(tmp_path, 12)
    count = tmp_path / "hashed"

    def counted(folder: Path, files: dict[str, FileDigest]) -> None:
        with count.open("a") as file:
            file.write("x")
        check_digests(folder, files)

    monkeypatch.setattr(split_reader, "check_digests", counted)  # a forked worker has it too
    loader = Loader(Batches(rows, 3), num_workers=workers, start="fork")
    epochs = [firsts(loader) for _ in range(3)]
    assert [sorted(chain(*epoch)) for epoch in epochs] == [list(range(10, 22))] * 3
    assert len({tuple(chain(*epoch)) for epoch in epochs}) == 3
    assert count.read_text() == "x" * len(rows.manifest.shards)


def test_a_loader_whose_walk_was_moved_goes_on_from_there(tmp_path: Path) -> None:
    rows = numbered(tmp_path, 12)
    expected = [firsts(Loader(Batches(rows, 3)))]
    loader = Loader(Batches(rows, 3), num_workers=1)
    next(iter(loader))
    state = loader.state_dict()
    firsts(loader)
    loader.load_state_dict(state)
    assert firsts(loader) == expected[0][1:]
    loader.batches.set_epoch(0)
    assert firsts(loader) == expected[0]


LOOPS: dict[str, Callable[[Batches], Loader | Batches]] = {
    "batches": lambda walk: walk,
    "loader": Loader,
    "workers": partial(Loader, num_workers=1),
}
"""What goes through a walk in a loop."""
MOVES: dict[str, Callable[[Batches], None]] = {
    "set_epoch": lambda walk: walk.set_epoch(3),
    "load_state_dict": lambda walk: walk.load_state_dict(walk.state_dict(1)),
    "advance": lambda walk: walk.advance(6),
}


@pytest.mark.parametrize(
    ("made", "move"),
    [
        (made, move)
        for made in LOOPS
        for move in MOVES
        if FULL or made != "workers" or move == "load_state_dict"  # each forks a process
    ],
)
def test_a_walk_that_is_moved_inside_a_loop_ends_it_and_the_next_goes_on_there(
    tmp_path: Path, made: str, move: str
) -> None:
    walk = Batches(numbered(tmp_path, 12), 3)
    loop, given = LOOPS[made](walk), []
    before = [walk[step]["input_ids"][:, 0].tolist() for step in range(2)]
    for batch in loop:
        given.append(batch["input_ids"][:, 0].tolist())
        assert walk.place() == (0, 3 * len(given))
        if len(given) == 2:
            MOVES[move](walk)
            moved = walk.place()
    assert given == before
    assert walk.place() == moved != (0, 6)
    after = [walk[step]["input_ids"][:, 0].tolist() for step in range(len(walk))]
    assert after
    assert firsts(loop) == after


@pytest.mark.parametrize("made", LOOPS)
def test_of_two_loops_the_last_one_goes_on(tmp_path: Path, made: str) -> None:
    rows = numbered(tmp_path, 12)
    expected = firsts(Loader(Batches(rows, 3)))
    walk = Batches(rows, 3)
    loop = LOOPS[made](walk)
    first, second = iter(loop), iter(loop)
    got: list[Any] = [next(first), next(second), *first, next(second), *first, *second]
    assert [batch["input_ids"][:, 0].tolist() for batch in got] == expected
    assert walk.epoch == 1


@pytest.mark.parametrize("made", LOOPS)
def test_a_loop_that_another_followed_ends_even_where_its_own_place_is_loaded(
    tmp_path: Path, made: str
) -> None:
    rows = numbered(tmp_path, 12)
    expected = firsts(Loader(Batches(rows, 2)))
    loop = LOOPS[made](Batches(rows, 2))
    first = iter(loop)
    next(first)
    state = loop.state_dict()
    second = iter(loop)
    next(second)
    loop.load_state_dict(state)
    assert list(first) == []
    assert firsts(loop) == expected[1:]


@pytest.mark.parametrize(
    ("killed", "within"),
    some_of([(1, "the loop"), (1, "no loop"), (2, "no loop"), (2, "the loop")], 2),
)
def test_a_loader_whose_workers_were_killed_goes_on_in_the_next_loop_where_its_state_says(
    tmp_path: Path, killed: int, within: str
) -> None:
    rows = numbered(tmp_path, 60)
    expected = firsts(Loader(Batches(rows, 2)))
    before = set(multiprocessing.active_children())
    loader = Loader(Batches(rows, 2), num_workers=2, start="fork")
    loop = iter(loader)
    got: list[list[int]] = []
    add_firsts(got, islice(loop, 3))
    kill({*multiprocessing.active_children()} - before, killed)
    if within == "the loop":
        with pytest.raises((RuntimeError, OSError)):  # torch's own error, or one of the pipe
            add_firsts(got, loop)
    assert loader.state_dict()["position"] == 2 * len(got) < 60
    assert got + firsts(loader) == expected


def add_firsts(got: list[list[int]], batches: Iterable[dict[str, torch.Tensor]]) -> None:
    """Add the first ids of the rows of each batch, as many as come."""
    for batch in batches:
        got.append(batch["input_ids"][:, 0].tolist())  # noqa: PERF401  # those before an error stay


def kill(workers: set[multiprocessing.process.BaseProcess], number: int) -> None:
    """Kill so many workers, and wait for their end, unseen by torch's handler of the signal."""
    assert len(workers) == 2
    handler = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for worker in list(workers)[:number]:
        worker.kill()
        worker.join()
    signal.signal(signal.SIGCHLD, handler)


@pytest.mark.parametrize("counted", [0, 2, 5])
def test_a_trainer_that_sets_its_epoch_does_not_undo_a_loaded_state(
    tmp_path: Path, counted: int
) -> None:
    rows = numbered(tmp_path, 12)
    whole = Loader(Batches(rows, 3))
    epochs = [firsts(whole) for _ in range(5)]
    first = Loader(Batches(rows, 3))
    first.batches.set_epoch(2)
    next(iter(first))
    loader = Loader(Batches(rows, 3))
    loader.load_state_dict(first.state_dict())
    loader.set_epoch(counted)
    assert firsts(loader) == epochs[2][1:]
    for ahead in (1, 2):
        loader.set_epoch(counted + ahead)
        assert firsts(loader) == epochs[2 + ahead]
    loader.set_epoch(counted)
    assert firsts(loader) == epochs[2]


def test_a_loader_that_was_closed_has_no_workers_and_goes_on_with_new_ones(tmp_path: Path) -> None:
    rows = numbered(tmp_path, 30)
    expected = firsts(Loader(Batches(rows, 3)))
    loader = Loader(Batches(rows, 3), num_workers=2)
    others = set(multiprocessing.active_children())  # of a loader that waits to be collected
    batches = iter(loader)
    got = firsts(islice(batches, 4))  # type: ignore[arg-type]
    first = set(multiprocessing.active_children()) - others
    assert len(first) == 2
    batches.close()  # type: ignore[attr-defined]
    loader.close()
    assert not first & set(multiprocessing.active_children())
    assert got + firsts(loader) == expected


def test_tensors_are_pinned_where_there_is_a_gpu_to_pin_them_for(tmp_path: Path) -> None:
    loader = Loader(Batches(numbered(tmp_path, 4), 4), pin_memory=True)
    if torch.cuda.is_available():
        assert all(column.is_pinned() for batch in loader for column in batch.values())
    else:
        with pytest.warns(UserWarning, match="pin_memory"):
            list(loader)


def test_a_loader_that_has_workers_can_be_sent_elsewhere(tmp_path: Path) -> None:
    loader = Loader(Batches(numbered(tmp_path, 12), 3), num_workers=1)
    next(iter(loader))
    again: Loader = pickle.loads(pickle.dumps(loader))  # noqa: S301  # our own bytes
    assert firsts(again) == firsts(loader)


@pytest.mark.parametrize("more", [0, 1])
def test_a_temporary_folder_in_which_workers_can_make_no_socket_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    rows = Batches(numbered(tmp_path, 4), 2)
    with TemporaryDirectory() as short:
        folder = Path(short) / ("x" * (74 - len(short) + more))
        folder.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(folder))
        kept = multiprocessing.current_process()._config  # type: ignore[attr-defined]  # noqa: SLF001
        monkeypatch.setitem(kept, "tempdir", None)
        if not more:
            assert len(list(Loader(rows, num_workers=1, start="fork"))) == 2
        else:
            with pytest.raises(
                ConfigError, match="set TMPDIR to a folder whose path has at most 75 bytes"
            ):
                Loader(rows, num_workers=1, start="fork")
            assert len(list(Loader(rows))) == 2
