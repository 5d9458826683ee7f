"""What an object promises: its bytes are on the disk before its name, and its name before it counts."""

import os
from pathlib import Path

import pytest

from pipeline.state.storage import LocalStorage


def calls_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list that gets what is synced, by its name, and what is linked."""
    told: list[str] = []
    sync, link = os.fsync, os.link

    def synced(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115  # of no file of ours
        size = os.fstat(descriptor).st_size
        told.append(f"sync {size} bytes" if path.name.startswith(".") else f"sync {path.name}")
        sync(descriptor)

    def linked(source: Path, target: Path) -> None:
        told.append(f"link {target.name}")
        link(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", linked)
    return told


def test_an_object_is_on_the_disk_before_it_has_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(tmp_path / "run")
    told = calls_of(monkeypatch)
    assert storage.put_new("commits/ingest/a.json", b"{}")
    assert told[-3:] == ["sync 2 bytes", "link a.json", "sync ingest"]
    assert {"sync run", "sync commits"} <= set(told[:-3]), "the names of its folders"
    told.clear()
    assert storage.put_new("commits/ingest/b.json", b"{}")
    assert told == ["sync 2 bytes", "link b.json", "sync ingest"], "its folders are there by now"
    assert not storage.put_new("commits/ingest/b.json", b"other")
    assert storage.get("commits/ingest/b.json") == b"{}"
    assert list(storage.list("commits")) == ["commits/ingest/a.json", "commits/ingest/b.json"]
    assert len(list((tmp_path / "run/commits/ingest").iterdir())) == 2, "nothing is left beside them"
