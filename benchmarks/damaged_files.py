"""Damaged files: what `verify` and `run` say of a finished run of which one file is not what it was.

    damaged_files.py WORK                         every committed file, every damage (an hour)
    damaged_files.py WORK --cases 100             some of them, spread over all
    damaged_files.py WORK --cases 0 --seeds 20    false alarms of sound runs

WORK gets some 60 texts and a run over them with a dataset of every kind. Each committed file in turn is
deleted, cut, one byte of it flipped, and swapped with another of its name; each table of evidence loses
a row, and gets one that is made up, and is vouched for again. The file is put back after each case. A
case is named if what is said has the file, its folder or its step in it. `verify` is called in this
process, every tenth time as a command; `run` on every deleted or cut file. What a run makes again, byte
for byte, and names as it does so, is good too: the index of the inputs. Exits with 1 if a case is
silent, is found without its name or ends in a traceback, or if anything is found of a sound run. A
trial is one damage, or one sound run.
"""

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from trial_lines import Trials, add_trial_options, conduct

from pipeline.report.report import RunReport
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.session.verifying import verify_session
from stages.errors import ShardmillError
from tests.material.damaged_run import make_run
from tests.material.file_damages import CUT, DELETED, OF_FILES, OF_TABLES, Case, Undo, cases_of, damaged

FILE, FOLDER, STEP = NAMED = ("file", "folder", "step")
MADE_AGAIN, FOUND, TRACEBACK, SILENT = "made again", "found", "traceback", "silent"
"""`made again`: a run said which file it is, and the file is there again to the byte."""
GOOD = (*NAMED, MADE_AGAIN)
OUTCOMES = (*GOOD, FOUND, TRACEBACK, SILENT)
_COMMAND = 10
"""Every so many cases `verify` is called as a command."""
_TOLD = 100
"""After so many answers the program says how far it is."""
_FOLDER_PARTS = 3
"""Parts of the path of a folder that says which file is meant: tokens/SOURCE/UNIT."""
_CHANGED = ("report", "verify")
"""What a check changes beside its commits."""


@dataclass(frozen=True)
class Said:
    """What came of one case."""

    key: str
    damage: str
    step: str
    by: str
    """verify, verify as a command, or run."""
    outcome: str
    message: str
    """The end of what was said."""


def campaign(request: RunRequest, cases: Sequence[Case], *, command: int = _COMMAND) -> Iterator[Said]:
    """Damage one file after the other and look at what is said.

    Args:
        request: of the run.
        cases: the damages.
        command: every so many cases `verify` is called as a command; 0 never.
    """
    for number, case in enumerate(cases):
        with _kept(request.output), damaged(request.output, case) as undo:
            if case.damage in (DELETED, CUT):
                said = _run(case, request, undo)
                yield said
                if said.outcome == MADE_AGAIN:
                    continue
                _restore(request.output)
            if not command or number % command:
                yield _said(case, "verify", *_called(lambda: _verify(request.output)))
            else:
                yield _said(case, "command", *_commanded(request.output))


def together(request: RunRequest, cases: Sequence[Case]) -> Iterator[Said]:
    """Damage files of several steps at once; one run and one verification have to name each of them.

    Args:
        request: of the run.
        cases: the damages; a run says nothing of those that only a verification reads.
    """
    output, by_run = request.output, [case for case in cases if case.damage in (DELETED, CUT)]
    with _kept(output), ExitStack() as damages:
        for by, some, call in (
            ("run", by_run, lambda: run_session(request, stream=None)),
            ("verify", [case for case in cases if case not in by_run], lambda: _verify(output)),
        ):
            for case in some:
                damages.enter_context(damaged(output, case))
            wrong, text = _called(call)
            named = by_run if by == "run" else cases
            yield from [_said(case, by, wrong, text) for case in named]


def _run(case: Case, request: RunRequest, undo: Undo) -> Said:
    """Run again; what it makes again it has to name."""
    stream = io.StringIO()
    wrong, text = _called(lambda: run_session(request, stream=stream))
    said = _said(case, "run", wrong, text)
    if said.outcome == SILENT and undo.needless and _names(case, FILE, stream.getvalue()):
        return replace(said, outcome=MADE_AGAIN, message=stream.getvalue()[-300:])
    return said


def _verify(output: Path) -> RunReport:
    return verify_session(output, workers=0, address=None, stream=None)


def _said(case: Case, by: str, wrong: bool, text: str) -> Said:  # noqa: FBT001  # of one call
    """Judge what was said of a case: whether anything was wrong, and in which words."""
    if "Traceback (most recent call last)" in text:
        outcome = TRACEBACK
    elif not wrong:
        outcome = SILENT
    else:
        outcome = next((name for name in NAMED if _names(case, name, text)), FOUND)
    return Said(case.key, case.damage, case.step, by, outcome, text[-300:])


def _names(case: Case, how: str, text: str) -> bool:
    if how == FILE:
        return any(key in text for key in case.keys)
    if how == FOLDER:
        folders = [parent for key in case.keys for parent in Path(key).parents]
        return any(str(x) in text for x in folders if len(x.parts) >= _FOLDER_PARTS)
    return re.search(rf"(?<![\w-]){re.escape(case.step)}(?![\w-])", text) is not None


def _called(call: Callable[[], RunReport]) -> tuple[bool, str]:
    """Call a session; say whether it found anything, and all that it said."""
    try:
        report = call()
    except ShardmillError as error:
        return True, str(error)
    except Exception:  # noqa: BLE001  # that is what is counted
        return True, traceback.format_exc()
    return report["passed"] is not True, "\n".join(_findings(report))


