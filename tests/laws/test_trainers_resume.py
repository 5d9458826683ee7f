"""The law of resumed trainings: each step takes the batches that it takes in a training without a stop.

The Trainers of transformers and of Lightning train as docs/how-to/trainers.md says, and save at every
step. From their checkpoints new objects go on, and others from one checkpoint of those.
"""

import ast
import itertools
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import ExportableState

import shardmill
from tests.campaign import FULL, some_of
from tests.docs.test_docs import blocks
from tests.stages.loading.test_batches import numbered

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of trainers, about a CPU
ROWS, SIZE, EPOCHS = 53, 3, 3
"""17 batches an epoch of one rank, 5 of three."""
Step = list[list[int]]
"""The first ids of the rows of each batch that one step of the optimizer was of."""


@dataclass(frozen=True)
class Case:
    """How a training is set up."""

    path: Path
    folder: Path
    accumulation: int = 1
    workers: int = 0
    rank: int = 0
    ranks: int = 1
    steps: int | None = None
    """None trains whole epochs."""
    stages: bool = False

    def loader(self) -> shardmill.Loader[Any]:
        """Return a loader that stands at the beginning."""
        rows = shardmill.open_dataset(self.path)
        if not self.stages:
            return shardmill.Loader(
                shardmill.Batches(rows, SIZE, rank=self.rank, world_size=self.ranks),
                num_workers=self.workers,
                collate=of_ids,
            )
        later = shardmill.open_dataset(self.path, epoch=1)
        stages = [
            shardmill.Stage(rows, SIZE, epochs=1, name="first"),
            shardmill.Stage(later, 2 * SIZE, steps=5, name="second"),
        ]
        walk = shardmill.Sequence(stages, rank=self.rank, world_size=self.ranks)
        return shardmill.Loader(walk, num_workers=self.workers, collate=of_ids)

    @property
    def length(self) -> dict[str, int]:
        """How long it trains, in the words of both trainers."""
        if self.steps is not None:
            return {"max_steps": self.steps}
        return {"epochs": 1 if self.stages else EPOCHS}


def of_ids(batch: shardmill.Batch) -> dict[str, Tensor]:
    """Return the columns that the models here take."""
    return {name: torch.from_numpy(batch[name]) for name in ("input_ids", "labels")}


class SeenNet(nn.Module):
    """A model of one weight that keeps what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.given: Step = []
        self.steps: list[Step] = []

    def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return a loss, and keep the first ids."""
        assert input_ids.shape == labels.shape
        self.given.append(input_ids[:, 0].tolist())
        return {"loss": ((self.weight - 1) ** 2).sum()}

    def end_step(self) -> None:
        """Say that a step of the optimizer was taken."""
        self.steps.append(self.given)
        self.given = []


class LoaderTrainer(Trainer):  # type: ignore[misc]  # transformers has few types
    """The Trainer of docs/how-to/trainers.md."""

    def __init__(self, loader: shardmill.Loader[Any], **arguments: Any) -> None:
        super().__init__(**arguments)
        self.loader = loader

    def get_train_dataloader(self) -> shardmill.Loader[Any]:
        """Return the loader."""
        return self.loader


@dataclass
class EachStep(TrainerCallback):  # type: ignore[misc]  # likewise
    """Tells the model of each step."""

    model: SeenNet = field(default_factory=SeenNet)

    def on_step_end(self, *_: object, **__: object) -> None:
        """End the step."""
        self.model.end_step()


def by_transformers(case: Case, resumed: Path | None, *, save: bool) -> list[Step]:
    """Train with the Trainer of transformers; return its steps."""
    net = SeenNet()
    length = {{"epochs": "num_train_epochs"}.get(name, name): n for name, n in case.length.items()}
    settings = TrainingArguments(
        str(case.folder),
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        logging_strategy="no",
        log_level="error",
        remove_unused_columns=False,
        save_strategy="steps" if save else "no",
        save_steps=1,
        gradient_accumulation_steps=case.accumulation,
        **length,
    )
    trainer = LoaderTrainer(case.loader(), model=net, args=settings, callbacks=[EachStep(net)])
    trainer.train(resume_from_checkpoint=None if resumed is None else str(resumed))
    return net.steps


