"""Runs in processes of their own that are killed at random moments and go on, for the tests of law 3.

python -m tests.laws.killed_runs RUN.json CORPUS OUTPUT UNTIL END    does a run on workers

END is what it does then: `leave`, or `wait` to be killed, if whoever kills it was late.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.run_file.config import RunFile
from tests.campaign import FULL

KILLS, WORKERS = (10, 2) if FULL else (1, 1)
PATIENCE = 120.0
ROOT = Path(__file__).resolve().parents[2]


def kill_until_done(file: RunFile, corpus: Path, output: Path, *, until: str, events: int) -> None:
    """Do a run, kill its process group with signal 9 again and again, and let it go on to its end.

    Its arguments are those of `kill_again_and_again`.
    """
    log = kill_again_and_again(file, corpus, output, until=until, events=events)
    process = _start(file, corpus, output, until=until, log=log, end="leave")
    assert process.wait(PATIENCE) == 0, log.read_text()
    assert not list((output / "tmp").iterdir())


def kill_again_and_again(file: RunFile, corpus: Path, output: Path, *, until: str, events: int) -> Path:
    """Do a run and kill its process group with signal 9, again and again; return what it said.

    Args:
        file: the run.
        corpus: folder that its paths are relative to.
        output: of the run.
        until: the last step.
        events: lines in the log of the same run when nothing disturbs it.
    """
    log = output.with_name(f"{output.name}.stderr")
    moments = random.Random(KILLS)  # noqa: S311  # which moments, not what bytes
    seen = 0
    for _ in range(KILLS):
        process = _start(file, corpus, output, until=until, log=log, end="wait")
        seen += moments.randrange(1, max(2, events // (KILLS + 1)))
        _wait_for_events(process, output, seen)
        time.sleep(moments.random() / 4)
        assert process.poll() is None, f"failed before it was killed: {log.read_text()}"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)
        seen = (output / "log.jsonl").read_bytes().count(b"\n")
    return log


def require_each_done_once(events: Sequence[dict[str, Any]], *, least: int) -> None:
    """Hold a log to what resuming promises: nothing is committed twice, or done once it is committed.

    Args:
        events: of all attempts.
        least: commits that there must be.
    """
    commits = Counter((e["step"], e["unit"]) for e in events if e["event"] == "commit")
    assert len(commits) > least
    assert max(commits.values()) == 1
    done: set[tuple[str, str]] = set()
    for event in events:
        if event["event"] == "dispatch":
            assert (event["step"], event["unit"]) not in done
        elif event["event"] == "commit":
            done.add((event["step"], event["unit"]))


def _start(
    file: RunFile, corpus: Path, output: Path, *, until: str, log: Path, end: str
) -> subprocess.Popen[bytes]:
    run_file = output.with_name(f"{output.name}.json")
    run_file.write_text(file.model_dump_json())
    with log.open("ab") as stream:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.laws.killed_runs", run_file, corpus, output, until, end],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},  # workers import functions of tests
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )


def _wait_for_events(process: subprocess.Popen[bytes], output: Path, wanted: int) -> None:
    """Wait until the run's log has so many lines, or the run ends."""
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        log = output / "log.jsonl"
        if log.exists() and log.read_bytes().count(b"\n") >= wanted:
            return
        time.sleep(0.01)


def _main() -> None:
    """Do a run in a process of its own, on its own Ray."""
    from pipeline.session.request import RunRequest  # noqa: PLC0415  # the subprocess only
    from pipeline.session.session import run_session  # noqa: PLC0415  # likewise

    run_file, corpus, output = map(Path, sys.argv[1:4])
    file = RunFile.model_validate_json(run_file.read_text())
    run_session(RunRequest(file, corpus, output, WORKERS, until=sys.argv[4]), stream=None)
    if sys.argv[5] == "wait":
        signal.pause()


if __name__ == "__main__":
    _main()
