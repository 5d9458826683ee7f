r"""Faults of the disk at random calls: no traceback, the right exit code, and the same bytes afterwards.

    python benchmarks/io_errors.py WORK --cases 100 --seed 1 --json io.jsonl

WORK must not be there; a small run and its export are made in it. Each case calls a command while one
call of the system below its folder, or every call from one on, is refused with EIO, ENOSPC, EACCES and
so on; then the same command once more without the fault, and the run and `verify` after it. Every tenth
case is a run with a Ray worker, in whose process the fault is.

Passes if no command showed a traceback or ended with another code than 0 (the refused call was none that
counts), 2 or 75, every second call gave 0, and the artifacts are those of the undisturbed run.
A trial is one case. Calls are counted once: they are a fact of the campaign.
"""

import errno
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from damaged_state import Material
from trial_lines import Trials, campaign_main, has_faults

from tests.material.door_material import (
    Answer,
    export_command,
    run_command,
    shardmill,
    shown,
    wrong_bytes,
)
from tests.material.faulty_disk import VARIABLE, Fault, faulty_disk, write_site

ERRORS = (
    errno.EIO,
    errno.ENOSPC,
    errno.EACCES,
    errno.EROFS,
    errno.ESTALE,
    errno.EMFILE,
    errno.EDQUOT,
    errno.ENFILE,
    errno.ETIMEDOUT,
    errno.ENAMETOOLONG,
)
"""Not EISDIR and ENOTDIR: a folder in place of a file is damage, which damaged_state.py makes."""
COMMANDS = ("run", "run", "run", "resume", "export", "verify", "run", "plan", "status")
"""In turn: what a run does to a disk is most of what there is."""
CODES = (0, 2, 75)
EVERY = 10
"""Of so many cases one has a Ray worker."""


@dataclass
class Case:
    """One fault and what came of it."""

    command: str
    error: str
    lasting: bool
    workers: int
    share: float
    """Of the command's calls, which one is refused."""
    call: str = ""
    code: int = 0
    line: str = ""
    faults: list[str] = field(default_factory=list)


