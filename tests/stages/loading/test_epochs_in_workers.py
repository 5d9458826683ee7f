"""What `set_epoch` promises of workers that run already.

They give the rows of the new epoch, to the bit those of a dataset that is opened at it, whatever started
them and whichever trainer holds the loader; what was read ahead for another epoch does not come out.
"""

import copy
import json
import multiprocessing
import pickle
import tempfile
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset, default_collate
from torchdata.stateful_dataloader import StatefulDataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments

from stages.loading.batches import Batches
from stages.loading.blend import Blend
from stages.loading.dataset import ShardDataset, open_dataset
from tests.campaign import FULL
from tests.stages.loading.test_masked_rows import write_masked

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),  # torchdata calls it
    pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning"),  # Lightning does
    pytest.mark.filterwarnings("ignore:The .* does not have many workers"),  # it advises more
]
STARTS = {"fork": 2, "spawn": 1, "forkserver": 2}
"""How workers start, and how many: each that is spawned imports torch, which takes seconds."""
EPOCHS, SIZE = 3, 16
Rows = list[tuple[int, ...]]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of 120 masked rows."""
    return write_masked(tmp_path_factory.mktemp("masked"))


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """Let the server of forkserver import once what each worker needs."""
    needed = ["torch.utils.data", "torchdata.stateful_dataloader", "stages.loading.blend"]
    multiprocessing.set_forkserver_preload(needed)


def listed(batches: Iterable[Any]) -> Rows:
    """Return the rows of batches, each as its masked ids and its labels."""
    return [
        (*map(int, ids), *map(int, labels))
        for batch in batches
        for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True)
    ]


def fresh(path: Path, epoch: int) -> Rows:
    """Return the rows of a dataset that is opened at an epoch, in its order."""
    rows = open_dataset(path, epoch=epoch)
    return listed([rows.batch(range(len(rows)))])


def plain(rows: Any, start: str, **options: Any) -> DataLoader[Any]:
    """Return torch's loader, with workers that stay."""
    workers = {"num_workers": STARTS[start], "persistent_workers": True}
    return DataLoader(rows, multiprocessing_context=start, **{"batch_size": SIZE, **workers, **options})


def by_dataloader(rows: ShardDataset, start: str) -> list[Rows]:
    loader, epochs = plain(rows, start), []
    for epoch in range(EPOCHS):
        rows.set_epoch(epoch)
        epochs.append(listed(loader))
    return epochs


def by_stateful_dataloader(rows: ShardDataset, start: str) -> list[Rows]:
    workers = {"num_workers": STARTS[start], "persistent_workers": True}
    loader = StatefulDataLoader(rows, SIZE, multiprocessing_context=start, **workers)
    epochs = []
    for epoch in range(EPOCHS):
        rows.set_epoch(epoch)
        epochs.append(listed(loader))
    return epochs


class Recorder(nn.Module):
    """A model of one weight that keeps what it was given, by epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.epochs: list[Rows] = [[] for _ in range(EPOCHS)]
        self.epoch = 0

    def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return a loss that says nothing."""
        self.epochs[self.epoch] += listed([{"input_ids": input_ids, "labels": labels}])
        return {"loss": self.weight**2}


class SetEpoch(TrainerCallback):  # type: ignore[misc]  # transformers has few types
    """What docs/loading.md tells a Trainer to call."""

    def __init__(self, rows: ShardDataset) -> None:
        self.rows = rows

    def on_epoch_begin(self, _arguments: object, state: Any, _control: object, **inputs: Any) -> None:
        """Go to the epoch that begins."""
        inputs["model"].epoch = int(state.epoch)
        self.rows.set_epoch(int(state.epoch))


def by_transformers(rows: ShardDataset, start: str) -> list[Rows]:
    settings = TrainingArguments(
        tempfile.mkdtemp(),
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=SIZE,
        dataloader_num_workers=STARTS[start],
        dataloader_persistent_workers=True,
        dataloader_pin_memory=False,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )
    model, before = Recorder(), multiprocessing.get_start_method(allow_none=True)
    trainer = Trainer(model, settings, train_dataset=rows, callbacks=[SetEpoch(rows)])
    multiprocessing.set_start_method(start, force=True)  # a Trainer starts workers in no other way
    try:
        trainer.train()
    finally:
        multiprocessing.set_start_method(before, force=True)
    return model.epochs


