"""What a run is expected to cost follows from what its sample cost, each part by its own law."""

from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.commands.scaled_up import MeasuredSample, _languages, _steps
from pipeline.inputs.sample import InputSample
from pipeline.steps.decode.sample import sampled_bytes

TIMES = 3.0


def test_steps_cost_as_much_more_as_they_look_at() -> None:
    languages = [{"language": "en", "documents": 150, "bytes": 1_500_000, "tokens": 300_000}]
    steps = [{"step": name, "cpu_seconds": 10.0} for name in ("ingest", "tokenizer", "decode")]
    report: Any = {"languages": languages, "steps": steps, "tokenizer": {"sample_bytes": 1_000_000}}
    drawn = InputSample(stored=int(TIMES * 500), taken=500.0)
    sample = MeasuredSample(drawn, report, report, by_library=2.0, disk={})
    run: Any = SimpleNamespace(tokenizer=SimpleNamespace(train=SimpleNamespace(sample_size=2_500_000)))
    scaled = list(_languages(sample))
    assert scaled[0]["bytes"] == TIMES * 1_500_000
    looked: list[Any] = [{row["language"]: row} for row in (languages[0], scaled[0])]
    more = sampled_bytes(looked[1]) / sampled_bytes(looked[0])
    assert 1 < more < TIMES, "of each language so many documents, and no more"
    found = {step["step"]: step["cpu_seconds"] for step in _steps(sample, run, scaled)}
    expected = {"ingest": 10 * TIMES, "tokenizer": 10 * 2.5, "decode": 8 * TIMES + 2 * more}
    assert found == pytest.approx(expected, abs=0.05)
