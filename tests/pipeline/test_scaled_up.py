"""What a run is expected to cost follows from what its sample cost, each part by its own law."""

from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.inputs.bundles import MEAN
from pipeline.steps.decode.step import sampled_bytes
from pipeline.tools.forecast.sample import InputSample, SourceSample
from pipeline.tools.forecast.scaled_up import MeasuredSample, _languages, _parts_of, _steps
from tests.pipeline.reports import DOCUMENTS, STEP, report_with

TIMES = 3.0
MOST = 4 << 20
"""Bytes of text of a unit, at the most."""


def test_steps_cost_as_much_more_as_they_look_at() -> None:
    languages = [{"language": "en", "documents": 150, "bytes": 1_500_000, "tokens": 300_000}]
    steps = [STEP | {"step": name, "cpu_seconds": 10.0} for name in ("ingest", "tokenizer", "decode")]
    tokenizer = {"vocab_size": 1, "sample_bytes": 1_000_000}
    report = report_with(languages=languages, steps=steps, tokenizer=tokenizer)
    drawn = InputSample(stored=int(TIMES * 500), taken=500.0)
    sample = MeasuredSample(drawn, report, report, by_library=2.0, disk={})
    run: Any = SimpleNamespace(tokenizer=SimpleNamespace(train=SimpleNamespace(sample_size=2_500_000)))
    scaled = list(_languages(sample))
    assert scaled[0].bytes == TIMES * 1_500_000
    looked: list[Any] = [{"en": row} for row in (languages[0], scaled[0].model_dump())]
    more = sampled_bytes(looked[1]) / sampled_bytes(looked[0])
    assert 1 < more < TIMES, "of each language so many documents, and no more"
    found = {step["step"]: step["cpu_seconds"] for step in _steps(sample, run, scaled)}
    expected = {"ingest": 10 * TIMES, "tokenizer": 10 * 2.5, "decode": 8 * TIMES + 2 * more}
    assert found == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize(
    ("largest_file", "stored", "expected"),
    [
        # Small files are put together: all of them, or as many as share a unit.
        (10_000, 100_000, 200_000),
        (10_000, 10 << 20, MOST // MEAN),
        # A large file is one.
        (1 << 20, 10 << 20, 2 << 20),
        (9 << 20, 10 << 20, MOST),
    ],
)
def test_the_largest_unit_is_a_large_file_or_small_ones_together(
    largest_file: int, stored: int, expected: int
) -> None:
    """A byte on disk holds two bytes of text."""
    part = SourceSample("web", documents=10, text_bytes=2 * min(stored, 50_000))
    drawn = InputSample(
        parts=[part], stored=stored, taken=min(stored, 50_000), largest_file=largest_file
    )
    report = report_with(documents=DOCUMENTS | {"kept": 10})
    run: Any = SimpleNamespace(
        ingest=SimpleNamespace(unit_size=MOST),
        packing=SimpleNamespace(shard_size=1 << 20, shards=None),
        tokenizer=SimpleNamespace(train=SimpleNamespace(sample_size=1)),
        resources=SimpleNamespace(keys_per_partition=7),
    )
    sample = MeasuredSample(drawn, report, report, by_library=0.0, disk={})
    assert _parts_of(sample, run).unit == part.text_bytes
    assert _parts_of(sample, run, whole=True).unit == pytest.approx(expected, abs=1)
