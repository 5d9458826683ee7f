r"""A crash campaign on a real run: kill -9 and freezes at drawn moments, then the same bytes as without.

    python benchmarks/kills.py RUN.toml --output DIR --reference WHOLE --reference-seconds 600 \
        --kills 10 --seed 1 --workers-choices 1,2,3 --json kills.jsonl

WHOLE is the folder of a run of the same file that nothing disturbed, and 600 the seconds it took, by
default those of its log. Without WHOLE the campaign makes such a run first, and keeps its digests. The
moments are uniform over the work, in the time that WHOLE took for it: as many commits as there are, and
the time since the last one, so that long tasks are hit in their midst. The victim is a process of one
of the kinds of `--victims`, by a draw (`kill_victims`). Whenever the program ends, it is started again
with another number of workers. `--grow` and `--replace` add stages (`kill_stages`); once a setting is
replaced, only the driver is killed.

Passes if every kill was made, the run completed, its artifacts are those of WHOLE, no unit was committed
twice, none was given out again after its commit, and nothing hung: within 60 seconds of a kill the
program ends or commits again, and when it ended, so do its processes. Each trial
is one run with all its kills, and has a seed of its own.
"""

import argparse
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from digests import differences, file_digests
from kill_figures import passed, print_figures
from kill_stages import Stage, stages_of
from kill_victims import KINDS, drawn_victim, strike
from run_log import (
    Event,
    broken_promises,
    commit_times,
    committed,
    current_step,
    first_of_uniform,
    next_commit,
    progress,
)
from run_processes import (
    RunProcess,
    launch,
    launched,
    new_marker,
    run_processes,
    wait_until_gone,
)
from trial_lines import Trials, add_trial_options, conduct, refuse

from pipeline.state.journal import read_log

POLL = 0.2
SPARE_STARTS = 5
"""Starts beyond those that kills explain, before a campaign is given up."""


@dataclass
class Kill:
    """One kill and what came of it."""

    time: float
    step: str
    victim: str
    process: str
    workers: int
    in_work: dict[str, float]
    """Seconds that each unit then in work had been, of those not committed."""
    lost_seconds: float | None
    """Of them, what had to be done again; None while a dead worker's unit is not known."""
    marker: str
    exit_seconds: float | None = None
    """From the kill to the end of the program, if it ended for it."""
    leftover_seconds: float | None = None
    """How long the processes of a program that ended lived on."""
    leftover_processes: list[str] = field(default_factory=list)
    """Those that lived when the program was started again."""
    recovery_seconds: float | None = None
    """From the kill to the next commit."""
    after_restart_seconds: float | None = None
    """The part of it since the program was started again."""


@dataclass
class Attempt:
    """One start of the program."""

    workers: int
    began: float
    marker: str
    process: subprocess.Popen[bytes]
    ended: float = 0.0

    def figures(self) -> dict[str, Any]:
        """Return what is kept of it."""
        return {
            "workers": self.workers,
            "began": round(self.began, 2),
            "wall_seconds": round(self.ended - self.began, 2),
            "exit_code": self.process.returncode,
        }


