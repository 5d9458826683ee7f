"""List the measuring scripts of targets.toml, or run one.

    targets.py                                   the list (make figures)
    targets.py NAME [CORPUS='DIR/*.gz' ...]      one of them (make figure NAME=...)

Variables of a command are given as words or in the environment. WORK is `figures-output/NAME` if it is
not given. Tests run the small forms.
"""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from target_tables import (
    ROOT,
    Target,
    TargetError,
    environment,
    program_of,
    read_targets,
    variables_of,
    words_of,
)


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


def main(given: Sequence[str] | None = None) -> int:
    """List, or run what is named; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="NAME | VARIABLE=VALUE")
    words = parser.parse_args(given).words
    targets = read_targets()
    names = [word for word in words if "=" not in word]
    if unknown := [name for name in names if name not in targets]:
        parser.error(f"{unknown[0]}: no target; one of {', '.join(targets)}")
    if not names:
        print(listed(targets))
        return 0
    given_here = dict(word.split("=", 1) for word in words if "=" in word)
    try:
        return max(run_target(targets[name], {**os.environ, **given_here}) for name in names)
    except TargetError as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
