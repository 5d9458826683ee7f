"""What a worker knows of the files of a run in a store: a file, or all files of a folder."""

from pathlib import Path

import pytest

from pipeline.state import file_tables
from pipeline.state.file_tables import FileTable, TableFiles, write_files
from pipeline.state.tree import CommittedFiles
from stages.store.digests import FileDigest, digest_file
from stages.stores.cache import NodeCache
from stages.stores.folder import FolderStore

KEYS = [
    "a",
    "a-b/x.npy",
    "a.npy",
    "a/b",
    "a/b.npy",
    "a/b/c",
    "a/b/d/e",
    "a/bb",
    "b/0",
    "tokens/s/1/ids.npy",
    "tokens/s/10/ids.npy",
]


def _digest(key: str) -> FileDigest:
    return FileDigest(bytes=len(key), sha256=f"{hash(key):x}", xxh3=key)


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_a_table_tells_what_the_driver_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(file_tables, "_ROWS", rows)
    every = {key: _digest(key) for key in KEYS}
    known = CommittedFiles()
    known.add({key: digest for key, digest in every.items() if key not in ("a", "a/b")})
    known.add({"one/file": _digest("one/file")})
    store = tmp_path / "store"
    write_files(store / "files" / "x.parquet", {key: every[key] for key in KEYS[:6]})
    write_files(store / "files" / "y.parquet", {key: every[key] for key in KEYS[6:]})
    tables = tuple(
        FileTable(f"files/{name}.parquet", digest_file(store / "files" / f"{name}.parquet"))
        for name in ("x", "y")
    )
    files = TableFiles(
        tmp_path / "cache" / "tree", NodeCache(tmp_path / "cache", 1 << 20), FolderStore(store)
    )
    files.tell(tables, {"one/file": _digest("one/file")})
    for asked in (
        "a",
        "a/b",
        "a/b/d",
        "a/b/d/e",
        "b",
        "tokens/s/1",
        "tokens",
        "one",
        "c",
        "tokens/s/1/i",
    ):
        wanted = {key: one for key, one in every.items() if key == asked or key.startswith(f"{asked}/")}
        wanted |= {"one/file": _digest("one/file")} if asked == "one" else {}
        assert files.below(asked) == wanted, asked
        driver = {key: one for key, one in wanted.items() if key not in ("a", "a/b")}
        assert known.below(asked) == driver, asked


def test_a_table_of_a_generation_has_its_own_keys(tmp_path: Path) -> None:
    store, begin = tmp_path / "store", "generations/0001/"
    write_files(store / begin / "files" / "x.parquet", {key: _digest(key) for key in KEYS})
    digest = digest_file(store / begin / "files" / "x.parquet")
    table = FileTable(f"{begin}files/x.parquet", digest, begin)
    cache = NodeCache(tmp_path / "cache", 1 << 20)
    files = TableFiles(tmp_path / "cache" / "tree", cache, FolderStore(store))
    files.tell((table,), {})
    assert files.below(f"{begin}b") == {f"{begin}b/0": _digest("b/0")}
    assert files.below("b") == {}


def test_what_is_removed_is_known_no_more() -> None:
    known = CommittedFiles()
    known.add({"a/b": _digest("a/b"), "a/c": _digest("a/c")})
    known.remove(["a/b", "x/y", "a/c/d"])
    assert known.below("a") == {"a/c": _digest("a/c")}
    assert known.size("a/b") is None
    assert known.size("a/c") == len("a/c")
    assert known.below("") == {"a/c": _digest("a/c")}
