"""What another version of the program made, this one makes too: every file, exit code and word.

    python benchmarks/unchanged.py WORK --before CHECKOUT --json unchanged.jsonl
    python benchmarks/unchanged.py WORK --before CHECKOUT --cases grown chats --workers 0,2 --stops

CHECKOUT is a folder of the other version, such as a clone; both run with this Python. Each case is done
by both in a folder of its own: runs, looks at them, exports. Their files, their exit codes and what they
print are equal but for dates, seconds and memory. Other numbers of workers give the same files.

`--stops` kills the run of a case in the midst of each of its steps, done by the other version. This one
resumes it, and the files are those of a run that was not stopped. `--but PATTERN` names files that may
differ. `kills.py RUN.toml --reference WORK/before/CASE/run` compares a run that was killed often.

Passes if nothing differs. A trial is one case with one number of workers, or with one stop.
"""

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from trial_lines import Trials, add_trial_options, conduct, has_faults, refuse
from unchanged_cases import CASES, ROOT, Case
from unchanged_files import differences, first_difference, masked

from pipeline.state.journal import read_log

POLL = 0.003
BESIDE = (
    *("*report/*", "*/status.json", "exports/*", "*/exported/*", "compared/*"),
    *("quick*", "more.*", "drafted*", "*/.status.json.*", "*/.metrics.prom.*"),
)
"""What calls without `$WORKERS` write, what tells of calls that made a run, and what kills leave."""
SHOWN = 20
"""Differences of a trial that are kept."""


def called(checkout: Path, folder: Path, call: str, workers: int) -> dict[str, Any]:
    """Do one call in a folder, and return its exit code and what it printed."""
    words = [word.replace("$WORKERS", str(workers)) for word in shlex.split(call.removeprefix("! "))]
    done = subprocess.run(  # noqa: S603  # the program
        [sys.executable, "-P", "-m", "pipeline.main", *words],
        cwd=folder,
        env=_environment(checkout),
        capture_output=True,
        text=True,
        check=False,
    )
    said = {name: masked(getattr(done, name), folder) for name in ("stdout", "stderr")}
    return {"call": call, "code": done.returncode, **said}


def _environment(checkout: Path) -> dict[str, str]:
    """Return the environment in which Python imports the program from a checkout."""
    return os.environ | {"PYTHONPATH": str(checkout), "COLUMNS": "100", "PYTHONHASHSEED": "0"}


def made(checkout: Path, case: Case, folder: Path, *, workers: int) -> list[dict[str, Any]]:
    """Do a case in a new folder, and return what its calls gave."""
    new_folder(case, folder)
    results = []
    for call in case.calls:
        if call.startswith("+ "):
            shutil.copytree(folder / call[2:], folder, dirs_exist_ok=True)
        elif workers == 0 or "$WORKERS" in call:
            results.append(called(checkout, folder, call, workers))
    return results


def new_folder(case: Case, folder: Path) -> None:
    """Write the inputs of a case in a new folder, once for all of them: copies have equal times."""
    if folder.exists():
        shutil.rmtree(folder)
    inputs = folder.parent.parent / "inputs" / case.name
    if not inputs.exists():
        part = inputs.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        case.write(part)
        part.rename(inputs)
    shutil.copytree(inputs, folder)


