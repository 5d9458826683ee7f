"""What a run promises of supervised rows: packed documents with a loss on their targets alone.

Labels are those of a plain loop over the texts of prompts and targets; rows are full; no worker and no
resumed training changes a bit; the report's shares add up; verify finds another mask.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.report.inspection import Role, inspect
from pipeline.session.verifying import verify_session
from pipeline.tools.export.dataset import export
from stages.cleaning.text import clean_text
from stages.errors import ConfigError
from stages.loading.batches import Batches
from stages.loading.dataset import ShardDataset, open_dataset
from stages.objectives.rows import IGNORED
from stages.packing.layout import Strategy
from stages.store.manifest import LOSS_MASK
from stages.tokenizer.encode import load_trained
from stages.verify.slices import own_labels
from stages.verify.twin import twin_rows
from tests.conftest import bundled_lines, digests, run_small
from tests.laws.test_every_objective import sign_again

PAIRS = 300
SEQ_LEN = 512
QUESTIONS = {
    "name": "questions",
    "paths": ["questions/*.jsonl"],
    "text_column": "prompt",
    "section_columns": ["target"],
    "id_column": "id",
    "language": "en",
}
PLAIN = {"name": "plain", "paths": ["*.jsonl"], "id_column": "id", "language": {"column": "lang"}}
TARGETS = {"kind": "clm", "loss": "targets"}
SETTINGS: dict[str, Any] = {
    "sources": [QUESTIONS],
    "packing": {"seq_len": SEQ_LEN, "shards": 1},
    "validation": {"fraction": 0.0},
    "ingest": {"min_chars": 1},
    "dedup": {"near": False},
    "tokenizer": {"train": {"vocab_size": 1024}},
    "datasets": [{"name": "sft", "objective": TARGETS}],
    "verify": {
        "labelled_tokens": 9000,
        "min_labelled_tokens": 500,
        "heldout_rows": 60,
        "min_heldout_tokens": 100,
    },
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs of a short prompt with a short target, a few with a prompt longer than rows, and texts."""
    folder = tmp_path_factory.mktemp("supervised")
    (folder / "a.jsonl").write_bytes(b"\n".join(bundled_lines("text/*", 6)))
    (folder / "questions").mkdir()
    draws = np.random.default_rng(5)
    words = " ".join(json.loads(line)["text"] for line in bundled_lines("text/*", 2)).split()
    with (folder / "questions" / "q.jsonl").open("w") as file:
        for number in range(PAIRS):
            prompt, target = (" ".join(draws.choice(words, draws.integers(2, 13))) for _ in "ab")
            file.write(
                json.dumps({"id": f"q{number}", "prompt": f"{prompt}? ", "target": target}) + "\n"
            )
    with (folder / "long.ndjson").open("w") as file:
        for number in range(4):
            prompt = " ".join(draws.choice(words, 400))
            file.write(json.dumps({"id": f"l{number}", "prompt": prompt, "target": " yes"}) + "\n")
    return folder


