"""What the command line promises of its exit codes: a failed check is 3, wherever it is found."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import cli
from pipeline.commands.boundary import exit_code_of
from pipeline.system.stopping import Signals
from stages import errors
from stages.errors import Interrupted, ShardmillError, Stopped, VerificationError
from tests.conftest import small_run

pytestmark = pytest.mark.slow


def every_error(kind: type[ShardmillError] = ShardmillError) -> Iterator[type[ShardmillError]]:
    """Yield an error and all that are one."""
    yield kind
    for part in kind.__subclasses__():
        yield from every_error(part)


def code_of(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    """Call the command line in this process; give its exit code."""
    monkeypatch.setattr(sys, "argv", ["shardmill", *map(str, arguments)])
    with Signals() as signals:
        return exit_code_of(cli.app, signals)


@pytest.mark.parametrize("kind", tuple(every_error()))
def test_each_error_has_the_code_that_is_listed(
    kind: type[ShardmillError], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise kind("what is wrong")

    listed = {VerificationError: 3, Stopped: 75, Interrupted: 130}
    monkeypatch.setattr(cli, "app", fail)
    assert code_of(monkeypatch) == listed.get(kind, 2)
    assert capsys.readouterr().err == "shardmill: what is wrong\n"
    assert kind.__module__ == errors.__name__


def toml(value: Any) -> str:
    """Spell a value as TOML does within a line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {toml(part)}' for key, part in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


@pytest.fixture
def finished(tmp_path: Path) -> tuple[Path, Path]:
    """The run file of a tiny run, and its output folder, which is not there yet."""
    (tmp_path / "corpus").mkdir()
    texts = [f"The text of number {n} has some words of its own, {n * 7919}." for n in range(60)]
    rows = [json.dumps({"id": str(n), "text": text, "lang": "en"}) for n, text in enumerate(texts)]
    (tmp_path / "corpus" / "a.jsonl").write_text("\n".join(rows) + "\n")
    file = tmp_path / "corpus" / "run.toml"
    tiny = {
        "dedup": {"exact": False, "near": False},
        "tokenizer": {"train": {"vocab_size": 560, "sample_size": "64KiB"}},
        "packing": {"seq_len": 32, "shards": 1},
        "verify": {"learning": False},
    }
    content = small_run(**tiny).model_dump(mode="json", exclude_none=True)
    file.write_text("".join(f"{key} = {toml(value)}\n" for key, value in content.items()))
    return file, tmp_path / "run"


def test_a_failed_verification_is_3_by_verify_and_by_run_until_it_is_mended(
    finished: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, output = finished
    run = ("run", file, "--output", output, "--workers", "0")
    verify = ("verify", output, "--workers", "0")
    assert code_of(monkeypatch, *run) == 0
    assert code_of(monkeypatch, *verify) == 0
    path = output / "datasets" / "clm" / "train" / "epoch-0000" / "00000" / "input_ids.npy"
    before = path.read_bytes()
    np.save(path, np.roll(np.load(path), 1, axis=1))
    for command in (verify, run, verify):
        capsys.readouterr()
        assert code_of(monkeypatch, *command) == 3
        assert "FAIL" in capsys.readouterr().err
    path.write_bytes(before)
    for command in (verify, run):
        assert code_of(monkeypatch, *command) == 0
