"""Compiled code on disk is used only while every source that it rests on is the same."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import stages.kernels

pytestmark = pytest.mark.slow

CALLER = """
from stages.kernels import kernel
from stages.callee import Pair, added

@kernel
def total(pair):
    return added(pair)

if __name__ != "__main__":
    print(total(Pair(3, 4)), sum(total.stats.cache_hits.values()))
"""
CALLEE = """
from typing import NamedTuple
from stages.kernels import kernel

class Pair(NamedTuple):
    left: int
    right: int

@kernel
def added(pair):
    return pair.left + pair.right
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Return a folder with a kernel that calls another module's kernel."""
    package = tmp_path / "stages"
    package.mkdir()
    shutil.copy(stages.kernels.__file__, package / "kernels.py")
    (package / "__init__.py").touch()
    (package / "caller.py").write_text(CALLER)
    (package / "callee.py").write_text(CALLEE)
    return tmp_path


def answer(house: Path) -> list[int]:
    """Return what the kernel answers in a new process, and how often its cache served."""
    command = [sys.executable, "-B", "-c", "import stages.caller"]
    done = subprocess.run(command, cwd=house, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


def rewrite(house: Path, old: str, new: str) -> None:
    """Replace a text in both modules."""
    for file in (house / "stages" / "caller.py", house / "stages" / "callee.py"):
        file.write_text(file.read_text().replace(old, new))


def test_code_is_compiled_once(house: Path) -> None:
    assert [answer(house), answer(house)] == [[7, 0], [7, 1]]


@pytest.mark.parametrize(
    ("imports", "called"),
    [
        ("from stages.callee import Pair, added", "added"),
        ("from stages import (\n    callee,\n)\nPair = callee.Pair", "callee.added"),
    ],
)
def test_code_of_an_older_callee_is_not_used(imports: str, called: str, house: Path) -> None:
    rewrite(house, "from stages.callee import Pair, added", imports)
    rewrite(house, "return added", f"return {called}")
    answer(house)
    rewrite(house, "pair.left + pair.right", "pair.left * pair.right")
    assert answer(house) == [12, 0]


def test_code_of_a_type_that_is_gone_is_not_used(house: Path) -> None:
    answer(house)
    rewrite(house, "Pair", "Couple")
    assert [answer(house), answer(house)] == [[7, 0], [7, 1]]
