"""What a run promises of every objective: one run makes all of them from the same tokens.

Each dataset passes verify, holds every token of every document once, and gives columns that depend on
nothing but seed, epoch, shard and row: not on workers, batches, order or whether numba is there.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from torch.utils.data import DataLoader

from pipeline.session.verifying import verify_session
from stages.errors import ConfigError, FormatError
from stages.loading.batches import Batches
from stages.loading.blend import Blend
from stages.loading.dataset import ShardDataset, open_dataset
from stages.objectives import kind
from stages.objectives.table import KINDS, traits_of
from stages.store.digests import digest_file
from stages.store.drawn import DrawnManifest, write_drawn
from stages.store.manifest import Manifest, write_manifest
from stages.tokenizer.special import BOS, EOS, PAD, UNK, control_symbols, special_ids
from tests.campaign import FULL
from tests.conftest import digests, run_datasets, run_small
from tests.laws.every_dataset import BEYOND_ROWS, DATASETS, LEARNED, MATERIALISED, OBJECTIVES
from tests.laws.sectioned import SOURCES, sections_shown, write_sections

SPLITS = ("train", "validation")
TWICE = {
    *("ngram", "seq2seq", "ul2r-packed", "document-fim", "packed-sentences", "simcse"),
    *("targets-first", "electra"),
}
"""Forms that a campaign alone tries: others are laid out, and others drawn, as each of these is."""
NAMES = [name for name in OBJECTIVES if FULL or name not in TWICE]
SETTINGS: dict[str, Any] = {
    "sources": SOURCES,
    "datasets": [dataset for dataset in DATASETS if dataset["name"] in NAMES],
    "ingest": {"unit_size": "1MiB", "min_chars": 20},
    "tokenizer": {"train": {"vocab_size": 1500, "character_coverage": 0.98}},
    "verify": {"learning": False},
}
"""A small vocabulary, because a model that replaces tokens gives a logit for each of it, and few units,
because each shard of each dataset reads all of them."""
WORKED = ("ul2", "fim", "crops", "nsp")
"""Datasets that workers read: drawn row by row, with some epochs on disk, of two views, and those of
which no other epochs can be opened."""


@pytest.fixture(scope="module")
def corpus(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some real texts, texts that write out every special symbol, and some of three sections."""
    folder = tmp_path_factory.mktemp("literal")
    few = (small_corpus / "a.jsonl").read_text().splitlines()[: None if FULL else 40]
    (folder / "few.jsonl").write_text("\n".join(few) + "\n")
    symbols = [UNK, BOS, EOS, PAD, *control_symbols()]
    texts = [" ".join(symbols), "".join(symbols), *(f"{name} in the text {name}" for name in symbols)]
    lines = [json.dumps({"text": text, "lang": "en", "id": str(n)}) for n, text in enumerate(texts)]
    (folder / "literal.jsonl").write_text("\n".join(lines) + "\n")
    numbered = [f"{number}: {text}" for number, text in enumerate(texts)]
    write_sections(folder / "sections", numbered, each=12 if FULL else 3)
    return folder


@pytest.fixture(scope="module")
def finished(
    corpus: Path,
    tmp_path_factory: pytest.TempPathFactory,
    few_redrawn: None,  # noqa: ARG001  # until the module ends
) -> tuple[Path, Any]:
    """A run of all datasets to its end by a plain loop, and its report."""
    output = tmp_path_factory.mktemp("objectives") / "run"
    return output, run_small(corpus, output, until=None, **SETTINGS)


def test_every_kind_is_among_the_datasets() -> None:
    assert {objective["kind"] for objective in OBJECTIVES.values()} | LEARNED == KINDS.keys()


@pytest.mark.parametrize("name", NAMES)
def test_every_dataset_passes_verify(finished: tuple[Path, Any], name: str) -> None:
    verdict = finished[1]["verify"][name]
    assert verdict["findings"] == []
    assert verdict["passed"]
    assert verdict["checked"]["rows"] > 20


