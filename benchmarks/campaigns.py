"""All campaigns of campaigns.toml, one after the other, and one table of them: `make campaign`.

    python benchmarks/campaigns.py FOLDER                  all, in their long forms (many hours)
    python benchmarks/campaigns.py FOLDER --only kills     some of them
    python benchmarks/campaigns.py FOLDER --short          the small form of each

Each keeps its trials as lines in FOLDER/NAME.jsonl, and what it says in FOLDER/NAME.log. SIGTERM or
Ctrl-C stops the one at work; the same command goes on from there. What is there already, of the same
code and settings, is not tried again. Variables such as CORPUS come from the environment. A campaign
that needs what this machine lacks is left out, with the reason in the table. Exit codes: 0 all passed,
1 one did not, 75 stopped.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stop_signals import CampaignStop, StopSignals
from target_tables import (
    CAMPAIGNS,
    REACH,
    ROOT,
    Target,
    TargetError,
    environment,
    lacking,
    program_of,
    read_targets,
    words_of,
)
from trial_lines import STOPPED, Tally, refuse

PATIENCE = 300.0
"""Seconds that a campaign has to stop."""


@dataclass(frozen=True)
class CampaignRow:
    """What came of one campaign."""

    name: str
    end: str
    """Its exit code, or why it was left out."""
    tally: Tally | None = None
    lines: Path | None = None

    def __str__(self) -> str:
        """Return a line of the table."""
        counts = ("", "", "") if self.tally is None else (
            f"{self.tally.trials:,}",
            f"{self.tally.failed:,}",
            f"{self.tally.seconds:,.0f}",
        )  # fmt: skip
        trials, failed, seconds = counts
        return f"{self.name:<16}{trials:>8}{failed:>8}{seconds:>10}  {self.end:<6}{self.lines or ''}"


def calls_of(target: Target, given: argparse.Namespace) -> list[list[str]]:
    """Return what is executed, one after the other.

    Raises:
        TargetError: it cannot be done here.
    """
    commands, needs = (
        (target.small, target.small_needs) if given.short else (target.commands, target.needs)
    )
    if not commands:
        raise TargetError("has no small form")
    if missing := lacking(needs):
        raise TargetError(f"needs {missing}")
    folder: Path = given.folder
    ours = {
        "ROOT": ROOT,
        "FOLDER": folder,
        "WORK": folder / target.name,
        "SMALL": folder / "small",
        "REACH": REACH,
        "JOBS": given.jobs,
    }
    variables = {"SEED": "0", **os.environ, **{name: str(value) for name, value in ours.items()}}
    calls = [program_of(words_of(command, variables)) for command in commands]
    if not target.results:
        calls[-1] += ["--json", str(lines_of(target, given)), "--continue"]
    return calls


def lines_of(target: Target, given: argparse.Namespace) -> Path:
    """Return the file in which a campaign keeps what it found."""
    own = target.results and not given.short
    return ROOT / target.results if own else Path(given.folder, f"{target.name}.jsonl")


def do_campaign(target: Target, given: argparse.Namespace) -> CampaignRow:
    """Do a campaign, as far as it is not done, and return what came of it.

    Raises:
        CampaignStop: a signal came; the campaign was told to stop.
    """
    try:
        calls = calls_of(target, given)
    except TargetError as error:
        return CampaignRow(target.name, f"left out: {error}")
    lines, log = lines_of(target, given), given.folder / f"{target.name}.log"
    print(f"{time.strftime('%H:%M')} {target.name}: {target.answers} {log}", flush=True)
    code = next(filter(None, (_code_of(call, log) for call in calls)), 0)
    return CampaignRow(target.name, str(code), _tally_of(target, lines), lines)


def _tally_of(target: Target, lines: Path) -> Tally | None:
    return None if target.results else Tally.read(lines)


def make_material(targets: Sequence[Target], small: Path) -> None:
    """Make what small forms read anew, if one of them reads it."""
    if any("$SMALL" in command for target in targets for command in target.small):
        from small_material import make_small_material  # noqa: PLC0415  # only small forms need libraries

        shutil.rmtree(small, ignore_errors=True)
        make_small_material(small)


def _code_of(command: Sequence[str], log: Path) -> int:
    """Call a command in a session of its own, and return its exit code; a signal here stops it."""
    with log.open("ab") as stream:
        process = subprocess.Popen(  # noqa: S603  # of the list
            command,
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    try:
        return process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def do_all(targets: Sequence[Target], given: argparse.Namespace) -> list[CampaignRow]:
    """Do campaigns until a signal comes, and return a row of each."""
    rows: list[CampaignRow] = []
    with StopSignals() as signals:
        try:
            if given.short:
                make_material(targets, given.folder / "small")
            rows.extend(do_campaign(target, given) for target in targets)
        except CampaignStop:
            assert signals.arrived
            stopped, *rest = targets[len(rows) :]
            lines = lines_of(stopped, given)
            rows.append(CampaignRow(stopped.name, str(STOPPED), _tally_of(stopped, lines), lines))
            rows += [CampaignRow(target.name, "not begun") for target in rest]
    return rows


def print_rows(rows: Sequence[CampaignRow]) -> None:
    """Print the table."""
    titles = f"{'trials':>8}{'failed':>8}{'seconds':>10}"
    print(f"\n{'campaign':<16}{titles}  {'exit':<6}lines")
    for row in rows:
        print(row)


def code_of_all(rows: Sequence[CampaignRow]) -> int:
    """Return the exit code of all campaigns: what was left out is no failure."""
    if any(row.end in (str(STOPPED), "not begun") for row in rows):
        return STOPPED
    return int(any(row.end != "0" for row in rows if not row.end.startswith("left out")))


def main(words: Sequence[str] | None = None) -> int:
    """Do the campaigns that are asked for, print the table and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="for lines, logs and work")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these [default: all]")
    parser.add_argument("--short", action="store_true", help="the small forms")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes at a time")
    parser.add_argument("--list", type=Path, default=CAMPAIGNS, metavar="FILE")
    given = parser.parse_args(words)
    targets = read_targets(given.list)
    if unknown := set(given.only) - targets.keys():
        refuse(f"--only {' '.join(sorted(unknown))}: no such campaign; there are {', '.join(targets)}")
    given.folder = given.folder.resolve() / ("short" if given.short else "long")
    given.folder.mkdir(parents=True, exist_ok=True)
    rows = do_all([one for name, one in targets.items() if name in (given.only or targets)], given)
    print_rows(rows)
    code = code_of_all(rows)
    if code == STOPPED:
        print("stopped; the same command goes on")
    return code


if __name__ == "__main__":
    sys.exit(main())
