"""What torchdata's StatefulDataLoader gets: a state of its own that goes on with the rows that are left.

It asks a dataset for a state too. That of a walk which such a loader reads by number says where the walk
stands, and the loader how many batches of it are through.
"""

import json
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torchdata.stateful_dataloader import StatefulDataLoader

from stages.loading.batches import Batches
from stages.loading.dataset import ShardDataset
from tests.campaign import FULL
from tests.stages.loading.test_batches import numbered, numbers, order

pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # torchdata calls it
ROWS, EPOCH, TAKEN = 23, 2, 3
Tensors = dict[str, torch.Tensor]


def whole_batches(rows: ShardDataset, workers: int) -> StatefulDataLoader[Tensors]:
    walk = Batches(rows, 3, last="pad")
    walk.set_epoch(EPOCH)
    return StatefulDataLoader(walk, batch_size=None, num_workers=workers)


def row_by_row(rows: ShardDataset, workers: int) -> StatefulDataLoader[Tensors]:
    rows.set_epoch(EPOCH)
    return StatefulDataLoader(rows, batch_size=3, num_workers=workers)


def given(batches: Iterable[Tensors]) -> list[int]:
    """Return the numbers of the rows of batches, padding left out."""
    return [
        number for batch in batches for number in numbers({n: np.asarray(c) for n, c in batch.items()})
    ]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("loader", [whole_batches, row_by_row])
def test_a_loader_goes_on_with_the_rows_that_are_left(
    tmp_path: Path, loader: Callable[[ShardDataset, int], StatefulDataLoader[Tensors]], workers: int
) -> None:
    rows = numbered(tmp_path, ROWS)
    first = loader(rows, workers)
    before = given(islice(first, TAKEN))
    state = json.loads(json.dumps(first.state_dict()))
    again = loader(rows, workers)
    again.load_state_dict(state)
    left = given(again)
    assert (len(before), len(left)) == (TAKEN * 3, ROWS - TAKEN * 3)
    assert before + left == order(rows, EPOCH)
    assert sorted(before + left) == list(range(ROWS))


ORDERS = ("load, then set", "set, then load")
WORKERS = [(0, False), (2, False), (2, True)]
"""How many, and whether they are persistent."""


@pytest.mark.parametrize(
    ("order_of_calls", "workers", "persistent"),
    [
        (order_of_calls, *workers)
        for order_of_calls in ORDERS
        for workers in WORKERS
        if FULL
        or not workers[0]
        or (order_of_calls, workers[1]) in zip(ORDERS, (False, True), strict=True)
    ],
)
def test_the_state_of_the_end_of_an_epoch_goes_on_with_the_epoch_that_is_set(
    tmp_path: Path, order_of_calls: str, workers: int, *, persistent: bool
) -> None:
    rows = numbered(tmp_path, ROWS)

    def made() -> tuple[Batches, StatefulDataLoader[Tensors]]:
        walk = Batches(rows, 3, last="pad")
        kept = {"num_workers": workers, "persistent_workers": persistent}
        return walk, StatefulDataLoader(walk, batch_size=None, **kept)

    walk, loader = made()
    epochs = []
    for epoch in range(3):
        walk.set_epoch(epoch)
        epochs.append(given(loader))
        if epoch == 1:
            state = loader.state_dict()
    assert epochs == [order(rows, epoch) for epoch in range(3)]
    again, resumed = made()
    if order_of_calls == "load, then set":
        resumed.load_state_dict(state)
        again.set_epoch(2)
    else:
        again.set_epoch(2)
        resumed.load_state_dict(state)
    assert given(resumed) == epochs[2]
    again.set_epoch(3)
    assert given(resumed) == order(rows, 3)


@pytest.mark.parametrize(("workers", "persistent"), WORKERS)
def test_the_state_within_an_epoch_counts_although_the_epoch_is_set_again(
    tmp_path: Path, workers: int, *, persistent: bool
) -> None:
    rows = numbered(tmp_path, ROWS)
    kept = {"num_workers": workers, "persistent_workers": persistent}
    walk = Batches(rows, 3, last="pad")
    walk.set_epoch(EPOCH)
    loader: StatefulDataLoader[Tensors] = StatefulDataLoader(walk, batch_size=None, **kept)
    for taken in range(1, 8):
        before = given(islice(loader, taken))
        state = loader.state_dict()
        again = Batches(rows, 3, last="pad")
        resumed: StatefulDataLoader[Tensors] = StatefulDataLoader(again, batch_size=None, **kept)
        resumed.load_state_dict(state)
        again.set_epoch(EPOCH)
        assert before + given(resumed) == order(rows, EPOCH)
        if workers:
            break


def test_a_state_of_batches_read_by_number_is_loaded_by_who_asks_for_it(tmp_path: Path) -> None:
    rows = numbered(tmp_path, ROWS)
    walk = Batches(rows, 3)
    for step in range(len(walk)):
        walk[step]
    state = walk.state_dict()
    assert state["read"] == len(walk)
    again = Batches(rows, 3)
    again.advance(2)
    again.load_state_dict(state)
    assert again.place() == (0, 0)
    assert "read" not in walk.state_dict(2)
    walk.advance()
    assert "read" not in walk.state_dict()
