"""Replay: an index over the token stores of earlier runs, whose training documents are taken too."""

from collections.abc import Iterator, Mapping

from pipeline.engine.memory import Need
from pipeline.engine.tasks import Phase, Task
from pipeline.state.ledger import let_out
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.names import KEPT_ROW, TABLE_BYTES
from pipeline.steps.records import StepRecord, flows_of, read_all
from pipeline.steps.replay.index import ReplayUnit, ReplayUnitRecord, index_unit
from pipeline.steps.replay.recount import ReplayRecount, recount_replayed
from pipeline.steps.replayed_runs import ReplayedRun, most_documents, replayed_columns, replayed_units
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Amounts, Evidence, Job, Records, Result, Scope, Step, Work, always
from pipeline.steps.tokenize.step import TOKENIZE
from pipeline.steps.units import Unit, units_of
from stages.store.digests import FileDigest

REPLAYED = "replayed"
"""The setting that says which runs they are."""
DOCUMENT_ROW = 400
"""Bytes of a document of a unit while it is indexed: its id, digest, places, hashes and names."""


class ReplayRecord(StepRecord):
    """The replayed documents."""

    documents: int
    tokens: int
    borrowed: dict[str, FileDigest]
    """The digest of the array that the ids of each unit lie in, as the other run committed it."""


def token_units(job: Job) -> tuple[Unit, ...]:
    """Return the units of the token store that datasets are made of: the run's own and replayed ones.

    Raises:
        ConfigError: a replayed run is gone.
    """
    return (*units_of(job.records.of(INGEST).units), *replayed_units(job.scope.replayed))


def _settings(scope: Scope) -> Mapping[str, object]:
    return {"seed": scope.file.seed, REPLAYED: [run.identity for run in scope.replayed]}


def _need(scope: Scope) -> Need:
    row = DOCUMENT_ROW + KEPT_ROW * len(replayed_columns(scope.replayed))
    return Need(row * most_documents(scope.replayed) + TABLE_BYTES)


def _tasks(job: Job, run: ReplayedRun) -> Iterator[Task]:
    """Yield a task for each unit of a run."""
    assert run.folder is not None, "nothing of a run that is gone is asked for"
    stored, shards = let_out(run.folder, TOKENIZE.name), job.records.of(SPLIT).shards
    survey = RunFolder(run.folder).commits.survey(TOKENIZE.name)
    for unit, made in run.pairs():
        name = unit.commit_name
        work = ReplayUnit(
            unit,
            made,
            run.shards,
            (shards["train"], shards["validation"]),
            job.file.seed,
            stored[name],
            survey.commits[name].files[f"tokens/{unit.name}/ids.npy"],
        )
        yield job.task(made.commit_name, index_unit, work)


def _work(job: Job) -> Work[ReplayRecord]:
    replayed_units(job.scope.replayed)  # refuses those that are gone
    tasks = [task for run in job.scope.replayed for task in _tasks(job, run)]
    commits = yield Phase("index replayed documents", tasks)
    found = read_all(commits, ReplayUnitRecord)
    record = ReplayRecord(
        documents=sum(unit.documents for unit in found.values()),
        tokens=sum(unit.tokens for unit in found.values()),
        borrowed={name: unit.ids for name, unit in found.items()},
    )
    return Result(record, flows_of(found))


def _amounts(record: ReplayRecord, _: Records) -> Amounts:
    return Amounts(record.documents, None, record.tokens)


def _evidence(evidence: Evidence) -> Iterator[Task]:
    file, shards = evidence.scope.file, evidence.records.of(SPLIT).shards
    borrowed = evidence.records.of(REPLAY).borrowed
    replayed_units(evidence.scope.replayed)  # refuses those that are gone
    for run in evidence.scope.replayed:
        for unit, made in run.pairs():
            name = made.commit_name
            if name in evidence.flows and name in borrowed:
                flow, ids = evidence.flows[name], borrowed[name]
                work = ReplayRecount(unit, made, run.shards, shards["train"], file.seed, flow, ids)
                yield Task(evidence.name, f"recount-{evidence.name}-{name}", recount_replayed, work, "")


REPLAY = Step(
    name="replay",
    version=1,
    said="add an earlier run",
    record=ReplayRecord,
    applies=lambda scope: bool(scope.file.replays),
    reads=always((SPLIT.name,)),
    settings=_settings,
    need=_need,
    work=_work,
    amounts=_amounts,
    evidence=_evidence,
    replayed=(TOKENIZE.name,),
    folders=("replay",),
)
