"""What a report promises of a run that stops: it says so and why, and not what was before."""

import json
import shutil
from pathlib import Path
from typing import Any, NoReturn

import pytest

import shardmill
from pipeline.report import packing
from pipeline.session.runner import Runner
from pipeline.session.verifying import verify_session
from stages.errors import ShardmillError, Stopped
from tests.conftest import run_small
from tests.pipeline.few_texts import FEW

TOO_MANY: dict[str, Any] = {**FEW, "tokenizer": {"train": {"vocab_size": 400_000}}}


@pytest.fixture(scope="module")
def passed(few_texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that passed, to be copied."""
    output = tmp_path_factory.mktemp("passed") / "run"
    assert run_small(few_texts, output, until="verify", **FEW)["passed"]
    assert "PASS: clm" in page(output)
    return output


@pytest.fixture
def output(passed: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(passed, tmp_path / "run"))


def page(output: Path) -> str:
    return (output / "report" / "index.html").read_text(encoding="utf-8")


def report(output: Path) -> Any:
    return json.loads((output / "report" / "report.json").read_text(encoding="utf-8"))


def test_a_run_that_stops_leaves_a_report_that_says_why(few_texts: Path, tmp_path: Path) -> None:
    with pytest.raises(ShardmillError, match="vocab_size") as stopped:
        run_small(few_texts, tmp_path / "run", until="verify", **TOO_MANY)
    found = report(tmp_path / "run")
    assert (found["passed"], found["stopped"]) == (None, str(stopped.value))
    assert found["documents"]["kept"] > 20
    assert "STOPPED" in page(tmp_path / "run")
    assert "vocab_size" in page(tmp_path / "run")


def test_no_report_of_before_is_left_when_a_redo_stops(few_texts: Path, output: Path) -> None:
    counted = report(output)["packing"]
    with pytest.raises(ShardmillError, match="--replace"):
        run_small(few_texts, output, until="verify", **TOO_MANY)
    assert "PASS: clm" in page(output), "nothing was done"
    with pytest.raises(ShardmillError, match="vocab_size"):
        run_small(few_texts, output, until="verify", replace=True, **TOO_MANY)
    assert "PASS" not in page(output)
    assert report(output)["verify"] == {}
    assert run_small(few_texts, output, until="verify", replace=True, **FEW)["passed"]
    assert "PASS: clm" in page(output)
    assert report(output)["packing"] == counted


def test_a_verification_that_stops_leaves_no_pass_and_what_was_counted(
    output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = report(output)["packing"]

    def stop(*_: object, **__: object) -> NoReturn:
        raise Stopped("as asked")

    with monkeypatch.context() as patch:
        patch.setattr(Runner, "do", stop)
        with pytest.raises(Stopped):
            verify_session(output, workers=0, address=None, stream=None)
    assert "PASS: clm" not in page(output)
    assert "as asked" in page(output)
    monkeypatch.setattr(packing, "_split", pytest.fail)  # all was counted before
    assert verify_session(output, workers=0, address=None, stream=None)["packing"] == counted
    assert {one.name for one in (output / "report").iterdir()} == {
        "report.json",
        "index.html",
        "card.md",
        "counted.json",
    }


def test_a_verification_of_damaged_files_leaves_a_report_that_says_so(output: Path) -> None:
    ids = next((output / "tokens").rglob("*.npy"))
    ids.write_bytes(ids.read_bytes()[:-1])
    try:
        found = verify_session(output, workers=0, address=None, stream=None)["passed"]
    except ShardmillError:
        found = report(output)["passed"]
    assert found is False
    assert "FAIL" in page(output)
    assert "PASS: clm" not in page(output)


def test_the_report_of_a_trial_says_that_it_is_one(few_texts: Path, tmp_path: Path) -> None:
    run_file = {
        "name": "trial",
        "sources": [{"name": "few", "paths": [str(few_texts / "*.jsonl*")]}],
        "datasets": [{"name": "clm"}],
    }
    found = shardmill.run(run_file, tmp_path / "run", workers=0, limit=15, until="dedup")
    assert found["warnings"][0].startswith("a trial: run with --limit")
    assert str(tmp_path / "run.inputs") in found["warnings"][0]
    assert "a trial: run with --limit" in page(tmp_path / "run")
