"""Init and the shapes that data has: what a run file does not read of the data is named."""

import gzip
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import zstandard

from pipeline.run_file.load import load_run_file
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.tools.init.delimited import delimiter_in, lacks_header, quoting_in
from pipeline.tools.init.draft import DraftSource
from pipeline.tools.init.fields import FieldChoice, choose_fields
from stages.errors import ConfigError
from stages.reading.delimiters import USUAL_DELIMITERS, Quoting
from tests.called import called
from tests.pipeline.initialised import TEXTS, ingested, init, lines_of


@pytest.fixture
def web(tmp_path: Path) -> Path:
    """An empty folder to be filled."""
    folder = tmp_path / "web"
    folder.mkdir()
    return folder


def written(web: Path) -> str:
    """Return the run file, each comment on one line."""
    return web.with_name("run.toml").read_text("utf-8").replace("\n# ", " ")


def alpaca(number: int, *, empty: bool) -> dict[str, str]:
    """A record as Alpaca has it, whose instruction needs an input or none."""
    given = "" if empty else f"The words that instruction {number} is about."
    return {"instruction": f"Do {number}.", "input": given, "output": TEXTS[number % len(TEXTS)]}


def test_an_input_that_is_empty_in_some_records_is_named_as_not_read(web: Path) -> None:
    records = [alpaca(number, empty=number % 3 > 0) for number in range(40)]
    (web / "a.jsonl").write_text(lines_of(records))
    content, (source,) = init(web)
    assert (source["text_column"], source["section_columns"]) == ("instruction", ["output"])
    assert content["sources"][0]["unread"] == ["input"]
    assert "Not read, though text is there: input." in written(web)
    assert ingested(web)["dropped"] == {}
    said = called("init", "web", "--yes", "--replace", cwd=web.parent).stdout
    assert "web: fields with text that are not read: input" in said


@pytest.mark.parametrize("name", ["input", "context"])
def test_an_input_that_all_records_have_is_read_behind_the_instruction(web: Path, name: str) -> None:
    records = [alpaca(number, empty=False) for number in range(40)]
    (web / "a.jsonl").write_text(lines_of(records).replace('"input"', f'"{name}"'))
    content, (source,) = init(web)
    assert (source["text_column"], source["section_columns"]) == ("instruction", [name, "output"])
    assert content["sources"][0]["unread"] == []
    assert content["task"] == "chat"
    documents = ingested(web)
    assert (documents["read"], documents["dropped"]) == (len(records), {})


def test_fields_of_text_that_are_not_read_are_named_and_others_are_not() -> None:
    record = {
        "id": "a-long-identifier-without-words",
        "text": TEXTS[0],
        "summary": "A summary of some words.",
        "meta": {"note": "中文" * 20, "at": "2024-01-01T10:00:00+00:00", "by": "short words in it"},
        "title": "A title that is kept, of many words",
        "image": "https://example.org/a/long/address/of/a/file.png",
    }
    rare = {**record, "remark": "A remark that one record alone has."}
    found = choose_fields([record] * 20 + [rare])
    assert found.unread == ("meta.note", "summary")
    assert choose_fields([{"count": 7}]).unread == ()


def test_names_of_programming_languages_are_taken_as_the_stack_has_them(web: Path) -> None:
    names = ["Python", "C++", "Jupyter Notebook", "C#"]
    records = [{"lang": names[n % 4], "content": text} for n, text in enumerate(TEXTS)]
    (web / "a.jsonl").write_text(lines_of(records))
    content, (source,) = init(web)
    assert source["language"] == {"column": "lang"}
    assert content["task"] == "code"
    assert ingested(web)["dropped"] == {}
    tables = (web.parent / "out" / "ingest").rglob("documents.parquet")
    assert {name for one in tables for name in pq.read_table(one)["language"].to_pylist()} == set(names)


@pytest.mark.parametrize(
    ("languages", "is_code"),
    [
        (("Python", "Markdown", "C++"), True),
        (("en", "Python"), False),
        (("en", "de"), False),
        ((), False),
    ],
)
def test_a_source_is_code_if_most_of_its_languages_are(
    languages: tuple[str, ...],
    is_code: bool,  # noqa: FBT001  # a case of the table above
) -> None:
    source = DraftSource(
        "a", "JSON lines", Path(), (), 1, 1, 1.0, 1.0, (), FieldChoice(text="text"), languages=languages
    )
    assert source.is_code == is_code