class Module(lightning.LightningModule):  # type: ignore[misc]  # its types are not read
    """What docs/loading.md tells Lightning to call."""

    def __init__(self, rows: ShardDataset) -> None:
        super().__init__()
        self.model, self.rows = Recorder(), rows
        self.before_epoch: Callable[[], object] = lambda: None

    def on_train_epoch_start(self) -> None:
        """Go to the epoch that begins."""
        self.before_epoch()
        self.rows.set_epoch(self.current_epoch)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go to the epoch that goes on, of which batches are read before any other hook is called."""
        fit = checkpoint["loops"]["fit_loop"]
        finished = fit["epoch_loop.batch_progress"]["is_last_batch"]
        epochs = fit["epoch_progress"]["current"]
        self.rows.set_epoch(epochs["started"] if finished else epochs["processed"])

    def training_step(self, batch: dict[str, Tensor], _number: int) -> dict[str, Tensor]:
        """Keep the batch."""
        self.model.epoch = self.current_epoch
        given: dict[str, Tensor] = self.model(batch["input_ids"], batch["labels"])
        return given

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return an optimizer, by whose steps Lightning decides when to save."""
        return torch.optim.SGD(self.parameters(), lr=0.1)


def lightning_trainer(epochs: int, *saving: ModelCheckpoint) -> lightning.Trainer:
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    callbacks = {"callbacks": list(saving), "enable_checkpointing": bool(saving)}
    return lightning.Trainer(max_epochs=epochs, accelerator="cpu", **callbacks, **quiet)


def by_lightning(rows: ShardDataset, start: str) -> list[Rows]:
    module = Module(rows)
    lightning_trainer(EPOCHS).fit(module, plain(rows, start))
    return module.model.epochs


LOADERS: list[Callable[[ShardDataset, str], list[Rows]]] = [
    by_dataloader,
    by_stateful_dataloader,
    by_transformers,
    by_lightning,
]
CASES = [
    (loader, start)
    for loader in LOADERS
    for start in STARTS
    if FULL or start == ("forkserver" if loader is by_dataloader else "fork")
]
"""Every loader with workers started in every way; or one with a server's, and others with forks."""


@pytest.mark.parametrize(("loader", "start"), CASES)
def test_each_epoch_has_the_rows_of_a_dataset_opened_at_it(
    path: Path, loader: Callable[[ShardDataset, str], list[Rows]], start: str
) -> None:
    rows = open_dataset(path, columns=["input_ids", "labels"])
    expected = [fresh(path, epoch) for epoch in range(EPOCHS)]
    assert len({frozenset(epoch) for epoch in expected}) == EPOCHS
    given = loader(rows, start)
    if loader is by_transformers:  # it shuffles once more
        given, expected = [sorted(epoch) for epoch in given], [sorted(epoch) for epoch in expected]
    assert given == expected


def test_what_was_read_ahead_of_another_epoch_does_not_come_out(path: Path) -> None:
    rows = open_dataset(path, columns=["input_ids", "labels"])
    loader = plain(rows, "fork", prefetch_factor=4)
    assert listed(islice(loader, 1)) == fresh(path, 0)[:SIZE]
    rows.set_epoch(1)
    assert listed(islice(loader, 2)) == fresh(path, 1)[: 2 * SIZE]
    rows.set_epoch(0)
    assert listed(loader) == fresh(path, 0)


