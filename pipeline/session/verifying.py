"""Verifying: one call of `shardmill verify`, from a finished run to the verdict.

    lock -> audit -> forget the old verdict -> checks -> report

A run that may only be read gets its verdict too: what the checks make lies in a folder of the session.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TextIO

from pipeline.engine.memory import AskedWorkers
from pipeline.inputs.skipped import SkippedFiles
from pipeline.planning.against import reopened
from pipeline.planning.generations import number_of
from pipeline.planning.plan import plan_scope, scope_again
from pipeline.planning.replays import replays_again
from pipeline.report.counted import Counted
from pipeline.report.mixes import add_generations, mixes_in, packed_of
from pipeline.report.report import RunReport
from pipeline.report.summary import summarise, write_report
from pipeline.run_file.config import RunFile
from pipeline.session.audit import audit, changed_plan, with_findings_so_far
from pipeline.session.execution import open_execution
from pipeline.session.runner import Runner
from pipeline.session.session import outcome_of, reported, with_generations
from pipeline.session.witnesses import absent_witnesses, located_runs
from pipeline.state.commits import PLAN
from pipeline.state.read_only import can_write, own_folder
from pipeline.state.stored_run import stored_run_at
from pipeline.steps.records import AuditReport
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.step import Records
from pipeline.steps.table import planned_steps, step_needs
from pipeline.steps.verify.step import VERIFY, VerdictRecord
from stages.errors import ConfigError, Stopped, VerificationError

DatasetVerdicts = Mapping[str, VerdictRecord]
_NAMED = 3


def verify_session(
    output: Path,
    *,
    workers: int,
    address: str | None,
    stream: TextIO | None,
    full: bool = False,
    follows_cores: bool = False,
) -> RunReport:
    """Check the datasets of a finished run, and of each of its generations, again from their files.

    Args and errors are those of `_verify_one`.
    """
    before: list[DatasetVerdicts] = []
    asked = AskedWorkers(workers, address, follows_cores=follows_cores)
    reports = [
        _verify_one(folder, before, asked, stream=stream, full=full)
        for folder in (output, *RunFolder(output).generations())
    ]
    names = [folder.name for folder in RunFolder(output).generations()]
    return with_generations(reports[0], dict(zip(names, reports[1:], strict=True)))


def _verify_one(
    output: Path,
    before: list[DatasetVerdicts],
    asked: AskedWorkers,
    *,
    stream: TextIO | None,
    full: bool = False,
) -> RunReport:
    """Check a finished run's datasets again, from their files; give the report.

    `full` also trains what `verify.full` of the run file asks for. `before` has the verdicts on earlier
    generations, and gets these.

    Raises:
        ConfigError: the folder holds no run, or one that has not made its datasets yet.
    """
    run = RunFolder(output)
    kept, file = run.plan, run.file
    if (stored := stored_run_at(output)) is not None:
        stored.tolerate()  # what is gone or changed is a finding of the checks
    scope = scope_again(file, kept, generation=number_of(output))
    plan = {step.name: step for step in plan_scope(scope)}
    replayed = replays_again(file, kept)
    if full:
        file = file.model_copy(update={"verify": file.verify.model_copy(update={"full": True})})
    _require_place(output, asked.address)
    resources = asked.within(file.resources.memory)
    witnesses = located_runs(output, kept, generation=number_of(output))
    scope = replace(scope, file=file, replayed=replayed, earlier=reopened(witnesses, file))
    with (
        own_folder(output) as own,
        open_execution(output, resources, needs=step_needs(scope), stream=stream, own=own) as execution,
    ):
        runner = Runner(scope, plan, execution)
        execution.trusting = True  # what was changed is a finding of the checks
        found = changed_plan(kept, plan, file=output / PLAN)
        audited = audit(execution, plan, scope, found)
        absent = absent_witnesses(output, kept, generation=number_of(output))
        audited = audited.model_copy(update={"missed": (*audited.missed, *absent)})
        for name, step in planned_steps(scope):
            if not step.is_check and execution.step_commit(plan[name]) is None:
                _refuse_findings(audited)
                raise ConfigError(f"{output}: step {name} is not done; finish the run first")
        give = write_report if own is None else partial(_unwritten_report, before=tuple(before))
        write = partial(give, output, file, runner.records, audited=audited, skipped=kept.skipped)
        with nullcontext() if own is not None else reported(output, lambda why: write(stopped=why)):
            for name, step in planned_steps(scope):
                if step.is_check:  # all before the first: no old verdict beside a new decode
                    execution.commits.drop(name)
            with _findings_reported(runner, audited):
                runner.do(plan)
                report = write()
        execution.journal.status(outcome_of(report))
        before.append(runner.records.datasets(VERIFY))
        return report


def _require_place(output: Path, address: str | None) -> None:
    """Refuse the nodes of a cluster for a run that can only be read: they could write nowhere.

    Raises:
        ConfigError: it is such a run.
    """
    stored = stored_run_at(output)
    is_read = not can_write(output) if stored is None else stored.lease is None
    if address is not None and is_read:
        place = "folder that all" if stored is None else "store that this user"
        raise ConfigError(
            f"{output} can only be read, and the nodes of --address need a {place} can write to; leave"
            " --address off"
        )


@contextmanager
def _findings_reported(runner: Runner, audited: AuditReport) -> Iterator[None]:
    """Tell what was found, whatever a damaged file makes the other checks raise.

    A stop, a setting and a fault of the disk have causes of their own.
    """
    try:
        yield
    except Exception as error:
        explained = isinstance(error, Stopped | ConfigError)
        if not explained and getattr(error, "errno", None) is None:
            _refuse_findings(with_findings_so_far(runner.execution, runner.plan, audited))
        raise


def _refuse_findings(report: AuditReport) -> None:
    """Fail with what an audit found, if it found anything."""
    if report.findings:
        listed = "; ".join(f"{f.file}: {f.check}: {f.message}" for f in report.findings[:_NAMED])
        more = f"; and {len(report.findings) - _NAMED} more" if len(report.findings) > _NAMED else ""
        raise VerificationError(f"verify: FAIL: {listed}{more}")


def _unwritten_report(
    output: Path,
    file: RunFile,
    records: Records,
    *,
    audited: AuditReport,
    skipped: Sequence[SkippedFiles],
    stopped: str | None = None,
    before: Sequence[DatasetVerdicts],
) -> RunReport:
    """Return the report of a run whose folder can only be read.

    Args are those of `summarise`, and the verdicts on earlier generations, which no folder has.
    """
    report = summarise(file, records, Counted(output), audited=audited, skipped=skipped, stopped=stopped)
    verdicts = records.datasets(VERIFY)
    parts = [packed_of(one) for one in (*before, verdicts)]
    wholes = add_generations(parts, mixes_in(verdicts)) if before else {}
    return report.model_copy(update={"written": False, "whole": wholes or report.whole}).plain
