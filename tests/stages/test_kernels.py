"""Compiled code on disk is used only while every source that it rests on is the same."""

import contextlib
import fcntl
import importlib
import io
import multiprocessing
import os
import shutil
import sys
import threading
from multiprocessing.connection import Connection
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
    for name in ("kernels.py", "kernel_cache.py", "errors.py"):
        shutil.copy(Path(stages.kernels.__file__).with_name(name), package / name)
    (package / "__init__.py").touch()
    (package / "caller.py").write_text(CALLER)
    (package / "callee.py").write_text(CALLEE)
    return tmp_path


def answer(house: Path) -> list[int]:
    """Return what the kernel answers in a new process, and how often its cache served.

    A forked one: it has imported numba, which takes a second, but none of these modules.
    """
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=say, args=(house, theirs))
    process.start()
    theirs.close()
    said: str = ours.recv()
    process.join()
    return [int(word) for word in said.split()]


def say(house: Path, pipe: Connection) -> None:
    """Import the caller and send what it printed."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "stages"]:
        del sys.modules[name]
    sys.path.insert(0, str(house))
    sys.dont_write_bytecode = True
    os.chdir(house)
    importlib.invalidate_caches()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        importlib.import_module("stages.caller")
    pipe.send(said.getvalue())


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


def test_code_is_kept_by_one_process_at_a_time(tmp_path: Path) -> None:
    """Two that read the list of what is kept at once would choose one name for two files."""
    cache = stages.kernels._CachedCode(str(tmp_path), "kernel", "stamp")  # noqa: SLF001  # numba makes it
    opened = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(opened, fcntl.LOCK_EX)
    saving = threading.Thread(target=cache.save, args=("key", "code"))
    saving.start()
    saving.join(0.2)
    assert cache.load("key") is None
    os.close(opened)
    saving.join()
    assert cache.load("key") == "code"
