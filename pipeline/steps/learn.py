"""Learn: the training actor's task: rows from the loader, as a trainer gets them, to the check."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.tasks import Workspace
from stages.errors import DataError
from stages.loading.dataset import ShardDataset, open_dataset
from stages.objectives.clm import IGNORED
from stages.objectives.table import traits_of
from stages.verify.gates import LearningConfig, LearningSettings, settings_for

if TYPE_CHECKING:
    from stages.verify.model import LabelledRows

_SPARE = 1.25
"""Rows read for each row that is needed: padding and rare ids carry no label."""
_SAMPLE = 64
"""Rows that the share of labelled positions is estimated from."""
_LEAST_SHARE = 1e-3
"""Stands for a share of 0, so that no more rows are asked for than can be held."""


@dataclass(frozen=True)
class LearningCheck:
    """One dataset to learn from."""

    dataset: str
    splits: tuple[str, ...]
    config: LearningConfig
    seed: int


@dataclass(frozen=True)
class Slices:
    """Rows of a dataset for the learning check."""

    training: "LabelledRows"
    heldout: "LabelledRows"
    heldout_split: str
    """The split that these are from."""
    passes: int
    """Epochs of the same rows that `training` holds."""


def learn(workspace: Workspace, work: LearningCheck) -> dict[str, Any]:
    """Train on a dataset's labels and on permuted ones, and hold the losses to the gates."""
    import torch  # noqa: PLC0415  # seconds to import, and only this task needs it

    from stages.verify.learning import check_learning  # noqa: PLC0415  # likewise

    folder = workspace.path(f"datasets/{work.dataset}")
    manifest = open_dataset(folder, split="train").manifest
    settings = settings_for(str(manifest.objective["kind"]), work.config)
    slices = learning_slices(folder, work.splits, settings)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    repeats = settings.model_copy(update={"max_epochs": settings.max_epochs / slices.passes})
    try:
        result = check_learning(
            slices.training, slices.heldout, config=repeats, seed=work.seed, device=device
        )
    except DataError as error:  # too few labels to say anything: not proven, and the report says why
        return {"passed": False, "reason": str(error)}
    return {
        **result.to_dict(),
        "device": device,
        "heldout_split": slices.heldout_split,
        "fingerprint": manifest.fingerprint,
    }


def learning_slices(folder: Path, splits: Sequence[str], settings: LearningSettings) -> Slices:
    """Give rows to train on and rows held out, from the loader as a trainer gets them.

    Where one epoch has too few labels, as is usual for masked rows, the same rows follow in further
    epochs, with other masks. Rows are in stored order: few shards are touched, and what is held out
    of the training split stays out in every epoch.
    """
    train = open_dataset(folder, split="train", shuffle=False)
    seq_len = train.manifest.seq_len
    wanted = int(settings.heldout_rows * settings.row_length * _SPARE) // seq_len + 1
    end, heldout = len(train), None
    if "validation" in splits:
        validation = open_dataset(folder, split="validation", shuffle=False)
        labelled = validation.manifest.totals.tokens * _labelled_share(validation)
        if labelled >= 2 * settings.min_heldout_tokens:
            heldout = _rows(validation, 0, min(wanted, len(validation)), settings=settings)
    heldout_split = "train" if heldout is None else "validation"
    if heldout is None:  # too little is held out: take the end of the training split instead
        end -= min(wanted, len(train) // 5)
        heldout = _rows(train, end, len(train), settings=settings)
    share = min(_labelled_share(train), settings.label_share)
    needed = int(settings.labelled_tokens * _SPARE / share) // seq_len + 1
    most = math.ceil(settings.max_epochs) if traits_of(train.objective).dynamic else 1
    passes = min(math.ceil(needed / max(end, 1)), most)
    parts = []
    for epoch in range(passes):
        train.set_epoch(epoch)
        parts.append(_rows(train, 0, min(math.ceil(needed / passes), end), settings=settings))
    return Slices(_joined(parts), heldout, heldout_split, passes)


def _labelled_share(dataset: ShardDataset) -> float:
    """Give the share of positions that have a label, from the first rows."""
    labels = dataset.batch(np.arange(min(_SAMPLE, len(dataset))))["labels"]
    return max(float((labels != IGNORED).mean()), _LEAST_SHARE) if labels.size else 1.0


def _rows(dataset: ShardDataset, start: int, end: int, *, settings: LearningSettings) -> "LabelledRows":
    from stages.verify.model import LabelledRows  # noqa: PLC0415  # brings torch

    batch = dataset.batch(np.arange(start, end))
    return LabelledRows(
        input_ids=batch["input_ids"],
        labels=batch["labels"],
        segment_ids=batch["segment_ids"].astype(np.int32),
        position_ids=batch["position_ids"].astype(np.int32),
        causal=settings.causal,
    )


def _joined(parts: "Sequence[LabelledRows]") -> "LabelledRows":
    """Give the rows of all parts, one after the other."""
    return replace(
        parts[0],
        input_ids=np.concatenate([part.input_ids for part in parts]),
        labels=np.concatenate([part.labels for part in parts]),
        segment_ids=np.concatenate([part.segment_ids for part in parts]),
        position_ids=np.concatenate([part.position_ids for part in parts]),
    )
