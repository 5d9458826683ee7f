"""What hf:// promises: files of the Hugging Face Hub are found, stamped, read and refused as others.

A small server on the loopback answers as the Hub does; huggingface_hub talks to it.
"""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from huggingface_hub import HfFileSystem, constants, file_download

from pipeline.inputs.files import FoundInputs, find_inputs
from pipeline.inputs.place_files import open_place
from pipeline.inputs.places import place_status
from pipeline.run_file.config import RunFile
from pipeline.steps.scan.files import scan_file
from stages.errors import ConfigError, Stopped

REPO = "datasets/someone/texts"
FILES = {
    "README.md": b"about the texts",
    "data/a.jsonl": b'{"text": "one"}\n' * 300,
    "data/b.jsonl": b'{"text": "two"}\n',
    "more/deep/c.jsonl": b'{"text": "three"}\n',
}


class Hub:
    """The files of one repository, and what the server does."""

    def __init__(self) -> None:
        self.files = dict(FILES)
        self.status = HTTPStatus.OK

    def entry(self, path: str) -> dict[str, Any] | None:
        """Return what the Hub says of a path."""
        if path in self.files:
            data = self.files[path]
            oid = hashlib.sha1(data).hexdigest()  # noqa: S324  # as git names a file
            return {"type": "file", "path": path, "oid": oid, "size": len(data)}
        if any(name.startswith(f"{path}/") for name in self.files):
            return {"type": "directory", "path": path, "oid": "0" * 40}
        return None

    def tree(self, folder: str, *, deep: bool) -> list[dict[str, Any]]:
        """Return what is in a folder."""
        begin = f"{folder}/" if folder else ""
        names: set[str] = set()
        for name in self.files:
            if name.startswith(begin):
                parts = name.removeprefix(begin).split("/")
                names |= {begin + "/".join(parts[: n + 1]) for n in range(len(parts) if deep else 1)}
        return [entry for name in sorted(names) if (entry := self.entry(name))]


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def do_GET(self) -> None:
        """Answer about the repository, a folder or a part of a file."""
        url = urlsplit(self.path)
        path = unquote(url.path)
        if self.hub.status is not HTTPStatus.OK:
            self._send(b"{}", self.hub.status)
        elif found := re.fullmatch(rf"/api/{REPO}/tree/main/?(.*)", path):
            tree = self.hub.tree(found[1], deep="recursive=true" in url.query.lower())
            missing = {"error": f"{found[1]} does not exist on main"}
            if tree:
                self._json(tree)
            else:
                self._json(missing, HTTPStatus.NOT_FOUND, code="EntryNotFound")
        elif found := re.fullmatch(rf"/{REPO}/resolve/main/(.+)", path):
            data = self.hub.files[found[1]]
            first, last = map(int, re.findall(r"\d+", self.headers["Range"]))
            self._send(data[first : last + 1], HTTPStatus.PARTIAL_CONTENT)
        elif re.fullmatch(rf"/api/{REPO}(/revision/main)?", path):
            self._json({"id": "someone/texts", "sha": "0" * 40, "tags": [], "siblings": []})
        else:
            self._json({"error": "Repository not found"}, HTTPStatus.NOT_FOUND, code="RepoNotFound")

    def do_POST(self) -> None:
        """Answer about some paths."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        paths = json.loads(body)["paths"] if body.startswith("{") else re.findall(r"paths=([^&]*)", body)
        wanted = [paths] if isinstance(paths, str) else paths
        self._json([entry for path in wanted if (entry := self.hub.entry(unquote(path)))])

    def _json(self, content: object, status: HTTPStatus = HTTPStatus.OK, *, code: str = "") -> None:
        self._send(json.dumps(content).encode(), status, {"X-Error-Code": code} if code else {})

    def _send(self, data: bytes, status: HTTPStatus, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as the base class has it
        """Say nothing."""


@contextmanager
def serving() -> Iterator[tuple[Hub, str]]:
    """Serve a Hub until the block ends."""
    kind = type("Handler", (_Handler,), {"hub": Hub()})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield kind.hub, f"http://127.0.0.1:{server.server_address[1]}"  # type: ignore[attr-defined]
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A Hub that huggingface_hub talks to."""
    with serving() as (hub, url):
        monkeypatch.setattr(constants, "ENDPOINT", url)
        template = url + "/{repo_id}/resolve/{revision}/{filename}"
        for module in (constants, file_download):  # before 1.0, file_download had a copy of its own
            if hasattr(module, "HUGGINGFACE_CO_URL_TEMPLATE"):
                monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        HfFileSystem.clear_instance_cache()
        yield hub
        HfFileSystem.clear_instance_cache()


def find(*paths: str, **source: Any) -> FoundInputs:
    """Return what a run over one source reads."""
    sources = [{"name": "hub", "paths": paths, **source}]
    run = RunFile.model_validate(
        {"sources": sources, "datasets": [{"name": "clm"}], "ingest": {"unit_size": "1KiB"}}
    )
    return find_inputs(run, Path())


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("data/*.jsonl", ["a.jsonl", "b.jsonl"]),
        ("data/a.jsonl", ["a.jsonl"]),
        ("**/*.jsonl", ["data/a.jsonl", "data/b.jsonl", "more/deep/c.jsonl"]),
        ("data/*", ["a.jsonl", "b.jsonl"]),
    ],
)
def test_files_of_a_repository_are_found(pattern: str, paths: list[str], hub: Hub) -> None:
    assert len(hub.files) == 4
    assert [file.path for file in find(f"hf://{REPO}/{pattern}").files] == paths


def test_a_file_is_scanned_as_its_local_copy_is(hub: Hub, tmp_path: Path) -> None:
    (remote,) = find(f"hf://{REPO}/data/a.jsonl").files
    (tmp_path / "a.jsonl").write_bytes(hub.files["data/a.jsonl"])
    (local,) = find(str(tmp_path / "a.jsonl")).files
    (one, blocks), (other, same) = scan_file(remote, ""), scan_file(local, "")
    assert one.model_copy(update={"path": "a.jsonl"}) == other
    assert blocks.tolist() == same.tolist()
    assert one.slices is not None
    with open_place(remote.place, key="web") as file:
        file.seek(16)
        assert file.read(9) == b'{"text": '


def test_the_stamp_changes_with_the_file(hub: Hub) -> None:
    url = f"hf://{REPO}/data/b.jsonl"
    before = place_status(url, key="web")
    assert (before.size, before.lasting, before.seekable) == (16, True, True)
    hub.files["data/b.jsonl"] = b'{"text": "TWO"}\n'
    assert place_status(url, key="web", anew=True).stamp != before.stamp


def test_what_is_not_there_is_refused_and_a_hub_that_is_down_stops_the_run(hub: Hub) -> None:
    with pytest.raises(ConfigError, match=r"none\.jsonl: no such file"):
        find(f"hf://{REPO}/data/none.jsonl")
    with pytest.raises(ConfigError, match=r"sources\.hub\.paths: .* matches no file"):
        find(f"hf://{REPO}/data/*.csv")
    with pytest.raises(ConfigError, match="no such file"):
        find("hf://datasets/someone/else/a.jsonl")
    hub.status = HTTPStatus.FORBIDDEN
    HfFileSystem.clear_instance_cache()
    with pytest.raises(ConfigError, match="403"):
        find(f"hf://{REPO}/data/a.jsonl")
    hub.status = HTTPStatus.SERVICE_UNAVAILABLE
    HfFileSystem.clear_instance_cache()
    with pytest.raises(Stopped, match=r"cannot be read now .*503.*; run again to resume"):
        find(f"hf://{REPO}/data/a.jsonl")
