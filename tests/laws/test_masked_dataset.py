"""What a run promises of masked rows beside causal ones.

Both are made from one token store; the stored rows are the same, byte for byte; both pass verify; what
a damaged shard or a false manifest does to masks is named.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.session.verifying import verify_session
from stages.loading.dataset import open_dataset
from stages.objectives.rows import IGNORED
from stages.store.digests import digest_file
from stages.store.manifest import Manifest, write_manifest
from tests.campaign import FULL
from tests.conftest import run_small

DATASETS: list[dict[str, Any]] = [
    {"name": "clm"},
    {"name": "mlm", "objective": {"kind": "mlm"}},
]
SPLITS = ("train", "validation")
IDS = "epoch-0000/00000/input_ids.npy"
VOCABULARY = 1500


@pytest.fixture(scope="module")
def finished(
    small_corpus: Path, few_texts: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Any]:
    """A run of both datasets to its end, and its report; of more texts if models learn from them."""
    output = tmp_path_factory.mktemp("masked") / "run"
    return output, run_small(
        small_corpus if FULL else few_texts,
        output,
        datasets=DATASETS,
        tokenizer={"train": {"vocab_size": 4096 if FULL else VOCABULARY}},
        until=None,
        verify={"learning": FULL},  # three quarters of a minute
    )


def test_masked_and_causal_datasets_of_one_run_pass_verify(finished: tuple[Path, Any]) -> None:
    report = finished[1]
    for name in ("clm", "mlm"):
        verdict = report["verify"][name]
        assert verdict["findings"] == []
        assert verdict["passed"], (name, verdict["learning"])


def test_masked_rows_are_stored_as_causal_ones_are(finished: tuple[Path, Any]) -> None:
    folder = finished[0] / "datasets"
    compared = 0
    for path in (folder / "clm").rglob("*.*"):
        if path.name == "dataset.json":
            continue
        same = folder / "mlm" / path.relative_to(folder / "clm")
        assert same.read_bytes() == path.read_bytes()
        compared += 1
    assert compared > 10


@pytest.mark.parametrize("split", SPLITS)
def test_the_manifest_says_how_masks_are_drawn(finished: tuple[Path, Any], split: str) -> None:
    content = json.loads((finished[0] / "datasets" / "mlm" / split / "dataset.json").read_text())
    assert content["objective"] == {
        "kind": "mlm",
        "form": "row",
        "mask_probability": 0.15,
        "selection": "bernoulli",
        "mask_share": 0.8,
        "random_share": 0.1,
        "max_ngram": 3,
    }
    assert content["attention"] == "bidirectional_within_document"
    assert content["label_convention"] == "masked"


@pytest.mark.parametrize("split", SPLITS)
def test_masked_rows_restore_to_the_causal_ones(finished: tuple[Path, Any], split: str) -> None:
    folder = finished[0] / "datasets"
    causal = open_dataset(folder / "clm", split=split, epoch=1)
    masked = open_dataset(folder / "mlm", split=split, epoch=1)
    positions = np.arange(min(64, len(causal)))
    rows, clean = masked.batch(positions), causal.batch(positions)["input_ids"]
    selected = rows["labels"] != IGNORED
    assert np.array_equal(np.where(selected, rows["labels"], rows["input_ids"]), clean)
    assert 0.1 < selected.mean() < 0.2


def sign_again(split: Path, **changes: Any) -> None:
    """Make the manifest vouch for the files as they are now."""
    path = split / "dataset.json"
    content = json.loads(path.read_text())
    for shard in content["shards"]:
        for name in shard["files"]:
            shard["files"][name] = digest_file(split / shard["path"] / name).model_dump()
    write_manifest(path, Manifest.model_validate({**content, **changes}).signed())


def unknown_id(split: Path) -> None:
    ids = np.load(split / IDS)
    ids[1, 3] = VOCABULARY
    np.save(split / IDS, ids)
    sign_again(split)


FAULTS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "labels declared unshifted": (
        lambda split: sign_again(split, label_convention="unshifted"),
        "dataset.json",
        "label_convention",
    ),
    "attention declared causal": (
        lambda split: sign_again(split, attention="causal_within_document"),
        "dataset.json",
        "attention",
    ),
    "an objective that nobody knows": (
        lambda split: sign_again(split, objective={"kind": "rtd"}),
        "dataset.json",
        "manifest",
    ),
    "an id past the vocabulary": (unknown_id, IDS, "ids_in_range"),
}


@pytest.fixture(scope="module")
def verdicts(few_texts: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What verify says of a run with a masked dataset for each fault."""
    run = tmp_path_factory.mktemp("faults") / "run"
    datasets = [{**DATASETS[1], "name": f"d{number}"} for number in range(len(FAULTS))]
    run_small(few_texts, run, datasets=datasets, tokenizer={"train": {"vocab_size": VOCABULARY}})
    for number, (plant, _, _) in enumerate(FAULTS.values()):
        plant(run / "datasets" / f"d{number}" / "train")
    found: dict[str, Any] = verify_session(run, workers=0, address=None, stream=None)["verify"]
    return found


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(fault: str, verdicts: dict[str, Any]) -> None:
    _, file, check = FAULTS[fault]
    name = f"d{[*FAULTS].index(fault)}"
    found = {(found["file"], found["check"]) for found in verdicts[name]["findings"]}
    assert (f"datasets/{name}/train/{file}", check) in found
    assert not verdicts[name]["passed"]
