"""What a run over dialogues promises: turns told apart and learned from ingest to the token store.

A message cannot close its own turn, what cannot be written is a counted drop, and settings that do not
fit dialogues are refused in one sentence.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from pyarrow import feather
from pydantic import ValidationError

from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import plan_session, run_session
from pipeline.session.verifying import verify_session
from pipeline.tools.forecast.forecast import forecast_run
from stages.chat.dialogue import dialogue_of
from stages.chat.table import TEMPLATES
from stages.chat.template import LEARNED, MARKUP
from stages.cleaning.text import clean_text
from stages.errors import ConfigError
from tests.campaign import FULL
from tests.conftest import digests
from tests.stages.chat.chat_files import (
    JINJA,
    SPECIAL,
    chat_run,
    chat_tokenizer,
    dialogues,
    write_lines,
)
from tests.stages.chat.stored_chats import stored_dialogues, written_dialogues

NUMBER = 84
DIALOGUES = list(dialogues(NUMBER))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dialogues, and a tokenizer that has the pieces of all templates."""
    folder = tmp_path_factory.mktemp("chats")
    (folder / "a.jsonl").write_bytes(write_lines(DIALOGUES))
    (folder / "tokenizer.json").write_bytes(chat_tokenizer())
    return folder


def run_it(corpus: Path, output: Path, content: dict[str, Any], **options: Any) -> Any:
    """Run over the dialogues inline."""
    file = RunFile.model_validate(content)
    request = RunRequest(file, corpus, output, options.pop("workers", 0), **options)
    return run_session(request, stream=None)


