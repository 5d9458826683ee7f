"""What the listing of folders promises: one that cannot be listed is an error, never an empty one."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stages.store.digests import sync_files
from stages.store.folders import entries, files_below, walk

REFUSED = (errno.EACCES, errno.EIO, errno.EMFILE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with files, a folder of files, and links."""
    (tmp_path / "b" / "below").mkdir(parents=True)
    for name in ("a", "b/2", "b/below/3"):
        (tmp_path / name).write_text(name)
    (tmp_path / "file-link").symlink_to("a")
    (tmp_path / "folder-link").symlink_to("b")
    (tmp_path / "nowhere").symlink_to("none")
    return tmp_path


def refuse(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    """Let the system refuse to list folders of that name."""
    scandir = os.scandir

    def refused(path: Any = ".") -> Iterator[Any]:
        if Path(path).name == name:
            raise OSError(number, os.strerror(number), str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)


def names(paths: Iterator[Path], folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def test_files_and_links_to_them_are_found_and_links_to_folders_are_not_entered(folder: Path) -> None:
    assert names(files_below(folder), folder) == ["a", "b/2", "b/below/3", "file-link"]
    assert [path.name for path in entries(folder)] == ["a", "b", "file-link", "folder-link", "nowhere"]
    assert names((parent for parent, _, _ in walk(folder)), folder) == [".", "b", "b/below"]


def test_a_folder_that_is_not_there_is_like_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "none", tmp_path / "file"):
        assert entries(place) == []
        assert list(files_below(place)) == []
        assert list(walk(place)) == []


@pytest.mark.parametrize("number", REFUSED, ids=errno.errorcode.get)
def test_a_folder_that_cannot_be_listed_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    refuse(monkeypatch, "below", number)
    for listing in (files_below, walk):
        with pytest.raises(OSError, match="below") as error:
            list(listing(folder))
        assert error.value.errno == number
    with pytest.raises(OSError, match="below"):
        sync_files(folder / "b")
    assert len(entries(folder)) == 5
    with pytest.raises(OSError, match="below"):
        entries(folder / "b" / "below")
