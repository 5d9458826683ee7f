"""The commands of a run as functions: `shardmill.plan`, `run`, `verify` and `open_run`.

Each does what the command of its name does, and returns as a value what the command prints.

What is chosen where an option is left out: the only dataset of a run.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from pipeline.commands.finished_run import FinishedRun
from pipeline.inputs.limited import limit_inputs, limited_folder
from pipeline.planning.outputs import require_no_url, require_place
from pipeline.planning.plan import StepStatus
from pipeline.report.report import RunReport
from pipeline.run_file.config import RunFile
from pipeline.run_file.load import load_run_file, read_run
from pipeline.session.request import RunRequest
from pipeline.session.session import plan_session, run_session
from pipeline.session.verifying import verify_session
from pipeline.state.places import holding, holding_or_reading, reading
from pipeline.steps.run_folder import RunFolder
from pipeline.system.disk_faults import disk_faults
from pipeline.system.printable import as_known
from stages.errors import ConfigError
from stages.stores.cache import node_cache
from stages.stores.url import StoreUrl, is_store_url

RunSource = str | Path | Mapping[str, Any] | RunFile
"""A TOML file, or what one holds: a mapping, or a parsed `RunFile`, with paths relative to the current
folder."""


def plan(run_file: RunSource, output: str | Path, *, settings: Sequence[str] = ()) -> list[StepStatus]:
    """Return what a run would do, step by step, and why; change nothing.

    Args:
        run_file: a TOML file, or what one holds.
        output: folder of the run.
        settings: keys of the run file to change, such as "packing.seq_len=1024".

    Raises:
        ShardmillError: a setting, an input or the folder cannot be used.
    """
    request = request_of(run_file, output, settings, workers=1)
    with reading(request.output, key="--output") as folder:
        steps = plan_session(dataclasses.replace(request, output=folder))
    untried = _untried(request.output)
    return [dataclasses.replace(step, untried=untried) for step in steps]


def _untried(output: Path) -> str | None:
    """Return what a plan does not know of a store; None of a folder."""
    if not is_store_url(str(output)):
        return None
    place = StoreUrl.parse(str(output), key="--output")
    return (
        f"{place}: whether this store and this user can do what a run needs is not tried; `run` tries it"
        " before it begins"
    )


def run(  # noqa: PLR0913  # one parameter an option
    run_file: RunSource,
    output: str | Path,
    *,
    workers: int | None = None,
    address: str | None = None,
    until: str | None = None,
    replace: bool = False,
    limit: int | None = None,
    settings: Sequence[str] = (),
    stream: TextIO | None = None,
    verbose: bool = False,
) -> RunReport:
    """Run, or resume, and return the report; what is committed is not done again.

    Args:
        run_file: a TOML file, or what one holds: a mapping, with paths relative to the current folder.
        output: folder of the run.
        workers: Ray actors; 0 runs in this process; None takes one for each core, with `address` of all
            nodes that are there at each moment.
        address: of a Ray cluster to join, or "auto".
        until: the last step.
        replace: whether to make again what other settings made, or what is damaged.
        limit: documents of each source that are read, for a trial; they are copied to `output`.inputs.
        settings: keys of the run file to change, such as "packing.seq_len=1024".
        stream: where progress is shown.
        verbose: whether each unit of work is told there when it is done.

    Raises:
        ShardmillError: as its message says; what is committed stays.
    """
    request = request_of(
        run_file,
        output,
        settings,
        workers=worker_count(workers),
        address=address,
        until=until,
        replace=replace,
    )
    request = dataclasses.replace(request, follows_cores=workers is None and address is not None)
    asked = request.file.resources.cache
    cache = node_cache(asked.folder, asked.size)
    with holding(request.output, key="--output", cache=cache, tell=_teller(stream)) as folder:
        request = dataclasses.replace(request, output=folder)
        if limit is not None:
            with disk_faults(limited_folder(folder)):
                file = limit_inputs(request.file, request.base, folder, limit=limit)
            request = dataclasses.replace(request, file=file)
        return _named(run_session(request, stream=stream, verbose=verbose))


def verify(
    folder: str | Path,
    *,
    workers: int | None = None,
    address: str | None = None,
    full: bool = False,
    stream: TextIO | None = None,
) -> RunReport:
    """Check the datasets of a finished run again, from their files, and return the report.

    Args:
        folder: of the run.
        workers: Ray actors; 0 runs in this process; None takes one for each core, with `address` of all
            nodes that are there at each moment.
        address: of a Ray cluster to join, or "auto".
        full: whether to train the further models of `verify.full`.
        stream: where progress is shown.

    Raises:
        ShardmillError: there is no finished run, or a file of it is damaged.
    """
    count = worker_count(workers)
    place = require_place(Path(folder), "folder")
    with holding_or_reading(place, key="folder", cache=node_cache(), tell=_teller(stream)) as own:
        report = verify_session(
            own,
            workers=count,
            address=address,
            follows_cores=workers is None and address is not None,
            stream=stream,
            full=full,
        )
        return _named(report)


def _named(report: RunReport) -> RunReport:
    """Return a report that names the run as people know it."""
    named = {**report, "output": as_known(str(report["output"]))}
    if report.get("generations"):
        named["generations"] = {name: _named(one) for name, one in report["generations"].items()}
    return RunReport(named)


def _teller(stream: TextIO | None) -> Callable[[str], None]:
    """Return what tells people a line."""
    return lambda line: None if stream is None else print(line, file=stream, flush=True)


def open_run(folder: str | Path) -> FinishedRun:
    """Open a run that has a report: its verdicts, numbers, datasets and duplicates.

    In a notebook it shows itself as a table.

    Args:
        folder: of the run.

    Raises:
        ShardmillError: there is no report there.
    """
    return FinishedRun(require_place(Path(folder), "folder"))


def request_of(
    run_file: RunSource, output: str | Path, settings: Sequence[str], **options: Any
) -> RunRequest:
    """Return a call of `run`, from what one function or another was given."""
    file, base = _read(run_file, settings)
    return RunRequest(file=file, base=base, output=require_place(Path(output), "--output"), **options)


def _read(run_file: RunSource, settings: Sequence[str]) -> tuple[RunFile, Path]:
    """Return a run, and the folder that its paths are relative to."""
    if isinstance(run_file, RunFile):
        run_file = run_file.model_dump(mode="json")  # whole: the kind of an objective is a default
    if isinstance(run_file, Mapping):
        return read_run(run_file, settings), Path.cwd()
    path = require_no_url(Path(run_file), "RUN.toml")
    return load_run_file(path, settings), path.resolve().parent


def worker_count(workers: int | None) -> int:
    """Return how many actors there are to be."""
    if workers is not None and workers < 0:
        raise ConfigError(f"workers = {workers}: must be at least 0, which runs in this process")
    return len(os.sched_getaffinity(0)) if workers is None else workers


def only_dataset(folder: Path, *, also: str = "") -> str:
    """Return the name of a run's dataset, if it has one alone.

    Args:
        folder: of the run.
        also: what else may be given, for the message.

    Raises:
        ConfigError: there is no run, or it has no finished dataset, or several.
    """
    with disk_faults(folder):
        run = RunFolder(folder)
        names = run.datasets
        if not names:
            _ = run.plan  # says so of what is no run
    if not names:
        raise ConfigError(f"--dataset: {folder} has no finished dataset yet; run it to its end{also}")
    if len(names) > 1:
        raise ConfigError(f"--dataset: {folder} has {', '.join(sorted(names))}; name one{also}")
    return names[0]