def with_chat(content: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a run file whose source has other settings of chat, or is another file."""
    paths = changes.pop("paths", content["sources"][0]["paths"])
    source = {**content["sources"][0], "paths": paths}
    return {**content, "sources": [{**source, "chat": {**source["chat"], **changes}}]}


@pytest.fixture(scope="module", params=sorted(TEMPLATES))
def finished(
    request: pytest.FixtureRequest, corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, Any]:
    """A run with each template to its end."""
    output = tmp_path_factory.mktemp(request.param) / "run"
    return request.param, output, run_it(corpus, output, chat_run(request.param))


@pytest.mark.slow
def test_ids_spell_each_section_and_only_markup_gives_control_ids(
    finished: tuple[str, Path, Any], corpus: Path
) -> None:
    template, output, report = finished
    assert report["passed"]
    added = json.loads((corpus / "tokenizer.json").read_text())["added_tokens"]
    controls = {token["id"]: token["content"] for token in added}
    stored, written = stored_dialogues(output), written_dialogues(output)
    assert len(stored) == len(written) == NUMBER
    seen = 0
    for number, document in stored.items():
        own, begun = written[number], template != "chatml"
        ids, ends = document.ids, document.ends
        assert controls[ids[-1]] == SPECIAL[template]["eos"]
        assert not begun or controls[ids[0]] == SPECIAL[template]["bos"]
        assert document.learned == [bool(flags & LEARNED) for flags in own.flags]
        starts = [int(begun), *ends[:-1]]
        stops = [*ends[:-1], ends[-1] - 1]
        for section, flags, start, stop in zip(own.sections, own.flags, starts, stops, strict=True):
            held = [n for n in ids[start:stop] if n in controls]
            pieces = [piece for piece in TEMPLATES[template].pieces if piece in section]
            assert bool(held) == bool(pieces and flags & MARKUP)
            seen += bool(pieces) and not flags & MARKUP
    assert seen >= 2, "some messages hold markup"


@pytest.mark.slow
def test_texts_and_flags_are_those_of_the_template(finished: tuple[str, Path, Any]) -> None:
    template, output, _ = finished
    for number, own in written_dialogues(output).items():
        clean = [{**turn, "content": clean_text(turn["content"])} for turn in DIALOGUES[number]]
        wanted = TEMPLATES[template].render(dialogue_of([*clean]), ("assistant",))
        assert list(zip(own.sections, own.flags, strict=True)) == [tuple(part) for part in wanted]


@pytest.mark.slow
def test_a_jinja_file_of_the_same_format_gives_the_same_text_and_loss(
    finished: tuple[str, Path, Any], corpus: Path, tmp_path: Path
) -> None:
    """Of the templates that begin a dialogue with bos, one is enough; a campaign does both."""
    template, output, _ = finished
    if template == "llama3" and not FULL:
        return
    (corpus / f"{template}.jinja").write_text(JINJA[template])
    named = chat_run(template)
    eos = {"eos_token": "</s>"} if template == "mistral" else {}
    run_it(
        corpus, tmp_path / "file", with_chat(named, template=f"{template}.jinja", **eos), until="ingest"
    )
    found, wanted = written_dialogues(tmp_path / "file"), written_dialogues(output)
    assert found.keys() == wanted.keys()
    for number, own in found.items():
        assert own.text == wanted[number].text
        assert learned(own) == learned(wanted[number])
    shutil.copy(corpus / f"{template}.jinja", corpus / "other.jinja")
    again = with_chat(named, template="other.jinja", **eos)
    states = plan_session(RunRequest(RunFile.model_validate(again), corpus, tmp_path / "file", 0))
    assert next(one.state.value for one in states if one.step.name == "ingest") == "done"


def learned(dialogue: Any) -> list[bool]:
    """Return of each character whether it is learned."""
    pairs = zip(dialogue.sections, dialogue.flags, strict=True)
    return [bool(flags & LEARNED) for text, flags in pairs for _ in text]


@pytest.mark.slow
@pytest.mark.campaign
def test_workers_and_units_change_nothing(corpus: Path, tmp_path: Path, ray_session: None) -> None:
    del ray_session
    content = chat_run("chatml")
    small = {**content, "ingest": {"unit_size": "4KiB"}}
    run_it(corpus, tmp_path / "plain", small, until="shard")
    run_it(corpus, tmp_path / "ray", small, until="shard", workers=2)
    run_it(corpus, tmp_path / "whole", content, until="shard")
    assert digests(tmp_path / "plain") == digests(tmp_path / "ray")
    assert len(list((tmp_path / "plain" / "tokens" / "chats").iterdir())) > 3
    rows = (digests(tmp_path / name, "datasets") for name in ("plain", "whole"))
    found, wanted = ({k: v for k, v in one.items() if k.endswith(".npy")} for one in rows)
    assert found == wanted


@pytest.mark.slow
def test_tables_give_what_lines_give(corpus: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (corpus / "a.jsonl").read_text().splitlines()]
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, corpus / "b.parquet", row_group_size=20)
    feather.write_feather(table, str(corpus / "b.arrow"), compression="uncompressed")
    parts = [
        [{"from": t["role"], "value": [{"type": "text", "text": t["content"]}]} for t in row["messages"]]
        for row in rows
    ]
    shared = pa.Table.from_pylist([{"id": n, "messages": own} for n, own in enumerate(parts)])
    pq.write_table(shared, corpus / "c.parquet")
    (corpus / "d.json").write_text(json.dumps(rows))
    found = []
    for name in ("a.jsonl", "b.parquet", "b.arrow", "c.parquet", "d.json"):
        content = with_chat(chat_run("llama3"), paths=[name])
        run_it(corpus, tmp_path / name, content, until="ingest")
        found.append(written_dialogues(tmp_path / name))
    assert len(found[0]) == NUMBER
    assert all(one == found[0] for one in found)


BAD: tuple[tuple[Any, str, str], ...] = (
    ([], "bad_dialogue", "it has no message"),
    ([{"role": "us er", "content": "x"}], "bad_dialogue", "role of message 1"),
    ([{"role": "user", "content": None}], "bad_dialogue", "content of message 1 (user) is absent"),
    ("hello", "missing_text", "of type str, not a list of messages"),
    (None, "missing_text", "field 'messages' is absent"),
    ([{"role": "user", "content": " \n"}], "empty", "no message has a character"),
    ([{"role": "assistant", "content": "x"}], "template_refuses", "'user' must come"),
)


@pytest.mark.slow
def test_what_cannot_be_written_is_a_counted_drop(corpus: Path, tmp_path: Path) -> None:
    rows = [*({"id": n, "messages": messages} for n, (messages, *_) in enumerate(BAD))]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (corpus / "bad.jsonl").write_bytes(lines.encode() + write_lines(DIALOGUES[:20]))
    content = with_chat(chat_run("mistral"), paths=["bad.jsonl"])
    content["ingest"] = {"max_bad_fraction": 0.5}
    content["sources"][0]["id_column"] = "id"
    report = run_it(corpus, tmp_path / "run", content, until="ingest")
    drops = pq.read_table(next((tmp_path / "run" / "ingest").rglob("drops.parquet"))).to_pylist()
    assert len(drops) == len(BAD)
    for drop, (_, reason, detail) in zip(drops, BAD, strict=True):
        assert drop["reason"] == reason
        assert detail in drop["detail"]
    assert [drop["own_id"] for drop in drops] == [*[None] * 5, "5", "6"], "of what was read"
    assert report["documents"]["read"] == len(BAD) + 20
    assert sum(report["documents"]["dropped"].values()) == len(BAD)


def flip(values: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say the opposite of one section."""
    values[1] = not values[1]
    return values


def more(values: NDArray[np.integer]) -> NDArray[np.integer]:
    """Move one end by a token, or change one id."""
    values[1] += 1
    return values


DAMAGE: tuple[tuple[str, Callable[..., NDArray[np.generic]], set[str]], ...] = (
    ("sections/learned", flip, {"learned"}),
    ("sections/ends", more, {"pieces", "readable"}),
    ("ids", more, {"pieces", "text"}),
)


@pytest.mark.slow
def test_damage_to_dialogues_in_the_store_is_found(
    finished: tuple[str, Path, Any], tmp_path: Path
) -> None:
    """One file of each template; a campaign damages each file of each."""
    template, output, _ = finished
    own = sorted(TEMPLATES).index(template) % len(DAMAGE)
    for number, (name, change, checks) in enumerate(DAMAGE):
        if FULL or number == own:
            run = tmp_path / str(number)
            shutil.copytree(output, run)
            path = min((run / "tokens").glob(f"*/*/{name}.npy"))
            np.save(path, change(np.load(path)))
            verdict = verify_session(run, workers=0, address=None, stream=None)["verify"]["clm"]
            assert not verdict["passed"]
            assert checks & {finding["check"] for finding in verdict["findings"]}


@pytest.mark.slow
def test_a_piece_that_the_file_finds_in_texts_is_kept_from_messages(
    corpus: Path, tmp_path: Path
) -> None:
    (tmp_path / "tokenizer.json").write_bytes(chat_tokenizer(special=False))
    (tmp_path / "a.jsonl").write_bytes(write_lines(DIALOGUES[:8]))
    del corpus
    run_it(tmp_path, tmp_path / "run", chat_run("chatml"), until="decode")
    added = json.loads((tmp_path / "tokenizer.json").read_text())["added_tokens"]
    (end,) = (token["id"] for token in added if token["content"] == "<|im_end|>")
    for number, document in stored_dialogues(tmp_path / "run").items():
        assert document.ids.count(end) == len(DIALOGUES[number])


@pytest.mark.slow
def test_a_tokenizer_that_the_run_trains_encodes_markup_as_text(corpus: Path, tmp_path: Path) -> None:
    content = {**chat_run("mistral"), "tokenizer": {"train": {"vocab_size": 1200}}}
    states = plan_session(RunRequest(RunFile.model_validate(content), corpus, tmp_path / "run", 0))
    warning = next(one.step.warning for one in states if one.step.name == "tokenize")
    assert warning is not None
    assert "no special piece [INST], [/INST], so this markup is encoded as text" in warning
    report = run_it(corpus, tmp_path / "run", content)
    assert report["passed"]
    assert any("is encoded as text" in one for one in report["warnings"])
    assert "set tokenizer.path to a tokenizer file that has it" in warning
    stored = stored_dialogues(tmp_path / "run")
    answers = sum(len(DIALOGUES[n]) // 2 for n in stored)
    assert answers > NUMBER
    assert sum(document.ids.count(2) for document in stored.values()) > NUMBER, "</s> it has"


def test_what_does_not_fit_the_tokenizer_is_said(corpus: Path, tmp_path: Path) -> None:
    def warning(content: dict[str, Any]) -> str:
        request = RunRequest(RunFile.model_validate(content), corpus, tmp_path / "run", 0)
        found = [one.step.warning for one in plan_session(request) if one.step.name == "tokenize"]
        return found[0] or ""

    special = chat_run("mistral")["tokenizer"]["special"]
    other = {"path": "tokenizer.json", "special": {**special, "eos": "<|im_end|>"}}
    assert (
        warning(chat_run("chatml")) == warning(chat_run("llama3")) == warning(chat_run("mistral")) == ""
    )
    assert "set tokenizer.special.eos" in warning(chat_run("chatml", tokenizer=other))
    for closing, way in (
        ("[/INST]{% endgeneration %}", ""),
        ("<|im_end|>{% endgeneration %}", 'set eos_token = "<|im_end|>" in chat'),
        ("<|im_end|>{% endgeneration %}{{ '\n' }}", "set tokenizer.special.eos"),
    ):
        source = "{{% for m in messages %}}{{% generation %}}{{{{ m.content }}}}{}{{% endfor %}}"
        (corpus / "closed.jinja").write_text(source.format(closing))
        closed = chat_run("chatml", tokenizer=other)
        said = warning(with_chat(closed, template="closed.jinja"))
        assert ("<|im_end|> closes turns" in said) == bool(way)
        assert way in said
        said = warning(with_chat(closed, template="closed.jinja", eos_token="<|im_end|>"))  # noqa: S106
        assert ("closes turns" in said) == way.endswith("special.eos")
    assert "closes its last answer with </s>" in warning(chat_run("mistral", tokenizer=other))
    assert 'set framing.begin = "bos"' in warning(chat_run("llama3", framing={}))


@pytest.mark.slow
@pytest.mark.usefixtures("measured_once")
def test_a_forecast_takes_dialogues(corpus: Path, tmp_path: Path) -> None:
    (corpus / "chatml.jinja").write_text(JINJA["chatml"])
    file = RunFile.model_validate(with_chat(chat_run("chatml"), template="chatml.jinja"))
    found = forecast_run(RunRequest(file, corpus, tmp_path / "run", 0), share=1.0)
    assert (found["records"], found["kept"]) == (NUMBER, NUMBER)
    assert found["tokens"] > 1000


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"text_column": "text", "section_columns": ["b"]}, "chat and text_column or section_columns"),
    ({"text_column": "body"}, "chat and text_column or section_columns"),
)


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_a_source_has_texts_or_dialogues(changes: dict[str, Any], message: str) -> None:
    content = chat_run("chatml")
    content["sources"][0] |= changes
    with pytest.raises(ValidationError, match=message):
        RunFile.model_validate(content)


