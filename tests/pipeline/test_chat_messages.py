"""What people are told of dialogues: what is not learned, what `chat` reads, what dedup compares."""

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import plan_session, run_session
from stages.errors import ShardmillError
from tests.pipeline.test_chats import run_it, with_chat
from tests.stages.chat.chat_files import JINJA, chat_run, chat_tokenizer, dialogues, write_lines

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dialogues, and a tokenizer that has the pieces of all templates."""
    folder = tmp_path_factory.mktemp("told")
    (folder / "a.jsonl").write_bytes(write_lines(list(dialogues(30))))
    (folder / "tokenizer.json").write_bytes(chat_tokenizer())
    return folder


def test_turns_that_no_dataset_learns_alone_are_told(corpus: Path, tmp_path: Path) -> None:
    def told(objective: dict[str, Any], **chat: Any) -> list[str]:
        content = with_chat(chat_run("chatml"), **chat)
        content["datasets"] = [{"name": "d", "objective": objective}]
        request = RunRequest(RunFile.model_validate(content), corpus, tmp_path / "run", 0)
        found = [one.step.warning or "" for one in plan_session(request)]
        return [warning for warning in found if "has no effect" in warning]

    (corpus / "chatml.jinja").write_text(JINJA["chatml"])
    (warning,) = told({"kind": "clm"}, learn=["assistant", "user"])
    assert 'sources.chats.chat: learn = ["assistant", "user"] has no effect' in warning
    assert 'name = "clm" and objective = { kind = "clm", loss = "targets" }' in warning
    assert told({"kind": "clm"}, template="chatml.jinja")[0].startswith(
        "sources.chats.chat: {% generation %} in its template has no effect"
    )
    assert told({"kind": "clm", "loss": "targets"}) == []
    report = run_it(corpus, tmp_path / "report", chat_run("chatml"), until="ingest")
    assert [one for one in report["warnings"] if "has no effect" in one]


def test_what_of_dialogues_nothing_reads_is_counted_and_told(corpus: Path, tmp_path: Path) -> None:
    asked = {"role": "user", "content": "Hi there, my friend", "train": False, "loss": 0}
    said = {"role": "assistant", "content": "Hello to you, too", "reasoning_content": "Be kind."}
    lines = "".join(
        json.dumps({"id": n, "messages": [asked, {**said, "loss": n}], "system": "Be"}) + "\n"
        for n in range(3)
    )
    (corpus / "fields.jsonl").write_text(lines)
    content = with_chat(chat_run("chatml"), paths=["fields.jsonl"])
    report = run_it(corpus, tmp_path / "fields", content, until="ingest")
    assert report["documents"]["noticed"] == {
        "chats": {
            "messages with the field loss, which is not read": 6,
            "messages with the field train, which is not read": 3,
            "texts in reasoning_content of messages that the template leaves out": 3,
            "dialogues with the field system beside their messages, which is not read": 3,
        }
    }
    told = [one for one in report["warnings"] if one.startswith("sources.chats: ")]
    assert [" ".join(one.split()[1:7]) for one in told] == [
        "6 messages have the field loss,",
        "3 messages have the field train,",
        "3 dialogues have the field system",
    ]


def test_a_warning_is_told_once(corpus: Path, tmp_path: Path) -> None:
    content = {**chat_run("mistral"), "tokenizer": {"train": {"vocab_size": 1200}}}
    request = RunRequest(RunFile.model_validate(content), corpus, tmp_path / "run", 0, until="tokenize")
    shown = io.StringIO()
    run_session(request, stream=shown)
    assert shown.getvalue().count("is encoded as text") == 1


def test_near_duplicates_among_dialogues_are_told_in_words_of_dialogues(
    corpus: Path, tmp_path: Path
) -> None:
    content = chat_run("chatml", dedup={"near": True})
    request = RunRequest(RunFile.model_validate(content), corpus, tmp_path / "run", 0)
    (warning,) = [one.step.warning for one in plan_session(request) if one.step.name == "dedup"]
    assert warning == (
        "source chats: near-duplicates are found on whole dialogues, all turns joined: of dialogues with"
        " one long system message the first stays alone, whatever their other turns; if all are to stay,"
        " set dedup.near = false"
    )


def test_messages_that_are_read_as_texts_name_chat_as_the_way(corpus: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (corpus / "a.jsonl").read_text().splitlines()]
    pq.write_table(pa.Table.from_pylist(rows), corpus / "text.parquet")
    setting = r'chat = \{ column = "messages", template = "chatml" \}'
    for name, column, said in (
        (
            "a.jsonl",
            "messages",
            r"set the source's text_column .*, or chat if it holds lists of messages",
        ),
        ("a.jsonl", "text", f"columns there: id, messages.*; if 'messages' holds .* set {setting}"),
        ("text.parquet", "messages", f"it must hold strings; to read lists of messages, set {setting}"),
        ("text.parquet", "text", f"columns there: id, messages; if 'messages' holds .* set {setting}"),
    ):
        content = chat_run("chatml")
        content["sources"] = [{"name": "s", "paths": [name], "text_column": column}]
        with pytest.raises(ShardmillError, match=said):
            run_it(corpus, tmp_path / f"{name}-{column}", content, until="ingest")


def test_a_source_of_which_nothing_is_learned_is_told(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes((corpus / "tokenizer.json").read_bytes())
    lines = write_lines(list(dialogues(12))).replace(b'"role"', b'"weight": 0, "role"')
    (tmp_path / "a.jsonl").write_bytes(lines)
    objective = {"kind": "clm", "loss": "targets"}
    content = chat_run("chatml", datasets=[{"name": "sft", "objective": objective}])
    report = run_it(tmp_path, tmp_path / "run", content)
    (warning,) = (one for one in report["warnings"] if "has a loss" in one)
    assert "datasets.sft: none of the" in warning
    assert "tokens of sources.chats has a loss" in warning
    content = chat_run("chatml", datasets=[{"name": "sft", "objective": objective}])
    report = run_it(corpus, tmp_path / "whole", content)
    assert not [one for one in report["warnings"] if "has a loss" in one]


def test_where_a_template_refuses_all_dialogues_it_is_named(corpus: Path, tmp_path: Path) -> None:
    (corpus / "never.jinja").write_text("{% generation %}{% endgeneration %}{{ raise_exception('no') }}")
    content = with_chat(chat_run("chatml"), template="never.jinja")
    with pytest.raises(
        ShardmillError, match=r"no document is left of 30 .*; check the template of chat"
    ):
        run_it(corpus, tmp_path / "never", content, until="ingest")


@pytest.mark.parametrize("absent", ["column", "completion_column"])
def test_fields_of_messages_that_no_record_has_are_refused_by_name(
    corpus: Path, tmp_path: Path, absent: str
) -> None:
    talk = [{"role": "user", "content": "Hi there"}]
    rows = [json.dumps({"id": n, "prompt": talk, "completion": talk}) for n in range(3)]
    (corpus / "pairs.jsonl").write_text("\n".join(rows))
    columns = {"column": "prompt", "completion_column": "completion", absent: "wrong"}
    content = with_chat(chat_run("chatml"), paths=["pairs.jsonl"], **columns)
    with pytest.raises(ShardmillError, match=rf"sources\.chats\.chat\.{absent} = 'wrong'"):
        run_it(corpus, tmp_path / absent, content, until="ingest")


def test_all_that_has_no_effect_is_told_at_once(corpus: Path, tmp_path: Path) -> None:
    (corpus / "domains.txt").write_text("one.org\nexample.org/path\n")
    lists = {"kind": "url", "domains": ["domains.txt"]}
    content = {**with_chat(chat_run("chatml"), learn=["assistant", "user"]), "filters": [lists, lists]}
    request = RunRequest(RunFile.model_validate(content), corpus, tmp_path / "run", 0)
    told = next(one.step.warning for one in plan_session(request) if one.step.name == "ingest")
    assert told is not None
    assert told.count("has no effect") == 1
    assert all(f"filters.{number} (kind = 'url'): 1 line" in told for number in (0, 1))
