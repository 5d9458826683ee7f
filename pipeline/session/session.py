"""A session: one call of `shardmill run`, from the run file to the verdict.

    lock -> plan -> refuse or drop what is stale -> steps -> report

The only way to resume is to run again; what is committed is not done twice.

Reporting: what DIR/report says while a run is at work, when it stops and when it ends.

A report speaks of what is committed. So the old one goes before anything is made anew, and a run that
stops leaves one that says why.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TextIO

from pipeline.engine.memory import Need, WorkerResources
from pipeline.inputs.balanced_text import resolve_balance
from pipeline.inputs.evaluation_sets import resolve_sets
from pipeline.inputs.files import FoundFile
from pipeline.inputs.given_files import given_folders
from pipeline.inputs.parallel_text import resolve_fairness
from pipeline.planning.against import labels
from pipeline.planning.needs import require_for_inputs, require_memory
from pipeline.planning.outputs import require_run_folder
from pipeline.planning.plan import State, StepStatus, names_until, plan_scope, status_of
from pipeline.planning.replays import noted, replay_lines
from pipeline.report.report import RunReport
from pipeline.report.summary import remove_report, write_report
from pipeline.run_file.filters import (
    require_generators,
    require_semantic_encoder,
    resolve_chats,
    resolve_filters,
)
from pipeline.session.damage import drop_damaged_scans, handle_damage, require_objects
from pipeline.session.execution import Execution, open_execution, store_buffers
from pipeline.session.replacement import (
    begin_replacement,
    decides_again,
    deleted_generations,
    finish_replacement,
    mark_whole,
    waits_for_exchange,
    with_replacement,
)
from pipeline.session.request import RunRequest, found_inputs, generation_requests, scope_of
from pipeline.session.runner import Runner
from pipeline.session.scanning import forgetting_changed, planned_inputs, scan_inputs, scan_status
from pipeline.state.commit_object import COMMITS
from pipeline.state.commits import PLAN, SCAN
from pipeline.state.journal import STATUS, run_lock
from pipeline.state.key_lengths import require_short_keys
from pipeline.state.storage import make_folder
from pipeline.state.stored_run import stored_run_at
from pipeline.steps.kept_plan import KeptStep, write_plan
from pipeline.steps.run_folder import KEEPING, RunFolder
from pipeline.steps.selection import SELECTING
from pipeline.steps.step import Scope, StepPlan
from pipeline.steps.table import NAMES, step_needs
from pipeline.system.disk_faults import disk_faults, making
from pipeline.system.stopping import reason_of, tidying
from stages.errors import ConfigError
from stages.store.folders import entries


@contextmanager
def reported(output: Path, write: Callable[[str | None], RunReport]) -> Iterator[None]:
    """Remove the old report; if the work inside stops, leave one that says why.

    Args:
        output: folder of the run.
        write: writes the report of all that is done, given the reason of a stop.
    """
    remove_report(output)
    try:
        yield
    except BaseException as error:
        with tidying():
            try:
                write(reason_of(error))
            except Exception:  # noqa: BLE001  # what stopped the run matters more: it is raised below
                remove_report(output)
        raise


def with_generations(report: RunReport, later: Mapping[str, RunReport]) -> RunReport:
    """Return the report of a folder: one verdict over all its generations."""
    if not later:
        return report
    verdicts = [one["passed"] for one in (report, *later.values())]
    passed = None if None in verdicts else all(verdicts)
    return RunReport({**report, "passed": passed, "generations": dict(later)})


def outcome_of(report: RunReport) -> str:
    """Say in one word how a session ended."""
    return {True: "done", False: "failed verification", None: "stopped as asked"}[report["passed"]]


def plan_session(request: RunRequest) -> list[StepStatus]:
    """Return what a run would do, touching nothing."""
    require_run_folder(request.output)
    require_generators(request.file)
    require_semantic_encoder(request.file)
    request = _resolved(request)
    _require_room(request)
    with disk_faults(request.output):
        planned: list[StepStatus] = []
        for one in generation_requests(request):
            if planned and any(status.state is not State.DONE for status in planned):
                break  # what comes later waits for it
            found = _plan_one(one)
            planned += found if one.before else with_replacement(one.output, found)
        return planned


def _require_room(request: RunRequest) -> dict[str, Need]:
    """Return the needs of a run's steps; refuse it if they do not fit, or its names of objects."""
    file, stored = request.file, stored_run_at(request.output)
    if stored is not None:
        names = [one.name for one in file.datasets]
        for source in file.sources:
            names += [source.name, *source.keep_columns]
        require_short_keys(stored.store.place, names)
    needs, buffers = step_needs(Scope(file)), store_buffers(request.output)
    require_memory(file, needs, workers=request.workers, buffers=buffers)
    return needs