def test_an_id_that_stands_twice_beyond_the_records_looked_at_stops_no_run(web: Path) -> None:
    records = [{"id": n % 300, "text": f"{n} {TEXTS[n % 40]}"} for n in range(600)]
    (web / "a.jsonl").write_text(lines_of(records))
    _, (source,) = init(web)
    assert source["id_column"] == "id"
    small = ["dedup.near=false", "tokenizer.train.vocab_size=600"]
    run, here = load_run_file(web.with_name("run.toml"), small), web.parent
    report = run_session(RunRequest(run, here, here / "out", 0), stream=None)
    assert (report["passed"], report["documents"]["kept"]) == (True, len(records))


@pytest.mark.parametrize("name", ["doc_key", "conversation_id"])
def test_a_field_called_like_an_id_is_one_if_all_its_values_differ(web: Path, name: str) -> None:
    (web / "a.jsonl").write_text(lines_of([{name: f"{n}", "text": t} for n, t in enumerate(TEXTS)]))
    _, (source,) = init(web)
    assert source["id_column"] == name
    (web / "a.jsonl").write_text(lines_of([{name: "same", "text": text} for text in TEXTS]))
    _, (source,) = init(web)
    assert "id_column" not in source
    assert '# id_column = "id"' in web.with_name("run.toml").read_text()


def test_a_small_text_of_many_characters_gets_a_vocabulary_that_holds_them(web: Path) -> None:
    rare = "".join(map(chr, range(0x4E00, 0x4E00 + 400)))
    lines = [rare[n * 20 : n * 20 + 40] * 8 for n in range(19)]
    (web / "a.jsonl").write_text(lines_of([{"text": line} for line in lines]))
    init(web)
    run = load_run_file(web.with_name("run.toml"), ["validation.fraction=0"])
    assert run.tokenizer.train.vocab_size == 1400 > 525 + 2 * len(set("".join(lines)))
    request = RunRequest(run, web.parent, web.parent / "out", 0, until="tokenizer")
    assert not run_session(request, stream=None)["warnings"]


@pytest.mark.parametrize(
    ("delimiter", "ending"), [(";", "csv"), ("\t", "csv"), ("|", "tsv"), (",", "tsv")]
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_another_delimiter_than_the_ending_says_is_written(
    web: Path, delimiter: str, ending: str, encoding: str
) -> None:
    rows = [["id", "text"], *([str(n), f'"{text}"'] for n, text in enumerate(TEXTS))]
    data = "".join(f"{delimiter.join(row)}\n" for row in rows).encode(encoding)
    (web / f"a.{ending}").write_bytes(data)
    content, (source,) = init(web)
    assert (source["delimiter"], source["id_column"]) == (delimiter, "id")
    assert content["sources"][0]["documents"] == len(TEXTS)
    documents = ingested(web)
    assert (documents["read"], documents["dropped"]) == (len(TEXTS), {})


def test_files_with_different_delimiters_are_different_sources(web: Path) -> None:
    for name, delimiter in (("a", ","), ("b", ";"), ("c", ",")):
        rows = "".join(f'{n}{delimiter}"{name} {text}"\n' for n, text in enumerate(TEXTS))
        (web / f"{name}.csv").write_text(f"id{delimiter}text\n{rows}")
    _, (one, other) = init(web)
    assert ("delimiter" in one, one["exclude"]) == (False, ["./b.csv"])
    assert (other["delimiter"], other["paths"]) == (";", ["web/b.csv"])
    assert ingested(web)["read"] == 3 * len(TEXTS)


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("id,text\n1,a; b\n2,c; d\n", ","),
        ("id;text\n1;a, b\n2;c\n", ";"),
        ("a;b,c\n1;2,3\n", ","),
        ("id;price,eur;text\n1;3,50;a\n", ";"),
        ("name, first;remark\nA, B;c, d, e\n", ";"),
        ("text\none; two\nthree\n", ","),
        ("text\none\n", ","),
        ("id;text\n", ";"),
        ("id,text\n1,a, b\n2,c, d\n", ","),
        ("", ","),
    ],
)
def test_a_delimiter_is_taken_that_all_rows_have_alike(text: str, delimiter: str) -> None:
    assert delimiter_in(text, ",") == delimiter


def test_the_usual_delimiter_stays_if_half_of_the_rows_fit_it_and_not_all_fit_another() -> None:
    rows = ["a,b,c;d", *["1,2,3;4"] * 13, *["1,2;3"] * 6, "1,2,3"]
    assert delimiter_in("\n".join(rows), ",") == ","
    assert delimiter_in("\n".join(rows[:-1]), ",") == ",", "the other has fewer fields"
    assert delimiter_in("\n".join(["a,b;c;d", *["1,2;3;4"] * 3, *["1;2;3"] * 2]), ",") == ";"


