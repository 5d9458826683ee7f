"""What a mix is planned from, and planned again: the stages before it, and the earlier generations."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.steps.ingest.step import INGEST, IngestRecord
from pipeline.steps.mix.choose import LATER, MIX_NAME, MixRecord, later_of
from pipeline.steps.mix.step import mix_choice
from pipeline.steps.split.choice import SplitRecord
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Job, Records, Scope, StepPlan
from stages.ledger import Tally
from stages.mixing.later_generations import LaterGeneration
from stages.mixing.plan import MixStage
from tests.conftest import small_run

STAGES: list[dict[str, Any]] = [
    {"name": "first"},
    {"name": "second", "mix": {"after": "first", "total_tokens": 2_000}},
    {"name": "third", "mix": {"after": "second", "total_tokens": 3_000}},
    {"name": "fourth", "mix": {"after": "third"}},
]


def job_of(epochs: float, records: Records) -> Job:
    """Return the job of the mix of the fourth stage; the first has a mix unless each epoch is 1."""
    source = {"name": "web", "paths": ["*.jsonl"], "epochs": epochs}
    file = small_run(sources=[source], datasets=STAGES)
    records.put(INGEST.name, IngestRecord(read=0, drops={}, named=(), cleaned=0, units=()))
    split = SplitRecord(candidates=0, clusters=0, tokens=0, held_out=Tally(bytes=0), shards={"train": 1})
    records.put(SPLIT.name, split)
    plan = StepPlan(f"{MIX_NAME}-fourth", "f", {}, ())
    return Job(plan, Scope(file, of=file.datasets[3]), records, Path("run"), 1)


@pytest.mark.parametrize("epochs", [1.0, 2.0])
def test_the_stages_before_a_mix_stand_in_the_order_of_training(epochs: float) -> None:
    records = Records()
    for number, name in enumerate(("first", "second", "third")):
        earlier = {"web": number}
        record = MixRecord(classes=(), shares={}, rules=(LATER,), earlier=earlier)
        records.put(f"{MIX_NAME}-{name}", record)
    job = job_of(epochs, records)
    stages = mix_choice(job, (), later=None).stages
    mixes = [job.file.mix_of(one) for one in job.file.datasets[:3]]
    expected = [
        None if mix is None else MixStage(mix, LaterGeneration({"web": n}))
        for n, mix in enumerate(mixes)
    ]
    assert list(stages) == expected
    assert (stages[0] is None) == (epochs == 1)


def test_a_finished_mix_came_after_what_its_record_says_and_replays_are_no_new_documents() -> None:
    replays, earlier = {"old": "../earlier"}, {"web": 70, "old": 30}
    record = MixRecord(classes=(), shares={}, rules=(LATER,), earlier=earlier)
    assert later_of(record, replays) == LaterGeneration(earlier, frozenset({"old"}))
    for rules in (None, (), ("another",)):
        assert later_of(record.model_copy(update={"rules": rules}), replays) is None
