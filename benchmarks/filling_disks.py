r"""Disks that fill: a small run on file systems of many sizes ends with a line, and goes on later.

    python benchmarks/filling_disks.py WORK --cases 200 --json disks.jsonl     as root: it mounts

WORK must not be there; a small run is made in it, with every step that writes through mapped files:
ranks, cuts of lines and of substrings, evidence, rows, losses. Each case mounts a file system of its own
size, from one too small for the first file to one that holds all, tmpfs and ext4 in turn, and calls the
run on it in a process of its own. What is there is then put where there is space, and called again.

Passes if no process was ended by a signal, each first call ended with 75 and a line or with 0, each
second with 0, and the artifacts are those of the undisturbed run. It tells how often each step was hit.
A trial is one size.
"""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from run_processes import ended_with_block
from trial_lines import Trials, campaign_main, has_faults

from pipeline.steps.table import NAMES
from pipeline.system.stopping import STOPPED
from tests.material.door_material import (
    DOCUMENTS,
    SIZES,
    run_command,
    shardmill,
    shown,
    wrong_bytes,
)
from tests.material.words import WORDS

RUN_FILE = f"""
[[sources]]
name = "s"
paths = ["corpus/*.jsonl"]
language = {{ column = "lang" }}
section_columns = ["target"]

[ingest]
unit_size = "64KiB"
min_chars = 1

[dedup]
keep = "longest"

[dedup.lines]
min_documents = 3

[dedup.substrings]

{SIZES}
[[datasets]]
name = "clm"
objective = {{ kind = "clm", loss = "targets" }}
materialized_epochs = 1

[verify]
learning = false
"""
KINDS = ("tmpfs", "ext4")
ROOM = 64 << 20
"""Bytes of a disk that is large enough."""
_EXT4 = 1 << 20
"""Bytes of an ext4 file system that it needs for itself."""
_ROUNDS = 40
"""Times that each document's words are written: a run of a few megabytes."""
Answer = tuple[int, int, str]
"""Exit code, signal, and the last line of the errors."""


@dataclass
class Case:
    """One size and what came of it."""

    kind: str
    size: int
    code: int = 0
    signal: int = 0
    step: str = ""
    """That was at work when the disk was full."""
    line: str = ""
    faults: list[str] = field(default_factory=list)


def write_corpus(folder: Path) -> Path:
    """Write documents of two sections with repeated lines, and return the run file."""
    (folder / "corpus").mkdir(parents=True)
    with (folder / "corpus" / "a.jsonl").open("w", encoding="utf-8") as file:
        for number in range(DOCUMENTS * 4):
            words = [WORDS[(number * 7 + k * (number + 3)) % len(WORDS)] for k in range(40)]
            text = "\n".join(f"{number} {n} {' '.join(words)}." for n in range(_ROUNDS))
            record = {"text": f"a line of many\n{text}", "target": f"{number} is it", "lang": "en"}
            file.write(json.dumps(record) + "\n")
    run_file = folder / "run.toml"
    run_file.write_text(RUN_FILE, encoding="utf-8")
    return run_file