class SeenModule(lightning.LightningModule):  # type: ignore[misc]  # its types are not read
    """The module of docs/how-to/trainers.md, around a model of one weight."""

    def __init__(self, loader: shardmill.Loader[Any]) -> None:
        super().__init__()
        self.net, self.loader = SeenNet(), loader

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Save where the loader stands."""
        checkpoint["loader"] = self.loader.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go where the loader stood."""
        self.loader.load_state_dict(checkpoint["loader"])

    def training_step(self, batch: dict[str, Tensor], _number: int) -> Tensor:
        """Return the loss."""
        return self.net(**batch)["loss"]  # type: ignore[no-any-return]

    def validation_step(self, _batch: dict[str, Tensor], _number: int) -> None:
        """Look at nothing: validation is there to come between."""

    def on_before_optimizer_step(self, *_: object) -> None:
        """End the step."""
        self.net.end_step()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.SGD(self.parameters(), 0.1)


def by_lightning(case: Case, resumed: Path | None, *, save: bool) -> list[Step]:
    """Train with the Trainer of Lightning; return its steps."""
    loader = case.loader()
    module = SeenModule(loader)
    kept = ModelCheckpoint(case.folder, filename="{step}", every_n_train_steps=1, save_top_k=-1)
    length = {{"epochs": "max_epochs"}.get(name, name): n for name, n in case.length.items()}
    trainer = lightning.Trainer(
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=save,
        callbacks=[kept] if save else [],
        accumulate_grad_batches=case.accumulation,
        **{"max_epochs": -1, **length},
    )
    validation = shardmill.validation_loader(shardmill.open_dataset(case.path), 20, collate=of_ids)
    trainer.fit(module, loader, validation, ckpt_path=None if resumed is None else str(resumed))
    loader.close()
    return module.net.steps


