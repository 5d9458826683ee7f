"""Budget: rows of a dataset until they hold so many tokens, and a training that reads each once.

    dataset, in the loader's order, epoch after epoch -> rows of N tokens -> steps of as many tokens each

What is counted is what a model reads: inputs and a decoder's inputs, without padding. So all models of a
comparison take as many steps of the same size, whatever part of the tokens has a label.

Axes: R rows, L tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stages.comparing.settings import CompareSettings
from stages.errors import DataError
from stages.loading.dataset import Batch, ShardDataset
from stages.objectives.learning import LearningSettings
from stages.seeding import MAX_EPOCHS
from stages.store.drawn import read_drawn
from stages.verify.examples import PAIR_LABELS, labelled_rows
from stages.verify.rows import (
    NO_LABEL,
    PADDING,
    LabelledRows,
    compact_ids,
    join_rows,
    predicted_labels,
    take_rows,
)
from stages.verify.training import Stream, Trainer, draws_of, learning_rate

Curve = tuple[tuple[int, float], ...]
"""(step, mean loss of the steps since the last point)."""
_READ = 256
"""Rows read at a time."""
_CURVE_POINTS = 60


@dataclass(frozen=True, eq=False)
class RowsRead:
    """Rows of a dataset in the loader's order, and how many epochs of it they are."""

    rows: LabelledRows
    passes: float


def rows_of_tokens(dataset: ShardDataset, tokens: int, *, most_epochs: int | None = None) -> RowsRead:
    """Return whole rows with labels that hold so many tokens, or what so many epochs hold.

    Raises:
        DataError: there is no row with a label.
    """
    parts: list[LabelledRows] = []
    found, read, count, epochs = 0, 0, len(dataset), _epochs(dataset)
    while found < tokens and (most_epochs is None or read < most_epochs * count):
        if read >= count and not found:
            break
        epoch, first = divmod(read, max(count, 1))
        places = np.arange(first, min(first + _READ, count))
        rows = _labelled(dataset, dataset.at(epoch % epochs, places))
        labelled = np.flatnonzero((predicted_labels(rows) != NO_LABEL).any(axis=1))
        sums = found + np.cumsum(tokens_read(rows)[labelled])
        used = labelled[: int(np.searchsorted(sums, tokens)) + 1]
        parts.append(take_rows(rows, used))
        found = int(sums[len(used) - 1]) if len(used) else found
        read += int(used[-1]) + 1 if found >= tokens else len(places)
    if not found:
        raise DataError(f"{dataset.folder}: no row with a label; give the run more documents")
    return RowsRead(join_rows(parts), read / count)


def _labelled(dataset: ShardDataset, batch: Batch) -> LabelledRows:
    """Return whole rows with the objective's labels; the label of a pair is that of its CLS.

    It is one of two ids that no mask has for a label, so that one loss serves both.
    """
    rows = labelled_rows(batch, dataset.objective, dataset.vocabulary, length=_whole(dataset))
    name = next((name for name in PAIR_LABELS if name in batch), None)
    if name is None:
        return rows
    answers = [dataset.vocabulary.named(answer) for answer in ("cls", "sep")]
    labels = rows.labels.copy()
    labels[:, 0] = np.select([batch[name] == 0, batch[name] == 1], answers, NO_LABEL)
    return replace(rows, labels=labels)


def _whole(dataset: ShardDataset) -> int:
    """Return a length that no row of a dataset passes."""
    return max(dataset.widths.stored, dataset.manifest.seq_len) + 1


def _epochs(dataset: ShardDataset) -> int:
    """Return how many epochs can be read: as many as stand on disk, where no other can be drawn."""
    if not dataset.reader.traits.written_for:
        return MAX_EPOCHS
    drawn = read_drawn(dataset.folder, dataset=dataset.manifest.fingerprint)
    return 1 if drawn is None else drawn.epochs


def tokens_read(rows: LabelledRows) -> NDArray[np.int64]:
    """Count what a model reads of each row: inputs and a decoder's inputs, without padding, (R,)."""
    read = np.count_nonzero(rows.segment_ids != PADDING, axis=1)
    if rows.decoder_input_ids is not None:
        read = read + np.count_nonzero(rows.labels != NO_LABEL, axis=1)
    return np.asarray(read)


def with_rare_labels(rows: LabelledRows, kept: NDArray[np.int64]) -> LabelledRows:
    """Number ids as `compact_ids` does, but let rare labels be what rare inputs are: len(kept)."""
    compact = compact_ids(rows, kept)
    rare = (rows.labels != NO_LABEL) & (compact.labels == NO_LABEL)
    return replace(compact, labels=np.where(rare, len(kept), compact.labels))


def step_rows(rows: LabelledRows, *, step_tokens: int, seed: int) -> list[NDArray[np.int64]]:
    """Return the rows of each step: all once, in an order of the seed, as many tokens a step."""
    order = draws_of(seed, Stream.ROW_ORDER).permutation(len(rows.labels))
    ends = np.cumsum(tokens_read(rows)[order])
    steps = max(1, round(int(ends[-1]) / step_tokens))
    of_step = (ends - 1) * steps // ends[-1]
    return np.split(order, np.flatnonzero(np.diff(of_step)) + 1)


def train_once(
    trainer: Trainer,
    rows: LabelledRows,
    settings: CompareSettings,
    *,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> Curve:
    """Train on each row once; give the mean losses of stretches of steps."""
    order = step_rows(rows, step_tokens=settings.step_tokens, seed=seed)
    rates = LearningSettings(learning_rate=settings.learning_rate, warmup_steps=settings.warmup_steps)
    stretch = max(1, len(order) // _CURVE_POINTS)
    curve, losses = [], []
    for step, chosen in enumerate(order):
        rate = learning_rate(step, len(order), config=rates)
        losses.append(trainer.step(take_rows(rows, chosen), rate)[0])
        if len(losses) == stretch or step == len(order) - 1:
            curve.append((step, float(np.mean(losses))))
            losses.clear()
        if progress is not None:
            progress(step + 1, len(order))
    return tuple(curve)
