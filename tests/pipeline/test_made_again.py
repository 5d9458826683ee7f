"""Which tasks of finished steps a check does again, of how many, and what it finds of texts."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.engine.tasks import Workspace
from pipeline.planning.plan import plan_scope, scope_again
from pipeline.report.evidence import evidence_lines
from pipeline.report.report import SeenEvidence
from pipeline.run_file.config import RunFile, TokenizerLimits
from pipeline.run_file.fingerprints import without_limits
from pipeline.session.verifying import verify_session
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.again import choice
from pipeline.steps.again.choice import (
    ChosenTasks,
    FollowedStep,
    chosen_tasks,
    followed_steps,
    steps_behind,
)
from pipeline.steps.again.redo import RepeatedTask, redo
from pipeline.steps.decontaminate.step import DECONTAMINATE
from pipeline.steps.dedup.step import DEDUP
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.records import CheckRecord, LookedAt, sum_looked, together
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.shard.step import SHARD
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Job, Records, RowsOf, Scope, Step
from pipeline.steps.table import STEPS, step_of
from pipeline.steps.tokenizer.step import TOKENIZER
from pipeline.steps.units import Unit, units_of
from stages.errors import VerificationError
from tests.material.commit_seals import vouched
from tests.material.file_damages import Undo
from tests.material.signed_evidence import run_file, settings

pytestmark = pytest.mark.slow
DOCUMENTS = 82
"""Of the run."""


@pytest.fixture
def run(signed_run: Path) -> Path:
    """The run."""
    return signed_run


@pytest.fixture
def undo(run: Path) -> Any:
    """Take back what a test changes."""
    kept = Undo(run)
    yield kept
    kept.undo()


def job_of(run: Path, file: RunFile | None = None) -> Job:
    """Return the job of a check over the steps of a run."""
    kept, own = RunFolder(run).plan, RunFolder(run).file
    scope = scope_again(own, kept)
    plan = {step.name: step for step in plan_scope(scope)}
    scope = replace(scope, file=file or own)
    records, commits = Records(), Commits(LocalStorage(run))
    for name in plan:
        whole = commits.survey(name).commits.get(STEP_COMMIT)
        if whole is not None:
            records.put(name, whole.read(step_of(name).record))
    return Job(plan["decode"], scope, records, run, 0, plan, STEPS)


def followed(run: Path, *steps: Step[Any], file: RunFile | None = None) -> list[FollowedStep]:
    """Follow some steps of a run."""
    return list(followed_steps(job_of(run, file), steps))


def chosen(run: Path, step: Step[Any] = DEDUP, *, documents: int = DOCUMENTS) -> ChosenTasks:
    """Return which tasks of a step are done again."""
    (one,) = followed(run, step)
    return chosen_tasks(one, run, documents=documents)


def looked(found: ChosenTasks, what: str, unit: str) -> tuple[int, int]:
    """Return how many of how many are looked at."""
    ((looked, of),) = [
        (one.looked, one.of) for one in found.looked if one.what == f"dedup: {what}" and one.unit == unit
    ]
    return looked, of


def test_all_of_a_small_run_is_looked_at(run: Path) -> None:
    every = chosen(run)
    (dedup,) = followed(run, DEDUP)
    others = {done.task.function.__name__ for done in dedup.followed.tasks} - {
        done.task.function.__name__ for done in every.tasks
    }
    assert others == {"embed_group", "note_partitions"}  # vectors are embedded again; and a setting
    assert all(one.looked == one.of for one in every.looked)
    assert looked(every, "find near-duplicates", "tasks") == (12, 12)
    assert looked(every, "verify near-duplicates", "rows")[1] > 1


def test_of_many_documents_a_share_of_the_tasks_is_drawn_and_each_kind_has_one(run: Path) -> None:
    few = chosen(run, documents=1_000_000)
    assert looked(few, "find near-duplicates", "tasks") == (1, 12)
    assert looked(chosen(run, documents=4_000), "find near-duplicates", "tasks") == (3, 12)
    assert looked(few, "decide what stays", "tasks") == (1, 1)
    assert looked(few, "verify near-duplicates", "rows")[0] > 1  # by rows, not by documents


def test_of_listed_rows_as_many_tasks_are_drawn_as_have_them(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one,) = followed(run, DEDUP)
    bands = [done for done in one.followed.tasks if done.task.unit.startswith("band-")]
    listed = replace(one.step, sampled=(), listed={bands[0].task.function: RowsOf("heads.npy")})
    sizes = {
        done.task.unit: len(np.load(run / f"dedup/bands/{done.task.unit[5:]}/heads.npy"))
        for done in bands
    }
    monkeypatch.setattr(choice, "ROWS", 20)
    found = chosen_tasks(replace(one, step=listed), run, documents=DOCUMENTS)
    drawn = [sizes[done.task.unit] for done in found.tasks if done in bands]
    assert looked(found, "find near-duplicates", "rows") == (sum(drawn), sum(sizes.values()))
    assert sum(drawn) >= 20 > sum(drawn) - max(drawn)
    monkeypatch.setattr(choice, "ROWS", sum(sizes.values()))
    every = chosen_tasks(replace(one, step=listed), run, documents=DOCUMENTS)
    assert looked(every, "find near-duplicates", "tasks") == (12, 12)


def test_evidence_that_is_changed_is_drawn_anew(run: Path, undo: Undo) -> None:
    def bands() -> set[str]:
        found = chosen(run, documents=1_000_000).tasks
        return {done.task.unit for done in found if done.task.unit.startswith("band-")}

    before, drawn = bands(), []
    assert bands() == before
    for value in range(4):
        path = run / "dedup/bands/000-00000/heads.npy"
        undo.write(path, path.read_bytes())
        array = np.load(path)
        array[0] += value + 1
        np.save(path, array)
        for place, data in vouched(run, {"dedup/bands/000-00000/heads.npy"}).items():
            undo.write(place, data)
        drawn.append(bands())
    assert any(other != before for other in drawn)


def test_a_record_of_an_earlier_version_is_compared_in_all_that_it_has(
    run: Path, undo: Undo, tmp_path: Path
) -> None:
    def without(record: Any) -> Any:
        if "candidates" in record and "shingles" in record:  # of the task that hashes candidates
            return {"flow": None, "candidates": record["candidates"] + 1}
        if "held_out" in record and "joined" in record:  # of the split
            return {key: value for key, value in record.items() if key != "joined"}
        return record

    for place, data in vouched(run, set(), record=without).items():
        undo.write(place, data)
    dedup, split = followed(run, DEDUP, SPLIT)
    assert split.followed.lacking == ("commits/split/_step.json: joined",)
    assert split.followed.findings == ()
    (done,) = [one for one in dedup.followed.tasks if one.task.unit.startswith("shingles-")]
    work = RepeatedTask(done.task, done.commit.files, done.commit.record)
    again = redo(Workspace(run, tmp_path), work)
    assert [one.message.split(" is ")[0] for one in again.findings] == ["candidates"]
    assert again.lacking == (f"commits/dedup/{done.task.unit}.json: shingles",)


LIMITS: dict[str, dict[str, Any]] = {
    "unreadable records": {"ingest": {**settings()["ingest"], "max_bad_fraction": 0.0}},
    "removed documents": {"dedup": {**settings()["dedup"], "max_removed_fraction": 0.0}},
    "the largest cluster": {"dedup": {**settings()["dedup"], "max_cluster_size": 2}},
    "bytes of a language": {
        "tokenizer": {**settings()["tokenizer"], "limits": {"max_byte_fallback": 0.0, "max_parity": 1.0}}
    },
    "removed of a source": {"sources": [{**settings()["sources"][0], "max_removed_fraction": 0.0}]},
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_that_was_set_lower_since_is_no_alarm(run: Path, name: str) -> None:
    file = run_file(**LIMITS[name])
    for one in followed(run, *(step for step in STEPS if not step.is_check), file=file):
        assert one.followed.findings == (), one.step.name


def test_limits_are_all_that_is_lifted() -> None:
    mix = {"tolerance": 0.01, "language_alpha": 0.5}
    file = run_file(
        mix=mix,
        datasets=[{"name": "a", "mix": {**mix, "total_tokens": 9}}, {"name": "b"}],
        sources=[{**settings()["sources"][0], "max_removed_fraction": 0.1}],
        dedup={"max_removed_fraction": 0.1, "max_cluster_size": 2},
        ingest={"max_bad_fraction": 0.1},
        tokenizer={"limits": {"max_parity": 2.0}},
    )
    lifted = without_limits(file)
    assert lifted.mix is not None
    assert lifted.datasets[0].mix is not None
    assert (lifted.mix.tolerance, lifted.datasets[0].mix.tolerance) == (1.0, 1.0)
    assert [one.max_removed_fraction for one in lifted.sources] == [None]
    assert (lifted.dedup.max_removed_fraction, lifted.dedup.max_cluster_size) == (1.0, None)
    assert lifted.ingest.max_bad_fraction == 1.0
    assert lifted.tokenizer.limits == TokenizerLimits()
    assert fingerprints(file) == fingerprints(lifted)


def fingerprints(file: RunFile) -> dict[str, str]:
    """Return those of the steps that make something; checks hold rows to a tolerance."""
    planned = plan_scope(Scope(file))
    return {step.name: step.fingerprint for step in planned if not step_of(step.name).is_check}


def test_a_number_that_would_pass_a_limit_is_a_finding(run: Path, undo: Undo) -> None:
    def all_bad(record: Any) -> Any:
        return {**record, "documents": 0} if "further_unreadable" in record else record

    for place, data in vouched(run, set(), record=all_bad).items():
        undo.write(place, data)
    findings = [found for one in followed(run, INGEST) for found in one.followed.findings]
    assert [found.check for found in findings] == ["made again"]


def units_in(run: Path) -> tuple[Unit, ...]:
    """Return the units of a run."""
    return units_of(job_of(run).records.of(INGEST).units)


def test_what_is_looked_at_adds_up_by_what_it_is() -> None:
    one = LookedAt(what="a", unit="rows", looked=1, of=2)
    other = LookedAt(what="a", unit="tasks", looked=3, of=4)
    more = LookedAt(what="a", unit="rows", looked=5, of=10)
    assert sum_looked([one, other, more]) == (
        LookedAt(what="a", unit="rows", looked=6, of=12),
        other,
    )
    every = together([CheckRecord(looked=(one,), lacking=("x",)), CheckRecord(looked=(more,))])
    assert every.looked == sum_looked([one, more])
    assert every.lacking == ("x",)


def test_verify_tells_how_many_of_how_many(run: Path, undo: Undo) -> None:
    def without(record: Any) -> Any:
        if "held_out" in record and "joined" in record:
            return {key: value for key, value in record.items() if key != "joined"}
        return record

    for place, data in vouched(run, set(), record=without).items():
        undo.write(place, data)
    report = verify_session(run, workers=0, address=None, stream=None)
    assert report["passed"]
    head, *lines = evidence_lines(SeenEvidence.model_validate(report["evidence"]))
    assert head.startswith("evidence: ")
    assert f"  signatures: {DOCUMENTS} of {DOCUMENTS} documents" in lines
    assert f"  vectors: {DOCUMENTS} of {DOCUMENTS} documents" in lines
    assert any(line.startswith("  cuts and texts: ") for line in lines)
    steps = {one["what"].partition(":")[0] for one in report["evidence"]["looked"]}
    assert {"dedup", "decontaminate", "cut", "split", "shard-clm", "signatures", "vectors"} <= steps
    assert "did not write it: commits/split/_step.json: joined, " in lines[-1]
    kept = json.loads((run / "report/report.json").read_text())["evidence"]
    assert kept == report["evidence"]
    undo.undo()
    again = verify_session(run, workers=0, address=None, stream=None)
    assert again["evidence"]["lacking"] == []


def test_a_record_that_cannot_be_read_is_told_with_the_other_findings(run: Path, undo: Undo) -> None:
    def without(record: Any) -> Any:
        if "removed" in record and "compared" in record:
            return {key: value for key, value in record.items() if key != "compared"}
        return record

    for place, data in vouched(run, set(), record=without).items():
        undo.write(place, data)
    removed = run / "dedup/removed.parquet"
    undo.write(removed, removed.read_bytes())
    removed.write_bytes(b"nothing")
    with pytest.raises(VerificationError) as told:
        verify_session(run, workers=0, address=None, stream=None)
    assert "commits/dedup/_step.json: readable: " in str(told.value)
    assert "dedup/removed.parquet: files: " in str(told.value)


@pytest.mark.parametrize(
    ("name", "axis", "rows"),
    [
        *[("index.npy", 1, 25), ("edges.npy", 0, 1), ("none.npy", 0, 0), ("table.parquet", 0, 3)],
        *[("damaged.npy", 0, 0), ("damaged.parquet", 0, 0), ("empty.npy", 0, 0), ("one.npy", 0, 0)],
        ("zip.npy", 0, 0),
    ],
)
def test_rows_are_counted_along_their_axis(tmp_path: Path, name: str, axis: int, rows: int) -> None:
    for other, shape in {"index": (2, 25), "edges": (1, 2), "none": (0, 2), "one": ()}.items():
        np.save(tmp_path / f"{other}.npy", np.zeros(shape, np.int64))
    with (tmp_path / "zip.npy").open("wb") as file:
        np.savez(file, a=np.zeros(3))
    pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "table.parquet")
    for other in ("damaged.npy", "damaged.parquet"):
        (tmp_path / other).write_bytes(b"no rows")
    (tmp_path / "empty.npy").touch()
    assert choice._rows_in(tmp_path / name, axis) == rows  # noqa: SLF001  # what the draw counts


def test_no_vector_is_looked_at_where_an_earlier_run_is_gone(run: Path) -> None:
    job = job_of(run)
    gone: Any = SimpleNamespace(units=())
    with pytest.raises(StopIteration) as ended:
        next(choice.embedded_again(replace(job, scope=replace(job.scope, earlier=(gone,)))))
    assert ended.value.value == CheckRecord()


def named(job: Job, *steps: Step[Any]) -> list[str]:
    """Return the names of the steps that are followed."""
    return [one.name for one in followed_steps(job, steps)]


def test_a_check_rests_on_the_steps_that_made_what_it_reads(run: Path) -> None:
    job = job_of(run)
    (own,) = job.file.datasets
    of_run = ["ingest", "dedup", "decontaminate", "cut", "tokenizer", "split", "tokenize"]
    assert [step.name for step in steps_behind(job)] == of_run
    of_dataset = replace(job, plan=job.plans["verify-clm"], scope=replace(job.scope, of=own))
    assert [step.name for step in steps_behind(of_dataset)] == ["shard"]
    plans = {**job.plans, "decode": replace(job.plan, inputs=("dedup",))}
    assert [step.name for step in steps_behind(replace(job, plans=plans))] == ["ingest", "dedup"]


def test_steps_of_another_dataset_are_not_followed(run: Path) -> None:
    job = job_of(run)
    (own,) = job.file.datasets
    other = own.model_copy(update={"name": "other"})
    assert named(job, SHARD) == ["shard-clm"]
    assert named(replace(job, scope=replace(job.scope, of=own)), SHARD) == ["shard-clm"]
    assert named(replace(job, scope=replace(job.scope, of=other)), SHARD) == []


def test_what_a_gone_run_or_an_earlier_rule_decided_is_not_followed(run: Path) -> None:
    job, gone = job_of(run), SimpleNamespace(units=())
    earlier: Any = (gone,)
    assert named(job, INGEST, DEDUP, TOKENIZER) == ["ingest", "dedup", "tokenizer"]
    lost = replace(job, scope=replace(job.scope, earlier=earlier))
    assert named(lost, INGEST, DEDUP, TOKENIZER) == ["ingest", "tokenizer"]
    plans = {**job.plans, "dedup": replace(job.plans["dedup"], missed=("a rule",))}
    assert named(replace(job, plans=plans), INGEST, DEDUP, TOKENIZER) == ["ingest", "tokenizer"]
    plans = {**job.plans, "dedup": replace(job.plans["dedup"], fingerprint="another")}
    assert named(replace(job, plans=plans), INGEST, DEDUP, TOKENIZER) == ["ingest"]


def test_a_commit_that_is_gone_is_a_finding_and_no_fault_of_the_program(run: Path, undo: Undo) -> None:
    gone = run / "commits/dedup/band-003-00000.json"
    undo.write(gone, gone.read_bytes())
    gone.unlink()
    (dedup,) = followed(run, DEDUP)
    (found,) = dedup.followed.findings
    assert found.file == "commits/dedup/_step.json"
    assert "commits/dedup/band-003-00000.json is not there" in found.message


def test_the_ledger_is_held_to_the_flows_in_any_order(run: Path, undo: Undo) -> None:
    key = "ledger/decontaminate.parquet"

    def written(table: pa.Table) -> list[str]:
        undo.write(run / key, (run / key).read_bytes())
        pq.write_table(table, run / key)
        for place, data in vouched(run, {key}).items():
            undo.write(place, data)
        return [found.file for found in followed(run, DECONTAMINATE)[0].followed.findings]

    table = pq.read_table(run / key)
    rows = table.to_pylist()
    assert written(pa.Table.from_pylist(rows[::-1], table.schema)) == []
    rows[0]["documents"] += 1
    assert written(pa.Table.from_pylist(rows, table.schema)) == [key]
