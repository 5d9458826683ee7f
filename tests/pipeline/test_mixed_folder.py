"""What a folder of mixed files promises: each gives its documents to one source, or is named."""

import gzip
import io
import json
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.errors import ConfigError, DataError
from tests.conftest import digests, run_small

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

Records = list[dict[str, str]]


def table(records: Records) -> bytes:
    """Return records as Parquet."""
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(records), file)
    return file.getvalue()


def stream(records: Records) -> bytes:
    """Return records as an Arrow stream."""
    file, found = io.BytesIO(), pa.Table.from_pylist(records)
    with pa.ipc.new_stream(file, found.schema) as writer:
        writer.write_table(found)
    return file.getvalue()


def crawl(records: Records) -> bytes:
    """Return records as the pages of a WARC file."""
    data = b""
    for number, record in enumerate(records):
        body = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>{record['text']}</p>".encode()
        url = f"WARC-Target-URI: http://a.org/{number}"
        head = f"WARC/1.0\r\nWARC-Type: response\r\n{url}\r\nContent-Length: {len(body)}\r\n\r\n"
        data += head.encode() + body + b"\r\n\r\n"
    return data


def lines(records: Records) -> bytes:
    """Return records as JSON lines."""
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def write_folder(folder: Path) -> dict[str, list[str]]:
    """Write a file of each format, and junk; return the texts of each file."""
    letters = cycle("abcdefghijklmnopqrstuvwxyz")
    numbers: Iterator[int] = iter(range(1000))

    def records(count: int) -> Records:
        return [{"text": f"the {next(letters)} text with number {next(numbers)}"} for _ in range(count)]

    one, three = (
        records(1),
        {name: records(3) for name in ("csv", "json", "jsonl", "pq", "arrow", "warc")},
    )
    page, note, spark = records(1), records(1), records(2)
    files: dict[str, tuple[bytes, Records]] = {
        "a.txt": (one[0]["text"].encode(), one),
        "b.md": (note[0]["text"].encode(), note),
        "c.csv": ("\n".join(["text", *(r["text"] for r in three["csv"])]).encode(), three["csv"]),
        "d.json": (json.dumps(three["json"], indent=1).encode(), three["json"]),
        "deep/e.jsonl.gz": (gzip.compress(lines(three["jsonl"]), mtime=0), three["jsonl"]),
        "f.parquet": (table(three["pq"]), three["pq"]),
        "g.html": (f"<html><body><p>{page[0]['text']}</p></body></html>".encode(), page),
        "h.arrow": (stream(three["arrow"]), three["arrow"]),
        "i.warc.gz": (gzip.compress(crawl(three["warc"]), mtime=0), three["warc"]),
        "j.parquet/part-0.parquet": (table(spark), spark),
    }
    junk = ["j.parquet/_SUCCESS", "notes.log", "deep/old.log", "photo.png", "Makefile"]
    for name, data in [
        *((name, data) for name, (data, _) in files.items()),
        *((one, b"x") for one in junk),
    ]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return {name: [record["text"] for record in found] for name, (_, found) in files.items()}


SOURCE: dict[str, Any] = {"name": "all", "paths": ["**"], "exclude": ["*.log"], "skip_unknown": True}


def ingest(folder: Path, output: Path, *, workers: int = 0, **changes: Any) -> Any:
    """Ingest the folder as one source."""
    options: dict[str, Any] = {
        "sources": [{**SOURCE, **changes}],
        "ingest": {"unit_size": "1KiB", "min_chars": 1},
        "until": "ingest",
    }
    return run_small(folder, output, workers=workers, **options)


def documents(output: Path) -> dict[str, list[str]]:
    """Return the texts of each file that a run read."""
    found: dict[str, list[str]] = {}
    for path in sorted(output.glob("ingest/all/*/documents.parquet")):
        for row in pq.read_table(path).to_pylist():
            found.setdefault(row["path"], []).append(row["text"])
    return found


def test_each_file_gives_its_documents_and_what_is_not_read_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    wanted = write_folder(folder)
    report = ingest(folder, tmp_path / "run")
    assert documents(tmp_path / "run") == wanted
    assert report["documents"]["read"] == sum(map(len, wanted.values())) == 23
    assert report["documents"]["dropped"] == {}
    assert report["skipped"] == {"all": {"excluded": 2, "hidden": 1, "unknown": 2}}
    (warning,) = report["warnings"]
    assert warning == (
        "sources.all: 5 files are not read: 2 by exclude (deep/old.log, notes.log), 1 hidden (name"
        " begins with _ or .) (j.parquet/_SUCCESS), 2 that no reader knows (Makefile, photo.png)"
    )


@pytest.mark.campaign
def test_workers_change_nothing_of_a_mixed_folder(tmp_path: Path, ray_session: None) -> None:  # noqa: ARG001  # Ray must run
    folder = tmp_path / "corpus"
    write_folder(folder)
    for workers in (0, 2):
        ingest(folder, tmp_path / f"run{workers}", workers=workers)
    one, other = (digests(tmp_path / f"run{workers}", "ingest") for workers in (0, 2))
    assert one == other
    assert len(one) > 20


def test_without_a_word_about_it_junk_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    write_folder(folder)
    with pytest.raises(
        ConfigError, match=r"Makefile: no reader knows this file; set skip_unknown = true"
    ):
        ingest(folder, tmp_path / "run", skip_unknown=False)


@pytest.mark.parametrize(
    ("name", "drops"),
    [
        ("c.csv", {"bad_record": 1}),
        ("d.json", None),
        ("deep/e.jsonl.gz", None),
        ("f.parquet", None),
        ("h.arrow", None),
        ("i.warc.gz", None),
        ("j.parquet/part-0.parquet", None),
    ],
)
def test_a_file_that_is_cut_is_refused_by_name_or_gives_a_drop(
    name: str, drops: dict[str, int] | None, tmp_path: Path
) -> None:
    folder = tmp_path / "corpus"
    write_folder(folder)
    data = (folder / name).read_bytes()
    if name == "c.csv":  # a record without its end is one all the same
        data += b'\n"an open quote'
    (folder / name).write_bytes(data[: -1 if name == "c.csv" else -9])
    if drops is None:
        with pytest.raises(DataError, match=name):
            ingest(folder, tmp_path / "run")
        return
    report = ingest(folder, tmp_path / "run")
    assert report["documents"]["dropped"] == drops
    (line,) = report["documents"]["named_drops"]
    assert line.startswith(f"all: {name}, line ")
