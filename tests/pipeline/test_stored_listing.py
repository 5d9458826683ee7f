"""What the listing of a stored run names: all that is missing or changed, and nothing that is sound."""

from pathlib import Path

import pytest

from pipeline.state import listing
from pipeline.state.commit_object import Commit
from pipeline.state.listing import compare_listing
from pipeline.state.log import CommitEntry, LogState
from stages.store.digests import FileDigest, digest_file
from stages.stores.store import FoundObject
from tests.material.memory_store import MemoryStore

FOLDERS = ("tokens", "datasets")
FILES = {"tokens/0.bin": b"a" * 40, "tokens/1.bin": b"b" * 40, "datasets/clm/empty.npy": b""}


def state_of(store: MemoryStore, folder: Path) -> LogState:
    """Return the log of a run whose files are put into a store."""
    files, tags = dict[str, FileDigest](), dict[str, str]()
    for key, data in FILES.items():
        (folder / "file").write_bytes(data)
        files[key] = digest_file(folder / "file")
        tags[key] = store.put(key, folder / "file")
    state = LogState()
    commit = Commit(step="decode", unit="0", fingerprint="f", files=files, record={}).sealed()
    state.add_entries([CommitEntry(commit=commit, tags=tags)])
    return state


def read_in(store: MemoryStore) -> list[str]:
    """Return the keys of the objects that were read since this was asked last."""
    keys = sorted({key for verb, key in store.asked if verb == "get"})
    store.asked.clear()
    return keys


def test_a_sound_run_is_listed_once_and_nothing_is_read(tmp_path: Path) -> None:
    store = MemoryStore()
    state = state_of(store, tmp_path)
    store.asked.clear()
    found = compare_listing(store, state, FOLDERS)
    assert (found.damaged, found.strays) == ({}, ())
    assert store.asked == [("list", "")]


@pytest.mark.parametrize("server", ["one", "another"])
@pytest.mark.parametrize("key", FILES)
@pytest.mark.parametrize("data", [b"c" * 40, b"c" * 39, b"c" * 41, b"a" * 41, b"b" * 39, b""])
def test_an_upload_that_came_late_is_named(key: str, data: bytes, server: str, tmp_path: Path) -> None:
    store = MemoryStore()
    state = state_of(store, tmp_path)
    store.write(key, data)
    store.server = server
    damaged = compare_listing(store, state, FOLDERS).damaged
    assert damaged.keys() == ({key} if data != FILES[key] else set())
    assert all("it was written over after it was committed" in fault for fault in damaged.values())


@pytest.mark.parametrize("block", [1, 7, 20, 40, 41, 4 << 20])
def test_a_run_that_a_tool_copied_to_another_store_is_sound_and_read_once(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_RANGE", block)
    store = MemoryStore()
    state = state_of(store, tmp_path)
    store.server = "another"
    store.asked.clear()
    found = compare_listing(store, state, FOLDERS)
    assert (found.damaged, found.strays) == ({}, ())
    assert read_in(store) == sorted(FILES)
    (entry,) = found.copied
    assert entry.tags == {one.key: one.tag for one in store.now()}
    state.add_entries(found.copied)  # as the log of the next session has it
    again = compare_listing(store, state, FOLDERS)
    assert (again.damaged, again.copied, read_in(store)) == ({}, (), [])
    store.write("tokens/1.bin", b"c" * 40)
    assert compare_listing(store, state, FOLDERS).damaged.keys() == {"tokens/1.bin"}


def test_an_object_that_is_written_over_while_it_is_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_RANGE", 20)
    store = MemoryStore()
    state = state_of(store, tmp_path)
    store.server = "another"
    read = store.get

    def late(key: str, begin: int = 0, end: int | None = None) -> FoundObject | None:
        found = read(key, begin, end)
        if key == "tokens/0.bin":
            store.objects[key] = b"c" * 20 + b"a" * 20  # the first half was read
        return found

    monkeypatch.setattr(store, "get", late)
    assert compare_listing(store, state, FOLDERS).damaged.keys() == {"tokens/0.bin"}


def test_a_run_that_was_copied_from_a_folder_has_no_tags_and_is_held_to_its_digests(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    (entry,) = state_of(store, tmp_path).commits["decode"].values()
    state = LogState()
    state.add_entries([CommitEntry(commit=entry.commit, tags={})])
    found = compare_listing(store, state, FOLDERS)
    assert (found.damaged, found.strays) == ({}, ())
    store.write("tokens/0.bin", b"c" * 40)
    (fault,) = compare_listing(store, state, FOLDERS).damaged.values()
    assert fault.startswith("committed with 40 bytes, found other bytes under the tag ")


def test_a_batch_of_deletes_that_came_late_is_named_to_the_last_object(tmp_path: Path) -> None:
    store = MemoryStore()
    state = state_of(store, tmp_path)
    gone = ["tokens/0.bin", "datasets/clm/empty.npy"]
    store.delete(gone)
    assert compare_listing(store, state, FOLDERS).damaged == {
        "tokens/0.bin": "committed with 40 bytes, found nothing",
        "datasets/clm/empty.npy": "committed with 0 bytes, found nothing",
    }


def test_a_listing_that_is_behind_makes_no_damage(tmp_path: Path) -> None:
    store = MemoryStore()
    store.write("tokens/1.bin", b"of an earlier session")
    earlier = store.now()
    state = state_of(store, tmp_path)
    for listed in ([], earlier):
        store.listed = listed
        assert compare_listing(store, state, FOLDERS).damaged == {}


def test_objects_that_no_commit_names_are_no_damage(tmp_path: Path) -> None:
    store = MemoryStore()
    state = state_of(store, tmp_path)
    for key in ("tokens/2.bin", "tokens/odd name.bin", "log/00000001.json", "lease.json", "mine/x"):
        store.write(key, b"1")
    found = compare_listing(store, state, FOLDERS)
    assert (found.damaged, found.strays) == ({}, ("tokens/2.bin",))
