"""Runs in a store and in a folder: the same files, with any number of workers, cold and resumed.

    store_same.py WORK --cases objectives grown replayed --workers 0,1,2,3

Each case is one of `unchanged.py`: `grown` has later generations with cuts, `replayed` a mix with
replay. It is run in a folder without workers, and in a store with each number of workers. There the same
command is called once more from an empty cache, as on another machine: it finds nothing to do, and no
object that a folder has too gets another tag. `verify` passes. A trial is one case with one number of
workers. With a small `--cache`, nothing is here that no task asks for, as on another machine.
"""

import argparse
import os
import shutil
import sys
import uuid
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from trial_lines import Trials, add_trial_options, conduct, has_faults
from unchanged import called, new_folder
from unchanged_cases import CASES, ROOT, Case

from stages.stores.objects import ObjectStore
from stages.stores.url import StoreUrl
from tests.material.store_server import BUCKET, shared_server
from tests.material.stored_runs import artifacts_of_folder, artifacts_of_store

STORED = ("objectives", "grown", "replayed")


def calls_of(case: Case) -> list[str]:
    """Return the runs of a case, and what brings files between them."""
    return [call for call in case.calls if call.startswith(("run ", "+ "))]


def made(case: Case, folder: Path, output: str, workers: int) -> list[str]:
    """Do the runs of a case in a folder of its own, with another output; return what failed."""
    new_folder(case, folder)
    faults = []
    for call in calls_of(case):
        if call.startswith("+ "):
            shutil.copytree(folder / call[2:], folder, dirs_exist_ok=True)
        else:
            faults += failed(folder, call.replace("--output run", f"--output {output}"), workers)
    return faults


def failed(folder: Path, call: str, workers: int) -> list[str]:
    """Do a call; return what it said if it failed."""
    done = called(ROOT, folder, call, workers)
    return [f"{call}: exit code {done['code']}: {done['stderr'][-500:]}"] if done["code"] else []


def in_folder(case: Case, work: Path) -> Path:
    """Return the run of a case in a folder, done once."""
    run = work / "folder" / case.name
    if not run.exists():
        faults = made(case, place(case, work), "run", 0)
        assert not faults, faults
        run.parent.mkdir(exist_ok=True)
        shutil.move(place(case, work) / "run", run)
    return run


def by_content(files: dict[str, str]) -> dict[str, str]:
    """Return files, those of the scan by their content: their names say when a file was written."""
    named = {}
    for key, found in files.items():
        folder, is_scan, _ = key.partition("scan/")
        named[f"{folder}scan/{found}" if is_scan else key] = found
    return named


def place(case: Case, work: Path) -> Path:
    """Return the folder of a case's corpus."""
    return work / "cases" / case.name


def try_case(case: Case, work: Path, workers: int, size: int) -> dict[str, Any]:
    """Do a case in a store, and compare it."""
    reference = by_content(artifacts_of_folder(in_folder(case, work)))
    server = shared_server(work / "server", parent=os.getpid())
    cache = work / "cache"
    os.environ.update({**server.environment, "SHARDMILL_CACHE": str(cache)})
    os.environ["SHARDMILL_CACHE_BYTES"] = str(size)
    folder, url = place(case, work), f"s3://{BUCKET}/{uuid.uuid4().hex}/run"
    store = ObjectStore(StoreUrl.parse(url, key="url"))
    faults = made(case, folder, url, workers)
    stored = artifacts_of_store(store)
    found = by_content(stored)
    tags = {one.key: one.tag for one in store.list("")}
    shutil.rmtree(cache)
    faults += failed(folder, calls_of(case)[-1].replace("--output run", f"--output {url}"), workers)
    again = {one.key: one.tag for one in store.list("")}
    faults += [f"{key}: made again" for key in sorted(stored) if again.get(key) != tags[key]]
    faults += failed(folder, f"verify {url} --workers {workers} --quiet", workers)
    every = sorted(found.keys() | reference.keys())
    differ = [key for key in every if found.get(key) != reference.get(key)]
    faults += [f"{key}: differs" for key in differ]
    shutil.rmtree(folder)
    shutil.rmtree(cache)
    return {"files": len(reference), "differ": len(differ), "faults": faults[:20]}


def campaign(trials: Trials, *, cases: list[str], workers: list[int], cache: int) -> int:
    """Do all trials, and print what they found."""
    work = trials.new_folder()
    bad = 0
    for name in cases:
        for number in workers:
            do = partial(try_case, CASES[name], work, number, cache)
            result = trials.trial(f"{name}, {number} workers", do, failed=has_faults)
            bad += bool(result["faults"])
            print(f"{name}, {number} workers: {result['files']:,} files, {result['differ']} differ")
            for fault in result["faults"]:
                print(f"    {fault}", flush=True)
    return int(bad > 0)


def main() -> int:
    """Do the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(STORED), metavar="NAME")
    parser.add_argument("--workers", default="0,1,2,3", metavar="N,N,...", help="[default: 0,1,2,3]")
    parser.add_argument(
        "--cache", type=int, default=100 << 30, metavar="BYTES", help="[default: 100 GiB]"
    )
    add_trial_options(parser)
    given = parser.parse_args()
    numbers = [int(one) for one in given.workers.split(",")]
    chosen = {"cases": given.cases, "workers": numbers, "cache": given.cache}
    return conduct(lambda trials: campaign(trials, **chosen), given, chosen, work=given.work.resolve())


if __name__ == "__main__":
    sys.exit(main())
