"""What the files of an export promise: all is on the disk, and what is restored was committed."""

import os
from pathlib import Path

import pytest

from stages.errors import FormatError
from stages.export.files import ExportFiles

Synced = dict[Path, int | set[str]]


def names_in(folder: Path) -> set[str]:
    """Return the names in a folder."""
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Synced:
    """Of each file the bytes that it had when it was last synced, of each folder the names in it."""
    found: Synced = {}
    plain = os.fsync

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").resolve()
        found[path] = names_in(path) if path.is_dir() else path.stat().st_size
        plain(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


def test_a_file_is_on_the_disk_once_it_is_closed_and_so_are_the_folders_that_name_it(
    tmp_path: Path, synced: Synced
) -> None:
    files = ExportFiles(tmp_path, {})
    for name, data in [("train/a.bin", b"abc"), ("train/b.bin", b"d"), ("train/a.bin", b"ef")]:
        files.write(name, data)
        path = tmp_path / name
        assert synced[path] == path.stat().st_size
        assert synced[path.parent] == names_in(path.parent)
        assert synced[tmp_path] == {"train"}
    assert (tmp_path / "train" / "a.bin").read_bytes() == b"abcef"


def test_an_export_that_was_stopped_is_cut_back_to_what_was_committed(tmp_path: Path) -> None:
    files = ExportFiles(tmp_path, {})
    files.write("a.bin", b"abc")
    committed = files.commit()
    files.write("a.bin", b"lost")
    files.write("b.bin", b"lost")
    (tmp_path / "journal").write_bytes(b"kept")
    again = ExportFiles(tmp_path, committed)
    again.restore(besides={"journal"})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "a.bin": b"abc",
        "journal": b"kept",
    }
    assert again.written == committed
    again.write("a.bin", b"de")
    plain = ExportFiles(tmp_path / "plain", {})
    (tmp_path / "plain").mkdir()
    plain.write("a.bin", b"abcde")
    assert again.commit() == plain.commit()


@pytest.mark.parametrize("data", [b"abx", b"xbc", b"ab", b""])
def test_a_file_that_is_not_what_was_committed_is_refused_by_name(tmp_path: Path, data: bytes) -> None:
    files = ExportFiles(tmp_path, {})
    files.write("a.bin", b"abc")
    committed = files.commit()
    (tmp_path / "a.bin").write_bytes(data)
    with pytest.raises(FormatError, match=r"a\.bin: .*delete"):
        ExportFiles(tmp_path, committed).restore()
