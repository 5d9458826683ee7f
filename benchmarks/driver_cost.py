"""CPU and memory of the driver for a unit of work, in runs of units that do nothing, on real actors.

    driver_cost.py WORK --units 1000 10000 100000 --workers 2 [--alone] [--store] [--json F]

Each unit writes one file of 16 bytes, which is committed like any other. So what the driver pays for
Ray's calls, the commit, the journal and the schedule is all that is left to measure. Ray's start and the
actors' first tasks are left out. All threads of the driver's process count, Ray's too.

Short units share calls of Ray. A unit of 64 MiB takes seconds, and has a call of its own: with `--alone`
all units have, and from that follows how many workers one driver serves.
"""

import argparse
import importlib
import json
import os
import shutil
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pipeline.engine import dataflow
from pipeline.engine.memory import MIB, Need, WorkerResources
from pipeline.engine.step_run import StepRun, one_phase
from pipeline.engine.tasks import Phase, Task, Workspace
from pipeline.session.execution import Execution, open_execution
from pipeline.state.places import holding
from pipeline.state.storage import make_folder
from stages.config import Config
from stages.stores.cache import node_cache
from tests.material.store_server import BUCKET, shared_server

HERE = Path(__file__).resolve().parent
UNIT_SECONDS = 8.0
"""CPU of a worker for a unit of 64 MiB: 0.12 s a MB, by docs/benchmarks.md."""
_NEED = Need(8 * MIB)
_MEMORY = 2 << 30


class NothingRecord(Config):
    """What a unit that does nothing reports."""

    documents: int


def write_little(workspace: Workspace, payload: int) -> NothingRecord:
    """Write a file of 16 bytes, named after the unit."""
    workspace.create(f"little/{payload:07d}.bin").write_bytes(payload.to_bytes(16, "big"))
    return NothingRecord(documents=1)


def _step(name: str, first: int, units: int) -> StepRun:
    function = importlib.import_module("driver_cost").write_little  # as workers import it
    tasks = [
        Task(name, f"{number:07d}", function, number, f"{number:032x}")
        for number in range(first, first + units)
    ]
    return StepRun(name, _NEED, one_phase(Phase(name, tasks)))


@contextmanager
def _output(work: Path, *, in_store: bool) -> Iterator[Path]:
    """Yield the folder of a new run, which is in a store or is what it seems."""
    if not in_store:
        folder = work / "run"
        make_folder(folder)
        yield folder
        return
    server = shared_server(work / "server", parent=os.getpid())
    os.environ.update(server.environment)
    url = f"s3://{BUCKET}/{uuid.uuid4().hex}/run"
    with holding(
        Path(url), key="--output", cache=node_cache(str(work / "cache"), 1 << 30), tell=print
    ) as run:
        yield run


def measure(work: Path, units: int, workers: int, *, in_store: bool, alone: bool) -> dict[str, Any]:
    """Do units that do nothing; return what each cost the driver, and its memory."""
    resources = WorkerResources(workers, None, _MEMORY)
    with (
        patch.object(dataflow, "batch_size", lambda _: 1) if alone else nullcontext(),
        _output(work, in_store=in_store) as output,
        open_execution(
            output, resources, needs={"warm": _NEED, "units": _NEED}, stream=None
        ) as execution,
    ):
        execution.do([_step("warm", units, 4 * workers)])
        _clear_peak()
        before, began = time.process_time(), time.monotonic()
        execution.do([_step("units", 0, units)])
        spent, wall = time.process_time() - before, time.monotonic() - began
        memory = _peak()
        assert _committed(execution) == units
    milliseconds = 1_000 * spent / units
    return {
        "units": units,
        "store": in_store,
        "cpu_ms": round(milliseconds, 3),
        "wall_ms": round(1_000 * wall / units, 3),
        "peak_mib": round(memory / MIB),
        "alone": alone,
        "workers_served": int(1_000 * UNIT_SECONDS / milliseconds) if alone else None,
    }


def _committed(execution: Execution) -> int:
    return len(execution.commits.units("units"))


def _clear_peak() -> None:
    """Have the system forget the most memory that this process held."""
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """Return the most bytes that this process held, mapped files included."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM:"))


def main() -> int:
    """Measure as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder")
    parser.add_argument("--units", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--workers", type=int, default=2, help="[default: 2]")
    parser.add_argument("--alone", action="store_true", help="each unit has a call of Ray of its own")
    parser.add_argument("--store", action="store_true", help="the runs are in a store on this machine")
    parser.add_argument("--json", type=Path, metavar="F", help="write the figures there")
    arguments = parser.parse_args()
    os.environ["PYTHONPATH"] = f"{HERE}:{HERE.parent}"  # workers import this module
    sys.path.insert(0, str(HERE))
    found = []
    for units in arguments.units:
        work = arguments.work / f"{units}"
        work.mkdir(parents=True)
        one = measure(work, units, arguments.workers, in_store=arguments.store, alone=arguments.alone)
        found.append(one)
        place = "store" if arguments.store else "folder"
        print(
            f"{units:>9,} units in a {place}: {one['cpu_ms']:.3f} ms of the driver's CPU each,"
            f" {one['wall_ms']:.2f} ms of the clock, peak {one['peak_mib']:,} MiB",
            flush=True,
        )
        if arguments.alone:
            print(f"one driver serves {one['workers_served']:,} workers of {UNIT_SECONDS:.0f} s a unit")
        shutil.rmtree(work)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
