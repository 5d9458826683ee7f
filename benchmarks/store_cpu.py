"""CPU of a run in a store beside the same run in a folder, in turns; the server's own is not counted.

    store_cpu.py RUN.toml WORK --pairs 3 --workers 2 --json F --continue

Each trial is one run of each, from nothing, the store's with an empty cache. All processes of a run
count, Ray's too. The first pair is thrown away: it fills the caches of compiled code.
"""

import argparse
import os
import shutil
import statistics
import sys
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scale import measure
from trial_lines import Trials, add_trial_options, conduct

from tests.material.store_server import BUCKET, shared_server

ROOT = Path(__file__).resolve().parents[1]
PERIOD = 0.5
"""Seconds between two looks at the processes of a run."""


def one_run(run: Path, work: Path, output: str, workers: int) -> dict[str, float]:
    """Do a run; return the seconds of all its processes, and of the clock."""
    command = [sys.executable, "-m", "pipeline.main", "run", str(run), "--output", output]
    command += ["--workers", str(workers), "--quiet"]
    found = measure(command, work / "out", log=work / "log", period=PERIOD)
    assert found["exit_code"] == 0, (work / "log").read_text()[-2_000:]
    return {"cpu": found["memory"]["cpu_seconds"], "wall": found["wall_seconds"]}


def pair(run: Path, work: Path, workers: int, *, store_first: bool) -> dict[str, Any]:
    """Do the run in a folder and in a store."""
    folder = work / "pair"
    folder.mkdir(parents=True)
    server = shared_server(work / "server", parent=os.getpid())
    os.environ.update(server.environment)
    os.environ.update({"SHARDMILL_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)})
    outputs = {"folder": str(folder / "out"), "store": f"s3://{BUCKET}/{uuid.uuid4().hex}/run"}
    order = sorted(outputs, reverse=store_first)
    found = {name: one_run(run, folder, outputs[name], workers) for name in order}
    shutil.rmtree(folder)
    return found


def campaign(trials: Trials, *, run: Path, pairs: int, workers: int) -> int:
    """Do all pairs, and print their ratios."""
    work = trials.new_folder()
    ratios: dict[str, list[float]] = {"cpu": [], "wall": []}
    for number in range(pairs + 1):
        found = trials.trial(
            f"pair {number}",
            lambda number=number: pair(run, work, workers, store_first=bool(number % 2)),  # type: ignore[misc]
            failed=lambda one: not one,
        )
        runs = found.items()
        shown = ", ".join(f"{name} {one['cpu']:.1f} CPU s, {one['wall']:.1f} s" for name, one in runs)
        print(f"pair {number}: {shown}", flush=True)
        for name, values in ratios.items():
            if number:
                values.append(found["store"][name] / found["folder"][name])
    for name, values in ratios.items():
        print(f"{name}, store : folder, median of {pairs}: {statistics.median(values):.3f}", flush=True)
    return 0


def main() -> int:
    """Compare as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN.toml")
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder")
    parser.add_argument("--pairs", type=int, default=3, help="after the first [default: 3]")
    parser.add_argument("--workers", type=int, default=2, help="[default: 2]")
    add_trial_options(parser)
    given = parser.parse_args()
    chosen = {"run": given.run.resolve(), "pairs": given.pairs, "workers": given.workers}
    settings = {**chosen, "run": str(chosen["run"])}
    return conduct(lambda trials: campaign(trials, **chosen), given, settings, work=given.work.resolve())


if __name__ == "__main__":
    sys.exit(main())
