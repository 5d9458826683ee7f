"""What a crawl promises in a run: each record is once a document, a drop, or counted by its type."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.tasks import Workspace
from pipeline.steps.ingest.reading import Reading
from stages.errors import DataError
from tests.conftest import run_small
from tests.pipeline.test_parts import part_of

pytestmark = pytest.mark.slow


def record(kind: str, block: bytes) -> bytes:
    """Return one record."""
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nContent-Type: text/html\r\nContent-Length: {len(block)}"
    return head.encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


def ingest(folder: Path, output: Path, **options: Any) -> Any:
    """Read a folder of crawls."""
    source = {"name": "web", "paths": ["*.warc"]}
    options = {"ingest": {"unit_size": "1KiB", "min_chars": 1}, "until": "ingest", **options}
    return run_small(folder, output, sources=[source], **options)


def write(folder: Path) -> None:
    """Write two crawls of 40 pages; in front of each page stand three records that are no documents."""
    folder.mkdir()
    for name in "ab":
        records = [record("warcinfo", b"x" * 1_500)]
        for number in range(20):
            page = f"<p>page {name} {number} of the crawl".encode()
            records += [
                record("request", b"GET"),
                record("metadata", b"m" * 700),
                record("resource", page),
            ]
        (folder / f"{name}.warc").write_bytes(b"".join([*records, record("metadata", b"last")]))


WANTED = {"warc record:metadata": 42, "warc record:request": 40, "warc record:warcinfo": 2}


def test_other_records_are_counted_once_whatever_the_units(tmp_path: Path) -> None:
    write(tmp_path / "corpus")
    said = {
        f"WARC records of the type {name.partition(':')[2]}, which hold no document": number
        for name, number in WANTED.items()
    }
    for size in ("1KiB", "16KiB", "1MiB"):
        options = {"ingest": {"unit_size": size, "min_chars": 1}}
        report = ingest(tmp_path / "corpus", tmp_path / size, **options)
        assert report["documents"]["noticed"] == {"web": said}, size
        assert report["documents"]["read"] == 40
        assert report["documents"]["dropped"] == {}
        assert report["warnings"] == []


def test_crawls_without_a_document_are_refused_with_what_they_hold(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    data = record("request", b"GET") * 3 + record("warcinfo", b"x")
    (tmp_path / "corpus/a.warc").write_bytes(data)
    with pytest.raises(DataError) as error:
        ingest(tmp_path / "corpus", tmp_path / "run")
    assert "the 1 input files hold no document: WARC records of the type request" in str(error.value)
    assert "which hold no document: 3, " in str(error.value)
    assert json.dumps(str(error.value)).count("no record") == 0


def test_pages_that_the_crawler_cut_are_a_warning(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    data = record("resource", b"<p>the text of a page") + record("resource", b"<p>the begin").replace(
        b"Content-Type", b"WARC-Truncated: length\r\nContent-Type"
    )
    (tmp_path / "corpus/a.warc").write_bytes(data)
    report = ingest(tmp_path / "corpus", tmp_path / "run")
    (warning,) = report["warnings"]
    assert warning == (
        "sources.web: 1 documents end early, because the crawler cut them (WARC-Truncated: length)"
    )


@pytest.mark.parametrize("keep", [True, False])
def test_a_worker_that_takes_over_counts_nothing_twice(keep: bool, tmp_path: Path) -> None:  # noqa: FBT001
    write(tmp_path / "corpus")
    workspace = Workspace(tmp_path, tmp_path)
    noticed, parts = Counter[str](), 0
    following: int | None = 0
    while following is not None:
        if not keep:
            workspace.cache.clear()
        reading = Reading(workspace, part_of(workspace, tmp_path / "corpus/a.warc", following))
        parts += len(list(reading.records())) >= 0
        noticed += reading.columns.noticed
        following = reading.next
    assert noticed == {name: number // 2 for name, number in WANTED.items()}
    assert parts > 4
