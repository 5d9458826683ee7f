"""A folder of documents that grows: its files, the run over it, and what stays of it."""

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from tests.conftest import bundled_lines
from tests.laws.tiny_run import tiny_run

MIX: dict[str, Any] = {"mix": {"language_alpha": 0.5}}
VOLATILE = {
    "lock",
    "log.jsonl",
    "status.json",
    "metrics.prom",
    "report/report.json",
    "report/index.html",
}


def lines() -> list[bytes]:
    """Return bundled documents, each with a name of its own."""
    texts = [json.loads(line) for line in bundled_lines("text/*", 14)[:14]]
    texts += [json.loads(line) for line in bundled_lines("code/*", 20)[:20]]
    return [
        json.dumps({**one, "name": f"n{number}"}, ensure_ascii=False).encode()
        for number, one in enumerate(texts)
    ]


def renamed(line: bytes, name: str, *, added: str = "") -> bytes:
    """Return a document again, under another name."""
    document = json.loads(line)
    text = document["text"] + added
    return json.dumps({**document, "text": text, "name": name}, ensure_ascii=False).encode()


def grown_run(**changes: object) -> RunFile:
    """Return the run over all files of a folder."""
    source = {"name": "s", "paths": ["*.jsonl"], "language": {"column": "lang"}, "id_column": "name"}
    settings = {"sources": [source], "dedup": {}, "validation": {"fraction": 0.3}, **changes}
    return tiny_run(**settings)


def write(folder: Path, name: str, documents: list[bytes]) -> None:
    """Write one file of the input."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"\n".join([*documents, b""]))


def request_of(
    folder: Path, *, workers: int = 0, until: str | None = None, **changes: object
) -> RunRequest:
    """Return a call of `run`."""
    return RunRequest(grown_run(**changes), folder, folder / "run", workers=workers, until=until)


def make_first(folder: Path) -> None:
    """Make a folder of 14 documents and the finished run over it, for `made_once`."""
    write(folder, "a.jsonl", lines()[:14])
    run_session(request_of(folder), stream=None)


def second_dump() -> list[bytes]:
    """Return new documents, copies of two old ones, and near-duplicates of twelve old ones."""
    known = lines()
    near = [renamed(line, f"near{n}", added=" and more") for n, line in enumerate(known[:12])]
    return [*known[14:22], *near, renamed(known[3], "copy3"), renamed(known[0], "copy0")]


def make_grown(first: Path, folder: Path) -> None:
    """Make a copy of the first folder, and two generations: new documents, repeats, near-duplicates."""
    shutil.copytree(first, folder)
    run, known = folder / "run", lines()
    run_session(request_of(folder), stream=None)  # which scans the copied file
    before = content_of(run)
    write(folder, "b.jsonl", second_dump())
    run_session(request_of(folder), stream=None)
    assert content_of(run) == before
    second = content_of(run / "generations" / "0001")
    write(folder, "c.jsonl", [*known[22:], renamed(known[15], "copy15")])
    run_session(request_of(folder), stream=None)
    assert content_of(run) == before
    assert content_of(run / "generations" / "0001") == second


def make_mixed(folder: Path) -> None:
    """Make another folder with a run and a generation of it, both with a mix."""
    for name, documents in (("a.jsonl", lines()[:8]), ("b.jsonl", lines()[14:20])):
        write(folder, name, documents)
        run_session(request_of(folder, **MIX), stream=None)


def content_of(folder: Path) -> dict[str, str]:
    """Return the digest of every file of a run but what each session writes of itself."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    named = ((path.relative_to(folder).as_posix(), path) for path in files)
    return {
        name: sha256(path.read_bytes()).hexdigest()
        for name, path in named
        if name not in VOLATILE and not name.startswith("generations/")
    }
