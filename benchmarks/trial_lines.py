"""Trials of a campaign: each is kept as a line of JSON, so that a campaign that was stopped goes on.

    {"start": "5be1...", "settings": {"cases": 40, "seed": 1}, "time": "2026-11-29T12:00:00+00:00"}
    {"fact": "calls", "stamp": "5be1...", "value": {"run": 4100}}
    {"trial": "7", "stamp": "5be1...", "seconds": 2.1, "failed": false, "result": {"code": 75}}

A trial is drawn by its number and the seed of its campaign. So trial 7 is the same in whatever order,
and after whatever stop. A fact is what a campaign finds out once, before its trials. The stamp is a
digest of code and settings (`trial_stamps`): lines with another stamp are not counted.

A campaign makes its table and its verdict from lines alone. So `--continue` over a finished file gives
both at once. Exit codes: 0 passed, 1 failed, 2 refused, 75 stopped by a signal.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from stop_signals import CampaignStop, StopSignals
from trial_stamps import stamp_of_campaign

MARK = ".campaign"
"""A file in a folder that a campaign made, and may therefore delete."""
REFUSED, STOPPED = 2, 75
Record = dict[str, Any]


@dataclass(frozen=True)
class TrialLine:
    """One trial, as its line has it."""

    key: str
    seconds: float
    failed: bool
    result: Record


@dataclass
class Trials:
    """The trials of one campaign: those of its file, and those that it does now.

    Args:
        path: of the lines; None keeps them in memory.
        stamp: of the code and the settings.
        work: a folder for what trials need.
    """

    path: Path | None
    stamp: str
    work: Path | None = None
    signals: StopSignals | None = None
    lines: dict[str, TrialLine] = field(default_factory=dict)
    facts: Record = field(default_factory=dict)
    others: int = 0
    """Trials of the file that have another stamp."""

    def __post_init__(self) -> None:
        """Take the lines of the file that have the stamp."""
        for line in [] if self.path is None else read_lines(self.path):
            if line.get("stamp") != self.stamp:
                self.others += "trial" in line
            elif "fact" in line:
                self.facts[line["fact"]] = line["value"]
            elif "trial" in line:
                about = (line[name] for name in ("trial", "seconds", "failed", "result"))
                self.lines[line["trial"]] = TrialLine(*about)

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Write that a campaign starts, and say what is there."""
        if self.path is None:
            return
        _cut(self.path)
        if self.lines:
            _say(f"{self.path}: goes on after {len(self.lines):,} trials")
        if self.others:
            _say(f"{self.path}: {self.others:,} trials of other code or settings are not counted")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        plain = json.loads(json.dumps(dict(settings), default=str))
        self._append({"start": self.stamp, "settings": plain, "time": now})

    def fact(self, name: str, find: Callable[[], Any]) -> Any:
        """Return what a campaign finds out once: from its line, or now."""
        if name not in self.facts:
            found = _as_read(find())
            self.stop_after_a_signal()
            self.facts[name] = found
            self._append({"fact": name, "stamp": self.stamp, "value": found})
        return self.facts[name]

    def trial(self, key: str, do: Callable[[], Record], *, failed: Callable[[Record], bool]) -> Record:
        """Return the result of a trial: from its line, or done now.

        Args:
            key: of the trial in its campaign.
            do: the trial; what it returns is made of JSON's types.
            failed: says whether a result is bad.
        """
        if key not in self.lines:
            began = time.monotonic()
            result = _as_read(do())
            self.add(key, result, failed=failed(result), seconds=time.monotonic() - began)
        return self.lines[key].result

    def add(self, key: str, result: Record, *, failed: bool, seconds: float) -> None:
        """Keep a trial that was done, unless a signal came while it was done."""
        self.stop_after_a_signal()
        about = {"seconds": round(seconds, 2), "failed": failed, "result": _as_read(result)}
        self.lines[key] = TrialLine(key, **about)
        self._append({"trial": key, "stamp": self.stamp, **about})

    def new_folder(self) -> Path:
        """Return the work folder, empty; what a campaign that was stopped left there is deleted."""
        assert self.work is not None
        if self.work.exists():
            shutil.rmtree(self.work)
        self.work.mkdir(parents=True)
        (self.work / MARK).touch()
        return self.work

    @property
    def tally(self) -> "Tally":
        """How many there are."""
        found = self.lines.values()
        seconds = sum(line.seconds for line in found)
        return Tally(len(found), sum(line.failed for line in found), round(seconds, 1))

    def stop_after_a_signal(self) -> None:
        """Stop if a signal came, whoever handled it.

        Raises:
            CampaignStop: one came.
        """
        if self.signals is not None and self.signals.arrived:
            raise CampaignStop

    def _append(self, line: Record) -> None:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