Train = Callable[..., list[Step]]
TRAINERS: dict[str, tuple[Train, str]] = {
    "transformers": (by_transformers, "checkpoint-{}"),
    "lightning": (by_lightning, "step={}.ckpt"),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a dataset of rows that each begin with their own number."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    return numbered(tmp_path_factory.mktemp("trained"), ROWS).folder.parent


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield trainers with settings: accumulation, workers, ranks, epochs or steps, one stage or two."""
    for trainer, accumulation, workers, ranks, kind in itertools.product(
        TRAINERS, (1, 4), (0, 2), (1, 3), ("epochs", "steps", "stages", "stages to the end")
    ):
        settings: dict[str, Any] = {"accumulation": accumulation, "workers": workers, "ranks": ranks}
        settings |= {"rank": ranks - 1, "stages": kind.startswith("stages")}
        if kind in ("steps", "stages"):
            settings["steps"] = 4 if ranks > 1 and kind == "stages" else 7
        if kind == "stages" and accumulation > 1:
            settings["steps"] = 2 if ranks > 1 else 5
        yield trainer, settings


CASES = [*cases()]


COVERING = [CASES[place] for place in (0, 22, 13, 27, 40, 49, 39, 62)]
"""Of each trainer every setting, with workers and without, and every two of the other settings."""


@pytest.mark.parametrize(
    ("trainer", "settings"), CASES if FULL else COVERING, ids=lambda value: str(value).replace(" ", "")
)
def test_a_resumed_training_takes_the_steps_of_one_that_never_stopped(
    path: Path, tmp_path: Path, trainer: str, settings: dict[str, Any]
) -> None:
    train, named = TRAINERS[trainer]
    whole = train(Case(path, tmp_path / "whole", **settings), None, save=True)
    if settings.get("steps") is not None:
        assert len(whole) == settings["steps"]
    numbers = [*range(1, len(whole))]
    moments = numbers if settings["workers"] == 0 else some_of(numbers, 3)
    assert moments
    for moment in some_of(moments, 3 if settings["workers"] == 0 else 2):
        resumed = train(
            Case(path, tmp_path / "first", **settings),
            tmp_path / "whole" / named.format(moment),
            save=moment == moments[0] and moment + 1 < len(whole),
        )
        assert resumed == whole[moment:], f"resumed at step {moment}"
    again = tmp_path / "first" / named.format(moments[0] + 1)
    if again.exists():
        later = train(Case(path, tmp_path / "second", **settings), again, save=False)
        assert later == whole[moments[0] + 1 :], "resumed a second time"


def shown(name: str) -> Any:
    """Return what the page's block for the Trainer of transformers calls by a name."""
    block = next(text for _, text in blocks("docs/how-to/trainers.md") if "class SameSteps" in text)
    (own,) = (one for one in ast.parse(block).body if getattr(one, "name", None) == name)
    names: dict[str, Any] = {
        "TrainerCallback": TrainerCallback,
        "ExportableState": ExportableState,
        "shardmill": shardmill,
    }
    exec(compile(ast.Module([own], []), "trainers.md", "exec"), names)  # noqa: S102  # our own page
    return names[name]


@pytest.mark.parametrize("items", [None, 0, torch.tensor(0)])
def test_the_loss_of_the_page_is_0_where_no_token_has_a_label(items: object) -> None:
    logits = torch.zeros(2, 4, 8, requires_grad=True)
    loss = shown("token_loss")(SimpleNamespace(logits=logits), torch.full((2, 4), -100), items)
    loss.backward()
    assert loss == 0
    assert logits.grad is not None
    assert not logits.grad.any()


def test_a_checkpoint_that_counts_other_rows_is_refused_by_the_callback_of_the_page(
    path: Path, tmp_path: Path
) -> None:
    callback = shown("SameSteps")

    def train(size: int, accumulation: int, folder: Path, *, resume: bool) -> None:
        rows = shardmill.open_dataset(folder)
        settings = TrainingArguments(
            str(tmp_path / "checkpoints"),
            max_steps=2 if resume else 1,
            save_steps=1,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            gradient_accumulation_steps=accumulation,
        )
        loader = shardmill.Loader(shardmill.Batches(rows, size), collate=of_ids)
        net, counted = SeenNet(), callback(rows, size * settings.world_size, accumulation)
        trainer = LoaderTrainer(loader, model=net, args=settings, callbacks=[counted])
        kept = str(tmp_path / "checkpoints" / "checkpoint-1") if resume else None
        trainer.train(resume_from_checkpoint=kept)

    train(2, 2, path, resume=False)
    other = numbered(tmp_path / "other", ROWS + 1).folder.parent
    for changed in ((4, 2, path), (2, 1, path), (4, 1, path), (2, 2, other)):
        with pytest.raises(ValueError, match=r"the checkpoint has .*, and this training"):
            train(*changed, resume=True)
    train(2, 2, path, resume=True)
    about = tmp_path / "checkpoints" / "checkpoint-1" / "trainer_state.json"
    content = json.loads(about.read_text())
    del content["stateful_callbacks"]["SameSteps"]  # as saved without it
    about.write_text(json.dumps(content))
    train(4, 2, path, resume=True)  # and saves further


@pytest.mark.parametrize("steps", some_of([6, 5, 13, 8], 1))
def test_one_loader_may_train_again_and_resume_again(path: Path, tmp_path: Path, steps: int) -> None:
    net = SeenNet()
    settings = TrainingArguments(
        str(tmp_path),
        max_steps=13,  # 17 batches an epoch make 9 steps of 2
        save_steps=1,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        gradient_accumulation_steps=2,
    )
    loader = Case(path, tmp_path).loader()
    trainer = LoaderTrainer(loader, model=net, args=settings, callbacks=[EachStep(net)])
    trainer.train()
    whole, net.steps = net.steps, []
    assert len(whole) == 13
    trainer.train()
    assert net.steps == whole
    for begun in (3, 9):  # inside of an epoch, and behind it
        settings.max_steps, net.steps = steps, []
        trainer.train()
        assert net.steps == whole[:steps]
        settings.max_steps, net.steps = 13, []
        trainer.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{begun}"))
        assert net.steps == whole[begun:]
