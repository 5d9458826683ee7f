"""Init: what lies in a folder becomes a run file that runs, and says why it is as it is."""

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from pipeline.run_file.load import load_run_file
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.tools.init import init as initialise
from pipeline.tools.init.fields import choose_fields
from pipeline.tools.init.init import InitContent
from stages.errors import ConfigError
from stages.reading.source_code import CODE_ENDINGS
from tests.called import called
from tests.conftest import bundled_lines

TEXTS = [json.loads(line)["text"] for line in bundled_lines("text/help*", 60)]


def mails(folder: Path) -> None:
    """Plain text, a file a document, in folders by year, with what lies beside it."""
    for number, text in enumerate(TEXTS):
        year = folder / f"{2023 + number % 2}"
        year.mkdir(parents=True, exist_ok=True)
        (year / f"{number:03}.txt").write_text(text, encoding="utf-8")
    (folder / "README.txt").write_text("About the mails.", encoding="utf-8")
    (folder / "photo.jpg").write_bytes(b"\xff\xd8")
    (folder / ".cache").mkdir()
    (folder / ".cache" / "x.txt").write_text("hidden", encoding="utf-8")


def chats(folder: Path) -> None:
    """Dialogues as JSON lines, one of them broken."""
    folder.mkdir()
    lines = ["{"]
    for number, text in enumerate(TEXTS):
        turns = [
            {"role": "user", "content": f"Say {number}."},
            {"role": "assistant", "content": text[:900]},
        ]
        lines.append(json.dumps({"id": f"c{number}", "lang": "en", "messages": turns}))
    (folder / "chat.jsonl").write_text("\n".join(lines), encoding="utf-8")


def nested(folder: Path) -> None:
    """Parquet whose text, id and language are inside of other columns, and an empty table."""
    folder.mkdir()
    rows = [
        {"meta": {"id": number, "lang": "en", "note": "x"}, "page": {"body": text, "title": "t"}}
        for number, text in enumerate(TEXTS)
    ]
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, folder / "part-0.parquet")
    pq.write_table(table.slice(0, 0), folder / "part-1.parquet")


