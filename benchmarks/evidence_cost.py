r"""The cost of evidence that is made again: CPU seconds of a run with it and without it, in pairs.

    python benchmarks/evidence_cost.py 'CORPUS/*.jsonl.gz' WORK --turns 3 --json cost.json
    python benchmarks/evidence_cost.py 'CORPUS/*.jsonl.gz' WORK --methods         every method of dedup

Each turn is two processes side by side, each on a core of its own, so that what slows the machine slows
both; the cores are exchanged from turn to turn. Each makes the run of the defaults, without workers and
without learning, in a folder of its own. `with` does all that a run does; `without` leaves out what
`decode` and `verify` make again. At the end `verify` looks at a run as it is. Also told: the CPU seconds
of what is done again, by the function that does it.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from trials import tell

from pipeline.run_file.config import RunFile
from pipeline.session.session import RunRequest, run_session
from pipeline.session.verifying import verify_session
from pipeline.steps.again import choice
from pipeline.steps.decode import step as decode
from pipeline.steps.findings import CheckRecord
from pipeline.steps.verify import step as verify

METHODS: dict[str, Any] = {
    "containment": {},
    "semantic": {},
    "lines": {},
    "paragraphs": {},
    "substrings": {},
}
_SPENT: dict[str, float] = {}


def run_file(paths: list[str], *, methods: bool) -> RunFile:
    """Return the run of the defaults over some files."""
    source = {"name": "s", "paths": paths, "language": {"column": "lang"}}
    return RunFile.model_validate(
        {
            "name": "cost",
            "sources": [source],
            "dedup": METHODS if methods else {},
            "datasets": [{"name": "clm"}],
            "verify": {"learning": False},
        }
    )


def turn(arguments: argparse.Namespace) -> None:
    """Do what one process does, and print its CPU seconds as JSON."""
    os.sched_setaffinity(0, {arguments.core})
    corpus = Path(arguments.corpus)
    output = arguments.work / arguments.turn
    _count_tasks()
    if arguments.turn == "verify":
        before = time.process_time()
        report = verify_session(arguments.work / "with", workers=0, address=None, stream=None)
    else:
        if arguments.turn == "without":
            _leave_out()
        shutil.rmtree(output, ignore_errors=True)
        request = RunRequest(
            run_file([corpus.name], methods=arguments.methods), corpus.parent, output, workers=0
        )
        before = time.process_time()
        report = run_session(request, stream=None)
    assert report["passed"], report["verify"]
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                "cpu": time.process_time() - before,
                "peak": used.ru_maxrss << 10,
                "again": _SPENT,
                "looked": report.get("evidence", {}).get("looked", []),
            }
        )
    )


def _leave_out() -> None:
    """Let checks make nothing again."""

    def nothing(*_: Any, **__: Any) -> Any:
        yield from ()
        return CheckRecord()

    for module, name in (
        (decode, "made_again"),
        (decode, "signed_again"),
        (decode, "embedded_again"),
        (verify, "made_again"),
    ):
        setattr(module, name, nothing)


def _count_tasks() -> None:
    """Count the CPU seconds of what is made again, by what is done."""

    def count(module: Any, function: str, name: Callable[..., str]) -> None:
        does = getattr(module, function)

        def timed(*given: Any) -> Any:
            before = time.process_time()
            try:
                return does(*given)
            finally:
                _SPENT[name(*given)] = _SPENT.get(name(*given), 0.0) + time.process_time() - before

        setattr(module, function, timed)

    count(choice, "redo", lambda _, work: work.task.function.__name__)
    for function in ("sign_again", "embed_again", "follow"):
        count(choice, function, lambda *_, name=function: name)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Let the processes take turns, and return the medians."""
    given = [arguments.corpus, str(arguments.work), *(["--methods"] if arguments.methods else [])]
    found: dict[str, list[dict[str, Any]]] = {"with": [], "without": [], "verify": []}
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < len(("with", "without")):
        sys.exit("two processes run side by side: this needs two cores")
    for number in range(arguments.turns):
        order = ("with", "without") if number % 2 else ("without", "with")
        running = [_started(name, given, core) for core, name in zip(cores, order, strict=False)]
        for name, process in zip(order, running, strict=True):
            found[name].append(_told(name, process))
    found["verify"].append(_told("verify", _started("verify", given, cores[0])))
    pairs = [
        one["cpu"] / other["cpu"] - 1 for one, other in zip(found["with"], found["without"], strict=True)
    ]
    last = found["with"][-1]
    content: dict[str, Any] = {
        name: round(median(one["cpu"] for one in turns), 2) for name, turns in found.items()
    }
    content["pairs"] = [f"{pair:+.2%}" for pair in pairs]
    content["median of pairs"] = f"{median(pairs):+.2%}"
    again = median(sum(one["again"].values()) for one in found["with"])
    content["made again"] = f"{again:.2f} CPU s, {again / content['without']:.2%}"
    content["of which"] = {name: round(value, 2) for name, value in sorted(last["again"].items())}
    verified = found["verify"][-1]["again"]
    content["of verify"] = {name: round(value, 2) for name, value in sorted(verified.items())}
    content["looked"] = [
        f"{one['what']}: {one['looked']:,} of {one['of']:,} {one['unit']}"
        for one in last["looked"]
        if one["of"]
    ]
    content["faulty"] = []
    return content


def _started(name: str, given: list[str], core: int) -> subprocess.Popen[str]:
    """Start a process on a core."""
    call = [sys.executable, __file__, *given, "--turn", name, "--core", str(core)]
    return subprocess.Popen(call, stdout=subprocess.PIPE, text=True)  # noqa: S603  # ours


def _told(name: str, process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for a process, and return what it printed."""
    printed, _ = process.communicate()
    if process.returncode:
        sys.exit(f"{name}: ended with {process.returncode}")
    told: dict[str, Any] = json.loads(printed.splitlines()[-1])
    print(f"{name:<8} {told['cpu']:8.1f} CPU s", flush=True)
    return told


def main() -> int:
    """Measure and print, or do one turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("corpus", metavar="PATTERN", help="files of records with text and lang")
    parser.add_argument("work", type=Path, metavar="WORK", help="a folder for the runs")
    parser.add_argument("--turns", type=int, default=3, metavar="N", help="[default: 3]")
    parser.add_argument("--methods", action="store_true", help="every method of dedup, and cuts")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    parser.add_argument("--turn", help=argparse.SUPPRESS)
    parser.add_argument("--core", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.turn:
        turn(arguments)
        return 0
    return tell(measure(arguments), arguments.json)


if __name__ == "__main__":
    sys.exit(main())
