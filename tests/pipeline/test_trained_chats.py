"""What dialogues promise in a run that trains its tokenizer: markup as control symbols of its own."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pipeline.run_file.config import RunFile
from pipeline.run_file.filters import resolve_chats
from pipeline.session.request import RunRequest
from pipeline.session.session import plan_session, run_session
from pipeline.steps.tokenizer.load import tokenizer_of
from pipeline.tools.tokenizer.sweep import SweptSettings, sweep_tokenizers
from stages.chat.template import MARKUP
from stages.errors import ConfigError
from tests.stages.chat.chat_files import chat_run, dialogues, write_lines
from tests.stages.chat.stored_chats import stored_dialogues, written_dialogues

SYMBOLS = ("<|im_start|>", "<|im_end|>")
TRAIN: dict[str, Any] = {"vocab_size": 900, "template_symbols": True, "user_symbols": ["<br>"]}


def content(**train: Any) -> dict[str, Any]:
    """Return a run file that trains its tokenizer on dialogues."""
    return {**chat_run("chatml"), "tokenizer": {"train": train}}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of dialogues, with a run of them."""
    base = tmp_path_factory.mktemp("dialogues")
    (base / "a.jsonl").write_bytes(write_lines(list(dialogues(30))))
    file = RunFile.model_validate(content(**TRAIN))
    report = run_session(RunRequest(file, base, base / "run", 0), stream=None)
    assert report["passed"]
    return base


def test_markup_gives_the_ids_of_the_templates_symbols_and_contents_do_not(base: Path) -> None:
    output = base / "run"
    special = json.loads((output / "tokenizer/special_ids.json").read_text())
    tokenizer = tokenizer_of(output)
    assert tokenizer.exact
    assert tokenizer.codec.pieces([special["reserved_269"], special["reserved_270"]]) == list(SYMBOLS)
    stored, written = stored_dialogues(output), written_dialogues(output)
    seen = literal = 0
    for number, document in stored.items():
        own = written[number]
        for place, (section, flags) in enumerate(zip(own.sections, own.flags, strict=True)):
            start = document.ends[place - 1] if place else 0
            held = [n for n in document.ids[start : document.ends[place]] if n in (269, 270)]
            wanted = [
                269 + SYMBOLS.index(piece) for piece in SYMBOLS for _ in range(section.count(piece))
            ]
            assert sorted(held) == (wanted if flags & MARKUP else [])
            seen += len(held)
            literal += bool(wanted) and not flags & MARKUP
    assert seen > len(stored)
    assert literal, "a message writes the markup"
    named = RunFile.model_validate(
        content(**{**TRAIN, "template_symbols": False, "control_symbols": SYMBOLS})
    )
    states = plan_session(RunRequest(named, base, output, 0))
    assert {one.state.value for one in states} == {"done"}, "symbols that are named are the same run"


def test_a_sweep_gives_its_tokenizers_the_templates_symbols(base: Path, tmp_path: Path) -> None:
    output, saved = base / "run", tmp_path / "swept"
    run = RunRequest(RunFile.model_validate(content(**TRAIN)), base, output, 0)
    settings = SweptSettings(sizes=(TRAIN["vocab_size"],), alphas=(0.3,))
    sweep_tokenizers(run, settings, has_texts=True, save=saved)
    for name in ("tokenizer.model", "special_ids.json"):
        swept = saved / f"{TRAIN['vocab_size']}-0.3" / "tokenizer" / name
        assert swept.read_bytes() == (output / "tokenizer" / name).read_bytes()


@pytest.mark.parametrize(
    ("chat", "train", "symbols"),
    [
        ({"template": "chatml"}, {}, SYMBOLS),
        ({"template": "mistral"}, {"control_symbols": ["<x>"]}, ("<x>", "[INST]", "[/INST]")),
        (
            {
                "template": "jinja",
                "jinja": "{% for m in messages %}{{'<|'+m.role+'|>'}}{% generation %}{{m.content}}"
                "{% endgeneration %}{% endfor %}{{ eos_token }}",
                "eos_token": "<|end|>",
            },
            {},
            ("<|assistant|>", "<|end|>", "<|user|>"),
        ),
    ],
)
def test_the_symbols_of_templates_are_found(
    chat: dict[str, str], train: dict[str, Any], symbols: tuple[str, ...], tmp_path: Path
) -> None:
    run = content(template_symbols=True, **train)
    run["sources"][0]["chat"] = chat
    resolved = resolve_chats(RunFile.model_validate(run), tmp_path).tokenizer.train
    assert resolved.control_symbols == symbols
    assert not resolved.template_symbols


def test_symbols_of_templates_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    run = content(template_symbols=True, user_symbols=["<|im_end|>"])
    with pytest.raises(ConfigError, match="stands twice"):
        resolve_chats(RunFile.model_validate(run), tmp_path)
    run["sources"][0].pop("chat")
    with pytest.raises(ConfigError, match="no source has chat"):
        resolve_chats(RunFile.model_validate(run), tmp_path)


@pytest.mark.parametrize(
    ("symbol", "clean"), [("a\r\n", "a\n"), ("e\u0301", "\u00e9"), ("\ufeffa", "a")]
)
def test_symbols_that_no_cleaned_text_has_are_refused(symbol: str, clean: str) -> None:
    for name in ("user_symbols", "control_symbols"):
        with pytest.raises(ValidationError, match=re.escape(f"is {clean!r} in cleaned texts")):
            RunFile.model_validate(content(**{name: [symbol]}))
