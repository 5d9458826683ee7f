"""What ingest promises.

The same records give the same documents, whatever format and slices they come in and wherever they
stand; nothing is held that grows with a unit; an input that is broken stops the run, early.
"""

import csv
import gzip
import io
import json
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from pipeline.state.commit_object import Commit
from pipeline.steps.ingest import files as ingest_files
from pipeline.steps.ingest.record import PartRecord
from stages.cleaning.text import clean_text
from stages.config import canonical_json
from stages.errors import ConfigError, DataError, VerificationError
from tests.conftest import bundled_lines, run_small, small_run

pytestmark = pytest.mark.slow

COLUMNS = ["own_id", "language", "text_bytes", "digest", "text"]
ONLY_TEXT: dict[str, Any] = {"sources": [{"name": "s", "paths": ["a.*"]}]}
"""Of records that have no other column."""


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    """Some bundled records, with a null text and an empty one among them."""
    found = [json.loads(line) for line in bundled_lines("text/*", 4)]
    rows = [{"id": str(r["id"]), "lang": r["lang"], "text": r["text"]} for r in found]
    rows[3]["text"], rows[7]["text"], rows[9]["text"] = None, "", " \n"
    assert len(rows) > 20
    return rows


def lines_of(records: list[dict[str, Any]]) -> bytes:
    """Return records as JSON lines."""
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def rows_of(records: list[dict[str, Any]]) -> bytes:
    """Return records as CSV, which knows no null."""
    written = io.StringIO()
    rows = csv.DictWriter(written, ["lang", "id", "text"], lineterminator="\n")
    rows.writeheader()
    rows.writerows(records)
    return written.getvalue().encode()


def write(folder: Path, kind: str, records: list[dict[str, Any]]) -> Path:
    """Write the records to a new folder in one format."""
    folder.mkdir()
    table = pa.Table.from_pylist(records)
    if kind == "parquet":
        pq.write_table(table, folder / "a.parquet", row_group_size=9)
    elif kind == "arrow":
        with pa.ipc.new_file(folder / "a.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=9)
    elif kind == "jsonl.gz":
        (folder / "a.jsonl.gz").write_bytes(gzip.compress(lines_of(records), mtime=0))
    elif kind == "csv.zst":
        (folder / "a.csv.zst").write_bytes(zstandard.compress(rows_of(records)))
    elif kind == "csv":
        (folder / "a.csv").write_bytes(rows_of(records))
    else:
        (folder / "a.jsonl").write_bytes(lines_of(records))
    return folder


def source(pattern: str = "a.*", **more: Any) -> list[dict[str, Any]]:
    """Return the sources of a run over one pattern."""
    fields = {"id_column": "id", "language": {"column": "lang"}}
    return [{"name": "s", "paths": [pattern], **fields, **more}]


def ingest(corpus: Path, output: Path, **changes: Any) -> pa.Table:
    """Ingest a folder and give its documents in canonical order."""
    run_small(corpus, output, until="ingest", **{"sources": source(), **changes})
    tables = [pq.read_table(path) for path in sorted(output.glob("ingest/*/*/documents.parquet"))]
    return pa.concat_tables(tables)


def summary(output: Path) -> dict[str, Any]:
    """Return what ingest committed of itself."""
    commit = json.loads((output / "commits/ingest/_step.json").read_text())
    record: dict[str, Any] = commit["record"]
    return record


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "arrow"])
def test_every_format_gives_the_documents_of_compressed_json_lines(
    kind: str, records: list[dict[str, Any]], tmp_path: Path
) -> None:
    size = {"unit_size": "10KiB"}
    expected = ingest(write(tmp_path / "gz", "jsonl.gz", records), tmp_path / "run-gz", ingest=size)
    found = ingest(write(tmp_path / kind, kind, records), tmp_path / "run", ingest=size)
    assert found.select(COLUMNS).equals(expected.select(COLUMNS))
    assert found.num_rows == len(records) - 3
    one, other = summary(tmp_path / "run-gz"), summary(tmp_path / "run")
    for key in ("read", "drops", "cleaned"):
        assert one[key] == other[key]
    assert one["drops"] == {"empty": 2, "missing_text": 1}
    assert len(other["units"]) > 2


@pytest.mark.parametrize("kind", ["csv", "csv.zst"])
@pytest.mark.parametrize("unit_size", ["7KiB", "1MiB"])
def test_csv_gives_the_documents_of_json_lines_a_null_text_being_an_empty_one(
    kind: str, unit_size: str, records: list[dict[str, Any]], tmp_path: Path
) -> None:
    size = {"unit_size": unit_size}
    expected = ingest(write(tmp_path / "json", "jsonl", records), tmp_path / "run-json", ingest=size)
    found = ingest(write(tmp_path / kind, kind, records), tmp_path / "run", ingest=size)
    assert found.select(COLUMNS).equals(expected.select(COLUMNS))
    assert summary(tmp_path / "run")["drops"] == {"empty": 3}
    assert summary(tmp_path / "run")["read"] == len(records)


