"""A folder of documents that grows: its files, the run over it, and what stays of it."""

import json
from hashlib import sha256
from pathlib import Path

from pipeline.run_file.config import RunFile
from pipeline.session.session import RunRequest, run_session
from tests.conftest import bundled_lines
from tests.laws.tiny_run import tiny_run

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


def content_of(folder: Path) -> dict[str, str]:
    """Return the digest of every file of a run but what each session writes of itself."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    named = ((path.relative_to(folder).as_posix(), path) for path in files)
    return {
        name: sha256(path.read_bytes()).hexdigest()
        for name, path in named
        if name not in VOLATILE and not name.startswith("generations/")
    }
