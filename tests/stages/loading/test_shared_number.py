"""What a number in shared memory promises.

Processes follow the one that started them, whatever starts them and however deep, until they set a
number of their own, and again once the older one sets it. Nobody moves an older process or a sibling. A
process that outlives the number it follows keeps its last value. A copy is a number of its own.
"""

import copy
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection

import pytest

from stages.loading.shared_number import MAX_NUMBER, SharedNumber
from tests.campaign import FULL, some_of

STARTS = ["fork", "spawn", "forkserver"]
BARE = "os.fork"
"""A start of a process without multiprocessing."""


class Follower:
    """A process that a number was handed to, and those that it started; a path of numbers names one.

    Args:
        number: what it is handed.
        start: how the process starts.
        further: how those start that it starts itself; None: likewise.
    """

    def __init__(self, number: SharedNumber, start: str, further: str | None = None) -> None:
        further = further or start
        self._pipe, theirs = multiprocessing.Pipe()
        if start == BARE:
            self._end = _forked(number, theirs, further)
            return
        context = multiprocessing.get_context(start)
        process = context.Process(target=answer, args=(number, theirs, further))  # type: ignore[attr-defined]
        process.start()
        self._end = process.join

    def ask(self, path: tuple[int, ...], command: str, value: int = 0) -> int:
        """Return the number of a process, or 0, once it has done what it was told."""
        self._pipe.send((path, command, value))
        answered: int = self._pipe.recv()
        return answered

    def close(self) -> None:
        """End the process."""
        self._pipe.send(((), "end", 0))
        self._end()


def _forked(number: SharedNumber, pipe: Connection, start: str) -> Callable[[], object]:
    """Answer in a process of a bare `os.fork`; return what waits for its end."""
    child = os.fork()
    if child:
        return lambda: os.waitpid(child, 0)
    try:
        answer(number, pipe, start)
    finally:
        os._exit(0)  # nothing of the tests goes on here


def answer(number: SharedNumber, pipe: Connection, start: str) -> None:
    """Do what a test says, in another process."""
    followers: list[Follower] = []
    while True:
        path, command, value = pipe.recv()
        if command == "end":
            for follower in followers:
                follower.close()
            return
        if path:
            pipe.send(followers[path[0]].ask(path[1:], command, value))
            continue
        if command == "set":
            number.set(value)
        elif command == "start":
            followers.append(Follower(number, start))
        pipe.send(0 if command == "wait" else number.get())


def follow_until_they_set_their_own(start: str, further: str) -> None:
    """Hold a process, and one that it starts before any of them sets the number, to whom they follow."""
    number = SharedNumber(3)
    with closing(Follower(number, start, further)) as child:
        child.ask((), "start")

        def everywhere() -> tuple[int, int, int]:
            return number.get(), child.ask((), "get"), child.ask((0,), "get")

        assert everywhere() == (3, 3, 3)
        child.ask((), "set", 7)
        assert everywhere() == (3, 7, 7)
        number.set(4)
        assert everywhere() == (4, 4, 4)
        child.ask((), "set", 7)
        assert everywhere() == (4, 7, 7)
        child.ask((0,), "set", 9)
        assert everywhere() == (4, 7, 9)
        child.ask((), "set", 7)
        assert everywhere() == (4, 7, 7)
        number.set(4)
        assert everywhere() == (4, 4, 4)
        child.ask((0,), "set", 2)
        assert everywhere() == (4, 4, 2)


@pytest.mark.parametrize("start", STARTS)
def test_processes_follow_the_one_that_started_them_until_they_set_their_own(start: str) -> None:
    follow_until_they_set_their_own(start, start)


@pytest.mark.parametrize("further", some_of(STARTS, 1))
def test_a_process_of_a_bare_fork_follows_and_is_followed_in_the_same_way(further: str) -> None:
    program = (  # a new one, because no fork of a process that uses a forkserver can start another
        "from tests.stages.loading.test_shared_number import *\n"
        f"follow_until_they_set_their_own(BARE, {further!r})\n"
        "print('held')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "held\n", done.stderr


def test_siblings_do_not_move_each_other() -> None:
    number = SharedNumber(0)
    with closing(Follower(number, "fork")) as one, closing(Follower(number, "fork")) as other:
        for turn in range(1, 4):
            one.ask((), "set", 10 * turn)
            other.ask((), "set", 10 * turn + 1)
        assert (one.ask((), "get"), other.ask((), "get")) == (30, 31)
    assert number.get() == 0


@pytest.mark.parametrize(
    ("start", "read"),
    [(start, read) for start in STARTS for read in ([], [6]) if FULL or start == "fork" or read],
)
def test_a_process_that_outlives_the_number_keeps_its_last_value(start: str, read: list[int]) -> None:
    number = SharedNumber(3)
    number.set(5)
    with closing(Follower(number, start)) as child:
        child.ask((), "wait")  # until it has the memory
        for value in read:
            number.set(value)
            assert child.ask((), "get") == value
        del number
        gc.collect()
        others = [SharedNumber(100 + n) for n in range(50)]  # one of them has the memory
        for other in others:
            other.set(200)
        assert child.ask((), "get") == [5, *read][-1]


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda number: pickle.loads(pickle.dumps(number))],  # noqa: S301
)
def test_a_copy_is_a_number_of_its_own(copied: Callable[[SharedNumber], SharedNumber]) -> None:
    number = SharedNumber(3)
    number.set(4)
    again = copied(number)
    assert again.get() == 4
    again.set(5)
    assert (number.get(), again.get()) == (4, 5)
    number.set(6)
    assert (number.get(), again.get()) == (6, 5)


def test_the_largest_number_fits() -> None:
    number = SharedNumber(MAX_NUMBER)
    assert number.get() == MAX_NUMBER
    number.set(0)
    number.set(MAX_NUMBER)
    assert number.get() == MAX_NUMBER