@pytest.mark.parametrize("other", [one for one in USUAL_DELIMITERS if one != "\t"])
def test_the_usual_delimiter_stays_if_all_rows_fit_it_and_have_as_many_fields_by_another(
    other: str,
) -> None:
    text = f"last{other} first\tremark\n" + f"A{other} B\tit rained\n" * 3
    assert delimiter_in(text, "\t", Quoting.NONE) == "\t"
    assert delimiter_in(text, other) == other
    assert delimiter_in(f"{text}C{other} D\n", "\t", Quoting.NONE) == other, "all rows fit the other"


PANDAS = 'id\ttext\n1\t"a\nb"\n2\t"c ""d"" e"\n'
"""A TSV file as pandas writes it."""


@pytest.mark.parametrize("end", ["", "3", '3\t"f', '3\t"f\n', '3\t"f\n\ng ""h""\n', '3\t"f\ng\th\ni\n'])
def test_a_beginning_that_ends_inside_of_a_quoted_field_shows_what_its_whole_records_do(
    end: str,
) -> None:
    found, why = quoting_in(PANDAS + end, "\t", Quoting.NONE, ended=False)
    assert (found, why != "") == (Quoting.CSV, True)
    commas = (PANDAS + end).replace("\t", ",")
    assert quoting_in(commas, ",", Quoting.CSV, ended=False) == (Quoting.CSV, "")


@pytest.mark.parametrize(("ended", "quoting"), [(False, Quoting.CSV), (True, Quoting.NONE)])
def test_a_quote_that_is_open_at_the_end_may_be_closed_behind_a_beginning_and_not_behind_a_file(
    quoting: Quoting, *, ended: bool
) -> None:
    assert quoting_in('id,text\n1,a\n2,"b\n', ",", Quoting.CSV, ended=ended)[0] is quoting


def test_quotes_around_the_names_of_the_columns_alone_show_that_fields_are_quoted() -> None:
    rows = '\t"text"\n1\tit rained\n'
    assert quoting_in(f'"id"{rows}', "\t", Quoting.NONE, ended=True) == (
        Quoting.CSV,
        "the names of the columns are quoted",
    )
    assert quoting_in(rows.replace('"', ""), "\t", Quoting.NONE, ended=True) == (Quoting.NONE, "")


@pytest.mark.parametrize("usual", Quoting)
def test_a_quote_that_no_line_below_needs_is_no_field_that_a_beginning_cuts(usual: Quoting) -> None:
    rows = ["id\ttext", '1\t"a ""b"" c"', '2\t"begins', "3\tnext", "4\tand next", ""]
    assert quoting_in("\n".join(rows), "\t", usual, ended=False)[0] is Quoting.NONE


HEADERLESS: dict[str, list[tuple[str, ...]]] = {
    "numbers": [("7", "short"), ("8", "also"), ("9", "this")],
    "sentences": [
        ("en", "Rain fell all day on the old town"),
        ("de", "Snow lay on the roofs all winter"),
    ],
    "long values": [("x" * 65,), ("y" * 70,)],
    "short pairs": [("Go.", "Va !"), ("Hi.", "Salut !"), ("Run!", "Cours !")],
}
HEADERLESS["a number that is missing"] = [("1", "NA", "a"), ("2", "7", "b"), ("3", "8", "c")]
HEADED: dict[str, list[tuple[str, ...]]] = {
    "usual names": [("id", "text"), ("1", "Rain fell all day on the old town")],
    "questions": [("What do you like most about it?",), ("The rain that fell all day on the town",)],
    "long names": [
        ("When", "How often do you read books at home"),
        ("2024-05-01", "I do not read at all, I fear"),
    ],
    "a long name above longer texts": [
        ("Full text of the court decision (redacted)", "Court"),
        ("The court has decided that the plaintiff is to pay the costs of the whole suit. " * 3, "East"),
    ],
    "years": [("Remark", "2019", "2020"), ("It rained all day in the old town.", "3", "4")],
    "a full stop": [("Comment.", "Author"), ("It rained all day in the old town.", "Ann")],
    "a number sign": [("No.", "remark"), ("1", "some"), ("2", "more")],
    "as pandas numbers columns": [("", "0", "1"), ("0", "5", "6"), ("1", "7", "8")],
}


@pytest.mark.parametrize("kind", [*HEADERLESS, *HEADED])
def test_a_first_row_of_data_is_told_from_names(kind: str) -> None:
    names, *rows = (HEADERLESS | HEADED)[kind]
    assert lacks_header([dict(zip(names, row, strict=True)) for row in rows]) == (kind in HEADERLESS)
    assert not lacks_header([])