@dataclass
class Campaign:
    """Everything that was done, and the means to do it."""

    arguments: argparse.Namespace
    output: Path
    chance: random.Random
    progress_times: list[float]
    """Seconds from the reference's start to each of its commits."""
    stages: list[Stage]
    """Those that are left, the present one first."""
    kills: list[Kill] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    _commits: int = 0
    _changed: float = 0.0
    """When the number of commits was seen to change, or the program was started."""

    def run(self) -> None:
        """Start, kill and start again until the run completes."""
        limit = self.arguments.kills + SPARE_STARTS + len(self.stages)
        self.stages[0].lay()
        while len(self.attempts) < limit:
            attempt = self._start()
            self.attempts.append(attempt)
            self._attend(attempt)
            attempt.ended = time.time()
            leftover = wait_until_gone(attempt.marker, timeout=self.arguments.leftover_seconds)
            code = attempt.process.returncode
            if self.kills and self.kills[-1].marker == attempt.marker and code:
                last = self.kills[-1]
                last.exit_seconds = round(attempt.ended - last.time, 2)
                last.leftover_seconds = leftover
                last.leftover_processes = [one.label for one in run_processes(attempt.marker)]
            lived = "are still there" if leftover is None else f"lived {leftover:.1f} s more"
            print(f"  ended {code}; its processes {lived}", flush=True)
            if code == 0:
                print(f"  the stage {self.stages.pop(0).name} is complete", flush=True)
                if not self.stages:
                    return
                self.stages[0].lay()
        print(f"given up after {limit} starts")

    def _start(self) -> Attempt:
        given = self.arguments.workers_choices
        before = self.attempts[-1].workers if self.attempts else None
        workers = self.chance.choice([n for n in given if n != before] or given)
        marker, output = new_marker(), self.output
        command = self.stages[0].command(self.arguments, output, workers)
        print(f"start {len(self.attempts) + 1}, {workers} workers", flush=True)
        process = launch(command, marker, log=output.with_name(f"{output.name}.out"))
        return Attempt(workers, time.time(), marker, process)

    def _attend(self, attempt: Attempt) -> None:
        """Wait for the end of an attempt, and kill its workers or itself when it is time."""
        self._changed = time.monotonic()
        while True:
            target = self._target()
            while attempt.process.poll() is None and self._progress() < target:
                time.sleep(POLL)
                self._watch_lost()
            if attempt.process.poll() is not None:
                return
            kill = self._kill(attempt)
            self.kills.append(kill)
            print(f"  kill {len(self.kills)}: {kill.victim} in {kill.step}", flush=True)
            if kill.victim == "driver":
                attempt.process.wait()
                return

    def _progress(self) -> float:
        """Return how far the run is, in seconds of the reference."""
        log = self.output / "log.jsonl"
        commits = log.read_bytes().count(b'"event": "commit"') if log.exists() else 0
        if commits != self._commits:
            self._commits, self._changed = commits, time.monotonic()
        return progress(self.progress_times, commits, time.monotonic() - self._changed)

    def _target(self) -> float:
        """Draw where to make the next of the kills that remain, uniform over what remains to do."""
        remaining_kills = self.arguments.kills - len(self.kills)
        if remaining_kills < 1:
            return float("inf")
        done = self._progress()
        remaining = self.progress_times[-1] - done
        return done + remaining * first_of_uniform(remaining_kills, self.chance.random())

    def _kill(self, attempt: Attempt) -> Kill:
        driver = RunProcess(attempt.process.pid, 0, "driver")
        kinds = ["driver"] if self.stages[0].name == "replaced" else self.arguments.victims
        kind, victim = drawn_victim(driver, run_processes(attempt.marker), kinds, self.chance)
        moment = time.time()
        strike(kind, victim)
        events = list(read_log(self.output))
        done = committed(events, moment)
        in_work = {
            unit: round(moment - begun, 3)
            for unit, begun in begun_units(self.output).items()
            if unit not in done and begun < moment
        }
        return Kill(
            time=moment,
            step=current_step(events, moment),
            victim=kind,
            process=victim.label,
            workers=attempt.workers,
            in_work=in_work,
            lost_seconds=round(sum(in_work.values()), 2) if kind == "driver" else None,
            marker=attempt.marker,
        )

    def _watch_lost(self) -> None:
        """See which unit a dead worker had: the one whose folder is made anew."""
        if self.kills and self.kills[-1].lost_seconds is None:
            kill = self.kills[-1]
            begun = begun_units(self.output)
            again = [unit for unit in kill.in_work if begun.get(unit, 0.0) > kill.time]
            done = committed(read_log(self.output), time.time())
            if again or done.issuperset(kill.in_work):
                kill.lost_seconds = round(sum(kill.in_work[unit] for unit in again), 2)


def begun_units(output: Path) -> dict[str, float]:
    """Return when the folder of each unit, STEP/UNIT, was made, as the file system knows it."""
    depth = ("-mindepth", "4", "-maxdepth", "4")
    call = ["find", str(output / "tmp"), *depth, "-exec", "stat", "--format=%.3W %n", "{}", "+"]
    told = subprocess.run(  # noqa: S603  # paths of the run
        call, capture_output=True, text=True, check=False
    ).stdout  # what is gone meanwhile is missing there
    lines = (line.split(" ", 1) for line in told.splitlines())
    return {"/".join(Path(name).parts[-2:]): float(born) for born, name in lines}


def add_recovery(kills: Sequence[Kill], events: Sequence[Event], starts: Sequence[float]) -> None:
    """Fill in how long after each kill the next commit came.

    Args:
        kills: filled.
        events: of the whole campaign.
        starts: when the program was started, ascending.
    """
    for kill in kills:
        commit = next_commit(events, kill.time)
        if commit is not None:
            again = [start for start in starts if kill.time < start < commit]
            kill.recovery_seconds = round(commit - kill.time, 2)
            kill.after_restart_seconds = round(commit - again[-1], 2) if again else None


def reference_of(arguments: argparse.Namespace, work: Callable[[], Path]) -> dict[str, Any]:
    """Return what an undisturbed run took and made: of the one that is named, or of one made now."""
    folder = arguments.reference
    if folder is None:
        folder, workers = work() / "whole", arguments.workers_choices[0]
        for stage in stages_of(arguments, work()):
            stage.lay()
            command = stage.command(arguments, folder, workers)
            log = work() / "whole.out"
            with launched(command, new_marker(), log=log) as process:
                if process.wait():
                    refuse(f"the undisturbed run ended with {process.returncode}: see {log}")
    events = list(read_log(folder))
    seconds = arguments.reference_seconds or round(events[-1]["time"] - events[0]["time"], 2)
    return {"seconds": seconds, "times": commit_times(events), "digests": file_digests(folder)}