def compared(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[str]:
    """Return how the calls of two versions differ."""
    faults = []
    for one, two in zip(before, after, strict=True):
        if one["code"] != two["code"]:
            faults.append(f"{one['call']}: exit code {one['code']}; now {two['code']}: {two['stderr']}")
        for name in ("stdout", "stderr"):
            differing = first_difference(one[name], two[name])
            if differing is not None:
                faults.append(f"{one['call']}: {name}: {differing}")
    return faults


class Versions:
    """The two versions, and what the other one made of each case."""

    def __init__(self, trials: Trials, arguments: argparse.Namespace) -> None:
        """Keep what was asked for."""
        self.trials = trials
        self.arguments = arguments
        self.work: Path = arguments.work.resolve()

    def reference(self, case: Case) -> list[dict[str, Any]]:
        """Return what the calls of a case gave, done by the other version without workers."""
        folder = self.work / "before" / case.name
        make = partial(made, self.arguments.before, case, folder, workers=0)
        found = self.trials.fact(f"before: {case.name}", make)
        result: list[dict[str, Any]] = found if folder.exists() else make()
        for fault in _failed(result):
            refuse(f"case {case.name}, by the other version: {fault}")
        return result

    def whole(self, case: Case, workers: int) -> dict[str, Any]:
        """Do a case by this version, and compare all of it."""
        before, folder = self.reference(case), self.work / f"after-{workers}" / case.name
        after = made(ROOT, case, folder, workers=workers)
        faults = compared(before, after) if workers == 0 else _failed(after)
        but = (*self.arguments.but, *(() if workers == 0 else BESIDE))
        faults += list(differences(self.work / "before" / case.name, folder, but=but))
        return self._result(faults, calls=len(after), folder=folder)

    def stopped(self, case: Case, step: str) -> dict[str, Any]:
        """Stop the other version in a step, resume by this one, and compare."""
        self.reference(case)
        folder = self.work / f"stopped-{step}" / case.name
        call = next(call for call in case.calls if "run run.toml" in call)
        new_folder(case, folder)
        for earlier in case.calls[: case.calls.index(call)]:
            called(self.arguments.before, folder, earlier, 0)
        killed_in = killed(self.arguments.before, folder, call, step, self._midst(case, step))
        rest = case.calls[case.calls.index(call) :]
        first = called(ROOT, folder, call, 0)
        faults = [] if first["code"] == 0 else [f"resumed: exit code {first['code']}: {first['stderr']}"]
        for one in rest[1:]:
            if one.startswith("+ "):
                shutil.copytree(folder / one[2:], folder, dirs_exist_ok=True)
            elif one == call:
                faults += _failed([called(ROOT, folder, one, 0)])
        but = (*self.arguments.but, *BESIDE)
        faults += list(differences(self.work / "before" / case.name, folder, but=but))
        return self._result(faults, killed_in=killed_in, folder=folder)

    def steps(self, case: Case) -> list[str]:
        """Return the steps of a case's run, in order."""
        self.reference(case)
        events = read_log(self.work / "before" / case.name / "run")
        return list(dict.fromkeys(event["step"] for event in events if event["event"] == "commit"))

    def _midst(self, case: Case, step: str) -> int:
        """Return after how many commits of a step the run is killed."""
        events = read_log(self.work / "before" / case.name / "run")
        count = sum(1 for event in events if event["event"] == "commit" and event["step"] == step)
        return max(1, count // 2)

    def _result(self, faults: list[str], *, folder: Path, **more: Any) -> dict[str, Any]:
        if not faults and folder.parent.name != "after-0":
            shutil.rmtree(folder)
        return {"faults": faults[:SHOWN], "differences": len(faults), **more}


def _failed(calls: list[dict[str, Any]]) -> list[str]:
    """Return the calls that did not end as their case has it."""
    return [
        f"{one['call']}: exit code {one['code']}: {one['stderr'][-300:]}"
        for one in calls
        if (one["code"] != 0) != one["call"].startswith("! ")
    ]


def killed(checkout: Path, folder: Path, call: str, step: str, wanted: int) -> str:
    """Kill a run when a step has a number of commits; return the step that it was in then."""
    words = [word.replace("$WORKERS", "0") for word in shlex.split(call)]
    output = folder / words[words.index("--output") + 1]
    with subprocess.Popen(  # noqa: S603  # the program
        [sys.executable, "-P", "-m", "pipeline.main", *words],
        cwd=folder,
        env=_environment(checkout),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        log, mark = output / "log.jsonl", f'"event": "commit", "step": "{step}"'.encode()
        while process.poll() is None and (not log.exists() or log.read_bytes().count(mark) < wanted):
            time.sleep(POLL)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    events = [event for event in read_log(output) if "step" in event]
    return str(events[-1]["step"]) if process.returncode < 0 else "ended before"


def body(trials: Trials, arguments: argparse.Namespace) -> int:
    """Do all trials, print what differs, and return the exit code."""
    if not (arguments.work / "inputs").exists():
        (trials.new_folder() / "inputs").mkdir()
    versions, faulty = Versions(trials, arguments), 0
    for case in (CASES[name] for name in arguments.cases):
        todo = [
            (f"{case.name}, {n} workers", partial(versions.whole, case, n)) for n in arguments.workers
        ]
        if arguments.stops and case.stops:
            steps = versions.steps(case)
            todo += [(f"{case.name}, stopped in {s}", partial(versions.stopped, case, s)) for s in steps]
        for key, do in todo:
            result = trials.trial(key, do, failed=has_faults)
            faulty += bool(result["faults"])
            print(
                f"{key}: {result['differences']} differences {result.get('killed_in', '')}", flush=True
            )
            for fault in result["faults"]:
                print(f"    {fault}", flush=True)
    print("FAIL" if faulty else "PASS")
    return int(bool(faulty))


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder")
    parser.add_argument(
        "--before", type=Path, required=True, metavar="CHECKOUT", help="the other version"
    )
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="NAME")
    parser.add_argument("--workers", type=_numbers, default=[0, 1, 2, 3], metavar="N,N,...")
    parser.add_argument("--stops", action="store_true", help="also stop the other version in each step")
    parser.add_argument("--but", nargs="+", default=[], metavar="PATTERN", help="files that may differ")
    add_trial_options(parser)
    arguments = parser.parse_args()
    arguments.before = arguments.before.resolve()
    if not (arguments.before / "pipeline" / "main.py").exists():
        refuse(f"--before {arguments.before}: is no checkout of the program: it has no pipeline/main.py")
    return arguments


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> int:
    """Compare two versions as the command line asks."""
    arguments = parse_arguments()
    names = ("cases", "workers", "stops", "but")
    settings = {name: getattr(arguments, name) for name in names} | {"before": str(arguments.before)}
    return conduct(
        lambda trials: body(trials, arguments), arguments, settings, work=arguments.work.resolve()
    )


if __name__ == "__main__":
    sys.exit(main())
