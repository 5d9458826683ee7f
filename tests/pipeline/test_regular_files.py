"""What regular files promise: no FIFO is waited for, no device is read, and both are named."""

import os
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from pipeline.planning.existing import find_tokenizer
from pipeline.run_file.config import RunFile
from pipeline.state.commits import PLAN
from pipeline.state.journal import (
    LOCK,
    LOG,
    STATUS,
    Journal,
    end_last_line,
    read_log,
    read_status,
    run_lock,
)
from pipeline.steps.run_folder import RunFolder
from pipeline.system.regular_files import open_regular, read_regular
from pipeline.tools.export.folder import SUMMARY, read_summary
from stages.errors import ConfigError, FormatError

KINDS = {
    "FIFO": "a FIFO",
    "socket": "a socket",
    "device": "a character device",
    "null": "a character device",
    "folder": "a folder",
}


def put(kind: str, path: Path) -> None:
    """Put something at a path that is no file."""
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    else:
        path.symlink_to({"device": "/dev/zero", "null": "/dev/null"}[kind])


def enter(context: AbstractContextManager[Any]) -> None:
    """Enter a context and leave it."""
    with context:
        pass


USES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "reading run.json": (PLAN, lambda root: RunFolder(root).plan),
    "writing the log": (LOG, lambda root: Journal(root, "a").log("start")),
    "reading the log": (LOG, lambda root: list(read_log(root))),
    "taking the lock": (LOCK, lambda root: enter(run_lock(root))),
    "reading an export's summary": (SUMMARY, read_summary),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use", USES)
def test_what_took_the_place_of_a_run_s_file_is_refused_by_name(
    use: str, kind: str, tmp_path: Path
) -> None:
    name, call = USES[use]
    put(kind, tmp_path / name)
    with pytest.raises(FormatError) as caught:
        call(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / name}: is {KINDS[kind]}, not a file; ")


@pytest.mark.parametrize("kind", KINDS)
def test_what_took_the_place_of_a_status_makes_it_unknown(kind: str, tmp_path: Path) -> None:
    put(kind, tmp_path / STATUS)
    status = read_status(tmp_path)
    assert status.state == "unknown"
    assert f"is {KINDS[kind]}, not a file; the next run writes it anew" in str(status.error)
    if kind != "folder":
        Journal(tmp_path, "a").status("running")
        assert read_status(tmp_path).state == "running"


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_that_is_no_file_has_no_line_to_end(kind: str, tmp_path: Path) -> None:
    if kind != "folder":
        put(kind, tmp_path / LOG)
        end_last_line(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["a.model", "tokenizer.json"])
def test_a_tokenizer_that_is_no_file_is_refused_by_its_key(name: str, kind: str, tmp_path: Path) -> None:
    put(kind, tmp_path / name)
    run = RunFile.model_validate(
        {
            "sources": [{"name": "a", "paths": ["a.jsonl"]}],
            "datasets": [{"name": "clm"}],
            "tokenizer": {"path": name},
        }
    )
    with pytest.raises(ConfigError) as caught:
        find_tokenizer(run, tmp_path)
    found = f"is {KINDS[kind]}, not a file; name a regular file"
    if kind == "folder":
        found = "this folder has no "
    assert str(caught.value).startswith(f"tokenizer.path = {name!r}: {found}")


def test_what_takes_a_file_s_place_while_it_is_opened_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"some bytes")
    seen = []

    def replaced(kind: str | None) -> None:
        seen.append(kind)
        if kind is None:
            path.unlink()
            put("FIFO", path)
        else:
            raise ConfigError(kind)

    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(ConfigError, match=r"^a FIFO$"):
        open_regular(path, replaced)
    assert seen == [None, "a FIFO"]
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_file_is_read_or_made_as_usual(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with pytest.raises(FileNotFoundError):
        read_regular(path, lambda _: None)
    os.close(open_regular(path, lambda _: None, os.O_WRONLY | os.O_CREAT))
    assert read_regular(path, lambda _: None) == b""
    path.write_bytes(b"some bytes")
    (tmp_path / "link").symlink_to("a")
    assert read_regular(tmp_path / "link", lambda _: None) == b"some bytes"
