"""What verify promises of several datasets: models are trained side by side, and nothing shows of it.

The verdicts are those of a plain loop, to the bit; what was learned before a kill is not learned again;
of a damaged dataset nothing is learned, whatever the other does.
"""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.report.steps import step_metrics
from pipeline.session.verifying import verify_session
from pipeline.state.journal import read_log
from pipeline.steps.step import Records
from tests.conftest import run_small

NAMES = ("causal", "masked")
DATASETS: list[dict[str, Any]] = [
    {"name": "causal"},
    {"name": "masked", "objective": {"kind": "mlm"}},
]
FEW = {
    "labelled_tokens": 800,
    "min_labelled_tokens": 300,
    "heldout_rows": 24,
    "min_heldout_tokens": 50,
    "max_ids": 128,
}
"""Labels enough to see a bit that differs; not enough to pass."""
SETTINGS: dict[str, Any] = {
    "tokenizer": {"train": {"vocab_size": 1500}},
    "datasets": DATASETS,
    "verify": FEW,
    "until": None,
}
TIMED = ("tokens_per_second", "supply")


@pytest.fixture(scope="module")
def checked(few_texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two datasets to its end, by a plain loop."""
    output = tmp_path_factory.mktemp("side") / "run"
    run_small(few_texts, output, **SETTINGS)
    return output


@pytest.fixture
def copied(checked: Path, tmp_path: Path) -> Path:
    """A copy of it, to be checked again."""
    return Path(shutil.copytree(checked, tmp_path / "run"))


def verdicts(run: Path) -> dict[str, Any]:
    """Return every verdict, without what depends on the clock."""

    def timeless(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: timeless(part) for key, part in value.items() if key not in TIMED}

    paths = {name: run / "verify" / name / "verdict.json" for name in NAMES}
    return {name: timeless(json.loads(path.read_text())) for name, path in paths.items()}


def events(run: Path, since: int = 0) -> list[tuple[str, str, str]]:
    """Return what was done of the checks, as (event, step, unit or title)."""
    return [
        (event["event"], event["step"], event.get("unit") or event.get("title", ""))
        for event in list(read_log(run))[since:]
        if event.get("step", "").startswith("verify-")
    ]


def of(run: Path, since: int, kind: str, about: str) -> list[str]:
    """Return the steps of the events of a kind, in their order."""
    return [step for event, step, what in events(run, since) if event == kind and about in what]


@pytest.mark.campaign
def test_two_workers_give_the_verdicts_of_a_plain_loop_to_the_bit(
    copied: Path,
    ray_session: None,  # noqa: ARG001  # Ray must run
) -> None:
    before, said = verdicts(copied), io.StringIO()
    assert all(verdict["learning"]["curve"] for verdict in before.values())
    verify_session(copied, workers=2, address=None, stream=said)
    assert verdicts(copied) == before
    assert all(f"learn from {name}" in said.getvalue() for name in NAMES)


@pytest.mark.campaign
def test_a_model_is_trained_after_its_files_are_checked_and_its_step_says_so(copied: Path) -> None:
    since = len(list(read_log(copied)))
    verify_session(copied, workers=0, address=None, stream=None)
    steps = [f"verify-{name}" for name in NAMES]
    done = events(copied, since)
    begun, ended = [of(copied, since, kind, "learn from") for kind in ("begin", "end")]
    assert begun == ended == steps
    assert of(copied, since, "commit", "learning") == steps
    for name in NAMES:
        of_step = [(event, what) for event, step, what in done if step == f"verify-{name}"]
        first = of_step.index(("dispatch", "learning"))
        assert all("shard" not in what for _, what in of_step[first:])
        last = [event for event, _ in of_step][-3:]
        assert last == ["commit", "end", "step"], "each step is whole as soon as its model is"


def test_what_was_learned_before_a_kill_is_not_learned_again(copied: Path, few_texts: Path) -> None:
    before, since = verdicts(copied), len(list(read_log(copied)))
    commits = copied / "commits"
    for name in NAMES:
        (commits / f"verify-{name}" / "_step.json").unlink()
    (commits / "verify-masked" / "learning.json").unlink()
    run_small(few_texts, copied, **SETTINGS)
    assert of(copied, since, "dispatch", "") == ["verify-masked"]
    assert verdicts(copied) == before


def test_of_a_damaged_dataset_nothing_is_learned_and_of_the_other_the_same(copied: Path) -> None:
    before, since = verdicts(copied), len(list(read_log(copied)))
    path = copied / "datasets/masked/train/epoch-0000/00000/input_ids.npy"
    rows = np.load(path)
    np.save(path, np.roll(rows, 1, axis=1))
    verify_session(copied, workers=0, address=None, stream=None)
    after = verdicts(copied)
    assert after["masked"]["findings"]
    assert after["masked"]["learning"] is None
    assert not after["masked"]["passed"]
    assert after["causal"] == before["causal"]
    assert of(copied, since, "dispatch", "learning") == ["verify-causal"]


def test_every_step_reports_its_model_and_the_memory_that_was_held(checked: Path) -> None:
    rows = {row.step: row for row in step_metrics(checked, Records())}
    for name in NAMES:
        row, commits = rows[f"verify-{name}"], checked / "commits" / f"verify-{name}"
        assert row.units == len(list(commits.glob("*.json"))) - 1, "all but that of the step"
        assert row.peak_memory > 1 << 20
        assert row.wall_seconds > 0