def prepare(case: Case, material: Material, folder: Path) -> list[str | Path]:
    """Lay out what a command finds, and return its words."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    output = folder / "run"
    if case.command != "run":
        shutil.copytree(material.run, output)
    if case.command == "resume":
        for step in ("shard-clm", "draw-clm", "decode", "verify-clm"):
            shutil.rmtree(output / "commits" / step)
    if case.command in ("run", "resume"):
        return run_command(material.run_file, output)
    others: dict[str, list[str | Path]] = {
        "export": export_command(output, folder / "export"),
        "verify": ["verify", output, "--workers", "0"],
        "plan": ["plan", material.run_file, "-o", output],
        "status": ["status", output],
    }
    return others[case.command]


def do_case(case: Case, material: Material, folder: Path, *, calls: int) -> None:
    """Call with the fault, then without, and compare."""
    words = prepare(case, material, folder)
    at = 1 + int(case.share * calls)
    fault = Fault(f"{folder}/", at, int(getattr(errno, case.error)), lasting=case.lasting)
    if case.workers:
        answer = _with_worker(words, fault, folder)
    else:
        with faulty_disk(fault) as counted:
            answer = shardmill(*words)
        case.call = "; ".join(counted.refused[:1])
    case.code, case.line = answer.code, shown(answer.line, [folder])
    _judge(case, answer, CODES)
    if case.code == 0 and not case.workers and case.call and case.command == "export":
        _judge(case, shardmill(*words), (0,))
    output = folder / "run"
    verify: list[str | Path] = ["verify", output, "--workers", "0"]
    again = [words] if case.command != "status" else []
    for after in [*again, run_command(material.run_file, output), verify]:
        _judge(case, shardmill(*after), (0,))
    if wrong := wrong_bytes(output, material.run):
        case.faults.append(f"other bytes: {wrong[0]}")


def _with_worker(words: list[str | Path], fault: Fault, folder: Path) -> Answer:
    """Call a run with one Ray worker, whose process has the fault."""
    site = folder.parent / "site"
    write_site(site)
    here = Path(__file__).parent
    paths = [str(site), str(here), str(here.parent)]
    environment = {**os.environ, VARIABLE: fault.text(), "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "pipeline.main", *map(str, words)]
    command[command.index("--workers") + 1] = "1"
    done = subprocess.run(  # noqa: S603  # our own command line
        command, env=environment, capture_output=True, text=True, check=False
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def _judge(case: Case, answer: Answer, codes: tuple[int, ...]) -> None:
    if answer.has_traceback:
        case.faults.append(f"traceback: {answer.err[-2000:]}")
    elif answer.code not in codes:
        case.faults.append(f"exit code {answer.code}: {answer.line}")
    elif answer.code and not answer.line:
        case.faults.append(f"exit code {answer.code} and nothing said")


def count_calls(material: Material, folder: Path) -> dict[str, int]:
    """Return how many calls each command makes undisturbed."""
    counts = {}
    for command in dict.fromkeys(COMMANDS):
        words = prepare(Case(command, "EIO", lasting=False, workers=0, share=0), material, folder)
        with faulty_disk(Fault(f"{folder}/", 0)) as counted:
            answer = shardmill(*words)
        assert answer.code == 0, answer.err
        counts[command] = counted.seen
    return counts


def cases_of(number: int, seed: int, *, every: int) -> Iterator[Case]:
    """Return cases: commands and errors in turn, at calls drawn by the seed."""
    chance = random.Random(seed)  # noqa: S311  # which call, no secret
    for turn in range(number):
        worker = every and turn % every == every - 1
        yield Case(
            command="run" if worker else COMMANDS[turn % len(COMMANDS)],
            error=errno.errorcode[ERRORS[turn % len(ERRORS)]],
            lasting=chance.random() < 1 / 3,
            workers=int(bool(worker)),
            share=chance.random() * (0.2 if worker else 1.0),  # a worker makes a part of the calls
        )


def tried(
    turn: int, case: Case, material: Callable[[], Material], counts: dict[str, int]
) -> dict[str, Any]:
    """Do a case in a folder beside the material, and return what came of it."""
    folder = _folder_beside(material())
    do_case(case, material(), folder, calls=counts[case.command])
    shutil.rmtree(folder)
    if case.faults:
        print(f"{turn:>4} {case.command}: {case.error} at {case.call}: {case.faults}", flush=True)
    return asdict(case)


def _folder_beside(material: Material) -> Path:
    return material.run.parent.with_name("case")


def campaign(trials: Trials, *, number: int, seed: int, every: int = EVERY) -> dict[str, Any]:
    """Do a campaign, and return what came of it."""
    material = cache(lambda: Material.make(trials.new_folder() / "material"))
    counts = trials.fact("calls", lambda: count_calls(material(), _folder_beside(material())))
    cases = [
        trials.trial(
            str(turn),
            partial(tried, turn, case, material, counts),
            failed=has_faults,
        )
        for turn, case in enumerate(cases_of(number, seed, every=every), 1)
    ]
    return {
        "cases": len(cases),
        "calls": counts,
        "codes": dict(sorted(Counter(case["code"] for case in cases).items())),
        "tracebacks": sum(any("traceback" in fault for fault in case["faults"]) for case in cases),
        "wrong_bytes": sum(any("other bytes" in fault for fault in case["faults"]) for case in cases),
        "faulty": [case for case in cases if case["faults"]],
        "messages": sorted({f"{case['code']} {case['line']}" for case in cases if case["line"]}),
    }


def main() -> int:
    """Do a campaign and print what came of it."""
    return campaign_main(__doc__, campaign, cases=100)


if __name__ == "__main__":
    sys.exit(main())
