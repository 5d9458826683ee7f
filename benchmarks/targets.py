"""List the measuring scripts of targets.toml, run one, or try the small forms of all.

    targets.py                                   the list (make figures)
    targets.py NAME [CORPUS='DIR/*.gz' ...]      one of them (make figure NAME=...)
    targets.py --small [NAME ...] --json FILE    small forms over the bundled corpus, one after the other

Variables of a command are given as words or in the environment. WORK is `figures-output/NAME` if it is
not given. A small form that needs what this machine lacks is left out, with the reason in the table.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from target_tables import (
    ROOT,
    Target,
    TargetError,
    environment,
    lacking,
    program_of,
    read_targets,
    variables_of,
    words_of,
)


@dataclass(frozen=True)
class Outcome:
    """What came of the small form of a target."""

    name: str
    code: int | None
    """None if it was left out."""
    seconds: float
    said: str
    """The last line, or why it was left out."""


def run_target(target: Target, variables: Mapping[str, str]) -> int:
    """Do the commands of a target until one fails; return its exit code."""
    work = Path(variables.get("WORK") or ROOT / "figures-output" / target.name)
    work.parent.mkdir(parents=True, exist_ok=True)
    given = {**variables, "ROOT": str(ROOT), "WORK": str(work)}
    for words in [words_of(command, given) for command in target.commands]:
        print(f"$ {shlex.join(words)}", flush=True)
        code = subprocess.run(program_of(words), env=environment(), check=False).returncode  # noqa: S603  # ours
        if code:
            return code
    return 0


def run_small(target: Target, small: Path, work: Path) -> Outcome:
    """Do the small form of a target in a folder of its own."""
    if not target.small:
        return Outcome(target.name, None, 0.0, "has no small form")
    if missing := lacking(target.small_needs):
        return Outcome(target.name, None, 0.0, f"needs {missing}")
    given = {**os.environ, "ROOT": str(ROOT), "SMALL": str(small), "WORK": str(work)}
    began, code, said = time.monotonic(), 0, ""
    try:
        calls = [words_of(command, given) for command in target.small]
    except TargetError as error:
        return Outcome(target.name, None, 0.0, str(error))
    for words in calls:
        done = subprocess.run(  # noqa: S603  # ours
            program_of(words), cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
        )
        code, said = done.returncode, (done.stderr if done.returncode else done.stdout).strip()
        if code:
            break
    return Outcome(target.name, code, round(time.monotonic() - began, 1), said.rpartition("\n")[2])


def table_of(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as a table."""
    lines = [f"{'name':<22}{'code':>5}{'seconds':>9}  last line"]
    for one in outcomes:
        code = "-" if one.code is None else one.code
        lines.append(f"{one.name:<22}{code:>5}{one.seconds:>9.1f}  {one.said[:80]}")
    return "\n".join(lines)


def listed(targets: Mapping[str, Target]) -> str:
    """Return a paragraph for each target: name, answer, needs, command."""
    found = []
    for target in targets.values():
        needs = f"; needs {', '.join(target.needs)}" if target.needs else ""
        names = dict.fromkeys(name for command in target.commands for name in variables_of(command))
        given = "".join(f" {name}=..." for name in names if name not in ("ROOT", "WORK"))
        found.append(f"{target.name}: {target.answers} ({target.takes}{needs})")
        found.append(f"    make figure NAME={target.name}{given}")
    return "\n".join(found)


def try_small(targets: Sequence[Target], place: Path | None) -> int:
    """Do the small forms, print the table, and return 1 if one failed."""
    from small_material import make_small_material  # noqa: PLC0415  # the list needs no library

    outcomes = []
    with tempfile.TemporaryDirectory(prefix="small-") as folder:
        small = Path(folder) / "small"
        make_small_material(small)
        for target in targets:
            outcomes.append(run_small(target, small, Path(folder) / target.name))
            print(f"{outcomes[-1].name}: {outcomes[-1].code}", file=sys.stderr, flush=True)
    print(table_of(outcomes))
    if place:
        content = json.dumps([asdict(one) for one in outcomes], indent=1)
        place.write_text(content + "\n", encoding="utf-8")
    return int(any(one.code for one in outcomes))


def main(given: Sequence[str] | None = None) -> int:
    """List, run one, or try all; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="NAME | VARIABLE=VALUE")
    parser.add_argument("--small", action="store_true", help="the small forms, of all or of those named")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table there too")
    wanted = parser.parse_args(given)
    targets = read_targets()
    names = [word for word in wanted.words if "=" not in word]
    if unknown := [name for name in names if name not in targets]:
        parser.error(f"{unknown[0]}: no target; one of {', '.join(targets)}")
    if wanted.small:
        return try_small([targets[name] for name in names or targets], wanted.json)
    if not names:
        print(listed(targets))
        return 0
    given_here = dict(word.split("=", 1) for word in wanted.words if "=" in word)
    try:
        return max(run_target(targets[name], {**os.environ, **given_here}) for name in names)
    except TargetError as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
