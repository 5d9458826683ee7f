"""What verify promises: a dataset that is wrong fails, by name, even if its manifest was signed again.

Each fault is planted into a copy of a sound run whose manifest then vouches for the damaged files, so
that digests pass and only what the rows mean can give the fault away.
"""

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.session.verifying import verify_session
from stages.errors import Interrupted
from stages.store.digests import digest_file
from stages.store.manifest import Manifest, write_manifest

SPLIT = Path("datasets/clm/train")
SHARD = SPLIT / "epoch-0000" / "00000"
IDS = SHARD / "input_ids.npy"
EOS = 2


def sign_again(run: Path, **changes: Any) -> None:
    """Make the manifest vouch for the files as they are now."""
    path = run / SPLIT / "dataset.json"
    content = json.loads(path.read_text())
    for shard in content["shards"]:
        for name in shard["files"]:
            shard["files"][name] = digest_file(run / SPLIT / shard["path"] / name).model_dump()
    manifest = Manifest.model_validate({**content, **changes})
    write_manifest(path, manifest.signed())


def change_ids(run: Path, change: Callable[[np.ndarray[Any, Any]], None]) -> None:
    ids = np.load(run / IDS)
    change(ids)
    np.save(run / IDS, ids)


def roll_rows(run: Path) -> None:
    change_ids(run, lambda ids: np.copyto(ids, np.roll(ids, 1, axis=1)))


def strip_eos(run: Path) -> None:
    change_ids(run, lambda ids: np.copyto(ids, 300, where=ids == EOS))


def shuffle_tokens(run: Path) -> None:
    length = np.load(run / SHARD / "segments/length.npy")
    row_ptr = np.load(run / SHARD / "segments/row_ptr.npy")

    def shuffle(ids: np.ndarray[Any, Any]) -> None:
        rng = np.random.default_rng(0)
        for row in range(len(ids)):
            filled = int(length[row_ptr[row] : row_ptr[row + 1]].sum())
            ids[row, :filled] = rng.permutation(ids[row, :filled])

    change_ids(run, shuffle)


def drop_document(run: Path) -> None:
    """Take the last listed document out of rows, segments and list alike."""
    table = pq.read_table(run / SHARD / "documents.parquet")
    pq.write_table(table.slice(0, table.num_rows - 1), run / SHARD / "documents.parquet")
    doc = np.load(run / SHARD / "segments/doc.npy")
    gone = doc == table.num_rows - 1
    row_ptr = np.load(run / SHARD / "segments/row_ptr.npy")
    np.save(
        run / SHARD / "segments/row_ptr.npy",
        row_ptr - np.concatenate([[0], np.cumsum(gone)])[row_ptr],
    )
    for name in ("start", "length", "doc", "doc_offset"):
        path = run / SHARD / "segments" / f"{name}.npy"
        np.save(path, np.load(path)[~gone])
    path = run / SPLIT / "dataset.json"
    content = json.loads(path.read_text())
    content["shards"][0]["documents"] -= 1
    content["shards"][0]["segments"] -= int(gone.sum())
    path.write_text(json.dumps(content))


def repeat_row(run: Path) -> None:
    """Put a row, its segments with it, in the place of another with as many segments."""
    row_ptr = np.load(run / SHARD / "segments/row_ptr.npy")
    counts = np.diff(row_ptr)
    first, second = next(
        (a, b) for a in range(len(counts)) for b in range(a + 1, len(counts)) if counts[a] == counts[b]
    )

    def repeat(ids: np.ndarray[Any, Any]) -> None:
        ids[second] = ids[first]

    change_ids(run, repeat)
    for name in ("start", "length", "doc", "doc_offset"):
        path = run / SHARD / "segments" / f"{name}.npy"
        column = np.load(path)
        column[row_ptr[second] : row_ptr[second + 1]] = column[row_ptr[first] : row_ptr[first + 1]]
        np.save(path, column)


def plant_unknown_id(run: Path) -> None:
    def plant(ids: np.ndarray[Any, Any]) -> None:
        ids[1, 3] = 4096

    change_ids(run, plant)


