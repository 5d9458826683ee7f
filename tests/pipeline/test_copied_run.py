"""What a copied run promises: it is what was copied last, or it is refused by name."""

import shutil
from pathlib import Path

import pytest

from pipeline.state.commit_object import Commit, commit_key
from pipeline.state.copied_run import state_of, take_over_copy
from pipeline.state.log import CommitEntry, RunLog
from stages.config import canonical_json
from stages.errors import ConfigError
from tests.material.memory_store import MemoryStore


def commit(step: str) -> Commit:
    """Return a commit like no other."""
    return Commit(step=step, unit="0", fingerprint="f", files={}, record={}).sealed()


def append(store: MemoryStore, step: str) -> None:
    """Commit a step in a store."""
    log = RunLog(store, way_out="").read()
    log.append([CommitEntry(commit=commit(step), tags={})], epoch=1, holder="own")


def copy(store: MemoryStore, folder: Path) -> None:
    """Copy a run to a folder, as tools do: what is there only stays."""
    for key, data in store.objects.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(data)


def test_a_newer_log_beside_the_commits_of_an_older_one_is_refused_with_what_to_do(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    append(store, "decode")
    for _ in range(2):  # copied again, it is the same log
        copy(store, tmp_path)
        take_over_copy(tmp_path)
        assert (tmp_path / commit_key("decode", "0")).exists()
    append(store, "dedup")
    copy(store, tmp_path)
    with pytest.raises(ConfigError, match=r"first 1 objects of log/, and a newer log.*remove commits/"):
        take_over_copy(tmp_path)
    other = Path(shutil.copytree(tmp_path, tmp_path / "other"))
    shutil.rmtree(tmp_path / "commits")
    take_over_copy(tmp_path)
    assert (tmp_path / commit_key("dedup", "0")).exists()
    shutil.rmtree(other / "log")
    take_over_copy(other)
    assert not (other / commit_key("dedup", "0")).exists()


def test_commits_that_were_copied_to_a_store_hold_beside_an_older_log() -> None:
    store = MemoryStore()
    append(store, "decode")
    assert state_of(store, way_out="").commits.keys() == {"decode"}
    for step in ("decode", "dedup"):
        store.write(commit_key(step, "0"), canonical_json(commit(step)))
    assert state_of(store, way_out="").commits.keys() == {"decode", "dedup"}