@pytest.mark.parametrize("name", NAMES)
def test_no_special_id_comes_from_a_text_that_writes_it_out(
    finished: tuple[Path, Any], name: str
) -> None:
    folder = finished[0] / "datasets" / name
    own_ids = [
        part
        for path in folder.rglob("documents.parquet")
        for part in pq.read_table(path).column("own_id").to_pylist()
    ]
    assert len(set(own_ids) & {str(number) for number in range(200)}) > 100
    special = special_ids()
    stored = {special["eos"], special["pad"]}
    for path in folder.glob("*/epoch-0000/*/input_ids.npy"):
        found = set(np.unique(np.load(path)).tolist())
        assert found & set(special.values()) <= stored


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("split", SPLITS)
def test_every_token_of_every_document_is_in_the_rows(
    finished: tuple[Path, Any], name: str, split: str
) -> None:
    folder = finished[0] / "datasets" / name / split
    totals = json.loads((folder / "dataset.json").read_text())["totals"]
    tables = [pq.read_table(path) for path in folder.rglob("documents.parquet")]
    assert totals["tokens"] == sum(sum(table.column("tokens").to_pylist()) for table in tables) > 0
    assert totals["tokens_cut"] == 0


def drawn(path: Path, split: str, *, epoch: int, size: int) -> dict[str, str]:
    """Return a digest of each column of a split in stored order, read in batches of some size."""
    dataset = open_dataset(path, split=split, epoch=epoch, shuffle=False)
    hashes: dict[str, Any] = {}
    for start in range(0, len(dataset), size):
        batch = dataset.batch(np.arange(start, min(start + size, len(dataset))))
        for name, column in batch.items():
            hashes.setdefault(name, hashlib.sha256()).update(column.tobytes())
    return {name: found.hexdigest() for name, found in hashes.items()}