def swap_documents(run: Path) -> None:
    table = pq.read_table(run / SHARD / "documents.parquet")
    order = pa.array([1, 0, *range(2, table.num_rows)])
    pq.write_table(table.take(order), run / SHARD / "documents.parquet")


def fill_padding(run: Path) -> None:
    change_ids(run, lambda ids: np.copyto(ids, 300, where=ids == 3))


FAULTS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "rows rolled by one against their segments": (roll_rows, str(IDS), "tokens"),
    "EOS stripped": (strip_eos, str(IDS), "eos"),
    "tokens shuffled within rows": (shuffle_tokens, str(IDS), "tokens"),
    "a document dropped": (drop_document, str(SHARD / "documents.parquet"), "documents"),
    "a row repeated": (repeat_row, str(SHARD / "segments"), "coverage"),
    "an id past the vocabulary": (plant_unknown_id, str(IDS), "ids_in_range"),
    "documents listed in another order": (swap_documents, str(SHARD / "documents.parquet"), "documents"),
    "tokens in the padding": (fill_padding, str(IDS), "padding"),
}


@pytest.fixture
def copied(reference: Path, tmp_path: Path) -> Path:
    run = tmp_path / "run"
    shutil.copytree(reference, run)
    return run


def found(run: Path) -> set[tuple[str, str]]:
    """Verify in this process; give the (file, check) of every finding."""
    report = verify_session(run, workers=0, address=None, stream=None)
    assert report["passed"] is False
    verdict = report["verify"]["clm"]
    assert verdict["learning"] is None, "nothing is learnt from rows that are known to be wrong"
    return {(finding["file"], finding["check"]) for finding in verdict["findings"]}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named_though_the_manifest_vouches_for_it(fault: str, copied: Path) -> None:
    plant, file, check = FAULTS[fault]
    plant(copied)
    sign_again(copied)
    findings = found(copied)
    assert (file, check) in findings
    assert not {name for _, name in findings} & {"digests", "manifest"}, "signed again: digests pass"


@pytest.mark.parametrize("convention", ["shifted", "no such convention"])
def test_a_false_label_convention_is_named(convention: str, copied: Path) -> None:
    sign_again(copied, label_convention=convention)
    assert (str(SPLIT / "dataset.json"), "label_convention") in found(copied)


def test_labels_declared_shifted_are_found_where_they_really_are(copied: Path) -> None:
    sign_again(copied, label_convention="shifted")
    assert (str(SPLIT / "dataset.json"), "label_alignment") in found(copied)


def test_a_flipped_byte_a_cut_file_and_a_missing_one_are_found_by_digest_and_size(copied: Path) -> None:
    data = bytearray((copied / IDS).read_bytes())
    data[-100] ^= 1
    (copied / IDS).write_bytes(bytes(data))
    cut, missing = SHARD / "segments" / "doc.npy", SHARD.with_name("00001") / IDS.name
    (copied / cut).write_bytes((copied / cut).read_bytes()[:-7])
    (copied / missing).unlink()
    assert {(str(file), "digests") for file in (IDS, cut, missing)} <= found(copied)


def test_a_document_lost_from_the_token_store_is_found(copied: Path) -> None:
    path = next((copied / "tokens").rglob("documents.parquet"))
    table = pq.read_table(path)
    doubled = pa.concat_tables([table.slice(0, 1), table.slice(0, table.num_rows - 1)])
    pq.write_table(doubled, path)
    assert (path.relative_to(copied).as_posix(), "documents_kept") in found(copied)


def test_a_sound_run_passes_with_every_gate(copied: Path) -> None:
    report: Any = verify_session(copied, workers=0, address=None, stream=None)
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
        if "verify clm" in text:
            raise KeyboardInterrupt
        return super().write(text)


def test_a_kill_leaves_no_old_verdict_beside_a_new_decode(copied: Path) -> None:
    roll_rows(copied)
    sign_again(copied)
    found(copied)
    verdict = copied / "commits" / "verify-clm" / "_step.json"
    assert verdict.exists()
    with pytest.raises(Interrupted):
        verify_session(copied, workers=0, address=None, stream=Interrupting())
    assert not verdict.exists()
    assert (copied / "commits" / "decode" / "_step.json").exists()
