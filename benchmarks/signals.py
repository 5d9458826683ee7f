r"""Signals at random moments of a run: it ends in order, in one line, and goes on to the same bytes.

    python benchmarks/signals.py WORK --cases 40 --seed 1 --workers 0,1 --json signals.jsonl

WORK must not be there; a small run is made in it, and its seconds from the first line of Python to the
end are the span in which moments are drawn. Each case starts the run anew in a process of its own, sends
it SIGTERM, SIGINT or SIGHUP in turn (every third case twice) and waits; then the same command is called
to its end. A process that ended before its signal is a case too: its code is 0. A trial is one case;
`--continue` goes on after the last one.

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
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from run_processes import launched, new_marker, run_processes, wait_until_gone
from trial_lines import Trials, add_trial_options, conduct, has_faults, tell

from tests.material.door_material import write_material, wrong_bytes

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


def code_of(words: list[str], log: Path) -> int:
    """Call a command to its end, and return its exit code."""
    with launched(words, new_marker(), log=log) as process:
        return process.wait()


def do_case(case: Case, run_file: Path, reference: Path, folder: Path, *, span: float) -> None:
    """Start, send, wait, go on, and compare."""
    folder.mkdir()
    output, log, marker = folder / "run", folder / "log", new_marker()
    words = command(run_file, output, case.workers)
    case.seconds = round(START_SECONDS + case.share * span, 2)
    with launched(words, marker, log=log) as process:
        time.sleep(case.seconds)
        for _ in range(1 + case.twice):
            process.send_signal(case.number)
        sent = time.monotonic()
        case.code = process.wait()
        case.ended_after = round(time.monotonic() - sent, 2)
    _judge(case, output, log.read_text(encoding="utf-8", errors="replace"))
    if wait_until_gone(marker, timeout=10.0) is None:
        case.faults.append(f"left: {[one.label for one in run_processes(marker)]}")
    again = code_of(words, log)
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


def cases_of(number: int, seed: int, workers: Sequence[int]) -> list[Case]:
    """Return cases: numbers of workers and signals in turn, at moments drawn by the seed."""
    chance = random.Random(seed)  # noqa: S311  # when, no secret
    numbers = list(CODES)
    return [
        Case(
            workers[turn % len(workers)],
            numbers[turn // 2 % len(numbers)],
            chance.random(),
            twice=turn % 3 == 0,
        )
        for turn in range(number)
    ]


class SignalledRun:
    """The run that gets the signals, made when it is first needed.

    Args:
        work: a new folder.
        workers: numbers of workers; each has an undisturbed run.
    """

    def __init__(self, work: Path, workers: Sequence[int]) -> None:
        self.work = work
        self.run_file = write_material(work)
        self.spans = {count: self._whole(count) for count in workers}
        """Seconds of each undisturbed run."""

    def _whole(self, count: int) -> float:
        began = time.monotonic()
        words, log = command(self.run_file, self.reference(count), count), self.work / "log"
        if code_of(words, log):
            raise RuntimeError(log.read_text(encoding="utf-8")[-1500:])
        return time.monotonic() - began - START_SECONDS

    def reference(self, count: int) -> Path:
        """Return the folder of an undisturbed run."""
        return self.work / f"whole-{count}"

    def tried(self, turn: int, case: Case, span: float) -> dict[str, Any]:
        """Do a case, and return what came of it."""
        folder = self.work / f"case-{turn}"
        do_case(case, self.run_file, self.reference(case.workers), folder, span=span)
        if case.faults:
            print(f"{turn:>4} {asdict(case)}", flush=True)
        return asdict(case)


def campaign(trials: Trials, *, number: int, seed: int, workers: Sequence[int]) -> dict[str, Any]:
    """Do a campaign, and return what came of it."""
    run = cache(lambda: SignalledRun(trials.new_folder(), workers))
    spans = trials.fact("seconds of a run", lambda: run().spans)

    def do(turn: int, case: Case) -> dict[str, Any]:
        return run().tried(turn, case, spans[str(case.workers)])

    cases = [
        trials.trial(str(turn), partial(do, turn, case), failed=has_faults)
        for turn, case in enumerate(cases_of(number, seed, workers))
    ]
    return {
        "cases": len(cases),
        "seconds_of_a_run": {count: round(span, 1) for count, span in spans.items()},
        "codes": dict(Counter(case["code"] for case in cases)),
        "longest_wait": max(case["ended_after"] for case in cases),
        "faulty": [case for case in cases if case["faults"]],
    }


def main() -> int:
    """Do a campaign and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder")
    parser.add_argument("--cases", type=int, default=40, metavar="N", help="[default: 40]")
    parser.add_argument("--seed", type=int, default=1, help="of the moments [default: 1]")
    parser.add_argument("--workers", default="0,1", metavar="N,N,...", help="in turn [default: 0,1]")
    add_trial_options(parser)
    given = parser.parse_args()
    workers = [int(word) for word in given.workers.split(",")]
    return conduct(
        lambda trials: tell(campaign(trials, number=given.cases, seed=given.seed, workers=workers)),
        given,
        {"cases": given.cases, "seed": given.seed, "workers": workers},
        work=given.work.resolve(),
    )


if __name__ == "__main__":
    sys.exit(main())
