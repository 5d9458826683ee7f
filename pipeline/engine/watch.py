"""The watch: what the run's processes hold, looked at while they work, and who is given up in time.

A look at a process takes 5 ms or more, so those that changed are looked at once a second, and less often
while much of the limit is free: of the dozen processes of a run, Ray's daemons hold much the same all
the time. In between, how much each has grown is looked at twenty times a second, which takes 20
microseconds. Work is given up when the sum comes within 1.6% of the bound, or would at the next look if
it grew as it did since the last one.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn, Self

from pipeline.engine.memory import MIB, process_tree, unreclaimable_bytes
from pipeline.system.printable import show_bytes
from stages.errors import ConfigError

PERIOD_SECONDS = 1.0
"""Between two looks at the processes that changed."""
GROWTH_SECONDS = 0.05
"""Between two looks at their growth: a process can write some 100 MiB meanwhile."""
SAME_BYTES = 256 << 10
"""A process whose pages changed by no more since it was looked at is not looked at again."""
LOOKS_ANEW = 10
"""Of so many looks, one is at all processes."""
CALM_LOOKS = 5
"""Of so many looks, one is at those that changed, while less than half of the limit is held."""
RESERVE = 64
"""One part in so many of the limit is left free: work that is given up may write on for a moment."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SIGNAL = signal.SIGUSR1
_ROOM = 1.5
"""What is asked for above what was seen: the work was given up while it grew."""


class MemoryShort(BaseException):
    """The watch gives up what this process does; no Exception, so that nothing swallows it."""


@dataclass(eq=False)
class Peak:
    """The most bytes that were seen since it was begun."""

    bytes: int


def own_processes() -> list[int]:
    """Return this process and all below it."""
    return process_tree(os.getpid())


