"""Twin: labels put together anew, from the stored tokens, are learned as well as those given.

    labels given by the loader     -> losses with three seeds -+-> |loss - twin| <= max(0.15, 4 sd)
    labels from the stored tokens  -> loss of the twin        -+

    unshifted   the inputs themselves, behind a prefix if there is one, where a stored mask has a loss,
                without marks that have none
    masked      what is stored where a label stands
    replaced    whether the input is another token than the one stored

A decoder's targets have no twin: they are put together with their inputs and compared, exactly, by the
mechanics. Neither have pairs of sentences, whose rows show tokens that are not their own.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stages.loading.dataset import ShardDataset
from stages.objectives.fim.config import fim_ids
from stages.objectives.learning import LearningSettings
from stages.objectives.traits import Traits
from stages.verify.examples import labelled_rows
from stages.verify.gates import Gate, at_most
from stages.verify.learning import LearnedModel, Windows
from stages.verify.model import heldout_loss, reproducible
from stages.verify.rows import NO_LABEL, PADDING, LabelledRows
from stages.verify.training import Machine, train

LEAST_BOUND = 0.15
"""Nats by which two losses may differ whatever the seeds say."""
DEVIATIONS = 4
"""Standard deviations of the loss over seeds by which they may differ."""
_MORE_SEEDS = 2


@dataclass(frozen=True)
class TwinResult:
    """The loss on labels put together anew, with how far seeds alone move the loss."""

    loss: float
    """Of the labels given, with the check's own seed."""
    twin_loss: float
    deviation: float
    """Standard deviation of the loss over three seeds."""

    @property
    def gates(self) -> tuple[Gate, ...]:
        """Hold the difference to its bound."""
        bound = max(LEAST_BOUND, DEVIATIONS * self.deviation)
        return (at_most("twin", abs(self.loss - self.twin_loss), bound),)


def has_twin(traits: Traits) -> bool:
    """Say whether labels can be put together from the stored tokens."""
    return not traits.sentences and traits.label_convention in ("unshifted", "masked", "replaced")


def twin_rows(dataset: ShardDataset, chosen: NDArray[np.int64], *, length: int) -> LabelledRows:
    """Return rows of an unshuffled dataset with labels put together anew.

    Args:
        dataset: opened with shuffle=False.
        chosen: numbers of rows.
        length: of a window, as for `labelled_rows`.
    """
    rows = labelled_rows(dataset.batch(chosen), dataset.objective, dataset.vocabulary, length=length)
    convention = dataset.reader.traits.label_convention
    there = rows.segment_ids != PADDING
    if convention == "unshifted":
        if rows.prefix_length is not None:
            there &= np.arange(rows.labels.shape[1]) >= rows.prefix_length[:, None]
        if rows.in_prefix is not None:
            there &= rows.in_prefix == 0
        middle = getattr(dataset.objective, "loss", "all") == "middle"
        if middle or dataset.manifest.row_frame:  # tokens do not say where one begins, or was added
            there &= rows.labels != NO_LABEL
        elif dataset.reader.traits.loss_mask:
            there &= _stored(dataset, chosen, "loss_mask") == 1
        elif not getattr(dataset.objective, "train_on_sentinels", True):
            there &= ~np.isin(rows.input_ids, fim_ids(dataset.vocabulary)[:3])
        return replace(rows, labels=np.where(there, rows.input_ids, NO_LABEL))
    stored = _stored(dataset, chosen, "input_ids")
    if convention == "replaced":
        return replace(rows, labels=np.where(there, rows.input_ids != stored, NO_LABEL))
    return replace(rows, labels=np.where(rows.labels != NO_LABEL, stored, NO_LABEL))


def _stored(dataset: ShardDataset, chosen: NDArray[np.int64], name: str) -> NDArray[np.int64]:
    """Return a column of rows as it stands on disk: (N, L)."""
    places = [dataset.locate(int(row)) for row in chosen]
    return np.stack([dataset.reader.mapped(shard).columns[name][row] for shard, row in places]).astype(
        np.int64
    )


def check_twin(
    learned: LearnedModel,
    twin: Windows,
    *,
    config: LearningSettings,
    seed: int,
    machine: Machine | None = None,
) -> TwinResult:
    """Compare the losses of a check and of its twin, with the loss of two more seeds.

    Args:
        learned: the check on the labels given.
        twin: rows with labels put together anew.
        config: sizes.
        seed: the check's.
        machine: where to train.
    """
    machine = machine or Machine()
    windows = learned.windows
    losses = [learned.result.loss]
    with reproducible(machine.device):
        for more in range(1, _MORE_SEEDS + 1):
            trained = train(
                windows.training,
                config,
                num_ids=windows.num_ids,
                seed=seed + more,
                machine=machine,
            )
            losses.append(heldout_loss(trained.model, windows.heldout))
        anew = train(twin.training, config, num_ids=twin.num_ids, seed=seed, machine=machine)
        loss = heldout_loss(anew.model, twin.heldout)
    return TwinResult(losses[0], loss, float(np.std(losses, ddof=1)))
