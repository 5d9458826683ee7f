"""What a number in shared memory promises.

Processes follow the one that started them, whatever starts them and however deep, until they set a
number of their own, and again once the older one sets it. Nobody moves an older process or a sibling. A
copy is a number of its own, and memory that is given to another number changes none.
"""

import copy
import gc
import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection

import pytest

from stages.loading.shared_number import MAX_NUMBER, SharedNumber

STARTS = ["fork", "spawn", "forkserver"]


class Follower:
    """A process that a number was handed to, and those that it started; a path of numbers names one.

    Args:
        number: what it is handed.
        start: how processes start.
    """

    def __init__(self, number: SharedNumber, start: str) -> None:
        context = multiprocessing.get_context(start)
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=answer, args=(number, theirs, start))  # type: ignore[attr-defined]
        self._process.start()

    def ask(self, path: tuple[int, ...], command: str, value: int = 0) -> int:
        """Return the number of a process, or 0, once it has done what it was told."""
        self._pipe.send((path, command, value))
        answered: int = self._pipe.recv()
        return answered

    def close(self) -> None:
        """End the process."""
        self._pipe.send(((), "end", 0))
        self._process.join()


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
        pipe.send(number.get())


@pytest.mark.parametrize("start", STARTS)
def test_processes_follow_the_one_that_started_them_until_they_set_their_own(start: str) -> None:
    number = SharedNumber(3)
    with closing(Follower(number, start)) as child:
        child.ask((), "start")

        def everywhere() -> tuple[int, int, int]:
            return number.get(), child.ask((), "get"), child.ask((0,), "get")

        assert everywhere() == (3, 3, 3)
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


def test_siblings_do_not_move_each_other() -> None:
    number = SharedNumber(0)
    with closing(Follower(number, "fork")) as one, closing(Follower(number, "fork")) as other:
        for turn in range(1, 4):
            one.ask((), "set", 10 * turn)
            other.ask((), "set", 10 * turn + 1)
        assert (one.ask((), "get"), other.ask((), "get")) == (30, 31)
    assert number.get() == 0


def test_a_process_that_was_forked_in_another_way_sets_its_own_too() -> None:
    program = (
        "import os\n"
        "from stages.loading.shared_number import SharedNumber\n"
        "number = SharedNumber(3)\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    number.set(9)\n"
        "    os._exit(number.get())\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), number.get())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["9", "3"]


def test_memory_that_another_number_was_given_changes_no_follower() -> None:
    number = SharedNumber(3)
    with closing(Follower(number, "fork")) as child:
        number.set(5)
        assert child.ask((), "get") == 5
        del number
        gc.collect()
        others = [SharedNumber(100 + n) for n in range(50)]  # one of them has the memory
        for other in others:
            other.set(200)
        assert child.ask((), "get") == 5


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