@pytest.mark.parametrize(
    "objective",
    [
        {"kind": "prefix_lm", "split": "source"},
        {"kind": "simcse", "views": "pairs"},
        {"kind": "fim"},
        {"kind": "fim", "level": "character"},
    ],
)
def test_an_objective_that_tears_turns_apart_is_refused(objective: dict[str, Any]) -> None:
    content = chat_run("chatml", datasets=[{"name": "d", "objective": objective}])
    with pytest.raises(
        ValidationError, match="source 'chats' has dialogues, whose turns belong together"
    ):
        RunFile.model_validate(content)


def test_a_filter_that_changes_texts_is_refused() -> None:
    content = chat_run("chatml", filters=[{"kind": "pii", "action": "replace"}])
    with pytest.raises(ValidationError, match="are dialogues of turns, whose ends would move"):
        RunFile.model_validate(content)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"template": "none.jinja"}, r"sources.chats.chat.template = 'none.jinja': no such file in"),
        ({"template": "bad.jinja"}, "'bad.jinja': has no {% generation %}"),
        ({"template": "empty.jinja"}, "'empty.jinja': is empty"),
        ({"template": "jinja", "jinja": "{% if %}"}, "chat.jinja: not a Jinja template, line 1"),
        ({"paths": ["t.txt"]}, "t.txt is plain text, which has no fields with messages"),
        ({"column": "turns"}, "sources.chats.chat.column = 'turns': none of 84 records has"),
        (
            {"learn": ["asistant"]},
            r"no turn is of role 'asistant'; roles there: user \(\d+\), assistant",
        ),
    ],
)
def test_a_chat_that_cannot_be_read_is_refused(
    corpus: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    (corpus / "bad.jinja").write_text("{{ messages }}")
    (corpus / "empty.jinja").write_text("")
    (corpus / "t.txt").write_text("x\n")
    with pytest.raises(ConfigError, match=message):
        run_it(corpus, tmp_path / "run", with_chat(chat_run("chatml"), **changes), until="ingest")


def test_a_table_without_lists_of_messages_is_refused(corpus: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "messages": [7]}), corpus / "s.parquet")
    with pytest.raises(
        ConfigError, match=r"chat.column = 'messages': .* holds int64 there; it must hold"
    ):
        run_it(
            corpus, tmp_path / "run", with_chat(chat_run("chatml"), paths=["s.parquet"]), until="ingest"
        )
