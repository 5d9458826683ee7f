"""Learn: the training actor's task: rows from the loader, as a trainer gets them, to the check."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.tasks import Workspace
from stages.errors import DataError
from stages.loading.dataset import ShardDataset, open_dataset
from stages.verify.gates import LearningConfig

if TYPE_CHECKING:
    from stages.verify.model import LabelledRows

_SPARE = 1.25
"""Rows read for each row that is needed: padding and rare ids carry no label."""


@dataclass(frozen=True)
class LearningCheck:
    """One dataset to learn from."""

    dataset: str
    splits: tuple[str, ...]
    config: LearningConfig
    seed: int


def learn(workspace: Workspace, work: LearningCheck) -> dict[str, Any]:
    """Train on a dataset's labels and on permuted ones, and hold the losses to the gates."""
    import torch  # noqa: PLC0415  # seconds to import, and only this task needs it

    from stages.verify.learning import check_learning  # noqa: PLC0415  # likewise

    folder = workspace.path(f"datasets/{work.dataset}")
    train = open_dataset(folder, split="train")
    seq_len = train.manifest.seq_len
    wanted = int(work.config.heldout_rows * work.config.row_length * _SPARE) // seq_len + 1
    heldout_split = "train"
    end = len(train)
    if "validation" in work.splits:
        validation = open_dataset(folder, split="validation")
        if validation.manifest.totals.tokens >= 2 * work.config.min_heldout_tokens:
            heldout_split = "validation"
            heldout = _rows(validation, np.arange(min(wanted, len(validation))))
    if heldout_split == "train":  # too little is held out: take the end of the epoch instead
        end -= min(wanted, len(train) // 5)
        heldout = _rows(train, np.arange(end, len(train)))
    needed = int(work.config.labelled_tokens * _SPARE) // seq_len + 1
    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        result = check_learning(
            _rows(train, np.arange(min(needed, end))),
            heldout,
            config=work.config,
            seed=work.seed,
            device=device,
        )
    except DataError as error:  # too few labels to say anything: not proven, and the report says why
        return {"passed": False, "reason": str(error)}
    return {
        **result.to_dict(),
        "device": device,
        "heldout_split": heldout_split,
        "fingerprint": train.manifest.fingerprint,
    }


def _rows(dataset: ShardDataset, positions: NDArray[np.int64]) -> "LabelledRows":
    from stages.verify.model import LabelledRows  # noqa: PLC0415  # brings torch

    batch = dataset.batch(positions)
    return LabelledRows(
        input_ids=batch["input_ids"],
        labels=batch["labels"],
        segment_ids=batch["segment_ids"].astype(np.int32),
        position_ids=batch["position_ids"].astype(np.int32),
    )
