"""What verify promises: a dataset that is wrong fails, by name, even if its manifest was signed again.

Faults are planted into a copy of a sound run whose manifests then vouch for the damaged files, so that
digests pass and only what the rows mean can give a fault away. Each fault has a shard, or a dataset, of
its own: one verification looks at all of them.
"""

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.session.verifying import verify_session
from stages.errors import Interrupted
from stages.store.digests import digest_file
from stages.store.manifest import Manifest, write_manifest
from tests.conftest import run_small

SPLIT = "datasets/{}/train"
IDS = "input_ids.npy"
EOS = 2
VOCABULARY = 1500


def shard_of(run: Path, number: int, name: str = "rows") -> Path:
    """Return the folder of a shard of a dataset."""
    return run / SPLIT.format(name) / "epoch-0000" / f"{number:05d}"


def sign_again(run: Path, name: str, **changes: Any) -> None:
    """Make the manifest of a dataset vouch for the files as they are now."""
    split = run / SPLIT.format(name)
    content = json.loads((split / "dataset.json").read_text())
    for shard in content["shards"]:
        for file in shard["files"]:
            shard["files"][file] = digest_file(split / shard["path"] / file).model_dump()
    manifest = Manifest.model_validate({**content, **changes})
    write_manifest(split / "dataset.json", manifest.signed())


def change_ids(shard: Path, change: Callable[[np.ndarray[Any, Any]], None]) -> None:
    ids = np.load(shard / IDS)
    change(ids)
    np.save(shard / IDS, ids)


def roll_rows(shard: Path) -> None:
    change_ids(shard, lambda ids: np.copyto(ids, np.roll(ids, 1, axis=1)))


def strip_eos(shard: Path) -> None:
    change_ids(shard, lambda ids: np.copyto(ids, 300, where=ids == EOS))


def shuffle_tokens(shard: Path) -> None:
    length = np.load(shard / "segments/length.npy")
    row_ptr = np.load(shard / "segments/row_ptr.npy")

    def shuffle(ids: np.ndarray[Any, Any]) -> None:
        rng = np.random.default_rng(0)
        for row in range(len(ids)):
            filled = int(length[row_ptr[row] : row_ptr[row + 1]].sum())
            ids[row, :filled] = rng.permutation(ids[row, :filled])

    change_ids(shard, shuffle)


def drop_document(shard: Path) -> None:
    """Take the last listed document out of rows, segments and list alike."""
    table = pq.read_table(shard / "documents.parquet")
    pq.write_table(table.slice(0, table.num_rows - 1), shard / "documents.parquet")
    doc = np.load(shard / "segments/doc.npy")
    gone = doc == table.num_rows - 1
    row_ptr = np.load(shard / "segments/row_ptr.npy")
    np.save(
        shard / "segments/row_ptr.npy",
        row_ptr - np.concatenate([[0], np.cumsum(gone)])[row_ptr],
    )
    for name in ("start", "length", "doc", "doc_offset"):
        path = shard / "segments" / f"{name}.npy"
        np.save(path, np.load(path)[~gone])
    path = shard.parents[1] / "dataset.json"
    content = json.loads(path.read_text())
    content["shards"][int(shard.name)]["documents"] -= 1
    content["shards"][int(shard.name)]["segments"] -= int(gone.sum())
    path.write_text(json.dumps(content))


def repeat_row(shard: Path) -> None:
    """Put a row, its segments with it, in the place of another with as many segments."""
    row_ptr = np.load(shard / "segments/row_ptr.npy")
    counts = np.diff(row_ptr)
    first, second = next(
        (a, b) for a in range(len(counts)) for b in range(a + 1, len(counts)) if counts[a] == counts[b]
    )

    def repeat(ids: np.ndarray[Any, Any]) -> None:
        ids[second] = ids[first]

    change_ids(shard, repeat)
    for name in ("start", "length", "doc", "doc_offset"):
        path = shard / "segments" / f"{name}.npy"
        column = np.load(path)
        column[row_ptr[second] : row_ptr[second + 1]] = column[row_ptr[first] : row_ptr[first + 1]]
        np.save(path, column)


def plant_unknown_id(shard: Path) -> None:
    def plant(ids: np.ndarray[Any, Any]) -> None:
        ids[1, 3] = VOCABULARY

    change_ids(shard, plant)


def swap_documents(shard: Path) -> None:
    table = pq.read_table(shard / "documents.parquet")
    order = pa.array([1, 0, *range(2, table.num_rows)])
    pq.write_table(table.take(order), shard / "documents.parquet")


def fill_padding(shard: Path) -> None:
    change_ids(shard, lambda ids: np.copyto(ids, 300, where=ids == 3))


Plant = Callable[[Path], None]
FAULTS: dict[str, tuple[Plant, str, str]] = {
    "rows rolled by one against their segments": (roll_rows, IDS, "tokens"),
    "EOS stripped": (strip_eos, IDS, "eos"),
    "tokens shuffled within rows": (shuffle_tokens, IDS, "tokens"),
    "a document dropped": (drop_document, "documents.parquet", "documents"),
    "a row repeated": (repeat_row, "segments", "coverage"),
    "an id past the vocabulary": (plant_unknown_id, IDS, "ids_in_range"),
    "documents listed in another order": (swap_documents, "documents.parquet", "documents"),
    "tokens in the padding": (fill_padding, IDS, "padding"),
}
CONVENTIONS = {"shifted": "shifted", "unknown": "no such convention"}
"""Datasets, and what their manifests say of labels."""