STEPS = -(-120 // SIZE)
"""Batches of an epoch."""
SAVED: dict[str, tuple[dict[str, Any], int]] = {
    "after training": ({}, STEPS),
    "after an epoch": ({"save_on_train_epoch_end": True}, STEPS),
    "after its last batch": ({"every_n_train_steps": STEPS}, STEPS),
    "within it": ({"every_n_train_steps": 3}, 6),
}
"""When Lightning saves, what tells it to, and how many batches of the epoch it has had the last time."""


@pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch")
@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")
@pytest.mark.parametrize("saved", SAVED if FULL else ["after its last batch", "within it"])
def test_lightning_goes_on_in_the_epoch_of_its_checkpoint(
    path: Path, tmp_path: Path, saved: str
) -> None:
    options, steps = SAVED[saved]
    rows = open_dataset(path, columns=["input_ids", "labels"])
    file = {"dirpath": tmp_path, "filename": "run", "enable_version_counter": False}
    saving = [ModelCheckpoint(**file, **options)] if options else []
    first = lightning_trainer(1, *saving)
    first.fit(Module(rows), plain(rows, "fork"))
    if not saving:
        first.save_checkpoint(tmp_path / "run.ckpt")
    again = open_dataset(path, columns=["input_ids", "labels"])
    module, read = Module(again), multiprocessing.Event()

    def collated(items: list[Any]) -> Any:
        batch = default_collate(items)
        read.set()
        return batch

    module.before_epoch = read.wait  # it sets the epoch after a batch was read, which must be of it too
    loader = plain(again, "fork", collate_fn=collated)
    lightning_trainer(EPOCHS, *saving).fit(module, loader, ckpt_path=tmp_path / "run.ckpt")
    left = (
        STEPS - steps
    ) * SIZE  # Lightning reads an epoch from its beginning, but only so many batches
    expected = [fresh(path, 0)[:left], *(fresh(path, epoch) for epoch in range(1, EPOCHS))]
    assert module.model.epochs == expected


def test_parts_of_a_dataset_follow_it(path: Path) -> None:
    rows = open_dataset(path, columns=["input_ids", "labels"])
    loader = plain(Subset(rows, range(5, 40)), "fork")  # type: ignore[arg-type]  # as good as a Dataset
    for epoch in range(EPOCHS):
        rows.set_epoch(epoch)
        assert listed(loader) == fresh(path, epoch)[5:40]


def walked(walk: Batches, loader: Iterable[Any]) -> tuple[Rows, Rows]:
    """Return the rows that workers give of a walk, and those that this process does."""
    return listed(loader), listed(walk[step] for step in range(len(walk)))


@pytest.mark.parametrize("start", STARTS if FULL else ["fork"])
def test_workers_stand_where_a_walk_was_moved(path: Path, start: str) -> None:
    rows = open_dataset(path, columns=["input_ids", "labels"])
    walk = Batches(rows, SIZE, last="carry")
    loader, seen = plain(walk, start, batch_size=None), set()

    def moved() -> None:
        given, expected = walked(walk, loader)
        assert given == expected
        seen.add(tuple(given))

    moved()
    walk.set_epoch(2)
    moved()
    walk.advance(3)
    moved()
    state = json.loads(json.dumps(walk.state_dict(20)))
    walk.set_epoch(1)
    moved()
    walk.load_state_dict(state)
    moved()
    assert len(seen) == 5


def test_workers_follow_a_walk_over_a_blend(path: Path, tmp_path: Path) -> None:
    datasets = [open_dataset(folder) for folder in (path, write_masked(tmp_path))]
    walk = Batches(Blend(datasets, [2, 1]), SIZE)
    loader, seen = plain(walk, "fork", batch_size=None), set()
    for epoch in range(EPOCHS):
        walk.set_epoch(epoch)
        given, expected = walked(walk, loader)
        assert given == expected
        seen.add(tuple(given))
    assert len(seen) == EPOCHS


def test_a_stateful_loader_whose_walk_was_made_elsewhere_follows_it_once_it_is_moved(path: Path) -> None:
    rows = open_dataset(path, columns=["input_ids", "labels"])
    workers = {"batch_size": None, "num_workers": 2, "persistent_workers": True}
    walk = Batches(rows, SIZE)
    walk.set_epoch(2)
    loader = StatefulDataLoader(walk, **workers)
    assert listed(islice(loader, 2)) == fresh(path, 2)[: 2 * SIZE]
    again = Batches(rows, SIZE)  # in epoch 0
    other = StatefulDataLoader(again, **workers)
    other.load_state_dict(loader.state_dict())
    whole = len(again) * SIZE
    assert listed(other) == fresh(path, 2)[2 * SIZE : whole]  # each worker went where its state said
    again.set_epoch(3)
    assert listed(other) == fresh(path, 3)[:whole]


def test_ranks_that_are_handed_one_dataset_do_not_move_each_other(path: Path) -> None:
    rows = open_dataset(path, columns=["input_ids", "labels"])
    context = multiprocessing.get_context("fork")
    with context.Pool(2, initializer=take, initargs=(rows,)) as ranks:
        given = ranks.map(rows_of_epoch, range(4), chunksize=1)
    assert given == [fresh(path, epoch) for epoch in range(4)]
    assert rows.epoch == 0


HANDED: list[ShardDataset] = []
"""What a rank was handed."""


def take(rows: ShardDataset) -> None:
    """Keep a dataset in another process."""
    HANDED.append(rows)


def rows_of_epoch(epoch: int) -> Rows:
    """Return the rows of an epoch that a rank goes to."""
    (rows,) = HANDED
    rows.set_epoch(epoch)
    return listed([rows.batch(range(len(rows)))])


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda rows: pickle.loads(pickle.dumps(rows))],  # noqa: S301
)
def test_a_copy_has_an_epoch_of_its_own(
    path: Path, copied: Callable[[ShardDataset | Batches], ShardDataset | Batches]
) -> None:
    rows = open_dataset(path)
    rows.set_epoch(1)
    walk = Batches(rows, SIZE)
    for one in (rows, walk):
        other = copied(one)
        other.set_epoch(5)
        assert (one.epoch, other.epoch) == (1, 5)
        one.set_epoch(3)
        assert (one.epoch, other.epoch) == (3, 5)
        one.set_epoch(1)


def test_rows_of_other_epochs_leave_a_dataset_where_it_is(path: Path) -> None:
    rows = open_dataset(path, columns=["input_ids", "labels"])
    rows.set_epoch(1)
    loader = plain(rows, "fork")
    before = listed(loader)
    for epoch in (0, 2, 7):
        assert listed([rows.at(epoch, np.arange(120))]) == fresh(path, epoch)
    walk = Batches(Blend([rows], [1]), SIZE, last="carry")
    walk.advance(30)
    assert len(walk[0]["labels"]) == SIZE
    assert rows.epoch == 1
    assert listed(loader) == before == fresh(path, 1)
