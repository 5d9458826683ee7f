"""Print what `make lowest` installs: the lowest version that pyproject.toml allows of each dependency.

    python release/lowest.py > lowest.txt

    "numpy>=1.26"  ->  numpy==1.26
    "torch>=2.4"   ->  torch==2.13.0, which constraints.txt names

These are the dependencies of the base and of the extra `run`. What they depend on is free: pip takes the
newest versions that suit. So is what only tests and examples need. Needs Python alone.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = ("py3langid", "wordllama")
"""What the tests use and does not suit the lowest versions: both ask for numpy 2."""
FIXED = ("torch",)
"""Taken from constraints.txt: for Linux, PyPI's old ones ask for gigabytes of CUDA."""


def lowest(project: str, constraints: str) -> list[str]:
    """Return the requirements, from the texts of pyproject.toml and constraints.txt."""
    content = tomllib.loads(project)["project"]
    extras = content["optional-dependencies"]
    exact = [_lowest(each, constraints) for each in [*content["dependencies"], *extras["run"]]]
    named = {_name(each) for each in exact}
    others = {
        each
        for each in [*extras["dev"], *extras["examples"]]
        if _name(each) not in named | set(LEFT_OUT)
    }
    return exact + sorted(others)


def _name(requirement: str) -> str:
    return re.split(r"[<>=]", requirement, maxsplit=1)[0]


def _lowest(requirement: str, constraints: str) -> str:
    if _name(requirement) in FIXED:
        wanted = f"{_name(requirement)}=="
        return next(line for line in constraints.splitlines() if line.startswith(wanted))
    bound = re.fullmatch(r"[\w-]+>=([\d.]+)", requirement)
    assert bound, f"{requirement}: a dependency has one lower bound"
    return f"{_name(requirement)}=={bound[1]}"


if __name__ == "__main__":
    texts = ((ROOT / name).read_text("utf-8") for name in ("pyproject.toml", "constraints.txt"))
    print("\n".join(lowest(*texts)))
