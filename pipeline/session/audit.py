"""Audit: all that a finished run has committed, held to its digests, its ledger and its run file.

    run.json   its settings give the fingerprints of its steps
    commits    each is of its step's fingerprint; each file is there, no link, with its digest
    folder     no data lies beside what is committed
    ledger     flows add up, and the evidence gives the same sums when it is counted again

`verify` begins with it. Its findings name a file and a check; they do not stop the other checks.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from pipeline.planning.plan import missed_rules, steps_before
from pipeline.session.damage import FOLDERS, left_over, links, no_commits, stray_files
from pipeline.session.execution import Execution
from pipeline.state.commit_object import commit_key
from pipeline.state.commits import SCAN, STEP_COMMIT
from pipeline.state.ledger import flow_faults, ledger_key, read_flows
from pipeline.state.stored_run import stored_run_at
from pipeline.steps.again.choice import followed_steps, remade
from pipeline.steps.again.redo import redo
from pipeline.steps.decode.step import DECODE
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.kept_plan import KeptPlan
from pipeline.steps.records import AuditReport, CheckRecord, FoundIn, LookedAt, StepRecord, sum_looked
from pipeline.steps.step import Evidence, Job, Records, Scope, StepPlan
from pipeline.steps.table import STEPS, step_of
from pipeline.steps.units import units_of
from stages.errors import FormatError
from stages.ledger import Flow, Tally, total_flow


def audit(
    execution: Execution, plan: Mapping[str, StepPlan], scope: Scope, found: Sequence[FoundIn] = ()
) -> AuditReport:
    """Hold a run to what it committed.

    Args:
        execution: of the run.
        plan: its steps as its settings give them.
        scope: what they were planned for.
        found: what was found before, to be reported with the rest.
    """
    files, size, of_files = _committed(execution, plan)
    records = Records()
    for name in plan:
        commit = execution.commits.survey(name).commits.get(STEP_COMMIT)
        try:
            if commit is not None:
                records.put(name, commit.read(step_of(name).record))
        except FormatError as error:
            of_files.append(
                FoundIn(file=commit_key(name, STEP_COMMIT), check="readable", message=str(error))
            )
    looked: list[LookedAt] = []
    every = (
        *found,
        *of_files,
        *_lost_steps(execution, plan),
        *_strays(execution, plan),
        *_flows(execution, plan, records, scope, looked),
        *_records(execution, plan, records, scope),
    )
    missed = () if every else tuple(missed_rules(execution.root, plan, scope, records))
    return AuditReport(files=files, bytes=size, findings=every, looked=sum_looked(looked), missed=missed)


def with_findings_so_far(
    execution: Execution, plan: Mapping[str, StepPlan], report: AuditReport
) -> AuditReport:
    """Return a report with what checks had found before one of them could not go on."""
    surveys = [execution.commits.survey(name) for name in plan if step_of(name).is_check]
    records = [commit.record for survey in surveys for commit in survey.commits.values()]
    found = [FoundIn.model_validate(one) for record in records for one in record.get("findings", ())]
    return report.model_copy(update={"findings": tuple(dict.fromkeys((*found, *report.findings)))})


def changed_plan(kept: KeptPlan, plan: Mapping[str, StepPlan], *, file: Path) -> list[FoundIn]:
    """Return where run.json's own steps are not those that its settings give."""
    steps = kept.steps
    names = list(dict.fromkeys(chain(plan, steps)))
    return [
        FoundIn(
            file=file.name,
            check="plan",
            message=f"it was changed: the fingerprint of step {name} does not match the settings in it;"
            " run the run file again",
        )
        for name in names
        if name not in plan or name not in steps or plan[name].fingerprint != steps[name].fingerprint
    ]


def _records(
    execution: Execution, plan: Mapping[str, StepPlan], records: Records, scope: Scope
) -> Iterator[FoundIn]:
    """Hold the record of each finished step to those of its units.

    This comes before the checks that rely on records: a number that was changed may make them fail.
    """
    workers = execution.resources.workers
    job = Job(plan[DECODE.name], scope, records, execution.root, workers, plan, STEPS)
    making = [step for step in STEPS if not step.is_check]
    tasks = []
    for one in followed_steps(job, making):
        yield from one.followed.findings
        tasks += [
            job.task(f"again-{done.task.step}-{done.task.unit}", redo, remade(done, one.step))
            for done in one.followed.tasks
            if done.task.function in one.step.remade
        ]
    for checked in execution.ask(plan[DECODE.name], tasks, CheckRecord):
        yield from checked.findings


def _committed(execution: Execution, plan: Mapping[str, StepPlan]) -> tuple[int, int, list[FoundIn]]:
    """Compare every committed file with its digest, those of steps that are planned no more too."""
    found: list[FoundIn] = []
    count = size = 0
    worker = next(iter(plan.values()))
    for name in execution.commits.steps():
        survey = execution.commits.survey(name)
        then = "" if name in plan or name == SCAN else f"; {left_over(name)}"
        for unit, fault in survey.unreadable.items():
            message = f"{fault}{then}"
            found.append(FoundIn(file=f"commits/{name}/{unit}.json", check="files", message=message))
        for unit, commit in survey.commits.items():
            wanted = None if name not in plan else plan[name].fingerprint_of(unit)
            if name in plan and commit.fingerprint != wanted:
                message = "committed by another plan than the run's"
                found.append(
                    FoundIn(file=f"commits/{name}/{unit}.json", check="commit", message=message)
                )
        files = {key: digest for c in survey.commits.values() for key, digest in c.files.items()}
        count, size = count + len(files), size + sum(digest.bytes for digest in files.values())
        changed = execution.changed_files(plan.get(name, worker), files)
        found += [
            FoundIn(file=key, check="files", message=f"{fault}{then}") for key, fault in changed.items()
        ]
    run = stored_run_at(execution.root)
    if run is not None:
        known = {one.file for one in found}
        damaged = run.listing(execution.root, FOLDERS).damaged.items()
        found += [FoundIn(file=k, check="files", message=m) for k, m in damaged if k not in known]
    return count, size, found