def _plan_one(request: RunRequest) -> list[StepStatus]:
    """Return what a run of one generation would do."""
    commits = RunFolder(request.output).commits
    found = found_inputs(request)
    files = planned_inputs(found.files, commits)
    scope = replace(scope_of(request, found.files), inputs=files)
    require_for_inputs(scope, workers=request.workers, buffers=store_buffers(request.output))
    steps = plan_scope(scope)
    if not all(file.digest for file in files):  # nothing is committed: no fingerprint is asked for
        steps = [replace(step, fingerprint="", units={}) for step in steps]
    status = status_of(steps, commits, before=_last_plan(request.output))
    status = [noted(one, scope) for one in status]
    status = [scan_status(found.files, commits, found.skipped), *status]
    if not request.before:
        return status
    name = f"{request.output.parent.name}/{request.output.name}"
    own = [replace(one, step=replace(one.step, name=f"{name}/{one.step.name}")) for one in status]
    if own[0].state is State.NEW:
        why = f"{len(files):,} new files; those of earlier generations are unchanged"
        own[0] = replace(own[0], why=why)
    return own


def run_session(request: RunRequest, *, stream: TextIO | None, verbose: bool = False) -> RunReport:
    """Run all steps up to `until`, of each generation of the folder; give the report.

    `verbose` tells each unit of work when it is done.

    Raises:
        ShardmillError: as its message says; what is committed stays.
    """
    if waits_for_exchange(request.output):
        with disk_faults(request.output), run_lock(request.output):
            finish_replacement(request.output)
    own, *later = generation_requests(request)
    if later and request.replace and decides_anew(own):
        own, later = request, []  # as one run over all files
    if own.replace and own.files is None and (deleted := deleted_generations(own.output)):
        if stored_run_at(own.output) is not None:
            raise ConfigError(
                f"{own.output}: --replace makes its later generations part of one run, which a store"
                " cannot exchange as a whole; run into another place"
            )
        if stream is not None:
            print(f"--replace: {deleted}, once that run is whole", file=stream)
        return _replaced_run(own, stream=stream, verbose=verbose)
    report = _run_one(own, stream=stream, verbose=verbose)
    if not later:
        return report
    with run_lock(own.output):  # nobody changes what later generations are decided against
        reports = {one.output.name: _run_one(one, stream=stream, verbose=verbose) for one in later}
    return with_generations(report, reports)


def _replaced_run(request: RunRequest, *, stream: TextIO | None, verbose: bool) -> RunReport:
    """Make one run of a folder and its generations beside them; whole, it takes their place."""
    with disk_faults(request.output), run_lock(request.output):
        beside = begin_replacement(request.output)
        report = _run_one(replace(request, output=beside), stream=stream, verbose=verbose)
        if not report["passed"]:  # it failed, or goes only as far as asked
            return report
        mark_whole(request.output)
        finish_replacement(request.output)
    return _run_one(replace(request, replace=False), stream=stream, verbose=verbose)


def decides_anew(request: RunRequest) -> bool:
    """Say whether other settings or files change what a run reads, or which documents it keeps."""
    with disk_faults(request.output):
        return decides_again(_plan_one(_resolved(request)))


def _run_one(request: RunRequest, *, stream: TextIO | None, verbose: bool) -> RunReport:
    """Run all steps of one generation up to `until`; give its report."""
    if request.until is not None and request.until not in NAMES:
        raise ConfigError(f"--until {request.until}: no such step; steps: {', '.join(NAMES)}")
    require_run_folder(request.output)
    needs = _require_room(request)
    require_generators(request.file)
    require_semantic_encoder(request.file)
    request = _resolved(request)
    with making(request.output, "--output"):
        make_folder(request.output.absolute())
    resources = WorkerResources(
        request.workers,
        request.address,
        request.file.resources.memory,
        follows_cores=request.follows_cores,
    )
    with open_execution(
        request.output, resources, needs=needs, stream=stream, verbose=verbose
    ) as execution:
        if (stored := stored_run_at(execution.root)) is not None:
            stored.give(given_folders(request.file), check=request.replace)
        report = _steps(request, execution)
        execution.journal.status(outcome_of(report), until=request.until)
        return report


def _resolved(request: RunRequest) -> RunRequest:
    """Return a request whose filters, templates and other texts know what they rest on."""
    file = resolve_chats(resolve_filters(request.file, request.base), request.base)
    file = resolve_fairness(resolve_sets(file, request.base), request.base)
    file = resolve_balance(file, request.base)
    return replace(request, file=file)


