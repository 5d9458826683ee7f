"""Trials of one dataset on one device: the learning check, and the speed of two models that train on it.

folder -> check_dataset -> verdict -> speed of the check's own tiny model
       -> loader -> speed of a model of GPT-2 small's shape
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from gpu_models import Model, ModelTrainer, Question, Sizes, count_tokens, step_flops
from gpu_speed import Plan, Speed, Work, measure, supply
from numpy.typing import NDArray
from torch import Tensor

from stages.errors import ConfigError
from stages.loading.dataset import Batch, ShardDataset, open_dataset
from stages.loading.torch_loader import Tensors
from stages.objectives.learning import LearningConfig
from stages.verify import resume
from stages.verify.contrast import ContrastTrainer, Views
from stages.verify.dataset_check import (
    DatasetCheckResult,
    LabelPractice,
    ViewPractice,
    check_dataset,
    views_of,
)
from stages.verify.model import reproducible
from stages.verify.rows import PADDING, LabelledRows, shift_labels
from stages.verify.slices import Take, own_labels
from stages.verify.training import Machine, Trainer

Prepared = TypeVar("Prepared")


@dataclass(frozen=True)
class Bench:
    """Where datasets are tried, and for how long."""

    device: torch.device
    bfloat16: bool
    plan: Plan
    processes: int
    """Processes that read ahead; 0: a thread does."""
    peak: float | None
    """Operations a second of the device; None: not known."""

    @property
    def machine(self) -> Machine:
        """The same for the learning check."""
        return Machine(self.device.type, self.bfloat16)


@dataclass(frozen=True)
class Lesson:
    """How the learning check is made."""

    config: LearningConfig
    seed: int
    shift: int
    """Tokens by which the labels that are learned are shifted: a fault, to see a verdict that fails."""


@dataclass(frozen=True)
class Large:
    """The large model."""

    sizes: Sizes
    batch_tokens: int
    """Most positions of a batch, padding and targets among them; at least one row is taken."""
    compiled: bool


@dataclass(frozen=True)
class Pace:
    """How fast a model trains on a dataset."""

    weights: int
    """Trained parameters."""
    batch_rows: int
    mfu: float | None
    """Model FLOPs utilisation; None if the device's peak is not known."""
    speed: Speed

    def to_dict(self) -> dict[str, object]:
        """Return the figures in one level."""
        figures = asdict(self)
        return {**figures, **figures.pop("speed")}


def check(folder: Path, bench: Bench, lesson: Lesson) -> DatasetCheckResult:
    """Make the learning check of a dataset."""
    splits = sorted(path.parent.name for path in folder.glob("*/dataset.json"))
    length = lesson.config.row_length
    return check_dataset(
        folder,
        splits=splits,
        config=lesson.config,
        seed=lesson.seed,
        machine=bench.machine,
        take=shifted(lesson.shift, length) if lesson.shift else None,
    )


def shifted(by: int, length: int) -> Take:
    """Return what takes rows with wrong labels: each belongs to a later token."""

    def take(dataset: ShardDataset, chosen: NDArray[np.int64]) -> LabelledRows:
        return shift_labels(own_labels(length)(dataset, chosen), by)

    return take


def pace_of_practice(folder: Path, practice: LabelPractice | ViewPractice, bench: Bench) -> Pace:
    """Measure how fast the learning check's own model trains."""
    with reproducible(bench.device.type):
        if isinstance(practice, LabelPractice):
            trainer = practice.trainer()
            work = _label_work(practice, trainer)
            return _pace(folder, practice.batch_rows, bench, trainer.model, work)
        views = practice.trainer()
        return _pace(
            folder, practice.batch_rows, bench, views.trainer.model, _view_work(practice, views)
        )


def pace_of_large(folder: Path, large: Large, bench: Bench) -> Pace:
    """Measure how fast a model of GPT-2 small's shape trains.

    Raises:
        ConfigError: the dataset has ids that the model does not.
    """
    dataset = open_dataset(folder, check="size")
    manifest, widths = dataset.manifest, dataset.widths
    if manifest.vocab_size > large.sizes.vocabulary:
        raise ConfigError(
            f"--vocabulary {large.sizes.vocabulary}: {folder.name} has {manifest.vocab_size} ids; name"
            " as many or more"
        )
    torch.manual_seed(manifest.seed)
    length = max(widths.inputs, widths.labels)
    question = Question(manifest.attention, manifest.label_convention, length)
    model = Model(large.sizes, question)
    trainer = ModelTrainer(model, bench.device, bfloat16=bench.bfloat16, compiled=large.compiled)
    work = Work[Tensors](
        prepare=lambda batch: batch,
        step=trainer.step,
        tokens=lambda columns: sum(count_tokens(columns)),
        flops=lambda columns: step_flops(model, columns),
    )
    one = dataset.batch([0])
    positions = sum(one[name].size for name in ("input_ids", "decoder_input_ids") if name in one)
    return _pace(folder, max(1, large.batch_tokens // positions), bench, model, work)


def _pace(
    folder: Path, batch_rows: int, bench: Bench, model: torch.nn.Module, work: Work[Prepared]
) -> Pace:
    """Train on batches from the loader and return how fast that was."""
    dataset = open_dataset(folder, check="size")
    cuda = bench.device.type == "cuda"
    steps = bench.plan.warmup + bench.plan.windows * bench.plan.window_steps
    batches = supply(dataset, batch_rows, steps=steps, processes=bench.processes, pin_memory=cuda)
    synchronize = (lambda: torch.cuda.synchronize(bench.device)) if cuda else (lambda: None)
    speed = measure(batches, work, bench.plan, synchronize=synchronize)
    weights = sum(weight.numel() for weight in model.parameters())
    mfu = None if bench.peak is None else speed.flops_per_second / bench.peak
    return Pace(weights, min(batch_rows, len(dataset)), mfu, speed)


def _label_work(practice: LabelPractice, trainer: Trainer) -> Work[LabelledRows]:
    """Return what the check's model does with a batch that has labels."""
    rate = practice.settings.learning_rate

    def step(rows: LabelledRows) -> Tensor | float:
        return trainer.step(rows, rate)[0] if len(rows.labels) else 0.0

    return Work(
        prepare=lambda batch: practice.prepare(_arrays(batch)),
        step=step,
        tokens=lambda rows: int(np.count_nonzero(rows.segment_ids != PADDING)),
        flops=lambda rows: resume.step_flops(trainer, rows),
    )


def _view_work(practice: ViewPractice, trainer: ContrastTrainer) -> Work[Views]:
    """Return what the check's model does with a batch of views."""
    rate, most = practice.settings.learning_rate, practice.settings.row_length
    return Work(
        prepare=lambda batch: views_of(_arrays(batch)),
        step=lambda views: trainer.step(views, rate),
        tokens=lambda views: int(np.minimum(views[1], most).sum()),
        flops=lambda views: resume.step_flops(trainer.trainer, trainer.rows(views)),
    )


def _arrays(batch: Mapping[str, Tensor]) -> Batch:
    """Return each column as an array, without copying it."""
    return {name: column.numpy() for name, column in batch.items()}