@pytest.fixture(scope="module")
def finished(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over the pairs alone, to its end."""
    output = tmp_path_factory.mktemp("finished") / "run"
    verdict = run_small(corpus, output, until=None, **SETTINGS)["verify"]["sft"]
    assert verdict["findings"] == []
    assert "reason" not in verdict["learning"], "there is enough to learn from"
    gates = {gate["name"]: gate["passed"] for gate in verdict["learning"]["gates"]}
    assert gates["isolation"]
    assert gates["isolation_shown"]
    assert gates["resume"]
    return output


LONG = {**QUESTIONS, "name": "long", "paths": ["long.ndjson"]}
MIXED: dict[str, Any] = {
    **SETTINGS,
    "sources": [QUESTIONS, LONG, PLAIN],
    "tokenizer": {"train": {"vocab_size": 1024}},
    "packing": {"seq_len": 128, "shards": 2},
    "validation": {"fraction": 0.05},
    "datasets": [
        *({"name": f"{name}", "objective": TARGETS, "packing": {"strategy": name}} for name in Strategy),
        {"name": "first", "objective": {**TARGETS, "mask_first_token": True}},
        {"name": "drawn", "objective": TARGETS, "materialized_epochs": 2},
    ],
    "verify": {"learning": False},
}
NAMES = [dataset["name"] for dataset in MIXED["datasets"]]


@pytest.fixture(scope="module")
def mixed(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over pairs, prompts that are cut, and texts, in every way of packing."""
    output = tmp_path_factory.mktemp("mixed") / "run"
    verdicts = run_small(corpus, output, until=None, **MIXED)["verify"]
    assert {name: verdict["findings"] for name, verdict in verdicts.items()} == {
        name: [] for name in NAMES
    }
    return output


def records(corpus: Path) -> dict[str, list[str]]:
    """Return the prompt and the target of each document that has them, as they are cleaned."""
    lines = (corpus / "questions" / "q.jsonl").read_text().splitlines()
    lines += (corpus / "long.ndjson").read_text().splitlines()
    pairs = [json.loads(line) for line in lines]
    return {pair["id"]: [clean_text(pair[key]) for key in ("prompt", "target")] for pair in pairs}


def prompts_stored(run: Path) -> dict[str, int]:
    """Return how many tokens the prompt of each pair has in the token store, by own id."""
    found: dict[str, int] = {}
    for folder in sorted((run / "tokens").rglob("sections")):
        ptr, ends = (np.load(folder / f"{name}.npy") for name in ("ptr", "ends"))
        own_ids = pq.read_table(folder.parent / "documents.parquet").column("own_id").to_pylist()
        assert (np.diff(ptr) == 2).all()
        found |= dict(zip(own_ids, ends[ptr[:-1]].tolist(), strict=True))
    return found


def pieces(dataset: ShardDataset) -> Iterator[tuple[str, int, dict[str, np.ndarray]]]:
    """Yield each piece of each document: its own id, where it begins there, and its columns."""
    first = 0
    for shard in dataset.manifest.shards:
        folder = dataset.folder / shard.path
        segments = {path.stem: np.load(path) for path in (folder / "segments").glob("*.npy")}
        own_ids = pq.read_table(folder / "documents.parquet").column("own_id").to_pylist()
        batch = dataset.batch(np.arange(first, first + shard.rows))
        for row in range(shard.rows):
            for number in range(segments["row_ptr"][row], segments["row_ptr"][row + 1]):
                start, length = int(segments["start"][number]), int(segments["length"][number])
                inside = {name: column[row, start : start + length] for name, column in batch.items()}
                offset = int(segments["doc_offset"][number])
                yield own_ids[segments["doc"][number]], offset, inside
        first += shard.rows


def test_short_pairs_fill_rows_and_have_a_loss_on_targets_alone(finished: Path, corpus: Path) -> None:
    dataset = open_dataset(finished / "datasets" / "sft", shuffle=False)
    totals = dataset.manifest.totals
    assert totals.documents == PAIRS
    assert totals.tokens / (totals.rows * SEQ_LEN) >= 0.95
    tokenizer, wanted, seen = (
        load_trained(finished / "tokenizer" / "tokenizer.model"),
        records(corpus),
        0,
    )
    eos = dataset.vocabulary.named("eos")
    for own_id, offset, inside in pieces(dataset):
        assert offset == 0, "shorter than a row"
        learned = inside["labels"] != IGNORED
        ids = inside["input_ids"]
        assert tokenizer.decode([ids[~learned], ids[learned]]) == wanted[own_id]
        assert (inside["labels"][learned] == ids[learned]).all()
        assert learned[np.argmax(learned) :].all(), "one target, at the end"
        assert inside["labels"][-1] == eos, "which is learned with the target"
        assert np.array_equal(inside["position_ids"], np.arange(len(ids)))
        seen += 1
    assert seen == totals.documents


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("split", ["train", "validation"])
def test_labels_of_any_piece_are_those_of_its_document(
    mixed: Path, corpus: Path, name: str, split: str
) -> None:
    dataset = open_dataset(mixed / "datasets" / name, split=split, shuffle=False)
    prompts = prompts_stored(mixed)
    assert prompts.keys() <= records(corpus).keys()
    assert len(prompts) == PAIRS + 4
    kinds = {"plain": 0, "target": 0, "silent": 0}
    for own_id, offset, inside in pieces(dataset):
        places = offset + np.arange(len(inside["labels"]))
        learned = places >= prompts.get(own_id, 0)
        kinds["plain" if own_id not in prompts else "target" if learned.any() else "silent"] += 1
        if name == "first":
            learned[0] = False
        assert np.array_equal(inside["labels"], np.where(learned, inside["input_ids"], IGNORED)), own_id
    assert kinds["plain"] > 0
    assert kinds["target"] > 0
    assert kinds["silent"] > 0 or split == "validation", "a piece of a long prompt stays"


@pytest.mark.parametrize("name", NAMES)
def test_the_report_says_what_share_of_the_tokens_has_a_loss(mixed: Path, name: str) -> None:
    report = json.loads((mixed / "report" / "report.json").read_text())["packing"][name]
    silent = 0
    for split, content in report.items():
        folder = mixed / "datasets" / name / split
        masks = [np.load(path) for path in sorted(folder.rglob(f"epoch-0000/*/{LOSS_MASK}.npy"))]
        learned = sum(int(mask.sum()) for mask in masks)
        for rows in (content["sources"], content["languages"]):
            assert sum(row["learned"] for row in rows) == learned > 0
        by_name = {row["name"]: row for row in content["sources"]}
        assert by_name.keys() == {"plain", "questions", "long"} or split == "validation"
        assert by_name["plain"]["learned"] == by_name["plain"]["tokens"]
        assert by_name["questions"]["learned"] < by_name["questions"]["tokens"]
        dataset = open_dataset(mixed / "datasets" / name, split=split, shuffle=False)
        counts = [0 for _, _, inside in pieces(dataset) if (inside["labels"] == IGNORED).all()]
        if name != "first":  # of which a piece of one token has no label
            assert sum(row["silent_segments"] for row in content["sources"]) == len(counts)
        silent += sum(row["silent_segments"] for row in content["sources"])
    assert silent > 0
    assert "with a loss" in (mixed / "report" / "index.html").read_text()


def test_labels_put_together_anew_for_the_learning_check_are_the_same(mixed: Path) -> None:
    dataset = open_dataset(mixed / "datasets" / "best_fit", shuffle=False)
    rows = np.arange(0, len(dataset), 3)
    given, anew = own_labels(64)(dataset, rows), twin_rows(dataset, rows, length=64)
    assert np.array_equal(anew.labels, given.labels)
    assert (given.labels == IGNORED).any()


def test_a_row_is_shown_with_its_prompts_silent(finished: Path) -> None:
    row = inspect(finished, "sft", split="train", row=0, epoch=0)
    (sequence,) = row["sequences"]
    roles = [cell["role"] for cell in sequence["tokens"]]
    learned = open_dataset(finished / "datasets" / "sft", shuffle=False)[0]["labels"] != IGNORED
    assert {Role.SILENT.value, Role.TEXT.value} <= set(roles)
    silent = [role == Role.SILENT.value for role in roles]
    assert not (np.array(silent) & learned[: len(silent)]).any()


@pytest.mark.usefixtures("ray_session")
@pytest.mark.campaign
def test_two_workers_make_the_same_bytes(corpus: Path, mixed: Path, tmp_path: Path) -> None:
    run_small(corpus, tmp_path / "run", workers=2, until="draw", **MIXED)
    run_small(corpus, tmp_path / "run", workers=2, until="shard", **MIXED)
    assert digests(tmp_path / "run", "datasets") == digests(mixed, "datasets")


def test_a_walk_that_stopped_goes_on_with_the_same_labels(mixed: Path) -> None:
    def walk() -> Batches:
        return Batches(open_dataset(mixed / "datasets" / "best_fit"), 3)

    whole, stopped, resumed = walk(), walk(), walk()
    expected = [batch["labels"] for batch in whole]
    assert len(expected) > 4
    found = []
    for batch in stopped:
        found.append(batch["labels"])
        if len(found) == 2:
            break
    resumed.load_state_dict(stopped.state_dict())
    found += [batch["labels"] for batch in resumed]
    assert len(found) == len(expected)
    assert all(np.array_equal(*pair) for pair in zip(found, expected, strict=True))


def test_rows_are_exported_with_their_labels_and_ids_alone_are_refused(
    finished: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="--format nanogpt: holds ids alone, but only targets of sft"):
        export(finished, "sft", "nanogpt", tmp_path / "ids")
    assert not (tmp_path / "ids").exists()
    export(finished, "sft", "hf-parquet", tmp_path / "rows")
    (path,) = (tmp_path / "rows" / "train").glob("*.parquet")
    labels = pq.read_table(path).column("labels").combine_chunks().flatten().to_numpy()
    dataset = open_dataset(finished / "datasets" / "sft", shuffle=False)
    batch = dataset.batch(np.arange(len(dataset)))
    assert np.array_equal(labels.reshape(-1, SEQ_LEN), batch["labels"])
    export(finished, "sft", "olmo-core", tmp_path / "olmo")
    mask = np.fromfile(tmp_path / "olmo" / "train" / "label_mask" / "00000.npy", np.bool_)
    assert len(mask) == dataset.manifest.totals.tokens
    assert int(mask.sum()) == int((batch["labels"] != IGNORED).sum())


def shift(mask: np.ndarray) -> np.ndarray:
    """Move every loss by one token."""
    return np.roll(mask, 1, axis=1)


@pytest.mark.campaign  # `test_planted_faults` shifts the mask of a dataset too
def test_a_mask_that_is_shifted_is_found_though_the_manifest_vouches_for_it(
    mixed: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(mixed, run)
    split = run / "datasets" / "best_fit" / "train"
    path = split / "epoch-0000" / "00000" / f"{LOSS_MASK}.npy"
    np.save(path, shift(np.load(path)))
    sign_again(split)
    verdicts = verify_session(run, workers=0, address=None, stream=None)["verify"]
    checks = {finding["check"] for finding in verdicts["best_fit"]["findings"]}
    assert "loss_mask" in checks
    assert not checks & {"digests", "tokens"}
    assert all(verdict["passed"] for name, verdict in verdicts.items() if name != "best_fit")