@pytest.mark.parametrize("name", NAMES)
def test_batches_and_numba_change_no_bit_and_epochs_differ(
    finished: tuple[Path, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, compiled = finished[0] / "datasets" / name, name not in BEYOND_ROWS
    whole = drawn(path, "validation", epoch=1, size=10_000)
    assert drawn(path, "validation", epoch=1, size=7) == whole
    other = drawn(path, "validation", epoch=2, size=10_000)
    assert (other != whole) is traits_of(open_dataset(path).objective).dynamic
    if compiled:
        monkeypatch.setattr(kind, "_compiles", lambda: False)
        assert drawn(path, "validation", epoch=1, size=10_000) == whole


@pytest.mark.parametrize("name", OBJECTIVES if FULL else WORKED)
def test_workers_that_run_already_give_the_rows_of_the_epoch_that_is_set(
    finished: tuple[Path, Any], name: str
) -> None:
    path = finished[0] / "datasets" / name
    rows: Any = open_dataset(path, split="validation")  # as good as torch's Dataset
    workers: dict[str, Any] = {"persistent_workers": True, "multiprocessing_context": "fork"}
    loader: Any = DataLoader(rows, 8, num_workers=1, **workers)
    epochs = (0, 2, 1) if name in BEYOND_ROWS else (0, 5, 1)
    seen = set()
    for epoch in epochs:
        rows.set_epoch(epoch)
        batches = list(loader)
        expected = open_dataset(path, split="validation", epoch=epoch).batch(np.arange(len(rows)))
        given = {column: np.concatenate([batch[column] for batch in batches]) for column in batches[0]}
        assert given.keys() == expected.keys()
        assert all(np.array_equal(given[column], expected[column]) for column in given)
        seen.add(tuple(column.tobytes() for column in given.values()))
    assert len(seen) == len(epochs)
    if name in BEYOND_ROWS:
        for asked in (rows.set_epoch, Batches(rows, 2).set_epoch, Blend([rows], [1]).sound_epoch):
            with pytest.raises(ConfigError, match="3 epochs stand on disk"):
                asked(3)
        assert rows.epoch == epochs[-1]


@pytest.mark.parametrize("name", [name for name in BEYOND_ROWS if name in NAMES])
def test_epochs_that_cannot_be_drawn_are_refused_with_the_reason(
    finished: tuple[Path, Any], name: str, tmp_path: Path
) -> None:
    path = finished[0] / "datasets" / name
    with pytest.raises(ConfigError, match="3 epochs stand on disk"):
        open_dataset(path, epoch=3)
    dataset = open_dataset(path, epoch=2)
    with pytest.raises(ConfigError, match="set materialized_epochs = 8 and run again"):
        dataset.set_epoch(7)
    assert dataset.manifest.objective["form"] == "materialised"
    shutil.copytree(path, tmp_path / "datasets" / name)
    (tmp_path / "datasets" / name / "train" / "drawn.json").unlink()
    with pytest.raises(ConfigError, match="cannot be drawn when it is read"):
        open_dataset(tmp_path / "datasets" / name)


@pytest.mark.parametrize("name", MATERIALISED)
def test_materialised_epochs_hold_the_bits_that_are_drawn(
    finished: tuple[Path, Any], name: str, tmp_path: Path
) -> None:
    path = finished[0] / "datasets" / name
    shutil.copytree(path, tmp_path / "datasets" / name)
    shutil.copytree(finished[0] / "tokenizer", tmp_path / "tokenizer")
    bare = tmp_path / "datasets" / name
    for split in SPLITS:
        (bare / split / "drawn.json").unlink()
        shutil.rmtree(bare / split / "drawn")
        for epoch in range(MATERIALISED[name] + 1):
            assert drawn(path, split, epoch=epoch, size=100) == drawn(bare, split, epoch=epoch, size=33)
    folders = sorted(path.glob("train/drawn/*/*"))
    assert len(folders) == 2 * MATERIALISED[name]
    dataset = open_dataset(bare, epoch=MATERIALISED[name] - 1, shuffle=False)
    rows = dataset.manifest.shards[0].rows
    last = path / "train" / "drawn" / f"epoch-{MATERIALISED[name] - 1:04d}" / "00000"
    batch = dataset.batch(np.arange(rows))
    assert {file.stem for file in last.glob("*.npy")} <= batch.keys()
    for file in last.glob("*.npy"):
        assert np.array_equal(np.load(file, mmap_mode="r"), batch[file.stem])


def test_the_version_of_a_model_is_kept(finished: tuple[Path, Any]) -> None:
    content = (finished[0] / "datasets" / "model" / "train" / "drawn.json").read_text()
    assert json.loads(content)["generator"] == "tiny 1"


def change_drawn(split: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Change a column of a materialised epoch, and make the manifest vouch for it."""
    path = split / "drawn" / "epoch-0001" / "00000" / f"{name}.npy"
    np.save(path, np.ascontiguousarray(change(np.load(path))))
    place = split / "drawn.json"
    content = json.loads(place.read_text())
    content["shards"][1][0]["files"][f"{name}.npy"] = digest_file(path).model_dump()
    write_drawn(place, DrawnManifest.model_validate(content).signed())


def change_labels(split: Path) -> None:
    """Shift the labels of a materialised epoch."""
    change_drawn(split, "labels", lambda labels: np.roll(labels, 1, axis=1))


def confuse(name: str) -> Callable[[Path], None]:
    """Say of each pair, or each replaced token, the opposite."""
    return lambda split: change_drawn(split, name, lambda x: np.where(x < 0, x, 1 - x).astype(x.dtype))


def borrow_elsewhere(split: Path) -> None:
    """Name another text than the one that was borrowed."""
    change_drawn(split, "borrowed_offset", lambda offset: np.where(offset < 0, offset, offset + 1))


def cut_elsewhere(split: Path) -> None:
    """Let tokens of a transformed epoch change places."""
    change_drawn(split, "input_ids", lambda ids: ids[:, [1, 0, *range(2, ids.shape[1])]])


def shift_prompts(split: Path) -> None:
    """Begin every target one token too early, and make the manifest vouch for it."""
    path = split / "epoch-0000" / "00000" / "prompt.npy"
    prompts = np.load(path)
    np.save(path, np.where(prompts > 1, prompts - 1, prompts))
    sign_again(split)


def flip_a_byte(split: Path) -> None:
    path = split / "drawn" / "epoch-0001" / "00001" / "input_ids.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_prompts_targets_and_triples_are_those_of_the_source(
    corpus: Path, finished: tuple[Path, Any]
) -> None:
    prompts, seq2seq, triples = sections_shown(corpus, finished[0])
    assert prompts == seq2seq
    assert len(prompts) > 10
    assert len(triples) > 10
    lengths = open_dataset(finished[0] / "datasets" / "triples").batch(np.arange(60))["input_length"]
    assert (lengths[:, 2] > 0).any()
    assert (lengths[:, 2] == 0).any()


def test_epochs_drawn_of_another_dataset_are_refused(finished: tuple[Path, Any], tmp_path: Path) -> None:
    shutil.copytree(finished[0] / "datasets", tmp_path / "datasets")
    shutil.copytree(finished[0] / "tokenizer", tmp_path / "tokenizer")
    other = tmp_path / "datasets" / "fim" / "train" / "drawn.json"
    shutil.copy(other, tmp_path / "datasets" / "t5" / "train" / "drawn.json")
    with pytest.raises(FormatError, match="drawn of the dataset"):
        open_dataset(tmp_path / "datasets" / "t5")


@pytest.mark.parametrize("name", NAMES)
def test_every_column_is_of_the_shape_that_the_objective_declares(
    finished: tuple[Path, Any], name: str
) -> None:
    dataset: ShardDataset = open_dataset(finished[0] / "datasets" / name)
    batch, one = dataset.batch(np.arange(5)), dataset[3]
    assert batch["input_ids"].shape[-1] == dataset.widths.inputs == dataset.manifest.seq_len
    if "labels" in batch:
        assert batch["labels"].shape == (5, dataset.widths.labels)
    assert {column.dtype for column in batch.values()} == {np.dtype(np.int64)}
    assert all((one[key] == batch[key][3]).all() for key in batch)


def test_shards_without_a_document_pass_verify(small_corpus: Path, tmp_path: Path) -> None:
    names = ("nsp", "text-fim", "model")
    (folder := tmp_path / "corpus").mkdir()
    lines = (small_corpus / "a.jsonl").read_text().splitlines()[:4]
    (folder / "few.jsonl").write_text("\n".join(lines) + "\n")
    report = run_small(
        folder,
        tmp_path / "run",
        datasets=[{"name": name, "objective": OBJECTIVES[name]} for name in names],
        tokenizer={"train": {"vocab_size": 700}},
        packing={"seq_len": 64, "shards": 5},
        validation={"fraction": 0.0},
        verify={"learning": False},
        until=None,
    )
    for name in names:
        shards = (tmp_path / "run" / "datasets" / name).glob("train/epoch-0000/*")
        rows = [len(np.load(path / "input_ids.npy")) for path in shards]
        assert 0 in rows
        assert sum(rows) > 10
        assert report["verify"][name]["findings"] == []


@pytest.mark.campaign  # workers by the rest: `test_law1_ray_changes_nothing`, `test_law3_commits`
@pytest.mark.usefixtures("ray_session")
def test_workers_change_no_byte(finished: tuple[Path, Any], corpus: Path, tmp_path: Path) -> None:
    run_datasets(corpus, tmp_path / "run", workers=2, **SETTINGS)
    assert digests(tmp_path / "run", "datasets") == digests(finished[0], "datasets")


def sign_again(folder: Path) -> None:
    """Make the manifest vouch for the files as they are now."""
    path = folder / "dataset.json"
    content = json.loads(path.read_text())
    for shard in content["shards"]:
        for name in shard["files"]:
            shard["files"][name] = digest_file(folder / shard["path"] / name).model_dump()
    write_manifest(path, Manifest.model_validate(content).signed())


def roll_rows(split: Path) -> None:
    """Move every token of a shard by one place, and make the manifest vouch for it."""
    path = split / "epoch-0000" / "00000" / "input_ids.npy"
    np.save(path, np.roll(np.load(path), 1, axis=1))
    sign_again(split)


FAULTS: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    **dict.fromkeys(OBJECTIVES, (roll_rows, {"tokens", "padding", "eos"})),
    "t5": (change_labels, {"drawn"}),
    "fim": (flip_a_byte, {"digests"}),
    "nsp": (borrow_elsewhere, {"not_restored"}),
    "sop": (confuse("sentence_order_label"), {"not_restored"}),
    "text-fim": (cut_elsewhere, {"not_restored"}),
    "sentences": (change_labels, {"not_restored"}),
    "model": (confuse("labels"), {"not_restored"}),
    "prompts": (shift_prompts, {"layout"}),
}


@pytest.fixture(scope="module")
def damaged(finished: tuple[Path, Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The verdicts of the same run with a fault in every dataset."""
    run = tmp_path_factory.mktemp("damaged") / "run"
    shutil.copytree(finished[0], run)
    for name, (plant, _) in FAULTS.items():
        plant(run / "datasets" / name / "train")
    return verify_session(run, workers=0, address=None, stream=None)["verify"]


@pytest.mark.campaign  # `test_planted_faults` has a dataset of each way of laying rows out
@pytest.mark.parametrize("name", NAMES)
def test_a_planted_fault_is_found_in_every_dataset(damaged: Any, name: str) -> None:
    assert not damaged[name]["passed"]
    found = {finding["check"] for finding in damaged[name]["findings"]}
    assert found & FAULTS[name][1], found