class MemoryWatch:
    """Looks at what the run's processes hold on this node.

    Args:
        limit: `resources.memory`, bytes.
        note: tells people when workers are given up.
        processes: returns those that are looked at.
        period: seconds between two looks at the processes that changed.
    """

    def __init__(
        self,
        limit: int,
        note: Callable[[str], None],
        *,
        processes: Callable[[], list[int]] = own_processes,
        period: float = PERIOD_SECONDS,
    ) -> None:
        self.limit = limit
        self.least = limit
        """Bytes that the node has on which work was given up last, if that is less."""
        self._most = limit - limit // RESERVE
        self.note = note
        self._processes = processes
        self._period = period
        self._pages: dict[int, _Pages] = {}
        """Of each process, as it was at the last look at all."""
        self._looks: dict[int, _ProcessMemory] = {}
        self._fresh = 0
        """Looks since all processes were looked at."""
        self._looked = 0
        """What all held then."""
        self._memory = 0
        self._most_seen = 0
        self._peaks: list[Peak] = []
        self._give_up: Callable[[], object] | None = None
        self._gave_up = threading.Event()
        self._giving = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="memory-watch", daemon=True)

    def __enter__(self) -> Self:
        """Begin to look."""
        if Path("/proc/self/smaps_rollup").exists():  # Linux alone has it; elsewhere nothing is watched
            self.look()  # a step may end before the thread's first look
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop looking."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def memory(self) -> int:
        """Bytes at the last look; 0 before the first."""
        return self._memory

    @property
    def gave_up(self) -> bool:
        """Whether `guard_this_process` has asked to give up what it guards, or guarded last."""
        return self._gave_up.is_set()

    def new_peak(self) -> "Peak":
        """Begin to note the most bytes that are seen."""
        peak = Peak(self._memory)
        self._peaks.append(peak)
        return peak

    def end_peak(self, peak: "Peak") -> int:
        """Return the most bytes that were seen since a peak was begun."""
        self._peaks.remove(peak)
        return peak.bytes

    @contextmanager
    def guard(self, give_up: Callable[[], object]) -> Iterator[None]:
        """Have something given up whenever memory is short, as long as the context lasts.

        Args:
            give_up: called by the watch's thread; it returns once what it gave up is gone.
        """
        self._give_up = give_up
        try:
            yield
        finally:
            with self._giving:  # once this ends, nothing more is given up
                self._give_up = None

    @contextmanager
    def guard_this_process(self) -> Iterator[None]:
        """Raise in this thread when memory is short.

        In a thread that gets no signals nothing is raised. Compiled code is not interrupted: what is
        raised arrives when it returns.

        Raises:
            MemoryShort: so that what is worked on is given up.
        """
        self._gave_up.clear()
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def short(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the signature
            raise MemoryShort

        thread = threading.get_ident()

        def give_up() -> None:
            if not self.gave_up:  # once: what is on its way must not be raised while it is handled
                self._gave_up.set()
                signal.pthread_kill(thread, _SIGNAL)

        before = signal.signal(_SIGNAL, short)
        try:
            with self.guard(give_up):
                yield
        finally:
            signal.signal(_SIGNAL, before)

    def refuse(self, unit: str, *, step: str, remedy: str) -> NoReturn:
        """Stop the run: the last worker alone takes more than there is, and would again.

        Args:
            unit: what it worked on.
            step: the name of its step.
            remedy: what else than more memory would help; may be empty.

        Raises:
            ConfigError: always.
        """
        seen = max(self._most_seen, self._memory)
        asked = -(-int(_ROOM * max(seen, self.least)) // MIB)
        bound, way = "resources.memory", "set it to"
        if self.least < self.limit:
            bound, way = "memory of a node, below resources.memory,", "take nodes that have"
        raise ConfigError(
            f"{bound} = {show_bytes(self.least)}: step {step} ({unit}) needed more than"
            f" that even with one worker: the run used {show_bytes(seen)}; {way} {asked}MiB or more"
            f" and run again to resume{remedy and f', or {remedy} and run with --replace'}"
        )

    def look(self, *, anew: bool = True) -> set[int]:
        """Look at all processes; if not anew, at those alone that changed since they were looked at.

        While less than half of the limit is held, most looks are at none: how much anonymous memory grew
        is known without. If processes began or ended, all are looked at, because what two shared is
        counted for the other one now.

        Returns:
            The processes that were looked at.
        """
        self._pages = {pid: _pages_of(pid) for pid in self._processes()}
        self._fresh = 0 if anew or self._pages.keys() != self._looks.keys() else self._fresh + 1
        known = self._looks if self._fresh % LOOKS_ANEW else {}
        calm = self._memory < self._most / 2 and self._fresh % CALM_LOOKS > 0
        kept = {pid: look for pid, look in known.items() if calm or look.is_of(self._pages[pid])}
        self._looks = {pid: kept.get(pid) or _look_at(pid) for pid in self._pages}
        self._looked = sum(look.memory_with(self._pages[pid]) for pid, look in self._looks.items())
        self._note(self._looked)
        return self._pages.keys() - kept.keys()

    def _look_on(self) -> None:
        since = time.monotonic()
        while not self._ended.is_set():
            before = self._memory
            if time.monotonic() - since >= self._period:
                self.look(anew=False)
                since = time.monotonic()
            else:
                self._look_at_growth()
            growth = max(0, self._memory - before) if before else 0
            if self._memory + growth > self._most:
                self._relieve(growth)
            self._ended.wait(min(self._period, GROWTH_SECONDS))

    def _look_at_growth(self) -> None:
        """Look at how much the known processes have grown since all was looked at."""
        known = self._pages.items()
        growth = sum(_pages_of(pid).anonymous - before.anonymous for pid, before in known)
        self._note(self._looked + growth)

    def note_elsewhere(self, memory: int) -> None:
        """Note the bytes that the run used on a node."""
        self._most_seen = max(self._most_seen, memory)
        for peak in list(self._peaks):
            peak.bytes = max(peak.bytes, memory)

    def _note(self, memory: int) -> None:
        self._memory = memory
        self.note_elsewhere(memory)

    def _relieve(self, growth: int) -> None:
        """End the work that is guarded, if looking at all processes anew says the same."""
        self.look()
        with self._giving:
            if self._give_up is not None and self._memory + growth > self._most:
                self._give_up()
                self.look()


class _Pages(NamedTuple):
    """The memory of a process as it is told without a look."""

    anonymous: int
    """Bytes, those shared with its parent too."""
    shared: int
    """Bytes of mapped files and of shared memory."""


class _ProcessMemory(NamedTuple):
    """What was seen of a process."""

    before: _Pages
    memory: int
    """Bytes."""
    after: _Pages

    def is_of(self, pages: _Pages) -> bool:
        """Say whether the process had these pages before and after the look."""
        return all(
            abs(now - then) <= SAME_BYTES
            for seen in (self.before, self.after)
            for now, then in zip(pages, seen, strict=True)
        )

    def memory_with(self, pages: _Pages) -> int:
        """Return what the process holds if its anonymous memory is as told now."""
        return self.memory + pages.anonymous - self.after.anonymous


def _look_at(pid: int) -> _ProcessMemory:
    """Look at a process."""
    return _ProcessMemory(_pages_of(pid), unreclaimable_bytes(pid), _pages_of(pid))


def _pages_of(pid: int) -> _Pages:
    """Return the memory of a process; nothing if it is gone."""
    with suppress(OSError, ValueError):
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
        return _Pages((int(resident) - int(shared)) * _PAGE, int(shared) * _PAGE)
    return _Pages(0, 0)


def end_process(pid: int, leader: int, *, timeout: float = 2.0) -> None:
    """Kill a worker's process and wait until what it held is free.

    Args:
        pid: of a process below the leader; another one is left alone.
        leader: a process.
        timeout: seconds.
    """
    if pid not in process_tree(leader):
        return
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + timeout
    while unreclaimable_bytes(pid) and time.monotonic() < deadline:
        time.sleep(0.005)
