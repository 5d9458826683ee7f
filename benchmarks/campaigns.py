"""All campaigns, one after the other, and one table of them: `make campaign`.

    python benchmarks/campaigns.py FOLDER                  all, in their long forms (many hours)
    python benchmarks/campaigns.py FOLDER --only kills     some of them
    python benchmarks/campaigns.py FOLDER --short          a tiny slice of each

campaigns.toml lists them. Each keeps its trials as lines in FOLDER/NAME.jsonl, and what it says in
FOLDER/NAME.log. SIGTERM or Ctrl-C stops the one at work; the same command goes on from there. What is
there already, of the same code and settings, is not tried again. A campaign that needs what this machine
lacks is left out, with the reason in the table. Exit codes: 0 all passed, 1 one did not, 75 stopped.
"""

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from stop_signals import CampaignStop, StopSignals
from trial_stamps import ROOT
from trials import STOPPED, Tally, refuse

HERE = Path(__file__).resolve().parent
PATIENCE = 300.0
"""Seconds that a campaign has to stop."""
Places = Mapping[str, str]


@dataclass(frozen=True)
class CampaignEntry:
    """A campaign of the list; the list's head explains the fields."""

    name: str
    what: str
    long: str
    short: str
    run: str = ""
    short_run: str = ""
    needs: tuple[str, ...] = ()

    def preparation(self, places: Places, *, short: bool) -> list[str]:
        """Return the words of the run that it needs first, or none."""
        run = self.short_run if short else self.run
        return [sys.executable, "-m", "pipeline.main", "run", *words_of(run, places)] if run else []

    def command(self, places: Places, *, short: bool) -> list[str]:
        """Return its words; patterns become the files that are there now."""
        script, *options = words_of(self.short if short else self.long, places)
        return [sys.executable, str(HERE / script), *(path for one in options for path in _matches(one))]


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


def _matches(word: str) -> list[str]:
    """Return the files that a word is a pattern of, or the word."""
    return sorted(glob(word)) or [word]  # noqa: PTH207  # a pattern with its folder


def words_of(text: str, places: Places) -> list[str]:
    """Return the words of a command, with its places filled in."""
    return [word.format_map(places) for word in shlex.split(text)]


def read_campaigns(path: Path) -> list[CampaignEntry]:
    """Return the campaigns of a list."""
    listed = tomllib.loads(path.read_text(encoding="utf-8"))["campaigns"]
    return [CampaignEntry(**{**one, "needs": tuple(one.get("needs", ()))}) for one in listed]


def _cannot_mount() -> str:
    if shutil.which("mount") is None:
        return "needs mount"
    with tempfile.TemporaryDirectory() as place:
        words = ["mount", "-t", "tmpfs", "tmpfs", place]
        done = subprocess.run(words, capture_output=True, check=False)  # noqa: S603  # ours
        if done.returncode:
            return "needs to mount, which is refused here"
        subprocess.run(["umount", place], capture_output=True, check=True)  # noqa: S603, S607  # ours
    return ""


def _lacks_a_gpu() -> str:
    return "" if shutil.which("nvidia-smi") else "needs a GPU"


NEEDS: dict[str, Callable[[], str]] = {
    "root": lambda: "needs root" if os.geteuid() else "",
    "mounts": _cannot_mount,
    "gpu": _lacks_a_gpu,
}
"""Of each need, what says why it is not met, or nothing. A corpus is an option."""


def left_out(entry: CampaignEntry, corpus: str | None) -> str:
    """Return why a campaign cannot be done here, or nothing."""
    if "corpus" in entry.needs and not corpus:
        return "needs a corpus: name its files with --corpus"
    reasons = (NEEDS[need]() for need in entry.needs if need != "corpus")
    return next(filter(None, reasons), "")


def do_campaign(entry: CampaignEntry, given: argparse.Namespace) -> CampaignRow:
    """Do a campaign, as far as it is not done, and return what came of it.

    Raises:
        CampaignStop: a signal came; the campaign was told to stop.
    """
    folder: Path = given.folder
    lines, log = folder / f"{entry.name}.jsonl", folder / f"{entry.name}.log"
    places = {
        "folder": str(folder),
        "work": str(folder / entry.name),
        "jobs": str(given.jobs),
        "corpus": given.corpus or "",
        "python": shlex.quote(sys.executable),
    }
    print(f"{time.strftime('%H:%M')} {entry.name}: {entry.what}; {log}", flush=True)
    prepared = entry.preparation(places, short=given.short)
    code = _code_of(prepared, log) if prepared else 0
    if not code:
        words = [*entry.command(places, short=given.short), "--json", str(lines), "--continue"]
        code = _code_of(words, log)
    return CampaignRow(entry.name, str(code), Tally.read(lines), lines)


def _code_of(command: Sequence[str], log: Path) -> int:
    """Call a command in a session of its own, and return its exit code; a signal here stops it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(HERE)))}
    with log.open("ab") as stream:
        process = subprocess.Popen(  # noqa: S603  # of the list
            command,
            cwd=ROOT,
            env=environment,
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


def do_all(entries: Sequence[CampaignEntry], given: argparse.Namespace) -> list[CampaignRow]:
    """Do campaigns until a signal comes, and return a row of each."""
    rows: list[CampaignRow] = []
    with StopSignals() as signals:
        try:
            for entry in entries:
                reason = left_out(entry, given.corpus)
                rows.append(
                    CampaignRow(entry.name, f"left out: {reason}")
                    if reason
                    else do_campaign(entry, given)
                )
        except CampaignStop:
            assert signals.arrived
            lines = given.folder / f"{entries[len(rows)].name}.jsonl"
            rows.append(CampaignRow(entries[len(rows)].name, str(STOPPED), Tally.read(lines), lines))
            rows += [CampaignRow(entry.name, "not begun") for entry in entries[len(rows) :]]
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
    parser.add_argument("--short", action="store_true", help="a tiny slice of each")
    parser.add_argument("--corpus", metavar="GLOB", help="files for the campaigns that need a corpus")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes at a time")
    parser.add_argument("--list", type=Path, default=HERE / "campaigns.toml", metavar="FILE")
    given = parser.parse_args(words)
    entries = read_campaigns(given.list)
    names = [entry.name for entry in entries]
    if unknown := set(given.only) - set(names):
        refuse(f"--only {' '.join(sorted(unknown))}: no such campaign; there are {', '.join(names)}")
    given.folder = given.folder.resolve() / ("short" if given.short else "long")
    given.folder.mkdir(parents=True, exist_ok=True)
    rows = do_all([one for one in entries if one.name in (given.only or names)], given)
    print_rows(rows)
    code = code_of_all(rows)
    if code == STOPPED:
        print("stopped; the same command goes on")
    return code


if __name__ == "__main__":
    sys.exit(main())
