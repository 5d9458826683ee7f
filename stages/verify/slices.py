"""Slices: rows of a dataset to learn from and rows held out, from the loader as a trainer gets them.

    train       ####################......       # to learn from, in as many epochs as that takes
    validation  ####                             held out; without it, the end of train

Rows come in stored order, evenly from the first shards that hold enough: few shards are touched, each
component of a mixture has its share, and what is held out of training stays out in every epoch.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stages.errors import TooFewLabelsError
from stages.loading.dataset import ShardDataset, open_dataset
from stages.objectives.learning import LearningSettings
from stages.store.drawn import read_drawn
from stages.verify.examples import labelled_rows
from stages.verify.rows import PADDING, LabelledRows, count_labelled, cut_windows, join_rows, take_rows

_SPARE = 1.25
"""Rows read for each row that is needed: rare ids carry no label."""
_SAMPLE = 64
"""Rows from which labels and windows of a row are estimated."""
_READ = 256
"""Rows read at a time: those of a decoder are padded to half a million places, and more."""

Take = Callable[[ShardDataset, NDArray[np.int64]], LabelledRows]
"""Makes rows to learn from of the rows with these numbers."""


@dataclass(frozen=True, eq=False)
class Slices:
    """Rows of a dataset for the learning check."""

    training: LabelledRows
    heldout: LabelledRows
    heldout_split: str
    """The split that these are from."""
    passes: int
    """Epochs of the same rows that `training` holds."""


@dataclass(frozen=True)
class _Yield:
    """What a row of a split gives on average."""

    labels: float
    windows: float


def own_labels(length: int) -> Take:
    """Return what takes the labels of a dataset's own objective, in windows of this length."""
    return lambda dataset, chosen: labelled_rows(
        dataset.batch(chosen), dataset.objective, dataset.vocabulary, length=length
    )


def learning_slices(
    folder: Path, splits: Sequence[str], settings: LearningSettings, *, take: Take | None = None
) -> Slices:
    """Return rows to train on and rows held out.

    Where one epoch has too few labels, as is usual for masked rows, the same rows follow in further
    epochs, with other masks.

    Args:
        folder: the dataset's.
        splits: those that there are.
        settings: how much is needed.
        take: makes rows of those of the loader; None: rows with the objective's own labels.

    Raises:
        TooFewLabelsError: there is no row at all.
    """
    take = take or own_labels(settings.row_length)
    train = open_dataset(folder, split="train", shuffle=False)
    each = _yield(train, take, settings)
    wanted = math.ceil(settings.heldout_rows * _SPARE / each.windows)
    end, heldout = len(train), None
    if "validation" in splits:
        validation = open_dataset(folder, split="validation", shuffle=False)
        enough = 2 * settings.min_heldout_tokens
        if len(validation) and len(validation) * _yield(validation, take, settings).labels >= enough:
            heldout = _rows(validation, take, spread_rows(validation, wanted, len(validation)))
    heldout_split = "train" if heldout is None else "validation"
    if heldout is None:  # too little is held out: take the end of the training split instead
        end -= min(wanted, len(train) // 5)
        heldout = _rows(train, take, np.arange(end, len(train)))
    needed = math.ceil(settings.labelled_tokens * _SPARE / each.labels)
    passes = min(math.ceil(needed / max(end, 1)), _epochs(train, settings))
    chosen = spread_rows(train, math.ceil(needed / passes), end)
    parts = []
    for epoch in range(passes):
        train.set_epoch(epoch)
        parts.append(_rows(train, take, chosen))
    return Slices(join_rows(parts), heldout, heldout_split, passes)


def _epochs(dataset: ShardDataset, settings: LearningSettings) -> int:
    """Return how many epochs with other masks there are, up to as many as are asked for."""
    traits = dataset.reader.traits
    if traits.written_for:
        drawn = read_drawn(dataset.folder, dataset=dataset.manifest.fingerprint)
        return min(math.ceil(settings.max_epochs), 1 if drawn is None else drawn.epochs)
    return math.ceil(settings.max_epochs) if traits.dynamic else 1


def spread_rows(dataset: ShardDataset, wanted: int, end: int) -> NDArray[np.int64]:
    """Return numbers of rows below `end`, evenly from the first shards that hold as many as wanted."""
    ends = np.minimum(np.cumsum([shard.rows for shard in dataset.manifest.shards]), end)
    count_there = int(ends[min(int(np.searchsorted(ends, wanted)), len(ends) - 1)])
    count = min(wanted, count_there)
    return np.arange(count) * count_there // max(count, 1)


def _yield(dataset: ShardDataset, take: Take, settings: LearningSettings) -> _Yield:
    """Return labels and windows of a row, from a few; more labels than are usual do not count."""
    chosen = spread_rows(dataset, _SAMPLE, len(dataset))
    cut = cut_windows(_rows(dataset, take, chosen), settings.row_length)
    usual = settings.label_share * np.count_nonzero(cut.segment_ids != PADDING)
    count = max(len(chosen), 1)
    return _Yield(max(min(count_labelled(cut), usual), 1) / count, max(len(cut.input_ids), 1) / count)


def _rows(dataset: ShardDataset, take: Take, chosen: NDArray[np.int64]) -> LabelledRows:
    if not len(dataset):
        raise TooFewLabelsError(f"{dataset.folder}: no row to learn from; give the run more documents")
    if not len(chosen):
        return take_rows(take(dataset, np.arange(1)), chosen)
    cuts = range(0, len(chosen), _READ)
    return join_rows([take(dataset, chosen[n : n + _READ]) for n in cuts])
