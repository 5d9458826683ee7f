"""Supply: the rows of each training step, as the loader gives them, one dataset after the other.

    dataset a, then b -> epochs of the seed, in the loader's order -> rows -> steps of as many tokens

Nothing is drawn here: what a dataset promises of its order (shares in every window, stages) is what the
model is trained on. A seed reads epochs of its own, so two seeds never share an order.

Axes: R rows, L tokens.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path

import numpy as np

from stages.comparing.budget import tokens_read
from stages.continuing.settings import ContinueSettings
from stages.errors import ConfigError, DataError
from stages.loading.dataset import ShardDataset
from stages.loading.masks import SelfAttention
from stages.store.drawn import read_drawn
from stages.verify.examples import labelled_rows
from stages.verify.rows import LabelledRows, join_rows, take_rows

_READ = 64
"""Rows read at a time."""
_LEFT_TO_RIGHT = {SelfAttention.CAUSAL.value, SelfAttention.CAUSAL_WITHIN_DOCUMENT.value}


@dataclass(frozen=True, eq=False)
class TrainingStage:
    """A dataset, and how much of it is read.

    Args:
        dataset: of rows that are read from left to right.
        steps: of training.
        first_epoch: of the seed.
    """

    dataset: ShardDataset
    steps: int
    first_epoch: int


@dataclass(frozen=True, eq=False)
class TrainingStep:
    """The rows of one training step.

    Args:
        rows: of the dataset.
        stage: number of the dataset.
        read: rows of the dataset that were read until here.
    """

    rows: LabelledRows
    stage: int
    read: int


def why_not_causal(dataset: ShardDataset) -> str | None:
    """Say why a model that reads from left to right cannot learn from a dataset; None if it can."""
    attention = dataset.reader.traits.attention
    if attention in _LEFT_TO_RIGHT:
        return None
    return (
        "its rows are not for a model that reads from left to right: kind"
        f" {dataset.objective.kind!r} has attention {attention!r}; name a dataset with the attention"
        f" {' or '.join(sorted(map(repr, _LEFT_TO_RIGHT)))}, such as one of kind 'clm'"
    )


def plan_stages(
    datasets: Sequence[ShardDataset], settings: ContinueSettings, *, seed: int
) -> tuple[TrainingStage, ...]:
    """Divide the tokens of a training among datasets, in proportion to the tokens that they hold.

    Raises:
        ConfigError: a step would hold less than a row, or a dataset would have no step.
        DataError: a dataset has no tokens.
    """
    sizes = [dataset.manifest.totals.tokens for dataset in datasets]
    for dataset, size in zip(datasets, sizes, strict=True):
        _refuse_short_steps(dataset, settings)
        if not size:
            raise DataError(f"{dataset.folder}: no row to train on; give the run more documents")
    total = math.ceil(settings.tokens / settings.step_tokens)
    ends = [round(total * sum(sizes[:number]) / sum(sizes)) for number in range(len(sizes) + 1)]
    stages = []
    for dataset, size, (begin, end) in zip(datasets, sizes, pairwise(ends), strict=True):
        if begin == end:
            raise ConfigError(
                f"--tokens {settings.tokens}: {total} steps leave none for {dataset.folder}, which has"
                f" {size:,} of {sum(sizes):,} tokens; raise --tokens, or lower --step-tokens"
            )
        epochs = math.ceil((end - begin) * settings.step_tokens / size)
        stages.append(TrainingStage(dataset, end - begin, (seed - 1) * epochs))
    return tuple(stages)


def _refuse_short_steps(dataset: ShardDataset, settings: ContinueSettings) -> None:
    longest = max(dataset.widths.stored, dataset.manifest.seq_len)
    if settings.step_tokens < longest:
        raise ConfigError(
            f"--step-tokens {settings.step_tokens}: rows of {dataset.folder} have up to {longest}"
            f" tokens; set --step-tokens {longest} or more"
        )


def training_steps(
    stages: Sequence[TrainingStage], settings: ContinueSettings
) -> Iterator[TrainingStep]:
    """Yield the rows of every step: a row belongs to the step in which its first token falls."""
    for number, stage in enumerate(stages):
        read = 0
        for rows in cut_steps(_blocks(stage), steps=stage.steps, step_tokens=settings.step_tokens):
            read += len(rows.labels)
            yield TrainingStep(rows, number, read)


def cut_steps(blocks: Iterable[LabelledRows], *, steps: int, step_tokens: int) -> Iterator[LabelledRows]:
    """Yield the rows of so many steps.

    step_tokens = 8, rows of  5 3 4 5 2 ...
    first tokens at           0 5 8 12 17
    steps                     0 0 1 1 2

    Args:
        blocks: rows in order, with more tokens than the steps have; no row is longer than a step.
        steps: how many.
        step_tokens: tokens of a step.
    """
    parts: list[LabelledRows] = []
    step = done = 0
    for block in blocks:
        ends = done + np.cumsum(tokens_read(block))
        of_step = np.append(done, ends[:-1]) // step_tokens
        borders = {0, len(of_step), *np.flatnonzero(np.diff(of_step)) + 1}
        for begin, end in pairwise(sorted(borders)):
            if of_step[begin] != step:
                yield join_rows(parts)
                parts, step = [], step + 1
                if step == steps:
                    return
                assert of_step[begin] == step, "no row is longer than a step"
            parts.append(take_rows(block, np.arange(begin, end)))
        done = int(ends[-1])


def _blocks(stage: TrainingStage) -> Iterator[LabelledRows]:
    """Yield rows in the loader's order, epoch after epoch, without end."""
    dataset, rows = stage.dataset, len(stage.dataset)
    epochs = _epochs(dataset)
    length = max(dataset.widths.stored, dataset.manifest.seq_len) + 1
    for epoch in count(stage.first_epoch):
        for first in range(0, rows, _READ):
            places = np.arange(first, min(first + _READ, rows))
            batch = dataset.at(epoch if epochs is None else epoch % epochs, places)
            yield labelled_rows(batch, dataset.objective, dataset.vocabulary, length=length)


def _epochs(dataset: ShardDataset) -> int | None:
    """Return how many epochs can be read; None if any number can."""
    if not dataset.reader.traits.written_for:
        return None
    drawn = read_drawn(Path(dataset.folder), dataset=dataset.manifest.fingerprint)
    return 1 if drawn is None else drawn.epochs
