"""Init in odd folders: what lies there is read once, as it is, or named with the reason it is not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.tools.init import init as initialise
from pipeline.tools.init.fields import choose_fields
from pipeline.tools.init.records import look_at
from stages.errors import ConfigError
from stages.reading.delimited import CSV
from tests.pipeline.initialised import TEXTS, ingested, init, lines_of

GERMAN = "Grüße aus Köln, und viele davon."


@pytest.fixture
def web(tmp_path: Path) -> Path:
    """An empty folder to be filled."""
    folder = tmp_path / "web"
    folder.mkdir()
    return folder


def texts_read(web: Path) -> list[str]:
    tables = sorted((web.parent / "out" / "ingest").rglob("documents.parquet"))
    return [text for path in tables for text in pq.read_table(path)["text"].to_pylist()]


def test_a_folder_that_is_named_like_a_file_is_read_once(web: Path) -> None:
    (web / "out.parquet").mkdir()
    pq.write_table(pa.table({"text": TEXTS[:20]}), web / "out.parquet" / "part-0.parquet")
    (web / "out.parquet" / "_SUCCESS").write_text("")
    pq.write_table(pa.table({"text": TEXTS[20:]}), web / "b.parquet")
    _, (one, other) = init(web)
    assert one["exclude"] == ["./out.parquet"]
    assert other["paths"] == ["web/out.parquet/*.parquet"]
    assert ingested(web)["read"] == len(TEXTS)


def test_many_folders_that_are_named_like_files_are_read_once(web: Path) -> None:
    for number in range(10):
        (web / f"{number}.parquet").mkdir()
        pq.write_table(pa.table({"text": TEXTS[number::10]}), web / f"{number}.parquet" / "p.parquet")
    init(web)
    assert ingested(web)["read"] == len(TEXTS)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "cp1252"])
@pytest.mark.parametrize("ending", ["txt", "jsonl", "csv"])
def test_an_encoding_that_all_files_are_in_is_found(web: Path, encoding: str, ending: str) -> None:
    for number in range(2):
        text = f"{number} {GERMAN}"
        record = json.dumps({"text": text}, ensure_ascii=False) + "\n"
        held = {"txt": text, "jsonl": record, "csv": f'text,n\n"{text}",1\n'}[ending]
        (web / f"{number}.{ending}").write_bytes(held.encode(encoding))
    _, (source,) = init(web)
    assert source["encoding"] == encoding
    assert ingested(web)["read"] == 2
    assert sorted(texts_read(web)) == [f"{n} {GERMAN}" for n in range(2)]


def test_no_encoding_is_written_that_would_spoil_some_files(web: Path) -> None:
    for number in range(3):
        (web / f"{number}.txt").write_bytes(GERMAN.encode("cp1252"))
    (web / "ascii.txt").write_text("Plain text.")
    assert init(web)[1][0]["encoding"] == "cp1252"
    (web / "utf8.txt").write_text(GERMAN, encoding="utf-8")
    assert "encoding" not in init(web)[1][0]
    assert "60% of the files are not UTF-8" in web.with_name("run.toml").read_text("utf-8")


def test_pages_and_crawls_say_their_encoding_themselves(web: Path) -> None:
    (web / "a.html").write_bytes(
        f'<html><head><meta charset="iso-8859-1"></head><body>{GERMAN}'.encode("latin-1")
    )
    block = GERMAN.encode("latin-1")
    (web / "a.wet").write_bytes(
        b"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Record-ID: <urn:uuid:1>\r\nContent-Length: %d"
        b"\r\n\r\n%s\r\n\r\n" % (len(block), block)
    )
    _, sources = init(web)
    assert [source["paths"] for source in sources] == [["web/*.html"], ["web/*.wet"]]
    assert not [source for source in sources if "encoding" in source]


def test_a_first_record_longer_than_what_is_looked_at_is_read(web: Path) -> None:
    (web / "a.jsonl").write_text(lines_of([{"text": "word " * 1_000_000}] * 2))
    content, _ = init(web)
    assert content["left_out"] == []
    assert content["sources"][0]["documents"] == 2


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.timestamp("ns"), 1_700_000_000_123_456_789),
        (pa.timestamp("us"), 1 << 60),
        (pa.timestamp("us", tz="Mars/Phobos"), 1 << 40),
        (pa.date32(), 9_000_000),
        (pa.duration("ns"), 7),
        (pa.list_(pa.struct([("at", pa.time64("ns"))])), [{"at": 7}]),
    ],
)
def test_times_that_python_cannot_hold_hide_no_texts(web: Path, kind: pa.DataType, value: Any) -> None:
    rows = [{"text": text, "meta": {"at": value}} for text in TEXTS]
    schema = pa.schema([("text", pa.string()), ("meta", pa.struct([("at", kind)]))])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), web / "a.parquet")
    content, _ = init(web)
    assert (content["sources"][0]["text"], content["sources"][0]["documents"]) == ("text", len(TEXTS))


@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream])
def test_an_arrow_file_may_begin_with_an_empty_batch(web: Path, make: Callable[..., Any]) -> None:
    batch = pa.record_batch({"text": TEXTS})
    with make(web / "a.arrow", batch.schema) as writer:
        writer.write_batch(batch.slice(0, 0))
        writer.write_batch(batch)
    assert init(web)[0]["sources"][0]["documents"] == len(TEXTS)
    assert ingested(web)["read"] == len(TEXTS)


def test_empty_files_stop_no_run(web: Path) -> None:
    for ending in ("parquet", "arrow", "csv", "json", "jsonl.gz", "txt"):
        (web / f"a.{ending}").write_bytes(b"")
    batch = pa.record_batch({"text": TEXTS})
    pq.write_table(pa.Table.from_batches([batch]), web / "b.parquet")
    with pa.ipc.new_file(web / "b.arrow", batch.schema) as writer:
        writer.write_batch(batch)
    (web / "b.csv").write_text("text\n" + "".join(f'"{text}"\n' for text in TEXTS))
    init(web)
    assert ingested(web)["read"] == 3 * len(TEXTS)


def test_tables_without_the_column_of_the_language_are_a_source_of_their_own(web: Path) -> None:
    pq.write_table(pa.table({"text": TEXTS[:30], "lang": ["en"] * 30}), web / "a.parquet")
    pq.write_table(pa.table({"text": TEXTS[30:]}), web / "b.parquet")
    _, (one, other) = init(web)
    assert (one["language"], one["exclude"]) == ({"column": "lang"}, ["./b.parquet"])
    assert (other.get("language"), other["paths"]) == (None, ["web/b.parquet"])
    assert ingested(web)["read"] == len(TEXTS)


BROKEN: dict[str, Callable[[str], dict[str, Any]]] = {
    "a text that is a number": lambda text: {"text": len(text)},
    "no completion": lambda text: {"prompt": text, "completion": None},
    "a message with calls": lambda text: {
        "messages": [{"role": "assistant", "content": text, "tool_calls": [{"name": "f"}]}]
    },
}
WHOLE: dict[str, Callable[[str], dict[str, Any]]] = {
    "a text that is a number": lambda text: {"text": text},
    "no completion": lambda text: {"prompt": text, "completion": text},
    "a message with calls": lambda text: {"messages": [{"role": "assistant", "content": text}]},
}


@pytest.mark.parametrize("kind", BROKEN)
def test_every_record_without_a_document_is_counted(web: Path, kind: str) -> None:
    records = [(WHOLE if n % 4 else BROKEN)[kind](text) for n, text in enumerate(TEXTS)]
    (web / "a.jsonl").write_text(lines_of(records))
    assert init(web)[0]["sources"][0]["bad"] == 0.25
    assert sum(ingested(web)["dropped"].values()) == len(TEXTS) / 4


def test_lines_of_delimited_text_end_where_the_reader_ends_them(web: Path) -> None:
    rows = "".join(f"{n},first\u2028second\x0cthird\x85 {n}\n" for n in range(40))
    (web / "a.csv").write_text(f"id,text\n{rows}", encoding="utf-8")
    content, _ = init(web)
    assert (content["sources"][0]["documents"], content["sources"][0]["bad"]) == (40, 0)


def test_estimates_count_bytes_and_leave_out_a_cut_record(web: Path) -> None:
    text = "中文字符文本" * 20
    (web / "a.csv").write_text("id,text\n" + "".join(f"{n},{text}\n" for n in range(1_000)), "utf-8")
    (web / "a.jsonl").write_text(
        "".join(json.dumps({"text": text, "n": n}, ensure_ascii=False) + "\n" for n in range(50)),
        "utf-8",
    )
    csv, lines = init(web)[0]["sources"]
    assert csv["documents"] == pytest.approx(1_000, rel=0.02)
    assert lines["text_bytes"] == pytest.approx(50 * len(text.encode()), rel=0.15)
    (web / "long.csv").write_text("text\n" + ("word " * 40_000 + "\n") * 30)
    looked = look_at(web / "long.csv", CSV, (web / "long.csv").stat().st_size)
    assert (looked.bad, {len(str(record["text"])) for record in looked.records}) == (0, {200_000})


def test_a_script_beside_many_texts_does_not_make_them_documentation(web: Path) -> None:
    for name in ("de", "fr"):
        (web / name).mkdir()
        (web / name / "a.txt").write_text(TEXTS[0] * 30)
    (web / "fetch.py").write_text("import os\n")
    content, sources = init(web)
    assert [source["language"] for source in sources] == ["de", "fr"]
    assert content["left_out"][0]["why"] == "source code beside data"


def test_names_of_folders_and_files_that_mean_something_beside_code_are_data(web: Path) -> None:
    for name in ("source", "target"):
        (web / name).mkdir()
        (web / name / "a.txt").write_text(TEXTS[0])
    (web / "requirements.jsonl").write_text(lines_of([{"text": text} for text in TEXTS]))
    content, _ = init(web)
    assert [source["files"] for source in content["sources"]] == [1, 1, 1]
    assert content["left_out"] == []


def test_all_files_are_counted_if_none_of_those_looked_at_can_be_read(web: Path) -> None:
    for number in range(130):
        (web / f"{number}.jsonl").write_text('{"count": 7}')
    (web / "a.txt").write_text(TEXTS[0])
    assert [(left["files"], left["why"]) for left in init(web)[0]["left_out"]] == [
        (130, "no field of its records holds a text")
    ]


@pytest.mark.parametrize("name", ["family \U0001f468\u200d\U0001f469", "a\nb\t\x7f\\\"'", "_raw", "-x"])
def test_odd_names_of_folders_are_written(web: Path, name: str) -> None:
    (web / name).mkdir()
    (web / name / "a.txt").write_text(TEXTS[0])
    init(web)
    assert ingested(web)["read"] == 1


def test_a_name_that_is_no_utf8_is_refused_by_name(web: Path) -> None:
    (web / "bad\udcff").mkdir()
    (web / "bad\udcff" / "a.txt").write_text(TEXTS[0])
    with pytest.raises(ConfigError, match="a name that is not UTF-8"):
        init(web)


def test_fields_are_found_whatever_their_case_and_a_missing_language_is_none(web: Path) -> None:
    found = choose_fields([{"Question": "short", "Answer": "long " * 9}])
    assert (found.text, found.section) == ("Question", "Answer")
    rows = [{"text": text, "lang": "en" if n else None} for n, text in enumerate(TEXTS)]
    (web / "a.jsonl").write_text(lines_of(rows))
    init(web)
    assert "# en\n" in web.with_name("run.toml").read_text("utf-8")


@pytest.mark.parametrize(
    ("roles", "learned"),
    [
        (("user", "bot"), ["bot"]),
        (("Human", "Assistant"), ["Assistant"]),
        (("Q", "A"), ["A"]),
        (("system", "user", "assistant"), None),
    ],
)
def test_the_role_that_answers_is_learned(
    web: Path, roles: tuple[str, ...], learned: list[str] | None
) -> None:
    turns = [[{"role": role, "content": f"{text} {role}"} for role in roles] for text in TEXTS]
    (web / "a.jsonl").write_text(lines_of([{"messages": one} for one in turns]))
    _, (source,) = init(web)
    assert source["chat"].get("learn") == learned
    said = web.with_name("run.toml").read_text("utf-8")
    assert f"The turns of {(learned or ['assistant'])[0]} are learned." in said


def test_what_is_no_place_for_a_run_file_is_refused(web: Path) -> None:
    (web / "a.txt").write_text(TEXTS[0])
    for replace in (False, True):
        with pytest.raises(ConfigError, match="is a folder; name a file"):
            initialise.init(web, web, replace=replace)
    with pytest.raises(ConfigError, match="no folder is named"):
        initialise.init((), web / "run.toml")


def test_a_link_to_a_file_that_no_reader_knows_by_its_name_is_read(web: Path) -> None:
    """As in the cache of the Hugging Face Hub."""
    (web / "blobs").mkdir()
    (web / "snapshots" / "data").mkdir(parents=True)
    pq.write_table(pa.table({"text": TEXTS}), web / "blobs" / "deadbeef")
    (web / "snapshots" / "data" / "a.parquet").symlink_to("../../blobs/deadbeef")
    init(web)
    assert ingested(web)["read"] == len(TEXTS)


def test_no_short_field_is_taken_for_the_text_beside_lists_of_texts(web: Path) -> None:
    records = [{"question": text} for text in TEXTS]
    (web / "a.json").write_text(json.dumps({"version": "1.1", "data": [{"paragraphs": records}]}))
    (web / "b.jsonl").write_text(lines_of([{"body_html": text, "tags": ["a", "b"]} for text in TEXTS]))
    content, (source,) = init(web)
    assert source["text_column"] == "body_html"
    assert content["left_out"][0]["why"] == "no field of its records holds a text"


@pytest.mark.parametrize("number", ["9" * 310, "-" + "9" * 5_000, "1e999"])
@pytest.mark.parametrize("ending", ["jsonl", "json"])
def test_numbers_that_no_float_holds_are_looked_at_as_a_run_reads_them(
    number: str, ending: str, web: Path
) -> None:
    lines = [f'{{"text": {json.dumps(text)}, "n": {number}}}' for text in TEXTS]
    written = "\n".join(lines) if ending == "jsonl" else f"[{','.join(lines)}]"
    (web / f"a.{ending}").write_text(written, encoding="utf-8")
    content, _ = init(web)
    assert (content["sources"][0]["documents"], content["sources"][0]["bad"]) == (len(TEXTS), 0)
    ingested(web)
    assert sorted(texts_read(web)) == sorted(TEXTS)
