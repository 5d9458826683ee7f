"""What `shardmill tokenizer verify` promises.

A good file passes with exit code 0 and a table or JSON; a file that fails a check is exit code 3;
whatever else is wrong is one line.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.tools.tokenizer import verify as tokenizer_verify
from pipeline.tools.tokenizer.verify import GIVEN, verify_tokenizer
from stages.errors import ConfigError, DataError, FormatError, VerificationError
from stages.tokenizer.stress import stress_texts
from stages.tokenizer.train import TrainConfig, train_model
from tests.stages.tokenizer.existing_files import data_of, texts


@pytest.fixture(autouse=True)
def few_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw few random strings: all are drawn in the tests of the proof."""
    monkeypatch.setattr(tokenizer_verify, "stress_texts", lambda found: stress_texts(found, strings=28))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A byte-level tokenizer.json."""
    place = tmp_path / "gpt2.json"
    place.write_bytes(data_of("gpt2"))
    return place


def called(*arguments: object) -> Any:
    """Return the result of a call of the command line."""
    return CliRunner().invoke(app, ["tokenizer", "verify", *map(str, arguments)])


def test_a_good_file_passes_with_texts_of_the_user(tmp_path: Path, model: Path) -> None:
    (tmp_path / "a.txt").write_text("one \u2581 text\r\nof two lines")
    lines = [json.dumps({"text": text, "id": 7}) for text in ("a </s> b", "b <|endoftext|>")]
    (tmp_path / "b.jsonl").write_text("\n".join([*lines, ""]))
    result = called(model, "--text", tmp_path / "a.txt", "--text", tmp_path / "b.jsonl", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["passed"]
    assert found["round_trips"][GIVEN] == {"text": 3}
    assert {check["failed"] for check in found["checks"].values()} == {0}
    assert found["coverage"]["ASCII"]["pieces"] == 95
    shown = called(model)
    assert shown.exit_code == 0
    assert shown.stdout.endswith("tokenizer verify: PASS\n")


def test_a_failed_check_is_shown_and_is_a_failed_verification(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        tokenizer_verify, "untouched", lambda *_: lambda asked: [[*map(ord, text)] for text in asked]
    )
    result = called(model)
    assert "tokenizer verify: FAIL" in result.stdout
    assert "ids are those of the untouched file: not so of ' '" in result.stdout
    assert isinstance(result.exception, VerificationError)
    assert str(result.exception).startswith(f"{model}: tokenizer verify: FAIL: not so: 'ids are those")


def test_the_tokenizer_of_a_run_passes_though_its_library_takes_a_symbol_for_a_space(
    tmp_path: Path,
) -> None:
    lines = [(line, 1) for text in texts() for line in text.splitlines()]
    settings = TrainConfig(vocab_size=1_000)
    place = tmp_path / "tokenizer.model"
    place.write_bytes(train_model(lines, settings))
    found = verify_tokenizer(place)
    assert not found.proof.failed
    assert {way for counts in found.proof.round_trips.values() for way in counts} == {"text"}
    assert found.proof.checks["ids are those of the untouched file"].left_out >= 7
    assert found.kept_from_text == 269


@pytest.mark.parametrize(
    ("content", "options", "error", "said"),
    [
        (None, [], ConfigError, "no such file"),
        (b"{}", [], FormatError, "not a tokenizer.json"),
        ("gpt2", ["--special", "eos"], ConfigError, "must be ROLE=PIECE"),
        ("gpt2", ["--special", "end=x"], ConfigError, "no such role or value; roles: unk, bos"),
        ("gpt2", ["--special", "mask=[NONE]"], ConfigError, "no such piece"),
        ("gpt2", ["--text", "none.txt"], ConfigError, "--text none.txt: no such file"),
        ("gpt2", ["--text", "."], ConfigError, "is a folder, not a file"),
        ("gpt2", ["--text", "latin.txt"], DataError, "no UTF-8 at byte 1"),
        ("gpt2", ["--text", "bad.jsonl"], DataError, "bad.jsonl, line 2: has no text in a field"),
        ("bert", [], ConfigError, "needs the special id 'eos'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    content: bytes | str | None,
    options: list[str],
    error: type[Exception],
    said: str,
    *,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("one.json").write_bytes(data_of(content) if isinstance(content, str) else content)
    Path("latin.txt").write_bytes(b"a\xe9b")
    Path("bad.jsonl").write_text('{"text": "a"}\n{"body": "b"}\n')
    result = called("one.json", *options)
    assert isinstance(result.exception, error)
    assert said in str(result.exception)
    assert "\n" not in str(result.exception)