@contextmanager
def disk(place: Path, kind: str, size: int) -> Iterator[None]:
    """Mount a new file system of a size at a folder."""
    place.mkdir(exist_ok=True)
    image = place.with_suffix(".img")
    if kind == "tmpfs":
        _call("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place)
    else:
        with image.open("wb") as file:
            file.truncate(size + _EXT4)
        _call("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image)
        _call("mount", "-o", "loop", image, place)
    try:
        yield
    finally:
        _call("umount", place)
        image.unlink(missing_ok=True)


def _call(*words: str | Path) -> None:
    subprocess.run(list(map(str, words)), check=True, capture_output=True)  # noqa: S603  # our own


def called(words: list[str | Path], said: Path) -> Answer:
    """Call a command in a fork of this process: a signal ends the fork alone."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        answer = shardmill(*words)
        said.write_text(answer.err, encoding="utf-8")
        os._exit(answer.code)
    with ended_with_block(child):
        _, status = os.waitpid(child, 0)
    lines = said.read_text(encoding="utf-8").splitlines() if said.exists() else []
    said.unlink(missing_ok=True)
    last = next((line for line in reversed(lines) if line.startswith("shardmill: ")), "")
    return (os.waitstatus_to_exitcode(status), 0, last) if os.WIFEXITED(status) else (0, status, last)


def do_case(case: Case, run_file: Path, reference: Path, work: Path) -> None:
    """Run on a disk that fills, then on one with room for all."""
    place, kept, said = work / "disk", work / "kept", work / "said"
    with disk(place, case.kind, case.size):
        output = place / "run"
        case.code, case.signal, line = called(run_command(run_file, output), said)
        case.line = shown(line.removeprefix("shardmill: "), [place])
        case.step = _step_at_work(output)
        shutil.rmtree(kept, ignore_errors=True)
        if output.exists():
            shutil.copytree(output, kept)
    if case.signal:
        case.faults.append(f"ended by signal {case.signal}")
    if case.code not in (0, STOPPED) or (case.code and not case.line):
        case.faults.append(f"exit code {case.code}: {case.line!r}")
    code, signal, line = called(run_command(run_file, kept), said)
    if code or signal:
        case.faults.append(f"with more space: exit code {code}, signal {signal}: {line}")
    elif wrong := wrong_bytes(kept, reference):
        case.faults.append(f"other bytes: {wrong[0]}")
    shutil.rmtree(kept, ignore_errors=True)


def _step_at_work(output: Path) -> str:
    """Return the step that a run was at when it stopped: the one after the last that is whole."""
    whole = [name for name in NAMES if any(output.glob(f"commits/{name}*/_step.json"))]
    return NAMES[NAMES.index(whole[-1]) + 1] if whole and whole[-1] != NAMES[-1] else NAMES[0]


class FilledRun:
    """The run that is made on disks of many sizes, and its undisturbed form.

    Args:
        work: a new folder.
    """

    def __init__(self, work: Path) -> None:
        self.work, self.reference = work, work / "whole"
        self.run_file = write_corpus(work)
        answer = shardmill(*run_command(self.run_file, self.reference))
        assert answer.code == 0, answer.err

    @property
    def most(self) -> int:
        """Bytes of the largest disk: half as much again as the run takes."""
        files = [path for path in self.reference.rglob("*") if path.is_file()]
        return sum(path.stat().st_blocks * 512 for path in files) * 3 // 2

    def tried(self, turn: int, case: Case) -> dict[str, Any]:
        """Do a case, and return what came of it."""
        do_case(case, self.run_file, self.reference, self.work)
        if case.faults:
            print(f"{turn:>4} {case.kind} of {case.size:,} bytes: {case.faults}", flush=True)
        return asdict(case)


def campaign(trials: Trials, *, number: int, seed: int) -> dict[str, Any]:
    """Do a campaign, and return what came of it; sizes are spread evenly, so `seed` decides nothing."""
    del seed
    run = cache(lambda: FilledRun(_new_folder(trials)))
    most = trials.fact("bytes of the largest disk", lambda: run().most)

    def do(turn: int) -> dict[str, Any]:
        size = turn * most // number // 4096 * 4096 + 4096
        return run().tried(turn, Case(KINDS[(turn - 1) % len(KINDS)], size))

    cases = [
        trials.trial(str(turn), partial(do, turn), failed=has_faults) for turn in range(1, number + 1)
    ]
    return {
        "cases": len(cases),
        "bytes": [cases[0]["size"], cases[-1]["size"]],
        "codes": dict(sorted(Counter(case["code"] for case in cases).items())),
        "signals": sum(case["signal"] > 0 for case in cases),
        "steps": dict(Counter(case["step"] for case in cases if case["code"])),
        "faulty": [case for case in cases if case["faults"]],
        "messages": sorted({f"{case['code']} {case['line']}" for case in cases if case["line"]}),
    }


def _new_folder(trials: Trials) -> Path:
    """Return the work folder, where a campaign that was killed may have left a disk mounted."""
    assert trials.work is not None
    if os.path.ismount(trials.work / "disk"):
        _call("umount", trials.work / "disk")
    return trials.new_folder()


def main() -> int:
    """Do a campaign and print what came of it."""
    return campaign_main(__doc__, campaign, cases=200)


if __name__ == "__main__":
    sys.exit(main())