def _lost_steps(execution: Execution, plan: Mapping[str, StepPlan]) -> Iterator[FoundIn]:
    """Name the steps that finished steps read, and that have no commit of the whole step any more."""
    ends = {name: execution.commits.survey(name) for name in plan}
    finished = [name for name, survey in ends.items() if STEP_COMMIT in survey.commits]
    read = {name: reader for reader in reversed(finished) for name in steps_before(plan, reader)}
    for name in plan:
        if name in read and STEP_COMMIT not in ends[name].commits | ends[name].unreadable:
            message = f"found nothing, and step {read[name]}, which reads {name}, is finished; run again"
            yield FoundIn(file=f"commits/{name}/{STEP_COMMIT}.json", check="files", message=message)


def _strays(execution: Execution, plan: Mapping[str, StepPlan]) -> Iterator[FoundIn]:
    """Name what lies in the run's folders and is none of its files.

    Data that a step wrote and has not committed to its end is no stray: a run goes on from there.
    """
    for key in links(execution.root):
        message = "a symbolic link in the run; put the file or folder itself there"
        yield FoundIn(file=key, check="stray", message=message)
    message = "no step of the run wrote it; remove it, or put it elsewhere"
    root, commits = execution.root, execution.commits
    makers = [commits.survey(name).commits for name in plan if not step_of(name).is_check]
    data = () if any(own and STEP_COMMIT not in own for own in makers) else stray_files(root, commits)
    for key in (*no_commits(root, commits), *data):
        yield FoundIn(file=key, check="stray", message=message)


def _flows(
    execution: Execution,
    plan: Mapping[str, StepPlan],
    records: Records,
    scope: Scope,
    looked: list[LookedAt],
) -> Iterator[FoundIn]:
    """Hold the tables of the ledger to each other and to the evidence; what is looked at is added."""
    flows: dict[str, dict[str, Flow]] = {}
    kept = dict(records.items())
    for name, record in kept.items():
        if record.ledger is None:
            continue
        try:
            flows[name] = read_flows(execution.root, name)
        except FormatError as error:
            yield FoundIn(file=ledger_key(name), check="readable", message=str(error))
    for name, own in flows.items():
        yield from _taken(name, own, flows, plan)
        yield from _recorded(execution, name, own, kept[name])
    ingested = records.get(INGEST)
    units = () if ingested is None else units_of(ingested.units)
    for unit in units:
        found = flows.get(INGEST.name, {}).get(unit.commit_name)
        if found is not None and found.output.documents != unit.documents:
            message = (
                f"unit {unit.name} has {unit.documents:,} documents, not {found.output.documents:,}"
            )
            yield FoundIn(file="commits/ingest/_step.json", check="ledger", message=message)
    tasks = [
        task
        for name, own in flows.items()
        for task in step_of(name).evidence(Evidence(name, units, own, records, scope))
    ]
    for checked in execution.ask(plan[DECODE.name], tasks, CheckRecord):
        looked += checked.looked
        yield from checked.findings


def _taken(
    name: str,
    own: Mapping[str, Flow],
    flows: Mapping[str, Mapping[str, Flow]],
    plan: Mapping[str, StepPlan],
) -> Iterator[FoundIn]:
    """Hold what a step took to what the step before it let out."""
    takes = step_of(name).takes
    taken = () if takes is None else takes.of(plan)
    before = [flows[step] for step in taken if step in flows]
    known = takes is not None and len(before) == len(taken)
    by_unit = takes is not None and takes.by_unit
    let_out = None
    if known and by_unit:
        let_out = {unit: flow.output for unit, flow in before[0].items()}
    for fault in flow_faults(name, own, let_out):
        yield FoundIn(file=ledger_key(name), check="ledger", message=fault)
    if known and not by_unit:
        outputs = (_total(one).output for one in before)
        for fault in _total(own).input.differences(sum(outputs, start=Tally(bytes=0, tokens=0))):
            message = f"its units received {fault} that {' and '.join(taken)} let out"
            yield FoundIn(file=ledger_key(name), check="ledger", message=message)


def _total(flows: Mapping[str, Flow]) -> Flow:
    return total_flow(flows.values()) or Flow(input=Tally(), output=Tally())


def _recorded(
    execution: Execution, name: str, flows: Mapping[str, Flow], record: StepRecord
) -> Iterator[FoundIn]:
    """Hold what the commits of a step record of its flows to its table."""
    if record.ledger != _total(flows):
        message = "the sum of its flows is not that of the ledger's table"
        yield FoundIn(file=f"commits/{name}/{STEP_COMMIT}.json", check="ledger", message=message)
    for unit, commit in execution.commits.survey(name).commits.items():
        own = commit.record.get("flow")
        known = flows.get(step_of(name).unit_of(unit))
        if own is not None and (known is None or Flow.model_validate(own) != known):
            message = "its flow is not that of the ledger's table"
            yield FoundIn(file=f"commits/{name}/{unit}.json", check="ledger", message=message)