def _findings(content: Any) -> Iterator[str]:
    """Yield every finding of a report, wherever it stands."""
    if isinstance(content, dict) and {"file", "message"} <= content.keys():
        yield f"{content['file']}: {content.get('check')}: {content['message']}"
    elif isinstance(content, dict | list):
        for part in content.values() if isinstance(content, dict) else content:
            yield from _findings(part)


def _commanded(output: Path) -> tuple[bool, str]:
    """Call `shardmill verify`; say whether it failed, and all that it printed."""
    done = subprocess.run(  # noqa: S603  # us
        [sys.executable, "-m", "pipeline.main", "verify", str(output), "--workers", "0"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "2000"},
    )
    return done.returncode != 0, done.stdout + done.stderr


@contextmanager
def _kept(output: Path) -> Iterator[None]:
    """Keep the verdicts of the sound run, and put them back."""
    kept = output.with_name(f"{output.name}-kept")
    shutil.rmtree(kept, ignore_errors=True)
    for name in _verdicts(output):
        shutil.copytree(output / name, kept / name)
    try:
        yield
    finally:
        _restore(output)


def _restore(output: Path) -> None:
    kept = output.with_name(f"{output.name}-kept")
    for name in {*_verdicts(output), *_verdicts(kept)}:
        shutil.rmtree(output / name, ignore_errors=True)
        if (kept / name).exists():
            shutil.copytree(kept / name, output / name)


def _verdicts(output: Path) -> list[str]:
    checks = [*output.glob("commits/verify-*"), *output.glob("commits/decode")]
    return [*(str(path.relative_to(output)) for path in checks), *_CHANGED]


def alarms(request: RunRequest) -> list[str]:
    """Return what is said of a sound run: verified, and run again."""
    found = []
    for by, call in {
        "verify": lambda: _verify(request.output),
        "run": lambda: run_session(request, stream=None),
    }.items():
        wrong, text = _called(call)
        found += [f"seed {request.file.seed}, {by}: {text}"] if wrong else []
    return found


def spread(cases: Sequence[Case], count: int) -> list[Case]:
    """Return so many cases, spread evenly over all."""
    return [cases[number * len(cases) // count] for number in range(min(count, len(cases)))]


def table(found: Sequence[Said]) -> str:
    """Return what came of the cases as a table."""
    counts = Counter((said.by, said.damage, said.outcome) for said in found)
    lines = [f"| by | damage | cases | {' | '.join(OUTCOMES)} |", "|---" * (3 + len(OUTCOMES)) + "|"]
    for by in ("verify", "command", "run"):
        for damage in (*OF_FILES, *OF_TABLES):
            row = [counts[by, damage, outcome] for outcome in OUTCOMES]
            if sum(row):
                lines.append(f"| {by} | {damage} | {sum(row)} | {' | '.join(map(str, row))} |")
    return "\n".join(lines)


def damages(trials: Trials, request: Callable[[], RunRequest], given: argparse.Namespace) -> list[Said]:
    """Damage one file after the other; print what names neither file nor step."""
    every = trials.fact("damages", lambda: list(map(asdict, cases_of(request().output))))
    cases = [Case(**one) for one in every if (given.only or "") in one["key"]]
    chosen = cases if given.cases is None else spread(cases, given.cases)
    found: list[Said] = []
    for number, case in enumerate(chosen):
        command = 0 if number % _COMMAND else 1

        def do(case: Case = case, command: int = command) -> dict[str, Any]:
            said = list(campaign(request(), [case], command=command))
            return {"said": [asdict(one) for one in said]}

        result = trials.trial(f"{case.key} {case.damage}", do, failed=_is_missed)
        found += [Said(**one) for one in result["said"]]
        for said in found[-len(result["said"]) :]:
            if said.outcome not in GOOD:
                about = f"{said.outcome}: {said.by} of {said.key} {said.damage}"
                print(f"{about}: {said.message!r}", file=sys.stderr)
        if (number + 1) % _TOLD == 0:
            print(f"{number + 1:,} of {len(chosen):,} cases", file=sys.stderr)
    missed = sum(said.outcome not in GOOD for said in found)
    print(table(found))
    print(f"{len(chosen)} of {len(cases)} cases; {missed} answers name neither file nor step")
    return found


def _is_missed(result: dict[str, Any]) -> bool:
    return any(said["outcome"] not in GOOD for said in result["said"])


def body(trials: Trials, given: argparse.Namespace) -> int:
    """Do the campaign and print what came of it."""
    work = cache(trials.new_folder)
    sound = cache(lambda: make_run(work(), seed=1))

    def look(seed: int) -> dict[str, Any]:
        request = sound() if seed == 1 else make_run(work(), seed=seed)
        found = alarms(request)
        if seed != 1:
            shutil.rmtree(request.output)
        return {"alarms": found}

    false = []
    for seed in range(1, given.seeds + 1):
        key = f"sound run of seed {seed}"
        false += trials.trial(key, partial(look, seed), failed=lambda one: bool(one["alarms"]))["alarms"]
        print(f"seed {seed}: {len(false)} alarms so far", file=sys.stderr)
    found = damages(trials, sound, given)
    print(f"sound runs: {given.seeds}; alarms: {len(false)}", *false, sep="\n")
    return 1 if false or any(said.outcome not in GOOD for said in found) else 0


def main() -> int:
    """Do the campaign and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder")
    parser.add_argument("--cases", type=int, help="how many, spread over all [default: all]")
    parser.add_argument("--only", help="cases whose file has this in its path")
    parser.add_argument("--seeds", type=int, default=1, help="sound runs that are looked at")
    add_trial_options(parser)
    given = parser.parse_args()
    settings = {"cases": given.cases, "only": given.only, "seeds": given.seeds}
    return conduct(lambda trials: body(trials, given), given, settings, work=given.work.resolve())


if __name__ == "__main__":
    sys.exit(main())
