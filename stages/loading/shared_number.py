"""A whole number in shared memory, so that worker processes that run already see when it is set.

    process A                  set(3)              set(4)
    process B, started by A            get() = 3           get() = 4  set(9)  get() = 9, until A sets it

Each process writes a cell of memory of its own. The processes that it starts follow this cell; the
process that started it does not, so ranks that were started together do not move each other. Forked
processes inherit the memory (also after a plain `os.fork`), and spawned ones are handed it when they
start. All other copies (`copy`, `pickle`, Ray) are numbers of their own, which begin with the present
value.
"""

import os
import warnings
from collections.abc import Iterable
from ctypes import Array, c_int64
from multiprocessing import RawArray
from multiprocessing.context import get_spawning_popen
from typing import NamedTuple
from weakref import WeakSet

MAX_NUMBER = (1 << 63) - 1
"""The largest number that one word of memory holds."""
_NEVER = -1


class SharedNumber:
    """A number of a process, and of the processes that it starts until they set their own.

    Args:
        value: what it begins with, from 0 to `MAX_NUMBER`.
    """

    def __init__(self, value: int) -> None:
        self._cells: tuple[_Cell, ...] = (
            _Cell(value, seen=0),
        )  # the oldest process's first, its own last
        _NUMBERS.add(self)

    def __reduce__(self) -> tuple[object, ...]:
        """Return what a copy is made of: a process that is being started gets the memory itself."""
        if get_spawning_popen() is None:
            return SharedNumber, (self.get(),)
        return _attached, (self._cells,)

    def get(self) -> int:
        """Return the number as it is now."""
        states = [cell.read() for cell in self._cells]
        while states[-1].seen != sum(state.times for state in states[:-1]):
            states.pop()  # an older process set the number later
        return states[-1].value

    def set(self, value: int) -> None:
        """Set the number, for this process and those that follow it."""
        *elder, own = self._cells
        own.write(value, seen=sum(cell.read().times for cell in elder))

    def _follow(self, cells: "tuple[_Cell, ...]") -> None:
        """Follow the cells of older processes, until this process sets a cell of its own."""
        self._cells = (*cells, _Cell(0, seen=_NEVER))


class _SharedValue(NamedTuple):
    """What a cell holds."""

    value: int
    times: int
    """How often the value was set."""
    seen: int
    """How often older processes had set theirs when it was."""


class _Cell:
    """Shared memory of one process, which alone writes it.

    The process may free it, and another cell get it, while a process that was started reads on. So
    a fourth word names the cell, and a reader that finds another name keeps what it read last.
    """

    def __init__(self, value: int, *, seen: int) -> None:
        self.shared = True
        self._name = int.from_bytes(os.urandom(8)) >> 1 | 1  # 0 is memory that no cell has yet
        self._last = _SharedValue(value, 0, seen)
        numbers = [*self._last, self._name]
        try:
            self._numbers: Array[c_int64] = RawArray(c_int64, numbers)
        except OSError:  # nowhere to put it: the dataset can be read all the same, in one process
            self._numbers = (c_int64 * len(numbers))(*numbers)
            self.shared = False

    def read(self) -> _SharedValue:
        """Return what it holds."""
        *numbers, name = self._numbers
        if name == self._name:
            self._last = _SharedValue(*numbers)
        return self._last

    def write(self, value: int, *, seen: int) -> None:
        """Set the value: of one word, so a reader finds the old one or the new one."""
        self._numbers[0] = value
        self._numbers[2] = seen
        self._numbers[1] += 1
        self.read()  # for a process that is started now and first reads when the memory is gone


def _warn_if_private(cells: Iterable[_Cell]) -> None:
    """Say in a worker that it cannot follow the process that started it."""
    if not all(cell.shared for cell in cells):
        message = (
            "the system gave no shared memory (see /dev/shm), so `set_epoch` does not reach workers that"
            " run already: start them anew for each epoch (persistent_workers=False)"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=2)


def _attached(cells: tuple[_Cell, ...]) -> SharedNumber:
    """Return a number that follows the cells of the process that started this one."""
    _warn_if_private(cells)
    number = SharedNumber(0)
    number._follow(cells)  # noqa: SLF001  # it is made here
    return number


def _follow_parent() -> None:
    """Make every number of a process that was just forked follow the number of its parent."""
    numbers = list(_NUMBERS)
    for number in numbers:
        number._follow(number._cells)  # noqa: SLF001  # they are of this module
    _warn_if_private([cell for number in numbers for cell in number._cells])  # noqa: SLF001  # likewise


_NUMBERS: WeakSet[SharedNumber] = WeakSet()
"""All numbers of this process. The hook below needs the list, because Python calls it without arguments.
`multiprocessing.util.register_after_fork` keeps such a list too, but `os.fork` does not use that one."""
os.register_at_fork(after_in_child=_follow_parent)
