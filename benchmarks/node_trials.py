"""A run that joins a cluster on this machine, and what one trial of `node_runs` looks at."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from digests import differences, file_digests
from node_machines import ROOT, RayMachines

RUN_FILE = ROOT / "examples" / "quickstart.toml"
SETTINGS = ("--set", "verify.learning=false", "--set", 'ingest.unit_size="128KiB"')
LEARNING = ("--set", 'ingest.unit_size="128KiB"')
"""Settings of a run that takes a minute longer, over the same bytes."""
RUN_SECONDS = 600.0
_LOOK_SECONDS = 0.05
Record = dict[str, Any]


class JoinedRun:
    """A run that was called on the head of a cluster.

    Args:
        machines: of the cluster.
        output: of the run.
        said: the file that gets what it says.
        more: options of the call.
    """

    def __init__(
        self, machines: RayMachines, output: Path | str, said: Path, more: tuple[str, ...] = SETTINGS
    ) -> None:
        self.output, self._said = output, said
        said.parent.mkdir(parents=True, exist_ok=True)
        call = ("-m", "pipeline.main", "run", str(RUN_FILE), "--output", str(output))
        self._end = time.monotonic() + RUN_SECONDS
        self.process = machines.call([*call, "--address", machines.address, *more], said)

    @property
    def ended(self) -> bool:
        """Whether it is at its end."""
        return self.process.poll() is not None

    def wait(self, what: Callable[[], bool] = lambda: False) -> None:
        """Wait until something is so, or the run has ended; kill a run that takes too long."""
        while not self.ended and not what():
            if time.monotonic() > self._end:
                self.process.kill()
                self.process.wait()
            time.sleep(_LOOK_SECONDS)

    def code(self) -> int:
        """Wait for its end, and return its exit code."""
        self.wait()
        return int(self.process.returncode)

    def said(self) -> str:
        """Return what it said to people."""
        return self._said.read_text(encoding="utf-8", errors="replace")

    def commits(self) -> int:
        """Return how many units are committed."""
        return count_commits(Path(self.output))

    def longest_pause(self) -> float:
        """Follow the run to its end; return the longest time without a new commit, seconds."""
        pause, before, since = 0.0, self.commits(), time.monotonic()

        def look() -> bool:
            nonlocal pause, before, since
            now = time.monotonic()
            pause = max(pause, now - since)
            if (count := self.commits()) != before:
                before, since = count, now
            return False

        self.wait(look)
        return pause


def count_commits(output: Path) -> int:
    """Return how many units of a run in a folder are committed."""
    steps = output / "commits"
    if not steps.is_dir():
        return 0
    return sum(not path.name.startswith(".") for step in steps.iterdir() for path in step.iterdir())


def hosts_of_commits(output: Path) -> list[str]:
    """Return the hosts that did the units of a run, in the order of their commits."""
    lines = map(json.loads, (output / "log.jsonl").read_text(encoding="utf-8").splitlines())
    return [line["host"] for line in lines if line["event"] == "commit"]


@dataclass(frozen=True)
class Setting:
    """What the trials of a campaign share.

    Args:
        work: their folder.
        reference: digests of the run in one process.
        commits: that it has.
    """

    work: Path
    reference: Mapping[str, str]
    commits: int

    def judge(self, run: JoinedRun, code: int = 0) -> list[str]:
        """Wait for the end of a run; return what is wrong with its exit code or its bytes."""
        found = run.code()
        wrong = [] if found == code else [f"exit code {found}, not {code}: {run.said()[-800:]}"]
        return wrong + ([] if code else self.differing(Path(run.output)))

    def differing(self, output: Path) -> list[str]:
        """Return which files of a run in a folder differ."""
        paths = differences(file_digests(output), self.reference)
        return [f"{len(paths)} files differ, first {paths[0]}"] if paths else []


def run_in_one_process(output: Path) -> None:
    """Make the run that all others are compared with."""
    call = ("-m", "pipeline.main", "run", str(RUN_FILE), "--output", str(output), "--workers", "0")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, *call, *SETTINGS, "--quiet"], env=environment, check=True, capture_output=True
    )
