"""How a command ends: at the step it was asked for, and with the exit code of what happened."""

import sys
from pathlib import Path

import numpy as np
import pytest

from pipeline import cli
from pipeline.commands.boundary import exit_code_of
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.state.commits import SCAN
from pipeline.steps.table import STEPS
from pipeline.system.stopping import Signals
from stages.errors import (
    ConfigError,
    DataError,
    FormatError,
    Interrupted,
    ShardmillError,
    Stopped,
    VerificationError,
)
from tests.laws.tiny_run import TINY, tiny_run, write_tiny_corpus

CODES = {
    ConfigError: 2,
    DataError: 2,
    FormatError: 2,
    VerificationError: 3,
    Stopped: 75,
    Interrupted: 130,
}


def exit_code(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the exit code of a command, done in this process."""
    monkeypatch.setattr(sys, "argv", ["shardmill", *arguments])
    with Signals() as signals:
        return exit_code_of(cli.app, signals)


NOT_ASKED = ("decontaminate", "cut", "sentences", "replay", "mix")
"""Steps that the tiny run does not have."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny corpus."""
    folder = tmp_path_factory.mktemp("tiny") / "corpus"
    write_tiny_corpus(folder)
    return folder


@pytest.mark.parametrize(("error", "code"), CODES.items())
def test_every_error_that_is_foreseen_has_its_exit_code_and_one_line(
    error: type[ShardmillError],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise error("what happened; what to do")

    monkeypatch.setattr(cli, "app", fail)
    assert exit_code(monkeypatch=monkeypatch) == code
    assert capsys.readouterr().err == "shardmill: what happened; what to do\n"


def test_a_run_goes_as_far_as_it_was_asked_to_and_no_further(corpus: Path, tmp_path: Path) -> None:
    output, reached = tmp_path / "run", []
    for until in [step.name for step in STEPS]:
        request = RunRequest(tiny_run(), corpus, output, 0, until=until)
        if until in NOT_ASKED:
            with pytest.raises(ConfigError, match=f"--until {until}: no dataset of the run has this"):
                run_session(request, stream=None)
            continue
        try:
            run_session(request, stream=None)
        except ConfigError as error:
            raise AssertionError(f"is {until} one of NOT_ASKED, which the tiny run lacks?") from error
        whole = {path.parent.name.partition("-")[0] for path in output.glob("commits/*/_step.json")}
        begun = {path.name.partition("-")[0] for path in output.glob("commits/*")}
        reached.append(until)
        assert whole == begun - {SCAN} == set(reached), until
    assert len(reached) == len(STEPS) - len(NOT_ASKED)


def test_a_check_that_fails_ends_run_and_verify_with_its_own_exit_code(
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "run"
    run_session(RunRequest(tiny_run(), corpus, output, 0), stream=None)
    command = ("verify", str(output), "--workers", "0")
    assert exit_code(*command, monkeypatch=monkeypatch) == 0
    damaged = next(output.glob("datasets/mlm/train/epoch-0000/*/input_ids.npy"))
    ids = np.load(damaged, mmap_mode="r+")
    ids[0, 0] ^= 1
    del ids
    capsys.readouterr()
    assert exit_code(*command, monkeypatch=monkeypatch) == 3
    assert (
        "shardmill: verify: FAIL: files of the run (run again with --replace to repair them), "
        in capsys.readouterr().err
    )
    run_file = corpus / "run.toml"
    run_file.write_text(TINY)
    again = ("run", str(run_file), "--output", str(output), "--workers", "0")
    assert exit_code(*again, monkeypatch=monkeypatch) == 3
