"""What a run promises in which nothing is decided of all documents: a unit goes on once it is read."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from pipeline.state.journal import read_log
from tests.conftest import digests, run_small

STEPS = ("ingest", "dedup", "split", "tokenize")


@pytest.mark.usefixtures("ray_session")
def test_units_reach_the_token_store_while_others_are_read_when_a_stopped_run_goes_on(
    small_corpus: Path, reference: Path, tmp_path: Path
) -> None:
    corpus, plain, stopped = tmp_path / "corpus", tmp_path / "plain", tmp_path / "stopped"
    corpus.mkdir()
    shutil.copy(small_corpus / "a.jsonl", corpus)  # it is cut into units which can be read in any order
    settings: dict[str, Any] = {
        "dedup": {"exact": False, "near": False},
        "tokenizer": {"path": str(reference / "tokenizer" / "tokenizer.model")},
        "validation": {"fraction": 0.0},
        "ingest": {"unit_size": "20KiB", "min_chars": 20},
    }
    run_small(corpus, plain, **settings)
    before = list(read_log(plain))
    assert moments(before, "dispatch", "dedup")[0] > moments(before, "commit", "ingest")[-1]
    shutil.copytree(plain, stopped)
    for step in (*STEPS, "shard-clm"):
        units = sorted((stopped / "commits" / step).glob("[!_]*.json"))
        assert len(units) > 1
        for unit in (stopped / "commits" / step / "_step.json", *units[1::3], *units[2::3]):
            unit.unlink()
    run_small(corpus, stopped, workers=1, **settings)
    folders = ("commits", "dedup", "ledger", "tokens", "datasets")
    assert digests(stopped, *folders) == digests(plain, *folders)
    since = list(read_log(stopped))[len(before) :]
    assert {e["step"] for e in since if e["event"] == "dispatch"} == {*STEPS, "shard-clm"}
    assert len(moments(since, "commit", "ingest")) > 5
    for step in STEPS[1:]:
        assert moments(since, "commit", step)[0] < moments(since, "commit", "ingest")[-1]


def moments(events: list[dict[str, Any]], kind: str, step: str) -> list[int]:
    """Return the places in a log of a step's events of a kind."""
    return [place for place, e in enumerate(events) if e["event"] == kind and e.get("step") == step]
