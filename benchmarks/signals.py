r"""Signals at random moments of a run: it ends in order, in one line, and goes on to the same bytes.

    python benchmarks/signals.py WORK --cases 40 --seed 1 --workers 0,1 --json signals.json

WORK must not be there; a small run is made in it, and its seconds from the first line of Python to the
end are the span in which moments are drawn. Each case starts the run anew in a process of its own, sends
it SIGTERM, SIGINT or SIGHUP in turn (every third case twice) and waits; then the same command is called
to its end. A process that ended before its signal is a case too: its code is 0.

Passes if every exit code was the signal's, nothing but one line was said of the stop, no process of the
run was left, status.json told no run, and the artifacts are those of the undisturbed run.
"""

import argparse
import json
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from run_processes import launch, new_marker, run_processes, wait_until_gone

from tests.material.door_material import tell, write_material, wrong_bytes

CODES = {signal.SIGTERM: 75, signal.SIGINT: 130, signal.SIGHUP: 75}
START_SECONDS = 0.15
"""In which Python has reached this program; a signal before that ends it in the system's own way."""
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores Ctrl-C
from pipeline.main import main
main()
"""


@dataclass
class Case:
    """One signal and what came of it."""

    workers: int
    number: int
    share: float
    """Of the span."""
    twice: bool
    seconds: float = 0.0
    ended_after: float = 0.0
    code: int | None = None
    faults: list[str] = field(default_factory=list)


def command(run_file: Path, output: Path, workers: int) -> list[str]:
    """Return the words of a run."""
    words = [sys.executable, "-c", PROGRAM, "run", str(run_file), "-o", str(output)]
    return [*words, "--workers", str(workers)]


def do_case(case: Case, run_file: Path, reference: Path, folder: Path, *, span: float) -> None:
    """Start, send, wait, go on, and compare."""
    folder.mkdir()
    output, log, marker = folder / "run", folder / "log", new_marker()
    words = command(run_file, output, case.workers)
    process = launch(words, marker, log=log)
    case.seconds = round(START_SECONDS + case.share * span, 2)
    time.sleep(case.seconds)
    for _ in range(1 + case.twice):
        process.send_signal(case.number)
    sent = time.monotonic()
    case.code = process.wait()
    case.ended_after = round(time.monotonic() - sent, 2)
    _judge(case, output, log.read_text(encoding="utf-8", errors="replace"))
    if wait_until_gone(marker, timeout=10.0) is None:
        case.faults.append(f"left: {[one.label for one in run_processes(marker)]}")
    again = launch(words, new_marker(), log=log).wait()
    if again or wrong_bytes(output, reference):
        case.faults.append(
            f"the same command: code {again}, {len(wrong_bytes(output, reference))} differ"
        )


def _judge(case: Case, output: Path, said: str) -> None:
    if case.code == 0 and "report: " in said:
        return  # it was done before
    if case.code != CODES[signal.Signals(case.number)]:
        case.faults.append(f"exit code {case.code}: {said[-1500:]}")
    if "Traceback" in said or "Exception ignored" in said or said.count("shardmill: ") != 1:
        case.faults.append(f"said: {said[-1500:]}")
    status = output / "status.json"
    if status.exists() and json.loads(status.read_bytes())["state"] == "running":
        case.faults.append("status.json says that it runs")


def campaign(work: Path, *, number: int, seed: int, workers: list[int]) -> dict[str, Any]:
    """Do a campaign, and return what came of it."""
    run_file, chance = write_material(work), random.Random(seed)  # noqa: S311  # when, no secret
    spans: dict[int, float] = {}
    for count in workers:
        began = time.monotonic()
        words = command(run_file, work / f"whole-{count}", count)
        if launch(words, new_marker(), log=work / "log").wait():
            raise RuntimeError((work / "log").read_text(encoding="utf-8")[-1500:])
        spans[count] = time.monotonic() - began - START_SECONDS
    cases = []
    for turn in range(number):
        numbers, count = list(CODES), workers[turn % len(workers)]
        case = Case(count, numbers[turn // 2 % len(numbers)], chance.random(), twice=turn % 3 == 0)
        do_case(case, run_file, work / f"whole-{count}", work / f"case-{turn}", span=spans[case.workers])
        cases.append(case)
        if case.faults:
            print(f"{turn:>4} {asdict(case)}", flush=True)
    return {
        "cases": len(cases),
        "seconds_of_a_run": {count: round(span, 1) for count, span in spans.items()},
        "codes": dict(Counter(case.code for case in cases)),
        "longest_wait": max(case.ended_after for case in cases),
        "faulty": [asdict(case) for case in cases if case.faults],
    }


def main() -> int:
    """Do a campaign and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder")
    parser.add_argument("--cases", type=int, default=40, metavar="N", help="[default: 40]")
    parser.add_argument("--seed", type=int, default=1, help="of the moments [default: 1]")
    parser.add_argument("--workers", default="0,1", metavar="N,N,...", help="in turn [default: 0,1]")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    arguments = parser.parse_args()
    workers = [int(word) for word in arguments.workers.split(",")]
    content = campaign(
        arguments.work.resolve(), number=arguments.cases, seed=arguments.seed, workers=workers
    )
    return tell(content, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
