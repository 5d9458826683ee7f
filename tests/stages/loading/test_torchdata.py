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
