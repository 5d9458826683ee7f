"""What calibrating the learning check promises: faults are what they are called, no kind is left out."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from learning_gates import (
    CLASS_FAULTS,
    FAULTS,
    MASKED_FAULTS,
    TARGET_FAULTS,
    faults_for,
    labels_everywhere,
    labels_inverted,
    labels_visible,
    main,
    sentinels_random,
    spread,
)
from trial_lines import read_lines

from pipeline.run_file.load import load_run_file
from stages.objectives.table import KINDS, refuse_impossible
from stages.verify.rows import NO_LABEL, LabelledRows, predicted_labels, shift_labels
from tests.stages.loading.test_dataset import SHARDS, write_dataset

X = NO_LABEL


def rows_of(input_ids: list[int], labels: list[int], *, causal: bool) -> LabelledRows:
    """One row of two documents and one pad."""
    segments = np.array([[0, 0, 0, 1, 1, -1]], np.int32)
    positions = np.array([[0, 1, 2, 0, 1, 0]], np.int32)
    attention = "causal_within_document" if causal else "bidirectional_within_document"
    return LabelledRows(np.array([input_ids]), np.array([labels]), segments, positions, attention)


CAUSAL = rows_of([5, 6, 7, 8, 9, 3], [5, 6, 7, 8, 9, X], causal=True)
MASKED = rows_of([5, 4, 7, 8, 4, 3], [X, 6, X, X, 9, X], causal=False)


def test_visible_labels_are_what_the_model_sees() -> None:
    causal = labels_visible(CAUSAL)
    shown = predicted_labels(causal)
    assert shown.tolist() == [[5, 6, X, 8, X]]
    masked = labels_visible(MASKED)
    assert masked.input_ids.tolist() == [[5, 6, 7, 8, 9, 3]]
    assert predicted_labels(masked).tolist() == MASKED.labels.tolist()


def test_shifted_labels_are_those_of_later_tokens() -> None:
    assert predicted_labels(shift_labels(CAUSAL, 1)).tolist() == [[7, 8, X, X, X]]
    assert shift_labels(MASKED, 1).labels.tolist() == [[6, X, X, 9, X, X]]
    assert shift_labels(MASKED, 2).labels.tolist() == [[X, X, 9, X, X, X]]


def test_labels_everywhere_spare_padding_alone() -> None:
    assert labels_everywhere(MASKED).labels.tolist() == [[5, 6, 7, 8, 9, X]]


@pytest.mark.parametrize("name", MASKED_FAULTS)
def test_every_fault_changes_the_rows_and_spares_the_originals(name: str) -> None:
    originals = (CAUSAL, MASKED) if name in FAULTS else (MASKED,)
    for rows in originals:
        before = rows.input_ids.copy(), rows.labels.copy()
        faulty = MASKED_FAULTS[name](rows)
        same = np.array_equal(faulty.input_ids, before[0]) and np.array_equal(faulty.labels, before[1])
        assert not same
        assert np.array_equal(rows.input_ids, before[0])
        assert np.array_equal(rows.labels, before[1])


def test_random_sentinels_are_the_same_ones_elsewhere_and_the_text_stays() -> None:
    labels = np.array([[50, 7, 51, 8, 52, 9, 2]] * 4) + np.arange(4)[:, None] * np.array(
        [3, 0, 3, 0, 3, 0, 0]
    )
    apart = (2, *range(50, 65))
    rows = replace(
        LabelledRows(labels, labels, np.zeros_like(labels, np.int32), np.zeros_like(labels, np.int32)),
        decoder_input_ids=labels,
        apart=apart,
    )
    moved = sentinels_random(rows)
    tied = np.isin(labels, apart)
    assert np.array_equal(moved.labels[~tied], labels[~tied])
    assert np.array_equal(np.sort(moved.labels[tied]), np.sort(labels[tied]))
    assert not np.array_equal(moved.labels, labels)
    shown = labels_visible(rows)
    assert shown.decoder_input_ids is not None
    assert np.array_equal(shown.decoder_input_ids, labels)
    assert list(faults_for(rows)) == list(TARGET_FAULTS)


def test_inverted_labels_are_those_of_every_second_row() -> None:
    labels = np.array([[0, 1, X], [0, 1, X]])
    segments = np.array([[0, 0, -1]] * 2, np.int32)
    rows = LabelledRows(labels, labels, segments, segments, classes=2)
    assert labels_inverted(rows).labels.tolist() == [[0, 1, X], [1, 0, X]]
    assert list(faults_for(rows)) == list(CLASS_FAULTS)


def test_a_range_is_its_least_and_most() -> None:
    assert spread([0.5, -0.25, 1.0]) == "-0.250 .. 1.000"
    assert spread([0.5, None]) == "nan .. nan"


def test_every_kind_of_objective_is_learned_from() -> None:
    file = load_run_file(Path(__file__).parents[2] / "benchmarks" / "objectives.toml")
    missing = set(KINDS) - {dataset.objective.kind for dataset in file.datasets}
    assert not missing, f"add a dataset of {missing} to benchmarks/objectives.toml"
    for dataset in file.datasets:
        refuse_impossible(dataset.objective, seq_len=file.packing.seq_len, num_sentinels=256)


def test_a_dataset_that_proves_nothing_does_not_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, log = write_dataset(tmp_path / "datasets", SHARDS), tmp_path / "gates.jsonl"
    words = ["learning_gates.py", str(dataset), "--seeds", "2", "--fault-seeds", "0"]
    monkeypatch.setattr(sys, "argv", [*words, "--json", str(log)])
    assert main() == 1
    title, correct, _, tally = capsys.readouterr().out.strip().splitlines()
    assert tally.startswith("2 trials, 2 failed")
    assert title.startswith(f"{dataset.name} (clm)")
    assert "labelled tokens" in correct
    assert correct.endswith("2/2")
    trials = {line["trial"]: line for line in read_lines(log) if "trial" in line}
    assert list(trials) == [f"{dataset.name}, correct, seed {seed}" for seed in (0, 1)]
    assert all("labelled tokens" in line["result"]["reason"] for line in trials.values())
    assert [line["result"]["passed"] for line in trials.values()] == [True, True]
