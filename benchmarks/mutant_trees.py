"""Copies of the tree for mutants: a sound one in which the tests must pass, and one for each mutant.

The working tree is never touched. All copies have paths of one length: Ray starts only where its sockets
have short ones, and tests that fail for the place they run in would seem to notice every mutant.

Caches of compiled kernels are there too, so that they are not compiled for every mutant:
`stages.kernels` sees which of them a mutant makes stale. Copies with mutants are links to the files of
the sound one, for whoever writes a file of the tree puts another in its place.
"""

import json
import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Self

from warm_python import LIBRARIES, Call, WarmPython

LEFT_OUT = (".git", ".venv", "*-output", "*.egg-info", ".*_cache", ".hypothesis", "*.pyc")
"""Of the tree, for no test needs it."""
_TREE = "tree"
_QUIETLY = ("-x", "-q", "-p", "no:cacheprovider", "--assert", "plain")
_IMPORTS = 60.0
"""Seconds that pytest may take besides, until it runs the first test."""
KEYS = {"file", "old", "new", "tests", "equivalent"}


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
    """The first test that failed, or what happened instead."""
    seconds: float
    test: tuple[str, ...] = ()
    """Tests that must pass without the mutant, or nothing was learned."""


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


@dataclass
class SoundTree:
    """A copy without any mutant.

    Args:
        folder: the copy.
        work: gets the copies with mutants.
        patience: seconds that a test may take.
        budget: seconds of tests with a mutant after which no further one is begun.
    """

    folder: Path
    work: Path
    patience: float
    budget: float = math.inf
    _sound: set[tuple[str, ...]] = field(default_factory=set)
    """Tests that pass here."""
    _broken: set[str] = field(default_factory=set)
    """Tests that fail here, and are left out."""
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _learning: threading.Lock = field(default_factory=threading.Lock)
    _warm: list[WarmPython] = field(default_factory=list)

    @classmethod
    @contextmanager
    def copied(
        cls, root: Path, work: Path, *, patience: float, budget: float = math.inf
    ) -> Iterator[Self]:
        """Copy a tree with its caches of kernels, until the end."""
        folder = work / "000" / _TREE
        shutil.copytree(root, folder, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
        tree = cls(folder, work, patience, budget)
        try:
            yield tree
        finally:
            for python in tree._warm:
                python.close()

    def require_pass(self, tests: tuple[str, ...]) -> None:
        """Run tests without a mutant, once.

        Raises:
            BrokenError: they fail.
        """
        with self._learning:  # one at a time: they fill the caches of kernels that mutants are given
            if tests not in self._sound:
                trial = self.run(self.folder, tests)
                if trial.noticed:
                    self._broken.update(trial.test if trial.test != tests or len(tests) == 1 else ())
                    raise BrokenError(f"{' '.join(tests)}: {trial.by} fails without any mutant")
                self._sound.add(tests)

    def passes(self, test: str) -> bool:
        """Say whether there is such a test, and whether it passes without a mutant."""
        try:
            self.require_pass((test,))
        except BrokenError:
            return False
        return True

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[Path]:
        """Plant a mutant into a copy that is removed afterwards; return the copy."""
        with self._lock:
            folder = self.work / f"{next(self._numbers):03d}" / _TREE
        shutil.copytree(self.folder, folder, symlinks=True, copy_function=os.link)
        source = folder / mutant.file
        text = source.read_text(encoding="utf-8").replace(mutant.old, mutant.new)
        source.unlink()
        source.write_text(text, encoding="utf-8")
        for compiled in (source.parent / "__pycache__").glob(f"{source.stem}.*.pyc"):
            compiled.unlink()  # Python trusts one whose source has the same second and size
        try:
            yield folder
        finally:
            shutil.rmtree(folder.parent, ignore_errors=True)

    def noticed(self, folder: Path, tests: tuple[str, ...]) -> Trial:
        """Run tests on a copy with a mutant, without those that fail without it too.

        Raises:
            BrokenError: all of them do.
        """
        first: BrokenError | None = None
        while (trial := self.run(folder, tests)).noticed:
            known = len(self._broken)
            try:
                self.require_pass(trial.test)
            except BrokenError as error:
                first = first or error
                no_single_one, none_left = len(self._broken) == known, trial.test == tests
                if no_single_one or none_left:
                    raise first from error
                print(f"left out: {error}", file=sys.stderr, flush=True)
            else:
                break
        return trial

    def run(self, folder: Path, tests: tuple[str, ...]) -> Trial:
        """Run tests on a copy until one fails, or takes longer than it may, or all together do."""
        temporary = folder.parent / "t"
        temporary.mkdir()
        with self._lock:
            python = self._warm.pop() if self._warm else WarmPython(LIBRARIES)
        begun = time.monotonic()
        call = Call(
            folder,
            (*_QUIETLY, *(f"--deselect={test}" for test in sorted(self._broken)), *tests),
            temporary,
            printed=temporary / "printed",  # a file: what outlives the tests may hold a pipe open
            failed=temporary / "failed",
            running=temporary / "running",
            keep_bytecode=folder == self.folder,
        )
        python.begin(call)
        status = None
        try:
            running, since, ends, spent = "", begun, math.inf, False
            while status is None and time.monotonic() < since + self.patience + (not running) * _IMPORTS:
                status = python.status(min(1.0, self.patience))
                if running != (running := _read(call.running)):
                    since = time.monotonic()
                    if ends == math.inf and folder != self.folder:
                        ends = since + self.budget
                    if spent := status is None and since > ends:
                        break
        finally:
            python.end(running=status is None)
            with self._lock:
                self._warm.append(python)
        seconds = time.monotonic() - begun
        trial = Trial(noticed=False, by=f"stopped after {seconds:.0f} s", seconds=seconds)
        if not spent:
            trial = _trial(status, call, tests, seconds)
        shutil.rmtree(temporary, ignore_errors=True)
        return trial


def _read(path: Path) -> str:
    """Return what is in a file; nothing if it is not there yet."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _trial(status: int | None, call: Call, tests: tuple[str, ...], seconds: float) -> Trial:
    """Return what a call of pytest says of the tree."""
    if status == 0:
        return Trial(noticed=False, by="", seconds=seconds)
    if status is None:
        running = _read(call.running)
        test = (running,) if running else tests
        return Trial(noticed=True, by=f"no end of {running or 'imports'}", seconds=seconds, test=test)
    if call.failed.exists():
        failed = call.failed.read_text(encoding="utf-8")
        return Trial(noticed=True, by=failed, seconds=seconds, test=(failed,))
    output = call.printed.read_text(encoding="utf-8", errors="replace")
    said = f"exit status {status}: {output[-300:].strip()}"
    return Trial(noticed=True, by=said, seconds=seconds, test=tests)