def damage_files(run: Path) -> set[tuple[str, str]]:
    """Flip a byte of a file, cut another, delete a third; return what is to be found."""
    first, second = (shard_of(run, number, "files") for number in (0, 1))
    flipped, cut, missing = first / IDS, first / "segments" / "doc.npy", second / IDS
    data = bytearray(flipped.read_bytes())
    data[-100] ^= 1
    flipped.write_bytes(bytes(data))
    cut.write_bytes(cut.read_bytes()[:-7])
    missing.unlink()
    return {(path.relative_to(run).as_posix(), "digests") for path in (flipped, cut, missing)}


Found = dict[str, set[tuple[str, str]]]
"""The file and the check of every finding, by dataset."""


class Damaged(NamedTuple):
    """A run with every fault, and what verify found of it; nothing of it may be changed any more."""

    run: Path
    of_files: set[tuple[str, str]]
    found: Found


@pytest.fixture(scope="module")
def damaged(few_texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    """A run with a dataset that has a shard for each fault, and one for each other thing to damage."""
    run = tmp_path_factory.mktemp("damaged") / "run"
    run_small(
        few_texts,
        run,
        tokenizer={"train": {"vocab_size": VOCABULARY}},
        packing={"seq_len": 256, "shards": len(FAULTS)},
        datasets=[{"name": name} for name in ("rows", "files", *CONVENTIONS)],
    )
    for number, (plant, _, _) in enumerate(FAULTS.values()):
        plant(shard_of(run, number))
    sign_again(run, "rows")
    of_files = damage_files(run)
    for name, convention in CONVENTIONS.items():
        sign_again(run, name, label_convention=convention)
    return Damaged(run, of_files, found(run))


@pytest.fixture
def copied(reference: Path, tmp_path: Path) -> Path:
    run = tmp_path / "run"
    shutil.copytree(reference, run)
    return run


def found(run: Path) -> Found:
    """Verify in this process a run of which every dataset is damaged; return what is found."""
    report = verify_session(run, workers=0, address=None, stream=None)
    assert report["passed"] is False
    verdicts = report["verify"].items()
    assert all(one["learning"] is None for _, one in verdicts), "nothing is learnt from wrong rows"
    return {name: {(one["file"], one["check"]) for one in of["findings"]} for name, of in verdicts}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named_though_the_manifest_vouches_for_it(
    fault: str, damaged: Damaged
) -> None:
    _, file, check = FAULTS[fault]
    shard = shard_of(damaged.run, [*FAULTS].index(fault))
    assert ((shard / file).relative_to(damaged.run).as_posix(), check) in damaged.found["rows"]
    checks = {name for _, name in damaged.found["rows"]}
    assert not checks & {"digests", "manifest"}, "signed again: digests pass"


@pytest.mark.parametrize("name", CONVENTIONS)
def test_a_false_label_convention_is_named(name: str, damaged: Damaged) -> None:
    assert (f"{SPLIT.format(name)}/dataset.json", "label_convention") in damaged.found[name]


def test_labels_declared_shifted_are_found_where_they_really_are(damaged: Damaged) -> None:
    assert (f"{SPLIT.format('shifted')}/dataset.json", "label_alignment") in damaged.found["shifted"]


def test_a_flipped_byte_a_cut_file_and_a_missing_one_are_found_by_digest_and_size(
    damaged: Damaged,
) -> None:
    assert damaged.of_files <= damaged.found["files"]


def test_a_document_lost_from_the_token_store_is_found(copied: Path) -> None:
    path = next((copied / "tokens").rglob("documents.parquet"))
    table = pq.read_table(path)
    doubled = pa.concat_tables([table.slice(0, 1), table.slice(0, table.num_rows - 1)])
    pq.write_table(doubled, path)
    assert (path.relative_to(copied).as_posix(), "documents_kept") in found(copied)["clm"]


def test_a_sound_run_passes_with_every_gate(small_corpus: Path, copied: Path) -> None:
    few = {"labelled_tokens": 12_000, "max_ids": 256, "heldout_rows": 80}
    report: Any = run_small(small_corpus, copied, verify=few, until=None)
    verdict = report["verify"]["clm"]
    assert verdict["findings"] == []
    assert verdict["passed"], verdict["learning"]
    learning = verdict["learning"]
    assert learning["loss"] < learning["unigram_entropy"] - 0.1
    assert learning["loss"] < learning["control_loss"] - 0.1
    assert verdict["checked"]["documents"] > 200


class Interrupting(io.StringIO):
    """A terminal at which someone presses Ctrl-C once the token store has been looked through."""

    def write(self, text: str) -> int:
        """Stop at the name of the next step."""
        if "verify rows" in text:
            raise KeyboardInterrupt
        return super().write(text)


def test_a_kill_leaves_no_old_verdict_beside_a_new_decode(damaged: Damaged, tmp_path: Path) -> None:
    run = Path(shutil.copytree(damaged.run, tmp_path / "run"))
    verdict = run / "commits" / "verify-rows" / "_step.json"
    assert verdict.exists()
    with pytest.raises(Interrupted):
        verify_session(run, workers=0, address=None, stream=Interrupting())
    assert not verdict.exists()
    assert (run / "commits" / "decode" / "_step.json").exists()
