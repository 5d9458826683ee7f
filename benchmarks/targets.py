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
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("targets.toml")
NEEDS = ("browser", "corpus", "gpu", "module", "peers", "root")
_VARIABLE = re.compile(r"\$([A-Z][A-Z0-9_]*)(\.\.\.)?")
_SHARDMILL = (sys.executable, "-m", "pipeline.main")


class TargetError(Exception):
    """A target that cannot be run as it was asked for."""


@dataclass(frozen=True)
class Target:
    """A measuring script: what it answers, and how it is called."""

    name: str
    answers: str
    commands: list[str]
    takes: str
    """About how long `commands` take."""
    needs: list[str] = field(default_factory=list)
    small: list[str] = field(default_factory=list)
    """Commands over $SMALL, what small_material.py makes; none if there is no such form."""
    small_needs: list[str] = field(default_factory=list)
    slow: bool = False
    """Whether the small form takes more than about three CPU seconds."""

    def __post_init__(self) -> None:
        """Refuse a need that nobody checks."""
        needs = {need.split()[0] for need in (*self.needs, *self.small_needs)}
        if unknown := needs - {*NEEDS}:
            raise TargetError(f"{self.name}: needs {', '.join(sorted(unknown))}: not one of {NEEDS}")


@dataclass(frozen=True)
class Outcome:
    """What came of the small form of a target."""

    name: str
    code: int | None
    """None if it was left out."""
    seconds: float
    said: str
    """The last line, or why it was left out."""


def read_targets(path: Path = TABLE) -> dict[str, Target]:
    """Return the targets of a table by name, in its order."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: Target(name, **fields) for name, fields in content.items()}


def words_of(command: str, variables: Mapping[str, str]) -> list[str]:
    """Return the words of a command.

    encoders.py $MODEL $FILES...   with MODEL=a b, FILES=c d   ->   encoders.py, "a b", "c", "d"

    Raises:
        TargetError: a variable has no value.
    """
    words = []
    for word in shlex.split(command):
        names = [name for name, _ in _VARIABLE.findall(word)]
        if missing := [name for name in names if not variables.get(name)]:
            raise TargetError(f"{missing[0]} has no value: {missing[0]}=...")
        if match := _VARIABLE.fullmatch(word):
            words += shlex.split(variables[match[1]]) if match[2] else [variables[match[1]]]
        else:
            words.append(_VARIABLE.sub(lambda match: variables[match[1]], word))
    return words


def program_of(words: Sequence[str]) -> list[str]:
    """Return what is executed: `shardmill`, or a script of this folder by this Python."""
    if words[0] == "shardmill":
        return [*_SHARDMILL, *words[1:]]
    return [sys.executable, str(ROOT / "benchmarks" / words[0]), *words[1:]]


def environment() -> dict[str, str]:
    """Return the environment of a script: it finds this tree, and the commands beside this Python."""
    paths = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    modules = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PATH": os.pathsep.join(paths), "PYTHONPATH": os.pathsep.join(modules)}


def lacking(needs: Sequence[str]) -> str:
    """Return what this machine lacks of what a target needs, or nothing.

    A corpus is named by variables. Peers are installed only if PEERS is set.
    """
    absent = [need for need in needs if need.startswith("module ") and not _importable(need.split()[1])]
    found = {
        "root": os.geteuid() == 0,
        "browser": shutil.which("chromium") is not None,
        "gpu": shutil.which("nvidia-smi") is not None,
        "peers": bool(os.environ.get("PEERS")),
    }
    return ", ".join([*absent, *(need for need in needs if not found.get(need, True))])


def _importable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # what holds it
        return False


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
        names = {name: None for command in target.commands for name, _ in _VARIABLE.findall(command)}
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