def conclude(campaign: Campaign, reference: dict[str, Any]) -> dict[str, Any]:
    """Compare the outcome with the reference, and give all figures."""
    arguments = campaign.arguments
    events = list(read_log(campaign.output))
    add_recovery(campaign.kills, events, [attempt.began for attempt in campaign.attempts])
    ours = file_digests(campaign.output)
    wall = sum(attempt.ended - attempt.began for attempt in campaign.attempts)
    return {
        "kills_asked": arguments.kills,
        "kills": [asdict(kill) for kill in campaign.kills],
        "attempts": [attempt.figures() for attempt in campaign.attempts],
        "completed": campaign.attempts[-1].process.returncode == 0,
        "wall_seconds": round(wall, 2),
        "reference_seconds": reference["seconds"],
        "overhead_seconds": round(wall - reference["seconds"], 2),
        "lost_seconds": round(sum(kill.lost_seconds or 0.0 for kill in campaign.kills), 2),
        "files": len(ours),
        "differing": differences(ours, reference["digests"]),
        "broken_promises": broken_promises(events),
        "left_in_tmp": [path.name for path in (campaign.output / "tmp").glob("*")],
    }


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run_file", type=Path, metavar="RUN.toml", help="the run file")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="a new folder")
    parser.add_argument("--reference", type=Path, metavar="WHOLE", help="[default: one is made]")
    parser.add_argument("--reference-seconds", type=float, metavar="S", help="[default: of its log]")
    parser.add_argument("--kills", type=int, default=10, metavar="N", help="[default: 10]")
    parser.add_argument("--trials", type=int, default=1, metavar="N", help="runs [default: 1]")
    parser.add_argument("--seed", type=int, default=0, help="of moments, victims and workers")
    parser.add_argument("--workers-choices", type=_numbers, default=[1, 2, 3], metavar="N,N,...")
    parser.add_argument(
        "--leftover-seconds",
        type=float,
        default=60.0,
        metavar="S",
        help="longest wait for a dead driver's processes; 0 starts again at once [default: 60]",
    )
    parser.add_argument("--victims", type=_kinds, default=list(KINDS), metavar="KIND,...")
    parser.add_argument("--corpus", metavar="GLOB", help="read these files instead of the run file's")
    parser.add_argument("--grow", action="store_true", help="half of them come later; needs --corpus")
    parser.add_argument("--replace", metavar="KEY=VALUE", help="another setting at last")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    parser.add_argument("--command", default="shardmill", help="the program [default: shardmill]")
    add_trial_options(parser)
    arguments = parser.parse_args()
    if arguments.grow and not arguments.corpus:
        parser.error("--grow: name the files with --corpus")
    if arguments.reference and not (arguments.reference / "log.jsonl").exists():
        parser.error(f"--reference {arguments.reference}: holds no run")
    return arguments


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def _kinds(text: str) -> list[str]:
    kinds = text.split(",")
    if not set(kinds) <= set(KINDS):
        raise argparse.ArgumentTypeError(f"of {', '.join(KINDS)}")
    return kinds


def whole_campaign(
    arguments: argparse.Namespace, reference: dict[str, Any], output: Path, seed: int
) -> dict[str, Any]:
    """Do a campaign, and return its figures."""
    chance = random.Random(seed)  # noqa: S311  # when to kill, no secret
    stages = stages_of(arguments, output.parent)
    campaign = Campaign(arguments, output, chance, reference["times"], stages)
    try:
        campaign.run()
    finally:
        for attempt in campaign.attempts:
            if attempt.process.poll() is None:
                attempt.process.terminate()
                attempt.process.wait()
    return {"seed": seed, **conclude(campaign, reference)}


def body(trials: Trials, arguments: argparse.Namespace) -> int:
    """Do a campaign, print its figures and return the exit code."""
    work = cache(trials.new_folder)
    reference = trials.fact("undisturbed run", lambda: reference_of(arguments, work))

    def do(seed: int) -> dict[str, Any]:
        output = work() / "run"
        shutil.rmtree(output, ignore_errors=True)
        return whole_campaign(arguments, reference, output, seed)

    seeds = range(arguments.seed, arguments.seed + arguments.trials)
    contents = [
        trials.trial(f"seed {seed}", partial(do, seed), failed=lambda found: not passed(found))
        for seed in seeds
    ]
    for content in contents:
        print_figures(content)
    return 0 if all(map(passed, contents)) else 1


def main() -> int:
    """Do a campaign as the command line asks."""
    arguments = parse_arguments()
    names = "kills seed workers_choices leftover_seconds overrides reference victims corpus grow replace"
    settings = {name: getattr(arguments, name) for name in names.split()}
    settings["run file"] = arguments.run_file.read_text(encoding="utf-8")
    work = arguments.output.resolve()
    return conduct(lambda trials: body(trials, arguments), arguments, settings, work=work)


if __name__ == "__main__":
    sys.exit(main())