def repository(folder: Path) -> None:
    """Source code in two languages, with documentation, data, and what others wrote."""
    (folder / "src" / "build").mkdir(parents=True)
    (folder / "node_modules" / "left").mkdir(parents=True)
    for number, line in enumerate(bundled_lines("code/python*", 20)):
        deep = folder / "src" / ("build" if number % 5 == 0 else ".")
        (deep / f"m{number}.py").write_text(json.loads(line)["text"], encoding="utf-8")
    for number, line in enumerate(bundled_lines("code/go*", 10)):
        (folder / f"m{number}.go").write_text(json.loads(line)["text"], encoding="utf-8")
    (folder / "node_modules" / "left" / "a.py").write_text("x = 1\n" * 99, encoding="utf-8")
    (folder / "README.md").write_text("# Read me\n", encoding="utf-8")
    (folder / "table.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    (folder / "Makefile").write_text("all:\n", encoding="utf-8")
    (folder / "__init__.py").write_text("", encoding="utf-8")


FOLDERS: dict[str, Callable[[Path], None]] = {
    "mails": mails,
    "chats": chats,
    "nested": nested,
    "repository": repository,
}
SOURCES: dict[str, list[dict[str, Any]]] = {
    "mails": [
        {"name": "2023", "paths": ["mails/2023/*.txt"], "root": "mails"},
        {"name": "2024", "paths": ["mails/2024/*.txt"], "root": "mails"},
    ],
    "chats": [
        {
            "name": "chats",
            "paths": ["chats/*.jsonl"],
            "root": "chats",
            "chat": {"column": "messages", "template": "chatml"},
            "id_column": "id",
            "language": {"column": "lang"},
        }
    ],
    "nested": [
        {
            "name": "nested",
            "paths": ["nested/*.parquet"],
            "root": "nested",
            "exclude": ["./part-1.parquet"],
            "text_column": "page.body",
            "id_column": "meta.id",
            "language": {"column": "meta.lang"},
        }
    ],
    "repository": [
        {"name": "docs", "paths": ["repository/*.md"], "root": "repository"},
        {"name": "go", "paths": ["repository/*.go"], "root": "repository", "language": "go"},
        {
            "name": "python",
            "paths": ["repository/**/*.py"],
            "root": "repository",
            "exclude": ["node_modules"],
            "language": "python",
        },
    ],
}
OBJECTIVES = {
    "mails": {"kind": "clm"},
    "chats": {"kind": "clm", "loss": "targets"},
    "nested": {"kind": "clm"},
    "repository": {"kind": "fim"},
}


def init(folder: Path, *folders: str, **options: Any) -> InitContent:
    """Write `folder`/run.toml for folders in it."""
    paths = tuple(folder / name for name in folders)
    return initialise.init(paths, folder / "run.toml", **options)


@pytest.fixture(params=FOLDERS)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder of each kind, made in `tmp_path`."""
    name = str(request.param)
    FOLDERS[name](tmp_path / name)
    return name


def test_a_folder_becomes_sources_and_the_run_over_them_passes(kind: str, tmp_path: Path) -> None:
    content = init(tmp_path, kind)
    written = tomllib.loads((tmp_path / "run.toml").read_text(encoding="utf-8"))
    assert written["sources"] == SOURCES[kind]
    assert [dataset["objective"] for dataset in written["datasets"]] == [OBJECTIVES[kind]]
    small = ["verify.learning=false", "tokenizer.train.vocab_size=2000"]
    run = load_run_file(tmp_path / "run.toml", small)
    report = run_session(RunRequest(run, tmp_path, tmp_path / "out", 0), stream=None)
    assert report["passed"]
    read = sum(source["documents"] for source in content["sources"])
    assert abs(report["documents"]["read"] - read) <= 1  # the broken line


def test_several_folders_are_one_run(tmp_path: Path) -> None:
    mails(tmp_path / "mails")
    nested(tmp_path / "nested")
    content = init(tmp_path, "mails", "nested")
    assert [source["name"] for source in content["sources"]] == ["2023", "2024", "nested"]
    assert content["task"] == "pretrain"


def test_what_is_not_read_is_counted_with_the_reason(tmp_path: Path) -> None:
    mails(tmp_path / "mails")
    repository(tmp_path / "repository")
    (tmp_path / "mails" / "cut.txt.gz").write_bytes(b"\x1f\x8b\x08cut")
    content = init(tmp_path, "mails", "repository")
    found = {left["why"].partition(":")[0]: left["files"] for left in content["left_out"]}
    cut = str(tmp_path / "mails" / "cut.txt.gz")
    assert found == {
        "a note about the data": 1,
        "no reader knows the ending .jpg (1)": 1,
        "no reader knows the ending none (1)": 1,
        "in a folder of code that others wrote or a program made": 1,
        "data beside source code": 1,
        "empty": 1,
        cut: 1,
    }


def test_records_of_another_shape_are_a_source_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "web"
    folder.mkdir()
    for number in range(3):
        lines = [json.dumps({"text": text}) for text in TEXTS[number::3]]
        (folder / f"a{number}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    pairs = [json.dumps({"prompt": f"Say {n}", "completion": t}) for n, t in enumerate(TEXTS)]
    (folder / "b.jsonl").write_text("\n".join(pairs), encoding="utf-8")
    (folder / "stats.jsonl").write_text('{"count": 7}', encoding="utf-8")
    init(tmp_path, "web")
    written = tomllib.loads((tmp_path / "run.toml").read_text(encoding="utf-8"))
    one, other = written["sources"]
    assert one["paths"] == ["web/*.jsonl"]
    assert one["exclude"] == ["./b.jsonl", "./stats.jsonl"]
    assert other["paths"] == ["web/b.jsonl"]
    assert (other["text_column"], other["section_columns"]) == ("prompt", ["completion"])


def test_names_that_patterns_would_read_otherwise_are_taken_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / 'odd [1] "quoted" ü'
    folder.mkdir()
    (folder / "a*b.txt").write_text(TEXTS[0], encoding="utf-8")
    content = init(tmp_path, folder.name)
    run = load_run_file(tmp_path / "run.toml")
    assert [source["files"] for source in content["sources"]] == [1]
    assert run.sources[0].root == folder.name


def test_texts_that_are_no_utf8_are_said(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    for number in range(8):
        (folder / f"{number}.txt").write_bytes("Grüße aus Köln. ".encode("cp1252") * 9)
    init(tmp_path, "old")
    assert load_run_file(tmp_path / "run.toml").sources[0].encoding == "cp1252"
    for number in range(1, 8):
        (folder / f"{number}.txt").write_text("Grüße aus Köln. " * 9, encoding="utf-8")
    init(tmp_path, "old", replace=True)
    assert load_run_file(tmp_path / "run.toml").sources[0].encoding == "utf-8"
    assert "12% of the files are not UTF-8" in (tmp_path / "run.toml").read_text(encoding="utf-8")


def test_a_folder_named_after_a_language_gives_it(tmp_path: Path) -> None:
    for name in ("de", "fr"):
        (tmp_path / "corpus" / name).mkdir(parents=True)
        (tmp_path / "corpus" / name / "a.txt").write_text(TEXTS[0], encoding="utf-8")
    init(tmp_path, "corpus")
    sources = load_run_file(tmp_path / "run.toml").sources
    assert {source.name: source.language for source in sources} == {"de": "de", "fr": "fr"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"task": "poetry"}, "--task poetry: must be one of pretrain, code, chat"),
        ({"task": "chat"}, "--task chat: no file has dialogues"),
        ({"task": "continue"}, "--task continue: the model's own tokenizer is needed"),
        ({"tokenizer": Path("absent.json")}, "--tokenizer absent.json: no such file"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    mails(tmp_path / "mails")
    with pytest.raises(ConfigError, match=said):
        init(tmp_path, "mails", **options)
    assert not list(tmp_path.glob("*run.toml*"))


def test_no_run_file_is_written_over_and_no_folder_without_texts_is_taken(tmp_path: Path) -> None:
    mails(tmp_path / "mails")
    init(tmp_path, "mails")
    with pytest.raises(ConfigError, match="is there already; choose another --output"):
        init(tmp_path, "mails")
    init(tmp_path, "mails", replace=True)
    (tmp_path / "empty").mkdir()
    for name, said in (("empty", "nothing there can be read"), ("absent", "no such folder")):
        with pytest.raises(ConfigError, match=said):
            init(tmp_path, name, replace=True)


def test_people_are_asked_what_is_not_given(tmp_path: Path) -> None:
    mails(tmp_path / "mails")
    asked = []

    def ask(question: str, likely: str, choices: tuple[str, ...]) -> str:
        asked.append((question.splitlines()[0], likely, choices[:2]))
        return "embedding" if choices else "CC0-1.0"

    content = initialise.init_run_file(
        [tmp_path / "mails"],
        tmp_path / "run.toml",
        task=None,
        tokenizer=None,
        licence=None,
        replace=False,
        ask=ask,
    )
    assert asked == [
        ("What is the model to be?", "pretrain", ("pretrain", "code")),
        ("Licence of the texts, for the report", "", ()),
    ]
    assert content["task"] == "embedding"
    run = load_run_file(tmp_path / "run.toml")
    assert [dataset.objective.kind for dataset in run.datasets] == ["mlm", "simcse"]
    assert {source.license for source in run.sources} == {"CC0-1.0"}


def test_the_command_prints_what_it_found_and_what_comes_next(tmp_path: Path) -> None:
    chats(tmp_path / "chats")
    done = called("init", "chats", "--yes", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "JSON lines" in done.stdout
    assert "task chat" in done.stdout
    assert "shardmill run run.toml --output run-output" in done.stdout
    found = called("init", "chats", "--json", "--replace", cwd=tmp_path)
    assert json.loads(found.stdout)["sources"][0]["text"] == "messages"
    refused = called("init", "chats", "--yes", cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


def test_fields_are_chosen_by_their_names_and_values() -> None:
    long, short = "long text " * 9, "short"
    cases: list[tuple[list[dict[str, Any]], tuple[str | None, ...]]] = [
        ([{"title": short, "content": long, "url": "u1"}], ("content", None, "url", None)),
        ([{"a": short, "b": long}], ("b", None, None, None)),
        ([{"id": 1, "text": long}, {"id": 1, "text": long}], ("text", None, None, None)),
        ([{"question": short, "answer": long, "lang": "en"}], ("question", "answer", None, "lang")),
        ([{"meta": {"text": long}, "language": 7}], ("meta.text", None, None, None)),
        ([{"count": 7}], (None, None, None, None)),
    ]
    for records, expected in cases:
        found = choose_fields(records)
        assert (found.text, found.section, found.own_id, found.language) == expected


def test_a_large_compressed_file_is_looked_at_from_its_beginning(tmp_path: Path) -> None:
    folder = tmp_path / "web"
    folder.mkdir()
    lines = b"\n".join(json.dumps({"text": text * 20}).encode() for text in TEXTS)
    many = (lines + b"\n") * (1 + (16 << 20) // len(lines))
    (folder / "a.jsonl.zst").write_bytes(zstandard.compress(many))
    content = init(tmp_path, "web")
    assert content["sources"][0]["documents"] > 0
    assert content["sources"][0]["text"] == "text"


def test_endings_of_code_are_each_of_one_language() -> None:
    endings = [ending for endings in CODE_ENDINGS.values() for ending in endings]
    assert len(endings) == len(set(endings))
    assert all(ending.startswith(".") and ending.count(".") == 1 for ending in endings)


def test_a_limited_run_is_a_trial_over_the_first_documents_of_each_source(tmp_path: Path) -> None:
    mails(tmp_path / "mails")
    init(tmp_path, "mails")
    small = ["verify.learning=false", "tokenizer.train.vocab_size=600", "dedup.near=false"]
    given = [part for setting in small for part in ("--set", setting)]
    trial = ("run", "run.toml", "--output", "trial", "--workers", "0")
    command = (*trial, "--limit", "7", "--json", *given)
    done = called(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["documents"]["read"] == 14
    lines = (tmp_path / "trial.inputs" / "2023.jsonl").read_text(encoding="utf-8").splitlines()
    first = [(tmp_path / "mails" / "2023" / f"{number:03}.txt").read_text("utf-8") for number in (0, 2)]
    assert [json.loads(line)["_text"] for line in lines[:2]] == first
    again = called(*command, cwd=tmp_path)
    assert json.loads(again.stdout)["documents"]["read"] == 14
    status = called("status", "trial", cwd=tmp_path)
    assert "verify clm: PASS" in status.stdout
    assert "report: trial/report/index.html" in status.stdout
    other = called(*trial, "--limit", "8", *given, cwd=tmp_path)
    assert other.returncode == 2
    assert "--replace" in other.stderr


def test_records_that_give_no_document_are_said_and_the_run_is_not_stopped_by_them(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "web"
    folder.mkdir()
    lines = [json.dumps({"text": text if n % 2 else None}) for n, text in enumerate(TEXTS)]
    (folder / "a.jsonl").write_text("\n".join([*lines, "[1]", "7"]), encoding="utf-8")
    content = init(tmp_path, "web")
    assert content["sources"][0]["bad"] == pytest.approx(
        (len(TEXTS) / 2 + 2) / (len(TEXTS) + 2), abs=1e-3
    )
    run = load_run_file(tmp_path / "run.toml", ["dedup.near=false", "verify.learning=false"])
    report = run_session(RunRequest(run, tmp_path, tmp_path / "out", 0, until="ingest"), stream=None)
    assert report["documents"]["dropped"]["missing_text"] == len(TEXTS) / 2


def test_links_are_read_once_and_what_is_no_file_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "web"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.txt").write_text(TEXTS[0], encoding="utf-8")
    (folder / "again.txt").symlink_to(folder / "deep" / "a.txt")
    (folder / "nowhere.txt").symlink_to(folder / "none.txt")
    (folder / "deep" / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.txt")
    content = init(tmp_path, "web")
    assert [source["files"] for source in content["sources"]] == [1]
    assert {left["why"] for left in content["left_out"]} == {
        "a link to what is read already, or to nothing",
        "no regular file",
    }
    with pytest.raises(ConfigError, match="which is read too; name one of the two"):
        init(tmp_path, "web", "web/deep", replace=True)


def test_the_fields_of_records_may_have_no_name(tmp_path: Path) -> None:
    folder = tmp_path / "web"
    folder.mkdir()
    (folder / "a.jsonl").write_text(json.dumps({"": "long text " * 9, "t": "x"}), encoding="utf-8")
    init(tmp_path, "web")
    assert load_run_file(tmp_path / "run.toml").sources[0].text_column == "t"
