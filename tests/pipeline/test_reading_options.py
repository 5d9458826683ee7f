"""What settings of a source promise: encodings and nested columns, through a whole ingest."""

import gzip
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.errors import ConfigError, DataError
from tests.conftest import run_small

pytestmark = pytest.mark.slow


def ingest(corpus: Path, output: Path, **source: Any) -> list[dict[str, Any]]:
    """Ingest a folder's files as one source, in small units, and return the documents."""
    settings = {"unit_size": "4KiB", "min_chars": 1}
    sources = [{"name": "web", "paths": ["*"], **source}]
    run_small(corpus, output, until="ingest", sources=sources, ingest=settings)
    tables = sorted(output.glob("ingest/web/*/documents.parquet"))
    return [row for path in tables for row in pq.read_table(path).to_pylist()]


def texts(documents: list[dict[str, Any]]) -> list[str]:
    """Return the texts in order."""
    return [document["text"] for document in documents]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """An empty folder."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    return folder


def test_a_file_with_another_delimiter_gives_the_documents_that_it_gives_with_a_comma(
    corpus: Path, tmp_path: Path
) -> None:
    words = [f"number {n} " + "of some words" * (n % 7) for n in range(300)]

    def write(delimiter: str) -> None:
        rows = "".join(f"{n}{delimiter}{word}\n" for n, word in enumerate(words))
        (corpus / "a.csv").write_text(f"id{delimiter}text\n{rows}", "utf-8")

    write(",")
    wanted = ingest(corpus, tmp_path / "plain")
    write(";")
    found = ingest(corpus, tmp_path / "run", delimiter=";")
    assert texts(found) == texts(wanted) != []
    with pytest.raises(DataError, match='set delimiter = ";" beside its paths'):
        ingest(corpus, tmp_path / "other")


def test_a_delimiter_of_a_source_without_delimited_text_is_refused(corpus: Path, tmp_path: Path) -> None:
    (corpus / "a.jsonl").write_text('{"text": "some words"}\n')
    with pytest.raises(
        ConfigError, match="delimiter = ';': all its files are JSON lines, whose fields no"
    ):
        ingest(corpus, tmp_path / "refused", delimiter=";")
    (corpus / "b.csv").write_text("id;text\n1;other words\n")
    assert len(ingest(corpus, tmp_path / "run", delimiter=";")) == 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "cp1252", "utf-32"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv", "a.txt"])
def test_a_file_in_another_encoding_gives_the_documents_that_it_gives_in_utf_8(
    name: str, encoding: str, corpus: Path, tmp_path: Path
) -> None:
    words = [f"déjà vu number {n} " + "of some words" * (n % 7) for n in range(300)]
    if "jsonl" in name:
        text = "".join(json.dumps({"text": word}, ensure_ascii=False) + "\n" for word in words)
    else:
        text = "text\n" + "\n".join(words) + "\n"

    def write(encoding: str) -> None:
        data = text.encode(encoding)
        (corpus / name).write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)

    write("utf-8")
    wanted = ingest(corpus, tmp_path / "plain")
    write(encoding)
    found = ingest(corpus, tmp_path / "run", encoding=encoding)
    assert texts(found) == texts(wanted)
    assert len({one["position"] for one in found}) == len(wanted)
    assert len(wanted) == (1 if name == "a.txt" else 300)


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "a.arrow"])
def test_nested_columns_give_what_flat_ones_give(name: str, corpus: Path, tmp_path: Path) -> None:
    nested: list[dict[str, Any]] = [
        {"data": {"text": f"text number {n} " * (n % 9)}, "meta": {"id": n, "lang": f"l{n % 3}"}}
        for n in range(1, 400)
    ]
    flat = [{"text": row["data"]["text"], **row["meta"]} for row in nested]

    def write(rows: list[dict[str, Any]]) -> None:
        table = pa.Table.from_pylist(rows)
        if name == "a.parquet":
            pq.write_table(table, corpus / name, row_group_size=50)
        elif name == "a.arrow":
            with pa.ipc.new_file(corpus / name, table.schema) as writer:
                writer.write_table(table, max_chunksize=50)
        else:
            (corpus / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    columns = {"id_column": "id", "language": {"column": "lang"}}
    write(flat)
    wanted = ingest(corpus, tmp_path / "flat", **columns)
    write(nested)
    columns = {"id_column": "meta.id", "language": {"column": "meta.lang"}}
    found = ingest(corpus, tmp_path / "nested", text_column="data.text", **columns)
    kept = ("own_id", "language", "text")
    assert [[one[key] for key in kept] for one in found] == [
        [one[key] for key in kept] for one in wanted
    ]
    assert len(found) > 300
    assert found[0]["own_id"] == "1"


def test_a_byte_order_mark_of_utf_8_is_no_part_of_any_text(corpus: Path, tmp_path: Path) -> None:
    mark = b"\xef\xbb\xbf"
    (corpus / "a.jsonl").write_bytes(mark + b'{"text": "one"}\n')
    (corpus / "b.csv").write_bytes(mark + b"text\ntwo\n")
    (corpus / "c.txt").write_bytes(mark + b"three")
    assert texts(ingest(corpus, tmp_path / "run")) == ["one", "two", "three"]


def test_a_wrong_encoding_is_refused_with_the_file_and_the_key(corpus: Path, tmp_path: Path) -> None:
    (corpus / "a.jsonl").write_bytes(b'{"text": "one"}\n')
    with pytest.raises(DataError) as caught:
        ingest(corpus, tmp_path / "run", encoding="utf-16")
    assert str(caught.value) == (
        f"sources.web: {corpus / 'a.jsonl'}: has no byte order mark of utf-16; name utf-16-le or"
        " utf-16-be; correct encoding or the file, or leave the file out, and run again with --replace"
    )


def test_html_pages_are_read_and_the_library_is_recorded(corpus: Path, tmp_path: Path) -> None:
    for n in range(5):
        (corpus / f"{n}.html").write_text(f"<nav>menu</nav><p>page <b>{n}</b> of a site</p>")
    (corpus / "t.txt").write_text("a text")
    found = ingest(corpus, tmp_path / "run")
    assert texts(found) == [*(f"menu\n\npage {n} of a site" for n in range(5)), "a text"]
    kept = json.loads((tmp_path / "run/run.json").read_text())["steps"]["ingest"]["config"]
    assert kept["libraries"] == {"resiliparse": version("resiliparse")}
    (corpus / "t.txt").rename(corpus.parent / "t.txt")
    main = ingest(corpus, tmp_path / "main", html_text="main")
    assert texts(main) == [f"page {n} of a site" for n in range(5)]


def test_a_run_without_html_records_no_library(corpus: Path, tmp_path: Path) -> None:
    (corpus / "t.txt").write_text("a text")
    ingest(corpus, tmp_path / "run")
    assert (
        "libraries"
        not in json.loads((tmp_path / "run/run.json").read_text())["steps"]["ingest"]["config"]
    )