def test_a_csv_without_a_column_of_its_source_is_refused(
    records: list[dict[str, Any]], tmp_path: Path
) -> None:
    corpus = write(tmp_path / "csv", "csv", records)
    with pytest.raises(ConfigError, match=r"'tongue': none of .* columns there: lang, id, text"):
        ingest(corpus, tmp_path / "run", sources=source(language={"column": "tongue"}))


@pytest.mark.parametrize("name", ["z.csv", "z.csv.gz", "a.csv"])
def test_a_csv_whose_header_lacks_the_text_is_refused_though_others_have_it(
    name: str, records: list[dict[str, Any]], tmp_path: Path
) -> None:
    corpus = write(tmp_path / "csv", "csv", records)
    (corpus / "a.csv").rename(corpus / "m.csv")
    data = b"a sentence where a header should be\n"
    (corpus / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    with pytest.raises(DataError, match=rf"sources\.s: .*{name}: its header has no column 'text'"):
        ingest(corpus, tmp_path / "run", sources=source("*.csv*"))


@pytest.mark.parametrize("unit_size", ["7KiB", "1MiB"])
def test_slices_and_a_chain_give_the_same_files(
    unit_size: str, records: list[dict[str, Any]], tmp_path: Path
) -> None:
    whole = {}
    for kind in ("jsonl", "jsonl.gz"):
        output = tmp_path / f"run-{kind}"
        found = ingest(write(tmp_path / kind, kind, records), output, ingest={"unit_size": unit_size})
        drops = [pq.read_table(path) for path in sorted(output.glob("ingest/*/*/drops.parquet"))]
        places = pa.concat_tables(drops).select(["line", "position", "reason", "detail"])
        whole[kind] = (found.drop_columns(["id", "path"]), places)
    for one, other in zip(whole["jsonl"], whole["jsonl.gz"], strict=True):
        assert one.equals(other)
        assert one.num_rows >= 3


def test_text_files_give_a_document_a_file_or_a_paragraph_group(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    text = "First line\nof a group.\n\n \nSecond.\r\n\r\nThird, é.\n" * 200
    (corpus / "a.txt").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (corpus / "b.txt.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    plain = {"name": "s", "paths": ["*.txt*"], "language": "en"}
    found = {}
    for split in ("file", "blank_line"):
        sources = [{**plain, "text_split": split}]
        options = {"sources": sources, "ingest": {"unit_size": "3KiB"}}
        found[split] = ingest(corpus, tmp_path / split, **options)
    assert found["file"].column("position").to_pylist() == [0, 0]
    assert found["file"].column("text")[0] == found["file"].column("text")[1]
    groups = found["blank_line"].column("text").to_pylist()
    assert groups[:3] == ["First line\nof a group.", "Second.", "Third, é.\nFirst line\nof a group."]
    assert groups[: len(groups) // 2] == groups[len(groups) // 2 :]
    assert len(groups) == 2 * (200 * 2 + 1)


def test_the_signatures_are_those_of_an_array_written_at_once(
    records: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = write(tmp_path / "corpus", "jsonl", records)
    ingest(corpus, tmp_path / "whole")
    monkeypatch.setattr(ingest_files, "ROWS_TURNED", 7)
    ingest(corpus, tmp_path / "blocks")
    (one,) = (tmp_path / "whole").glob("ingest/*/*/signatures.npy")
    (other,) = (tmp_path / "blocks").glob("ingest/*/*/signatures.npy")
    assert one.read_bytes() == other.read_bytes()
    again = io.BytesIO()
    np.save(again, np.load(one))
    assert again.getvalue() == one.read_bytes()
    assert np.load(one).shape == (128, len(records) - 3)
    assert sorted(path.name for path in one.parent.iterdir()) == [
        "documents.parquet",
        "drops.parquet",
        "signatures.npy",
    ]


def test_drops_are_written_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_files, "BUFFERED_DROPS", 4)
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "a.jsonl").write_bytes(b'{"text": 7}\n' * 10 + b'{"text": "a good one"}\n')
    ingest(corpus, tmp_path / "run", ingest={"max_bad_fraction": 1.0}, **ONLY_TEXT)
    (path,) = (tmp_path / "run").glob("ingest/*/*/drops.parquet")
    assert pq.read_metadata(path).num_row_groups == 3
    assert pq.read_table(path).column("line").to_pylist() == list(range(1, 11))


def test_a_document_whose_id_or_language_is_as_long_as_a_text_is_dropped_by_name(tmp_path: Path) -> None:
    rows = [
        {"id": "x" * 4096, "lang": "y" * 256, "text": "both as long as may be"},
        {"id": "x" * 4097, "lang": "en", "text": "a byte too long"},
        {"id": "\u00e9" * 2049, "lang": "en", "text": "two bytes too long"},
        {"id": "a", "lang": "y" * 257, "text": "a language too long"},
    ]
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus/a.jsonl").write_bytes(lines_of(rows))
    table = ingest(tmp_path / "corpus", tmp_path / "run", ingest={"max_bad_fraction": 1.0})
    assert table.column("own_id").to_pylist() == ["x" * 4096]
    (path,) = (tmp_path / "run").glob("ingest/*/*/drops.parquet")
    drops = pq.read_table(path)
    assert drops.column("reason").to_pylist() == ["too_large"] * 3
    assert drops.column("detail").to_pylist() == [
        "its own_id has 4,097 bytes, over 4,096; sources.s.id_column = 'id' may name another column",
        "its own_id has 4,098 bytes, over 4,096; sources.s.id_column = 'id' may name another column",
        "its language has 257 bytes, over 256; sources.s.language.column may name another column",
    ]


def test_a_batch_is_bounded_by_all_that_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_files, "BATCH_NAMES", 10_000)
    rows = [{"id": "x" * 990 + f"{n:010}", "lang": "en", "text": "a short text"} for n in range(100)]
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus/a.jsonl").write_bytes(lines_of(rows))
    table = ingest(tmp_path / "corpus", tmp_path / "run", ingest={"min_chars": 1})
    assert table.column("own_id").to_pylist() == [row["id"] for row in rows]
    (path,) = (tmp_path / "run").glob("ingest/*/*/documents.parquet")
    metadata = pq.read_metadata(path)
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [10] * 10


def test_a_broken_input_stops_the_run_before_its_end(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    bad, good = b'{"text": 7777}\n', b'{"text": "ab"}\n'
    (corpus / "a.jsonl").write_bytes(good * 900 + b"\xff{}\n" + bad * 99 + good * 9_000)
    with pytest.raises(DataError) as caught:
        ingest(corpus, tmp_path / "run", ingest={"unit_size": "5KiB"}, **ONLY_TEXT)
    message = str(caught.value)
    assert message.startswith("ingest.max_bad_fraction = 0.05: ")
    assert ": 100 of the first 1,0" in message
    assert "s: a.jsonl, line 901: bad_utf8: byte 0 of the record, 0xff" in message
    units = list((tmp_path / "run/commits/ingest").iterdir())
    assert len(units) == 3
    more = {"unit_size": "5KiB", "max_bad_fraction": 0.1}
    assert ingest(corpus, tmp_path / "run", ingest=more, **ONLY_TEXT).num_rows == 9_900


@pytest.mark.parametrize("protocol", ["memory", "file"])
def test_a_url_gives_the_documents_of_a_local_path(
    protocol: str, records: list[dict[str, Any]], tmp_path: Path
) -> None:
    corpus = write(tmp_path / "corpus", "parquet", records)
    (corpus / "a.jsonl").write_bytes(lines_of(records))
    (corpus / "a.jsonl.gz").write_bytes(gzip.compress(lines_of(records), mtime=0))
    local = ingest(corpus, tmp_path / "local", ingest={"unit_size": "10KiB"})
    url = f"file://{corpus}"
    if protocol == "memory":
        url = "memory://ingest-test"
        for path in corpus.iterdir():
            fsspec.filesystem("memory").pipe(f"/ingest-test/{path.name}", path.read_bytes())
    sources = source(f"{url}/a.*")
    remote = ingest(tmp_path, tmp_path / "run", sources=sources, ingest={"unit_size": "10KiB"})
    assert remote.equals(local)
    assert remote.num_rows == 3 * (len(records) - 3)


def test_a_column_that_is_not_there_is_refused_before_any_work(
    records: list[dict[str, Any]], tmp_path: Path
) -> None:
    corpus = write(tmp_path / "corpus", "parquet", records)
    wrong = source(text_column="body")
    with pytest.raises(
        ConfigError, match=r"sources\.s\.text_column = 'body': .*columns there: id, lang"
    ):
        ingest(corpus, tmp_path / "run", sources=wrong)
    assert not (tmp_path / "run" / "ingest").exists()
    assert small_run(sources=wrong).sources[0].text_column == "body"


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "parquet", "arrow"])
def test_sections_are_joined_and_their_ends_kept(
    kind: str, records: list[dict[str, Any]], tmp_path: Path
) -> None:
    texts = [record["text"] or "" for record in records]
    records = [
        {**record, "text": text[:30], "target": f"{text[30:60]}\r\nend", "other": text[60:90]}
        for record, text in zip(records, texts, strict=True)
    ]
    records[5]["target"], records[6]["other"] = " \n", None
    corpus = write(tmp_path / "corpus", kind, records)
    sources = source(section_columns=["target", "other"])
    found = ingest(corpus, tmp_path / "run", sources=sources).to_pylist()
    wanted = {r["id"]: r for n, r in enumerate(records) if n not in (3, 5, 6, 7, 9) and r["other"]}
    assert [row["own_id"] for row in found] == list(wanted)
    for row in found:
        parts = [clean_text(wanted[row["own_id"]][key]) for key in ("text", "target", "other")]
        assert row["text"] == "".join(parts)
        assert row["section_ends"] == list(accumulate(map(len, parts)))
    drops = pq.read_table(next((tmp_path / "run").glob("ingest/*/*/drops.parquet"))).to_pylist()
    reasons = {drop["detail"]: drop["reason"] for drop in drops}
    assert reasons["field 'target' has no character but white space"] == "empty"
    assert "missing_text" in reasons.values()


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz"])
def test_a_byte_order_mark_costs_no_document(
    kind: str, records: list[dict[str, Any]], tmp_path: Path
) -> None:
    plain = ingest(write(tmp_path / "plain", kind, records), tmp_path / "run-plain")
    corpus = tmp_path / "marked"
    corpus.mkdir()
    data = b"\xef\xbb\xbf" + lines_of(records)
    (corpus / f"a.{kind}").write_bytes(gzip.compress(data, mtime=0) if kind.endswith("gz") else data)
    marked = ingest(corpus, tmp_path / "run-marked")
    assert marked.select(COLUMNS).equals(plain.select(COLUMNS))
    places = plain.column("position").to_pylist()
    assert marked.column("position").to_pylist() == [place and place + 3 for place in places]
    assert summary(tmp_path / "run-marked")["drops"] == summary(tmp_path / "run-plain")["drops"]


TEXTS = b"First line\nof a group.\n\n \nSecond.\r\n\r\nThird.\n\n" * 300
BLANKS = b"\n" * 9_000
CONTENTS = {
    "jsonl": b'{"text": "a text of some words"}\n' * 300,
    "jsonl, no line feed at its end": b'{"text": "a text of some words"}\n{"text": "the last one"}',
    "jsonl, blank lines": BLANKS + b'{"text": "a text of some words"}\n' * 300 + BLANKS,
    "jsonl, a long line": b'{"text": "%s"}\n{"text": "a few more words"}\n' % (b"x" * 9_000),
    "txt": TEXTS,
    "txt, blank lines": BLANKS + TEXTS + BLANKS + TEXTS + BLANKS,
    "txt, a long group": b"x\n" * 9_000 + b"\n" + TEXTS,
}


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("content", CONTENTS)
def test_the_units_of_a_file_chain_from_its_first_byte_to_its_last(
    content: str, ending: str, tmp_path: Path
) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    data = CONTENTS[content]
    kind = content.partition(",")[0]
    (corpus / f"a.{kind}{ending}").write_bytes(gzip.compress(data, mtime=0) if ending else data)
    sources = [{"name": "s", "paths": ["a.*"]}]
    if kind == "txt":
        sources[0]["text_split"] = "blank_line"
    options = {"sources": sources, "ingest": {"unit_size": "3KiB", "min_chars": 1}}
    ingest(corpus, tmp_path / "run", **options)
    folder = tmp_path / "run/commits/ingest"
    commits = [json.loads(path.read_text()) for path in sorted(folder.glob("s.*.json"))]
    covered = [part for commit in commits for part in commit["record"]["covered"].values()]
    assert covered[0][0] == 0
    assert covered[-1][1] == len(data)
    assert all(one[1] == other[0] for one, other in pairwise(covered))
    assert len(covered) > 1 or "no line feed" in content


def test_a_unit_that_claims_less_of_its_file_than_there_is_fails_the_run(
    records: list[dict[str, Any]], tmp_path: Path
) -> None:
    corpus = write(tmp_path / "corpus", "parquet", records)
    ingest(corpus, tmp_path / "run", ingest={"unit_size": "7KiB"})
    folder = tmp_path / "run/commits/ingest"
    (folder / "_step.json").unlink()
    units = sorted(folder.glob("s.*.json"))
    assert len(units) > 2
    said = Commit.model_validate_json(units[1].read_bytes())
    covered = said.read(PartRecord).covered
    ((path, (first, last)),) = covered.items()
    record = said.record | {"covered": {path: [first, last - 1]}}
    units[1].write_bytes(canonical_json(said.model_copy(update={"record": record}).sealed()))
    with pytest.raises(VerificationError) as caught:
        ingest(corpus, tmp_path / "run", ingest={"unit_size": "7KiB"})
    assert f"a.parquet: positions {last - 1:,} to {last:,} were read by no unit" in str(caught.value)
