"""What the learning step reads of a dataset: enough labels, from as many epochs as that takes.

Masked rows come again with other masks, never with the same; what is held out stays out.
"""

from pathlib import Path

import numpy as np
import pytest

from stages.loading.dataset import open_dataset
from stages.verify.gates import LearningConfig, settings_for
from stages.verify.rows import NO_LABEL, LabelledRows
from stages.verify.slices import learning_slices
from tests.stages.loading.test_dataset import write_dataset
from tests.stages.loading.test_masked_rows import SHARDS, write_masked

SMALL = LearningConfig(row_length=8, heldout_rows=8, min_heldout_tokens=4, labelled_tokens=200)


def clean(rows: LabelledRows) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    if rows.causal:
        return rows.input_ids
    return np.where(rows.labels == NO_LABEL, rows.input_ids, rows.labels)


@pytest.mark.parametrize(("labelled", "passes"), [(50, 1), (100, 2), (150, 3), (100_000, 4)])
def test_masked_rows_are_read_in_as_many_epochs_as_they_are_needed(
    tmp_path: Path, labelled: int, passes: int
) -> None:
    settings = settings_for("mlm", SMALL.model_copy(update={"labelled_tokens": labelled}))
    slices = learning_slices(write_masked(tmp_path), ["train"], settings)
    epochs = np.split(slices.training.labels, slices.passes)
    rows = np.split(clean(slices.training), slices.passes)
    assert slices.passes == passes
    assert all(np.array_equal(part, rows[0]) for part in rows)
    assert len({part.tobytes() for part in epochs}) == passes
    assert not slices.training.causal


def test_causal_rows_are_read_once(tmp_path: Path) -> None:
    settings = settings_for("clm", SMALL.model_copy(update={"labelled_tokens": 100_000}))
    slices = learning_slices(write_dataset(tmp_path, SHARDS), ["train"], settings)
    assert (slices.passes, slices.training.causal) == (1, True)
    assert len(slices.training.labels) + len(slices.heldout.labels) == 120


def test_without_a_validation_split_the_end_of_training_is_held_out(tmp_path: Path) -> None:
    path = write_masked(tmp_path)
    settings = settings_for("mlm", SMALL.model_copy(update={"labelled_tokens": 100_000}))
    slices = learning_slices(path, ["train"], settings)
    whole = open_dataset(path, shuffle=False)
    stored = whole.batch(np.arange(len(whole)))
    ids = np.where(stored["labels"] == NO_LABEL, stored["input_ids"], stored["labels"])
    count = len(slices.heldout.labels)
    assert slices.heldout_split == "train"
    assert 0 < count < 24
    assert np.array_equal(clean(slices.heldout), ids[-count:])
    assert np.array_equal(np.split(clean(slices.training), slices.passes)[-1], ids[:-count])


def test_a_validation_split_with_labels_enough_is_what_is_held_out(tmp_path: Path) -> None:
    path = write_masked(tmp_path)
    write_masked(tmp_path, split="validation")
    settings = settings_for("mlm", SMALL)
    slices = learning_slices(path, ["train", "validation"], settings)
    assert slices.heldout_split == "validation"
    assert len(slices.heldout.labels) == 13
    scarce = settings.model_copy(update={"min_heldout_tokens": 1_000})
    assert learning_slices(path, ["train", "validation"], scarce).heldout_split == "train"
