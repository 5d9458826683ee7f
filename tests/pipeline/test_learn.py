"""What the learning step reads of a dataset: enough labels, from as many epochs as that takes.

Masked rows come again with other masks, never with the same; what is held out stays out.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.engine.tasks import Workspace
from pipeline.steps.verify.step import LearningCheck, learn
from stages.errors import FormatError
from stages.loading.dataset import open_dataset
from stages.objectives.clm.config import CausalLM
from stages.objectives.learning import LearningConfig
from stages.objectives.mlm.config import MaskedLM
from stages.verify.gates import settings_of
from stages.verify.rows import NO_LABEL, LabelledRows
from stages.verify.slices import learning_slices, own_labels, spread_rows
from stages.verify.twin import twin_rows
from tests.stages.loading.test_dataset import ROW_LENGTH, write_dataset
from tests.stages.loading.test_masked_rows import SHARDS, SPECIAL_IDS, write_masked

SMALL = LearningConfig(row_length=8, heldout_rows=8, min_heldout_tokens=4, labelled_tokens=200)


def clean(rows: LabelledRows) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    if rows.causal:
        return rows.input_ids
    return np.where(rows.labels == NO_LABEL, rows.input_ids, rows.labels)


@pytest.mark.parametrize(("labelled", "passes"), [(50, 1), (100, 2), (150, 3), (100_000, 4)])
def test_masked_rows_are_read_in_as_many_epochs_as_they_are_needed(
    tmp_path: Path, labelled: int, passes: int
) -> None:
    settings = settings_of(MaskedLM(), SMALL.model_copy(update={"labelled_tokens": labelled}))
    slices = learning_slices(write_masked(tmp_path), ["train"], settings)
    epochs = np.split(slices.training.labels, slices.passes)
    rows = np.split(clean(slices.training), slices.passes)
    assert slices.passes == passes
    assert all(np.array_equal(part, rows[0]) for part in rows)
    assert len({part.tobytes() for part in epochs}) == passes
    assert not slices.training.causal


def test_causal_rows_are_read_once(tmp_path: Path) -> None:
    settings = settings_of(CausalLM(), SMALL.model_copy(update={"labelled_tokens": 100_000}))
    slices = learning_slices(write_dataset(tmp_path, SHARDS), ["train"], settings)
    assert (slices.passes, slices.training.causal) == (1, True)
    assert len(slices.training.labels) + len(slices.heldout.labels) == 120


def test_without_a_validation_split_the_end_of_training_is_held_out(tmp_path: Path) -> None:
    path = write_masked(tmp_path)
    settings = settings_of(MaskedLM(), SMALL.model_copy(update={"labelled_tokens": 100_000}))
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
    settings = settings_of(MaskedLM(), SMALL)
    slices = learning_slices(path, ["train", "validation"], settings)
    assert slices.heldout_split == "validation"
    assert len(slices.heldout.labels) == 13
    scarce = settings.model_copy(update={"min_heldout_tokens": 1_000})
    assert learning_slices(path, ["train", "validation"], scarce).heldout_split == "train"


TINY = LearningConfig(
    row_length=8,
    heldout_rows=20,
    labelled_tokens=200,
    min_labelled_tokens=20,
    min_heldout_tokens=4,
    max_ids=64,
)


def learned(root: Path, config: LearningConfig) -> dict[str, Any]:
    """The task's record of the dataset in a run's folder; tiny as it is, it may pass no gate."""
    (name,) = [path.name for path in (root / "datasets").iterdir()]
    check = LearningCheck(name, ("train",), config, seed=1)
    return learn(Workspace(root, root / "tmp"), check).model_dump()


def test_the_record_holds_every_number_with_its_bound_and_is_bound_to_the_manifest(
    tmp_path: Path,
) -> None:
    path = write_dataset(tmp_path / "datasets", SHARDS)
    record = learned(tmp_path, TINY)
    gates = {gate["name"]: gate for gate in record["gates"]}
    assert {"gain", "leak_floor", "order_ablation", "resume"} <= gates.keys()
    assert gates["resume"]["passed"]
    assert record["isolation"] is None, "no row of these holds two documents"
    assert record["passed"] is all(gate["passed"] for gate in record["gates"])
    assert record["fingerprint"] == open_dataset(path).manifest.fingerprint
    assert record["settings"]["labelled_tokens"] == 200
    assert 0 < record["resume"]["supply"]["wait_share"] < 1
    assert "twin" not in record
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_a_full_check_of_masked_rows_has_a_twin_that_learns_the_same(tmp_path: Path) -> None:
    write_masked(tmp_path / "datasets")
    twin = learned(tmp_path, TINY.model_copy(update={"full": True}))["twin"]
    assert twin["loss"] == twin["twin_loss"]
    assert twin["deviation"] > 0


def test_too_few_labels_prove_nothing_and_say_why(tmp_path: Path) -> None:
    write_dataset(tmp_path / "datasets", SHARDS)
    record = learned(tmp_path, TINY.model_copy(update={"min_labelled_tokens": 100_000}))
    assert record["passed"]
    assert record["gated"]
    assert "verify.min_labelled_tokens = 100,000" in record["reason"]
    assert [gate["name"] for gate in record["gates"]] == ["finite_share", "resume"]
    assert all(gate["passed"] for gate in record["gates"]), "what needs no labels is still looked at"


def test_a_file_that_cannot_be_read_is_no_lack_of_labels(tmp_path: Path) -> None:
    path = write_dataset(tmp_path / "datasets", SHARDS)
    (path / "train" / "epoch-0000" / "00001" / "input_ids.npy").write_bytes(b"no array")
    with pytest.raises(FormatError):
        learned(tmp_path, TINY)


def test_a_twin_has_no_label_on_marks_that_have_none(tmp_path: Path) -> None:
    marks = {"fim_prefix": 296, "fim_suffix": 297, "fim_middle": 298}
    changes = {
        "objective": {"kind": "fim", "fim_rate": 1.0, "train_on_sentinels": False, "form": "row"},
        "attention": "causal_within_document",
        "label_convention": "unshifted",
        "special_ids": {**SPECIAL_IDS, **marks},
        "seq_len": ROW_LENGTH + 3,
    }
    dataset = open_dataset(write_masked(tmp_path, changes=changes), shuffle=False)
    given = own_labels(64)(dataset, np.arange(len(dataset)))
    anew = twin_rows(dataset, np.arange(len(dataset)), length=64)
    assert np.isin(given.input_ids, list(marks.values())).any()
    assert np.array_equal(anew.labels, given.labels)


def test_rows_are_spread_over_the_first_shards_that_hold_enough(tmp_path: Path) -> None:
    dataset = open_dataset(write_dataset(tmp_path, SHARDS))
    assert spread_rows(dataset, 10, 120).tolist() == list(range(0, 40, 4))
    assert spread_rows(dataset, 60, 120).max() == 78
    assert spread_rows(dataset, 999, 100).tolist() == list(range(100))
    assert len(spread_rows(dataset, 10, 0)) == 0


def test_a_validation_split_without_rows_leaves_the_end_of_training_to_hold_out(tmp_path: Path) -> None:
    path = write_dataset(tmp_path, SHARDS)
    write_dataset(tmp_path, ([],), split="validation")
    slices = learning_slices(path, ["train", "validation"], settings_of(CausalLM(), SMALL))
    assert slices.heldout_split == "train"
    assert len(slices.heldout.labels) > 0
