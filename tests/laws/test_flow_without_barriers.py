"""What a run promises in which nothing is decided of all documents: a unit goes on once it is read."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from pipeline.state.journal import read_log
from tests.conftest import digests, run_small

STEPS = ("ingest", "dedup", "split", "tokenize")


@pytest.fixture(scope="module")
def corpus(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that is cut into units which can be read in any order."""
    folder = tmp_path_factory.mktemp("flow")
    shutil.copy(small_corpus / "a.jsonl", folder)
    return folder


@pytest.fixture(scope="module")
def settings(reference: Path) -> dict[str, Any]:
    """Settings of such a run."""
    return {
        "dedup": {"exact": False, "near": False},
        "tokenizer": {"path": str(reference / "tokenizer" / "tokenizer.model")},
        "validation": {"fraction": 0.0},
        "ingest": {"unit_size": "20KiB", "min_chars": 20},
    }


@pytest.fixture(scope="module")
def flowing(
    corpus: Path,
    settings: dict[str, Any],
    ray_session: None,  # noqa: ARG001  # Ray must run
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Such a run on a worker."""
    output = tmp_path_factory.mktemp("flowing") / "run"
    run_small(corpus, output, workers=1, **settings)
    return output


def moments(output: Path, kind: str, step: str) -> list[int]:
    """Return the places in the log of a step's events of a kind."""
    events = enumerate(read_log(output))
    return [place for place, e in events if e["event"] == kind and e.get("step") == step]


def test_units_reach_the_token_store_while_others_are_read(
    corpus: Path, settings: dict[str, Any], flowing: Path, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    run_small(corpus, plain, **settings)
    assert digests(flowing, "commits", "dedup", "ledger", "tokens", "datasets") == (
        digests(plain, "commits", "dedup", "ledger", "tokens", "datasets")
    )
    assert len(moments(flowing, "commit", "ingest")) > 8
    for step in STEPS[1:]:
        assert moments(flowing, "commit", step)[0] < moments(flowing, "commit", "ingest")[-1]
    assert moments(plain, "dispatch", "dedup")[0] > moments(plain, "commit", "ingest")[-1]


def test_a_run_that_stopped_on_the_way_goes_on(
    corpus: Path, settings: dict[str, Any], flowing: Path, tmp_path: Path
) -> None:
    stopped = tmp_path / "stopped"
    shutil.copytree(flowing, stopped)
    for step in (*STEPS, "shard-clm"):
        units = sorted((stopped / "commits" / step).glob("[!_]*.json"))
        assert len(units) > 1
        for unit in (stopped / "commits" / step / "_step.json", *units[1::2]):
            unit.unlink()
    since = len(list(read_log(stopped)))
    run_small(corpus, stopped, workers=1, **settings)
    assert digests(stopped, "commits", "tokens", "datasets") == digests(
        flowing, "commits", "tokens", "datasets"
    )
    again = [e for e in list(read_log(stopped))[since:] if e["event"] == "dispatch"]
    assert {e["step"] for e in again} == {*STEPS, "shard-clm"}