@dataclass(frozen=True)
class Tally:
    """How many trials there are, and how many failed."""

    trials: int
    failed: int
    seconds: float

    @classmethod
    def read(cls, path: Path) -> "Tally":
        """Count the trials of a file that have the stamp of its last start."""
        starts = [line["start"] for line in read_lines(path) if "start" in line]
        return Trials(path, starts[-1]).tally if starts else cls(0, 0, 0.0)

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.trials:,} trials, {self.failed:,} failed, {self.seconds:,.0f} s"


def _as_read(value: Any) -> Any:
    """Return a value as it is after it was written and read: lists for tuples, text for keys."""
    return json.loads(json.dumps(value))


def read_lines(path: Path) -> list[Record]:
    """Return the lines of a file, without a last one that was cut; none if there is no file."""
    if not path.exists():
        return []
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break
        try:
            content = json.loads(line)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            refuse(f"{path}, line {number}: no line of a campaign; delete it, or choose another --json")
        found.append(content)
    return found


def _cut(path: Path) -> None:
    """Remove a last line that was cut, before another line follows it."""
    if path.exists():
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)


def add_trial_options(parser: argparse.ArgumentParser) -> None:
    """Add `--json` and `--continue` to a campaign's options."""
    told = "gets a line for each trial [default: WORK.jsonl, or none if there is no WORK]"
    parser.add_argument("--json", type=Path, metavar="FILE", help=told)
    told = "leave out the trials that FILE has, if code and settings are the same"
    parser.add_argument("--continue", action="store_true", dest="continuing", help=told)


def conduct(
    body: Callable[[Trials], int],
    arguments: argparse.Namespace,
    settings: Mapping[str, Any],
    *,
    work: Path | None = None,
    code: str | None = None,
) -> int:
    """Do a campaign, until it ends or a signal comes; return the exit code.

    Args:
        body: does the trials, prints the table and returns the exit code.
        arguments: with those of `add_trial_options`.
        settings: all that decides what the trials are.
        work: the folder for what trials need.
        code: a digest of the code that is tested [default: of the product's and the campaign's].
    """
    path = _place_of(arguments, work)
    with StopSignals() as signals:
        trials = Trials(path, stamp_of_campaign(settings, code), work, signals)
        trials.begin(settings)
        try:
            result = body(trials)
        except BaseException:
            if not signals.arrived:
                raise
            where = "" if path is None else f" in {path}; the same command with --continue goes on"
            _say(f"stopped: {trials.tally}{where}")
            return STOPPED
        print(f"{trials.tally}{'' if path is None else f'; lines: {path}'}", flush=True)
        return result


def _place_of(arguments: argparse.Namespace, work: Path | None) -> Path | None:
    """Return where lines are kept; refuse to overwrite or to delete what may be wanted."""
    path: Path | None = arguments.json
    if path is None and work is not None:
        path = work.with_name(f"{work.name}.jsonl")
    if path is None and arguments.continuing:
        refuse("--continue: name the file of the lines with --json")
    other = "name another with --json, or delete it"
    if path is not None and path.exists() and not arguments.continuing:
        refuse(f"{path}: has the lines of a campaign; go on with --continue, {other}")
    if work is not None and work.exists() and any(work.iterdir()):
        if not (work / MARK).exists():
            refuse(f"{work}: holds files of something else; name a new folder")
        if not arguments.continuing:
            refuse(f"{work}: is of another campaign; go on with --continue, or delete the folder")
    return path


def campaign_main(
    description: str | None, campaign: Callable[..., Mapping[str, Any]], *, cases: int
) -> int:
    """Do a campaign of `number` cases in a new folder as the command line asks, and tell its figures."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder")
    parser.add_argument("--cases", type=int, default=cases, metavar="N", help=f"[default: {cases}]")
    parser.add_argument("--seed", type=int, default=1, help="of the cases [default: 1]")
    add_trial_options(parser)
    given = parser.parse_args()
    return conduct(
        lambda trials: tell(campaign(trials, number=given.cases, seed=given.seed)),
        given,
        {"cases": given.cases, "seed": given.seed},
        work=given.work.resolve(),
    )


def has_faults(result: Record) -> bool:
    """Say whether a trial found anything: its `faults`."""
    return bool(result["faults"])


def tell(content: Mapping[str, Any]) -> int:
    """Print what came of a campaign, and return the exit code."""
    for name, value in content.items():
        if name not in ("faulty", "messages"):
            print(f"{name:<18} {value}")
    print("FAIL" if content["faulty"] else "PASS")
    return int(bool(content["faulty"]))


def refuse(message: str) -> NoReturn:
    """End with a line that says what is wrong, and the way out."""
    _say(f"error: {message}")
    sys.exit(REFUSED)


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