def test_a_file_without_names_of_columns_is_not_read_and_said(web: Path) -> None:
    (web / "a.csv").write_text("".join(f'{n},"{text}"\n' for n, text in enumerate(TEXTS, 1)))
    with pytest.raises(ConfigError, match=r"a\.csv: its first row looks like data.* as in id,text"):
        init(web)
    (web / "b.csv").write_text("id,text\n" + "".join(f'{n},"{text}"\n' for n, text in enumerate(TEXTS)))
    content, (source,) = init(web)
    assert source["exclude"] == ["./a.csv"]
    assert content["left_out"][0]["why"].startswith("its first row looks like data")


def test_a_compressed_copy_of_a_file_is_not_read_and_said(web: Path) -> None:
    data = lines_of([{"text": text * 20} for text in TEXTS]).encode()
    (web / "a.jsonl").write_bytes(data)
    (web / "a.jsonl.gz").write_bytes(gzip.compress(data))
    (web / "a.jsonl.zst").write_bytes(zstandard.compress(data))
    (web / "b.jsonl.gz").write_bytes(gzip.compress(data[::-1].replace(b"\n", b"")))
    (web / "c.jsonl.gz").write_bytes(
        gzip.compress(lines_of([{"text": text} for text in TEXTS]).encode())
    )
    content, (source,) = init(web)
    assert source["paths"] == ["web/*.jsonl", "web/*.jsonl.gz"]
    assert "./a.jsonl.gz" in source["exclude"]
    left = next(left for left in content["left_out"] if "copy" in left["why"])
    assert (left["files"], left["example"]) == (2, str(web / "a.jsonl.gz"))
    assert ingested(web)["read"] == 2 * len(TEXTS)


@pytest.mark.parametrize("kind", ["other records", "a part", "damaged"])
def test_a_compressed_file_that_is_no_copy_is_read_or_said_to_be_damaged(web: Path, kind: str) -> None:
    records = [{"text": f"{n} {text}"} for n in range(50) for text in TEXTS]
    whole = lines_of(records).encode()
    (web / "a.jsonl").write_bytes(whole)
    other = {"other records": whole[5:], "a part": whole * 30, "damaged": whole}[kind]
    packed = gzip.compress(other.replace(b"Text", b"Word") if kind == "other records" else other)
    (web / "a.jsonl.gz").write_bytes(packed[: len(packed) // 2] if kind == "damaged" else packed)
    if kind == "a part":
        (web / "a.jsonl").write_bytes(whole[: whole.index(b"\n", 1 << 16) + 1])
        assert (web / "a.jsonl").stat().st_size < len(packed)
    content, _ = init(web)
    assert [source["files"] for source in content["sources"]] == [1 if kind == "damaged" else 2]
    assert ["ends in the middle" in left["why"] for left in content["left_out"]] == (
        [True] if kind == "damaged" else []
    )


def test_a_file_that_goes_on_where_a_compressed_one_ends_is_read_too(web: Path) -> None:
    records = [{"text": f"{n} {text}"} for n in range(80) for text in TEXTS]
    more = lines_of([*records, {"text": "One that stands in the larger file alone."}]).encode()
    (web / "a.jsonl").write_bytes(lines_of(records).encode())
    (web / "a.jsonl.zst").write_bytes(zstandard.compress(more))
    content, _ = init(web)
    assert (content["left_out"], ingested(web)["read"]) == ([], 2 * len(records) + 1)


def test_a_good_file_is_no_copy_of_a_damaged_one(web: Path) -> None:
    data = lines_of([{"text": f"{n} {text}"} for n in range(80) for text in TEXTS]).encode()
    (web / "a.jsonl.gz").write_bytes(gzip.compress(data)[:-200])
    (web / "a.jsonl.zst").write_bytes(zstandard.compress(data))
    content, (source,) = init(web)
    assert (source["paths"], len(content["left_out"])) == (["web/*.jsonl.zst"], 1)
    assert ingested(web)["read"] == 80 * len(TEXTS)


def test_characters_that_hardly_occur_raise_no_vocabulary(web: Path) -> None:
    rare = "".join(map(chr, range(0x4E00, 0x4E00 + 9000)))
    (web / "a.jsonl").write_text(lines_of([{"text": text * 50} for text in TEXTS]))
    init(web)
    few = load_run_file(web.with_name("run.toml")).tokenizer.train.vocab_size
    (web / "a.jsonl").write_text(lines_of([{"text": text * 50} for text in [*TEXTS, rare]]))
    init(web)
    assert few < load_run_file(web.with_name("run.toml")).tokenizer.train.vocab_size == 8_000
