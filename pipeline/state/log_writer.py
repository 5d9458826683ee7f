"""The writer of the log: entries go into it in their order, by a thread of their own.

    add(entry) ... add(entry)    -> queue -> one object of all that is ready -> the next

While one object is written, what becomes ready waits for the next one; nothing waits for a clock.
Whoever adds an entry goes on at once. An error is told by the next call.
"""

import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from pipeline.state.log import MOST_BYTES, MOST_ENTRIES, STATE_EVERY, LogEntry, RunLog
from stages.config import canonical_json

_MOST_WAITING = 4 * MOST_ENTRIES
"""Entries that may wait; then who adds one waits too."""


class LogWriter:
    """Writes the log of a run.

    Args:
        log: read to its end.
        epoch: of this process.
        holder: of this process.
        require: refuses to go on if another process has the lease.
    """

    def __init__(
        self, log: RunLog, *, epoch: int, holder: str, require: Callable[[], None] = lambda: None
    ) -> None:
        self._log = log
        self._epoch, self._holder = epoch, holder
        self.require = require
        self._waiting: deque[tuple[LogEntry, int]] = deque()
        self._busy = False
        self._ended = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)

    def __enter__(self) -> Self:
        """Begin to write."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what waits, and end."""
        del kind, trace
        try:
            self.flush()
        except BaseException:
            if error is None:
                raise
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()
            self._thread.join()

    def add(self, entry: LogEntry) -> None:
        """Write an entry soon.

        Raises:
            Stopped: another process has taken over, or the store has no answer.
        """
        size = len(canonical_json(entry))
        with self._changed:
            self._changed.wait_for(lambda: self._error or len(self._waiting) < _MOST_WAITING)
            self._refuse()
            self._waiting.append((entry, size))
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until all entries are written.

        Raises:
            Stopped: as `add`.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._error or not (self._waiting or self._busy))
            self._refuse()

    def _refuse(self) -> None:
        if self._error is not None:
            raise self._error

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended)
                if not self._waiting:
                    return
                entries = self._taken()
                self._busy = True
                self._changed.notify_all()
            try:
                self.require()
                self._log.append(entries, epoch=self._epoch, holder=self._holder)
                if self._log.state.number % STATE_EVERY == 0:
                    self._log.put_state()
            except BaseException as error:  # noqa: BLE001  # told by who calls next
                self._error = error
            with self._changed:
                self._busy = False
                self._changed.notify_all()
            if self._error is not None:
                return

    def _taken(self) -> list[LogEntry]:
        """TakeEntry the entries of the next object."""
        taken: list[LogEntry] = []
        size = 0
        while self._waiting and len(taken) < MOST_ENTRIES:
            entry, own = self._waiting[0]
            if taken and size + own > MOST_BYTES:
                break
            self._waiting.popleft()
            taken.append(entry)
            size += own
        return taken
