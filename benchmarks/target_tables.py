"""The two tables of scripts: what each answers, its commands, what it needs, and its small form.

    targets.toml     measurements, which give figures (targets.py, make figure)
    campaigns.toml   searches for faults, which give a verdict (campaigns.py, make campaign)

An entry is `[NAME]` with the fields of `Target`. A command is a script of benchmarks/ or `shardmill`,
with options. $WORK is a new folder, $ROOT that of the repository, $SMALL what small_material.py makes of
the bundled corpus, and $NAME... is one word or more. Each other variable comes from the user.
An entry or its small form `needs`:

    root       it becomes another user
    mounts     it mounts file systems
    slurm      it starts Slurm and munge, as root
    peers      other programs, from a package index; small forms that do are run if PEERS is set
    browser    Chromium
    gpu        a GPU; without one it takes a CPU
    module X   a module of Python that is in none of the extras
    reach      what `make reach` has noted
    corpus     a large corpus, which a variable names
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from node_machines import missing_namespaces
from slurm_machines import missing_programs

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FIGURES, CAMPAIGNS = HERE / "targets.toml", HERE / "campaigns.toml"
REACH = ROOT / "reach-output"
_VARIABLE = re.compile(r"\$([A-Z][A-Z0-9_]*)(\.\.\.)?")


class TargetError(Exception):
    """A target that cannot be run as it was asked for."""


def _mounts() -> bool:
    if not shutil.which("mount"):
        return False
    with tempfile.TemporaryDirectory() as place:
        words = ["mount", "-t", "tmpfs", "tmpfs", place]
        if subprocess.run(words, capture_output=True, check=False).returncode:  # noqa: S603  # ours
            return False
        subprocess.run(["umount", place], capture_output=True, check=True)  # noqa: S603, S607  # ours
    return True


NEEDS: dict[str, Callable[[], bool]] = {
    "root": lambda: os.geteuid() == 0,
    "mounts": _mounts,
    "namespaces": lambda: missing_namespaces() is None,
    "slurm": lambda: os.geteuid() == 0 and not missing_programs(),
    "peers": lambda: bool(os.environ.get("PEERS")),
    "browser": lambda: shutil.which("chromium") is not None,
    "gpu": lambda: shutil.which("nvidia-smi") is not None,
    "reach": REACH.exists,
    "corpus": lambda: True,  # its variable is asked for
}
"""Of each need, what says whether it is met."""


@dataclass(frozen=True)
class Target:
    """A script: what it answers, and how it is called."""

    name: str
    answers: str
    commands: list[str]
    takes: str
    """About how long `commands` take."""
    needs: list[str] = field(default_factory=list)
    small: list[str] = field(default_factory=list)
    """Commands of seconds that show that it works; none if there is no such form."""
    small_needs: list[str] = field(default_factory=list)
    slow: bool = False
    """Whether the small form takes more than about three CPU seconds: the tests leave it out."""
    results: str = ""
    """Of a campaign that goes on without `--continue`: the file below ROOT that keeps its results."""

    def __post_init__(self) -> None:
        """Refuse a need that nobody checks."""
        needs = {need.split()[0] for need in (*self.needs, *self.small_needs)}
        if unknown := needs - {*NEEDS, "module"}:
            known = ", ".join((*NEEDS, "module"))
            raise TargetError(f"{self.name}: needs {', '.join(sorted(unknown))}: not one of {known}")


def read_targets(path: Path = FIGURES) -> dict[str, Target]:
    """Return the targets of a table by name, in its order."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: Target(name, **fields) for name, fields in content.items()}


def variables_of(command: str) -> list[str]:
    """Return the names of the variables of a command."""
    return [name for name, _ in _VARIABLE.findall(command)]


def words_of(command: str, variables: Mapping[str, str]) -> list[str]:
    """Return the words of a command.

    encoders.py $MODEL $FILES...   with MODEL=a b, FILES=c d   ->   encoders.py, "a b", "c", "d"

    Raises:
        TargetError: a variable has no value.
    """
    words = []
    for word in shlex.split(command):
        if missing := [name for name in variables_of(word) if not variables.get(name)]:
            raise TargetError(f"{missing[0]} has no value: {missing[0]}=...")
        if match := _VARIABLE.fullmatch(word):
            words += shlex.split(variables[match[1]]) if match[2] else [variables[match[1]]]
        else:
            words.append(_VARIABLE.sub(lambda match: variables[match[1]], word))
    return words


def program_of(words: Sequence[str]) -> list[str]:
    """Return what is executed: `shardmill`, or a script of this folder by this Python."""
    if words[0] == "shardmill":
        return [sys.executable, "-m", "pipeline.main", *words[1:]]
    return [sys.executable, str(HERE / words[0]), *words[1:]]


def environment() -> dict[str, str]:
    """Return the environment of a script: it finds this tree, and the commands beside this Python."""
    paths = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    modules = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PATH": os.pathsep.join(paths), "PYTHONPATH": os.pathsep.join(modules)}


def lacking(needs: Sequence[str]) -> str:
    """Return what this machine lacks of some needs, or nothing."""

    def is_met(need: str) -> bool:
        name, _, module = need.partition(" ")
        return _importable(module) if name == "module" else NEEDS[name]()

    return ", ".join(need for need in needs if not is_met(need))


def _importable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # what holds it
        return False