def _local_inputs(found: Sequence[FoundFile]) -> tuple[tuple[Path, int], ...]:
    """Return the inputs that each node reads from its own disk or mounts, with their bytes."""
    return tuple(
        (file.place.absolute(), file.status.size)
        for file in found
        if isinstance(file.place, Path) and file.status.size is not None
    )


def _steps(request: RunRequest, execution: Execution) -> RunReport:
    """Do the steps in order and gather what each reports."""
    found = found_inputs(request)
    scope = scope_of(request, found.files)
    for skipped in found.skipped:
        execution.progress.note(skipped.line)
    if request.replace:
        drop_damaged_scans(execution)
    execution.resources = replace(execution.resources, inputs=_local_inputs(found.files))
    files = scan_inputs(found.files, execution)
    scope = replace(scope, inputs=files)
    buffers = store_buffers(execution.root)
    execution.needs = require_for_inputs(scope, workers=request.workers, buffers=buffers)
    steps = plan_scope(scope)
    plan = {step.name: step for step in steps}
    names = names_until(plan, request.until)
    if not names and request.until != SCAN:
        own = ", ".join(dict.fromkeys(name.partition("-")[0] for name in plan))
        raise ConfigError(
            f"--until {request.until}: no dataset of the run has this step; its steps: {own}"
        )
    before = _last_plan(request.output)
    if request.replace:
        remove_report(request.output)
    status = status_of(steps, execution.commits, before=before)
    _handle_stale(request, execution, with_replacement(request.output, status))
    handle_damage(execution, plan, replace=request.replace)
    if request.replace:
        _forget_taken_out(execution, plan)
    after = RunFolder(request.output).digest_before(scope.generation, KEEPING)
    write_plan(request.output, scope, steps, found.skipped, after=after)
    if (stored := stored_run_at(request.output)) is not None:
        stored.log_plan(request.output)
    for line in (*labels(scope.earlier), *replay_lines(scope.replayed)):
        execution.progress.note(line)
    runner = Runner(scope, plan, execution)
    size = sum(file.size for file in files)
    write = partial(
        write_report,
        request.output,
        request.file,
        runner.records,
        skipped=found.skipped,
        input_bytes=size,
    )
    with reported(request.output, lambda why: write(stopped=why)), forgetting_changed(execution, files):
        runner.do(names)
        require_objects(execution, whole=request.until is None)
    return write()


def _handle_stale(request: RunRequest, execution: Execution, steps: Sequence[StepStatus]) -> None:
    """Refuse a folder that holds another run, or forget what must be made anew."""
    stale = [status for status in steps if status.state is State.STALE]
    if not stale:
        return
    if not request.replace:
        first = stale[0]
        later = f", and with it {', '.join(s.step.name for s in stale[1:])}" if stale[1:] else ""
        way = (
            "make this generation anew. If it is the last one and no training has read it, you can also"
            " delete its folder and run again: earlier generations stay"
            if request.before
            else "make them anew in this folder, or choose another one. There,"
            f' dedup.against = ["{request.output}"] keeps out what this run has'
        )
        raise ConfigError(
            f"{request.output}: holds a run of another config or other inputs. {first.step.name} would"
            f" be made anew ({first.why}){later}. Run with --replace to {way}{_replaced(first)}"
        )
    for status in reversed(stale):  # last first: a kill on the way leaves a shorter, sound run
        execution.commits.drop(status.step.name, status.stale)
        execution.journal.log("replace", step=status.step.name, units=sorted(status.stale))


def _replaced(stale: StepStatus) -> str:
    """Say what `--replace` does to later generations."""
    return "" if stale.replaced is None else f". With --replace, {stale.replaced}"


def _forget_taken_out(execution: Execution, plan: Mapping[str, StepPlan]) -> None:
    """Remove what steps decided of documents that the run no longer has: nothing was made of it."""
    commits = execution.commits
    for name in reversed(SELECTING):
        if name not in plan and name in commits.steps():
            keys = [key for _, commit in commits.all(name) for key in commit.files]
            commits.drop(name)
            folders = {folder for key in keys for folder in Path(key).parents}
            commits.storage.remove_empty(folders | {Path(COMMITS) / name})
            execution.journal.log("replace", step=name)


def known_steps(output: Path) -> list[str]:
    """Return the steps of the last run in a folder; during its first scan no others are known.

    Raises:
        ConfigError: the folder holds no run.
        FormatError: run.json is damaged.
    """
    later = [path for path in entries(output / COMMITS) if path.name != SCAN]
    if not later and not (output / PLAN).exists() and (output / STATUS).exists():
        return [SCAN]
    return list(RunFolder(output).plan.steps)


def _last_plan(output: Path) -> Mapping[str, KeptStep]:
    if not (output / PLAN).exists():
        return {}
    return RunFolder(output).plan.steps
