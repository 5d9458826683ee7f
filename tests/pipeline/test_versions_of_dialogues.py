"""Finished runs and dialogues: a new rule makes the sources again that it touches, and no other."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.inputs.files import InputFile
from pipeline.planning.existing import find_tokenizer
from pipeline.planning.plan import plan_again, plan_steps
from pipeline.run_file.config import RunFile
from pipeline.run_file.filters import resolve_chats
from pipeline.steps.kept_plan import KeptPlan
from stages.chat import rendering
from tests.stages.chat.chat_files import JINJA, chat_run, chat_tokenizer, dialogues, write_lines
from tests.stages.tokenizer.existing_files import changed, data_of

Plan = Callable[..., dict[str, str]]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Return what plans a run over one source, and gives fingerprints of steps and units."""
    (tmp_path / "a.jsonl").write_bytes(write_lines(list(dialogues(3))))
    (tmp_path / "tokenizer.json").write_bytes(chat_tokenizer())
    (tmp_path / "llama.json").write_bytes(data_of("llama-json"))
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    (tmp_path / "stripped.json").write_bytes(changed(chat_tokenizer(), normalizer=strip))
    (tmp_path / "own.jinja").write_text(JINJA["chatml"])

    def planned(source: dict[str, Any], **tokenizer: Any) -> dict[str, str]:
        content = chat_run("chatml", **({"tokenizer": tokenizer} if tokenizer else {}))
        content["sources"] = [{"name": "s", "paths": ["a.jsonl"], **source}]
        file = resolve_chats(RunFile.model_validate(content), tmp_path)
        inputs = [InputFile("s", "a.jsonl", tmp_path / "a.jsonl", 100, "00")]
        steps = plan_steps(file, inputs, find_tokenizer(file, tmp_path))
        plain = {
            step.name: {
                "fingerprint": "",
                "inputs": [],
                "config": json.loads(json.dumps(dict(step.config))),
            }
            for step in steps
        }
        kept = KeptPlan.model_validate({"run": file.model_dump(mode="json"), "steps": plain})
        again = plan_again(RunFile.model_validate(kept.run), kept)
        assert [step.fingerprint for step in again] == [step.fingerprint for step in steps]
        return {
            step.name: step.fingerprint + "".join(step.units.values())
            for step in steps
            if step.name in ("ingest", "tokenize")
        }

    return planned


@pytest.mark.parametrize(("template", "touched"), [("own.jinja", True), ("chatml", False)])
def test_ingest_is_made_again_where_a_template_writes_otherwise(
    template: str, monkeypatch: pytest.MonkeyPatch, plan: Plan, *, touched: bool
) -> None:
    source = {"chat": {"template": template}}
    now = plan(source)
    monkeypatch.setattr(rendering, "JINJA_VERSION", 1)
    before = plan(source)
    assert (before["ingest"] != now["ingest"]) is touched
    assert (before["ingest"][32:] != now["ingest"][32:]) is touched, "of the units"
    monkeypatch.setattr(rendering, "JINJA_VERSION", 3)
    assert (plan(source)["ingest"] != now["ingest"]) is touched


@pytest.mark.parametrize(
    ("source", "touched"),
    [
        ({"text_column": "id"}, False),
        ({"text_column": "id", "section_columns": ["messages"]}, True),
        ({"chat": {"template": "chatml"}}, True),
    ],
)
def test_tokenize_is_made_again_where_ids_hang_on_the_place_of_a_section(
    source: dict[str, Any], monkeypatch: pytest.MonkeyPatch, plan: Plan, *, touched: bool
) -> None:
    llama: dict[str, Any] = {"path": "llama.json", "special": {"pad": "<s>"}}
    stripped = {**chat_run("chatml")["tokenizer"], "path": "stripped.json"}
    found = {}
    for name, tokenizer in (("llama", llama), ("stripped", stripped), ("chat", {})):
        now = plan(source, **tokenizer)
        with monkeypatch.context() as patch:
            patch.setattr("pipeline.steps.tokenize.step._PLACES_VERSION", 1)
            found[name] = plan(source, **tokenizer)["tokenize"] != now["tokenize"]
    assert found == {"llama": touched, "stripped": touched, "chat": False}
