"""Copies of the tree for mutants: a sound one in which the tests must pass, and one for each mutant.

The working tree is never touched. All copies have paths of one length: Ray starts only where its sockets
have short ones, and tests that fail for the place they run in would seem to notice every mutant.

Caches of compiled kernels are copied, so that they are not compiled for every mutant: `stages.kernels`
sees which of them a mutant makes stale.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Self

LEFT_OUT = (".git", ".venv", "*-output", "*.egg-info", ".*_cache", ".hypothesis", "*.pyc")
"""Of the tree, for no test needs it."""
_TREE = "tree"
KEYS = {"file", "old", "new", "tests", "equivalent"}
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class BrokenError(Exception):
    """A list, or a tree, of which nothing can be learned."""


@dataclass(frozen=True)
class Mutant:
    """One fault."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    """Files of tests, or tests in them, that should notice it."""
    equivalent: str = ""
    """Why no test can notice it; empty if one should."""

    @classmethod
    def of(cls, content: dict[str, Any]) -> Self:
        """Return the mutant of a line of a list."""
        return cls(**{**content, "tests": tuple(content["tests"])})


@dataclass(frozen=True)
class Trial:
    """What came of running tests on a copy."""

    noticed: bool
    by: str
    seconds: float


def read_list(path: Path, root: Path) -> list[Mutant]:
    """Return the mutants of a list, each of which can be planted.

    Raises:
        BrokenError: a line is no mutant, or cannot be planted into the tree.
    """
    mutants = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        place = f"{path}, line {number}"
        try:
            content = json.loads(line)
        except ValueError as error:
            raise BrokenError(f"{place}: not JSON: {error}") from error
        if not isinstance(content, dict) or content.keys() != KEYS:
            raise BrokenError(f"{place}: must have exactly the keys {', '.join(sorted(KEYS))}")
        mutants.append(Mutant.of(content))
        _check(mutants[-1], root, place)
    repeated = [one for one in mutants if mutants.count(one) > 1]
    if repeated:
        raise BrokenError(f"{path}: {repeated[0].file}: {repeated[0].old!r} is there twice")
    return mutants


def _check(mutant: Mutant, root: Path, place: str) -> None:
    """Refuse a mutant that cannot be planted, or that no test is named for."""
    source = root / mutant.file
    if not source.is_file():
        raise BrokenError(f"{place}: {mutant.file}: no such file")
    text = source.read_text(encoding="utf-8")
    found = text.count(mutant.old) if mutant.old else 0
    if found != 1:
        raise BrokenError(
            f"{place}: {mutant.file}: {mutant.old!r} is there {found} times; it must be there once"
        )
    try:
        compile(text.replace(mutant.old, mutant.new), mutant.file, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise BrokenError(f"{place}: {mutant.file}: {mutant.new!r} is no Python: {error}") from error
    missing = [test for test in mutant.tests if not _is_there(root, test)]
    if missing or not mutant.tests:
        raise BrokenError(f"{place}: {mutant.file}: no such tests: {', '.join(missing) or 'none named'}")


def _is_there(root: Path, test: str) -> bool:
    """Say whether a file or folder of tests is there, and a test in it, if one is named."""
    file, _, name = test.partition("::")
    if not name or not (root / file).is_file():
        return not name and (root / file).exists()
    return f"def {name.partition('[')[0]}(" in (root / file).read_text("utf-8")


def mirrored_tests(file: str, root: Path) -> tuple[str, ...]:
    """Return the folder of tests nearest to a file's own.

    stages/store/digests.py -> tests/stages/store
    """
    folder = Path(file).parent
    while not (root / "tests" / folder).is_dir():
        folder = folder.parent
    return ((Path("tests") / folder).as_posix(),)


def stamp_of(mutant: Mutant, root: Path) -> str:
    """Return a digest of a mutant's file and tests: a result is good as long as it stays."""
    digest = hashlib.sha256()
    for name in (mutant.file, *(test.partition("::")[0] for test in mutant.tests)):
        place = root / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@dataclass
class PlantedTree:
    """A copy with a mutant in it."""

    folder: Path
    sound: "SoundTree"

    def run(self, tests: tuple[str, ...]) -> Trial:
        """Run tests until one fails, for as long as they may take."""
        bound = self.sound.patience + 5 * self.sound.seconds_of(tests)
        return _run(self.folder, tests, bound)


@dataclass
class SoundTree:
    """A copy without any mutant.

    Args:
        folder: the copy.
        work: gets the copies with mutants.
        patience: seconds that any tests may take, besides five times what they take here.
    """

    folder: Path
    work: Path
    patience: float
    _seconds: dict[tuple[str, ...], float] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def copied(cls, root: Path, work: Path, *, patience: float) -> Self:
        """Copy a tree with its caches of kernels."""
        folder = work / "000" / _TREE
        shutil.copytree(root, folder, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
        return cls(folder, work, patience)

    def seconds_of(self, tests: tuple[str, ...]) -> float:
        """Return how long tests take without a mutant.

        Raises:
            BrokenError: they fail.
        """
        with self._lock:  # one at a time: they fill the caches of kernels that mutants are given
            if tests not in self._seconds:
                trial = _run(self.folder, tests, bound=float("inf"))
                if trial.noticed:
                    raise BrokenError(f"{' '.join(tests)}: {trial.by} fails without any mutant")
                self._seconds[tests] = trial.seconds
        return self._seconds[tests]

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[PlantedTree]:
        """Plant a mutant into a copy that is removed afterwards."""
        self.seconds_of(mutant.tests)
        with self._lock:
            folder = self.work / f"{next(self._numbers):03d}" / _TREE
            shutil.copytree(self.folder, folder, symlinks=True)
        source = folder / mutant.file
        text = source.read_text(encoding="utf-8").replace(mutant.old, mutant.new)
        source.write_text(text, encoding="utf-8")
        for compiled in (source.parent / "__pycache__").glob(f"{source.stem}.*.pyc"):
            compiled.unlink()  # Python trusts one whose source has the same second and size
        try:
            yield PlantedTree(folder, self)
        finally:
            shutil.rmtree(folder.parent, ignore_errors=True)


def _run(folder: Path, tests: tuple[str, ...], bound: float) -> Trial:
    """Run tests in a copy; say what failed first, or that they did not end."""
    temporary = folder.parent / "t"
    temporary.mkdir()
    try:
        return _run_in(folder, temporary, tests, bound)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _run_in(folder: Path, temporary: Path, tests: tuple[str, ...], bound: float) -> Trial:
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "TMPDIR": str(temporary),
        "PYTHONDONTWRITEBYTECODE": "" if folder.parent.name == "000" else "1",
    }
    begun = time.monotonic()
    printed = temporary / "printed"  # a file: what outlives the tests may hold a pipe open
    with printed.open("wb") as stream:
        process = subprocess.Popen(  # noqa: S603  # this Python, with the list's tests
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests],
            cwd=folder,
            env=environment,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    try:
        process.wait(None if bound == float("inf") else bound)
    except subprocess.TimeoutExpired:
        return Trial(noticed=True, by=f"no end in {bound:.0f} s", seconds=bound)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    output = printed.read_text(encoding="utf-8", errors="replace")
    seconds = time.monotonic() - begun
    if process.returncode == 0:
        return Trial(noticed=False, by="", seconds=seconds)
    failed = _FAILED.search(output)
    named = failed.group(1) if failed else f"exit status {process.returncode}: {output[-300:].strip()}"
    return Trial(noticed=True, by=named, seconds=seconds)
