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
from typing import Any

from pipeline.commits import STEP_COMMIT
from pipeline.damage import left_over
from pipeline.execution import Execution
from pipeline.ledger import flow_faults, read_flows
from pipeline.plan import CHECKS, SAMPLE, StepPlan, steps_before, unit_fingerprint
from pipeline.scanning import SCAN
from pipeline.steps.audit.tables import (
    RunAudit,
    ShardAudit,
    UnitAudit,
    audit_run,
    audit_shard,
    audit_unit,
)
from pipeline.steps.findings import FoundIn
from pipeline.steps.units import Unit, units_of
from pipeline.strays import links, no_commits, stray_files
from pipeline.tasks import Task
from stages.config import Config
from stages.errors import FormatError
from stages.ledger import Flow, Tally, total_flow

_SAME_UNITS = {
    "dedup": "ingest",
    "tokenizer": "dedup",
    "split": "dedup",
    "tokenize": "dedup",
    "sentences": "tokenize",
}
"""Steps that have the units of another one, and take what it lets out of them."""


class AuditReport(Config):
    """What an audit looked at, and what it found."""

    files: int
    """Committed files, each of which was hashed."""
    bytes: int
    findings: tuple[FoundIn, ...]


def audit(
    execution: Execution, plan: Mapping[str, StepPlan], found: Sequence[FoundIn] = ()
) -> AuditReport:
    """Hold a run to what it committed.

    Args:
        execution: of the run.
        plan: its steps as its settings give them.
        found: what was found before, to be reported with the rest.
    """
    files, size, of_files = _committed(execution, plan)
    records = {
        name: commit.record
        for name in plan
        if (commit := execution.commits.survey(name).commits.get(STEP_COMMIT)) is not None
    }
    units = units_of(records["ingest"]) if "ingest" in records else ()
    every = (
        *found,
        *of_files,
        *_lost_steps(execution, plan),
        *_strays(execution, plan),
        *_flows(execution, plan, records, units),
    )
    return AuditReport(files=files, bytes=size, findings=every)


def changed_plan(kept: Mapping[str, Any], plan: Mapping[str, StepPlan], *, file: Path) -> list[FoundIn]:
    """Return where run.json's own steps are not those that its settings give."""
    steps = kept["steps"]
    names = list(dict.fromkeys(chain(plan, steps)))
    return [
        FoundIn(
            file=file.name,
            check="plan",
            message=f"it was changed: the fingerprint of step {name} does not match the settings in it;"
            " run the run file again",
        )
        for name in names
        if name not in plan or name not in steps or plan[name].fingerprint != steps[name]["fingerprint"]
    ]


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
            wanted = None if name not in plan else unit_fingerprint(plan[name], unit)
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
    makers = [commits.survey(name).commits for name in plan if not name.startswith(CHECKS)]
    data = () if any(own and STEP_COMMIT not in own for own in makers) else stray_files(root, commits)
    for key in (*no_commits(root, commits), *data):
        yield FoundIn(file=key, check="stray", message=message)


def _flows(
    execution: Execution,
    plan: Mapping[str, StepPlan],
    records: Mapping[str, Mapping[str, Any]],
    units: tuple[Unit, ...],
) -> Iterator[FoundIn]:
    """Hold the tables of the ledger to each other and to the evidence."""
    flows: dict[str, dict[str, Flow]] = {}
    for name in plan:
        if name not in records or "ledger" not in records[name]:
            continue
        try:
            flows[name] = read_flows(execution.root, name)
        except FormatError as error:
            yield FoundIn(file=f"ledger/{name}.parquet", check="readable", message=str(error))
    for name, own in flows.items():
        before = flows.get(_SAME_UNITS.get(name, ""))
        let_out = None if before is None else {unit: flow.output for unit, flow in before.items()}
        for fault in flow_faults(name, own, let_out):
            yield FoundIn(file=f"ledger/{name}.parquet", check="ledger", message=fault)
        yield from _recorded(execution, name, own, records[name])
        if name.startswith("shard-") and "tokenize" in flows:
            stored, packed = (_total(flows[step]) for step in ("tokenize", name))
            for fault in packed.input.differences(stored.output):
                message = f"its shards received {fault} that tokenize let out"
                yield FoundIn(file=f"ledger/{name}.parquet", check="ledger", message=message)
    for unit in units:
        found = flows.get("ingest", {}).get(unit.commit_name)
        if found is not None and found.output.documents != unit.documents:
            message = (
                f"unit {unit.name} has {unit.documents:,} documents, not {found.output.documents:,}"
            )
            yield FoundIn(file="commits/ingest/_step.json", check="ledger", message=message)
    yield from _evidence(execution, plan, records, units, flows)


def _total(flows: Mapping[str, Flow]) -> Flow:
    return total_flow(flows.values()) or Flow(input=Tally(), output=Tally())


def _recorded(
    execution: Execution, name: str, flows: Mapping[str, Flow], record: Mapping[str, Any]
) -> Iterator[FoundIn]:
    """Hold what the commits of a step record of its flows to its table."""
    if Flow.model_validate(record["ledger"]) != _total(flows):
        message = "the sum of its flows is not that of the ledger's table"
        yield FoundIn(file=f"commits/{name}/{STEP_COMMIT}.json", check="ledger", message=message)
    for unit, commit in execution.commits.survey(name).commits.items():
        own = commit.record.get("flow")
        known = flows.get(unit.removeprefix("count-").removeprefix(f"{SAMPLE}-"))
        if own is not None and (known is None or Flow.model_validate(own) != known):
            message = "its flow is not that of the ledger's table"
            yield FoundIn(file=f"commits/{name}/{unit}.json", check="ledger", message=message)


def _evidence(
    execution: Execution,
    plan: Mapping[str, StepPlan],
    records: Mapping[str, Mapping[str, Any]],
    units: tuple[Unit, ...],
    flows: Mapping[str, Mapping[str, Flow]],
) -> Iterator[FoundIn]:
    """Count the evidence again, on workers."""
    by_unit = ("ingest", "dedup", "tokenize")
    tasks = []
    for unit in units:
        name = unit.commit_name
        own = {step: flows[step][name] for step in by_unit if name in flows.get(step, {})}
        tasks.append(Task(f"audit-{name}", audit_unit, UnitAudit(unit, own), ""))
    for name, of_shards in flows.items():
        if name.startswith("shard-"):
            dataset = name.removeprefix("shard-")
            for unit_name, flow in of_shards.items():
                split, _, number = unit_name.rpartition("-")
                folder = f"datasets/{dataset}/{split}/epoch-0000/{number}"
                tasks.append(
                    Task(f"audit-{name}-{unit_name}", audit_shard, ShardAudit(folder, flow), "")
                )
    removed, split_ = records.get("dedup", {}), records.get("split", {})
    whole = RunAudit(
        Flow.model_validate(removed["ledger"]) if "ledger" in removed else None,
        Flow.model_validate(removed["clusters"]) if "clusters" in removed else None,
        Tally.model_validate(split_["held_out"]) if "held_out" in split_ else None,
    )
    tasks.append(Task("audit-run", audit_run, whole, ""))
    worker = plan.get("decode") or next(iter(plan.values()))
    for record in execution.ask(worker, tasks):
        yield from (FoundIn.model_validate(finding) for finding in record["findings"])
