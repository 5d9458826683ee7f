"""Progress: bars on a terminal, plain lines elsewhere, and status.json for machines."""

import time
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

from pipeline.journal import Journal
from pipeline.printable import printable

LINE_SECONDS = 10.0
"""Between two plain lines of one step."""
STATUS_SECONDS = 1.0
"""Between two writings of status.json."""


class Progress:
    """Says how far a run is.

    Args:
        journal: keeps status.json; None keeps nothing.
        stream: where people read; None says nothing.
    """

    def __init__(self, journal: Journal | None, stream: TextIO | None) -> None:
        self._journal = journal
        self._stream = stream
        self._bars: Bars | None = None
        self._bar: TaskID | None = None
        self._step = self._title = ""
        self._done = self._total = 0
        self._began = self._said = self._kept = 0.0

    def start(self, step: str, title: str, *, total: int) -> None:
        """Begin a batch of tasks."""
        self._step, self._title, self._done, self._total = step, title, 0, total
        self._began = self._said = time.monotonic()
        if self._stream is not None and self._stream.isatty():
            self._bars = Bars(
                TextColumn("{task.description:<28}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=Console(file=self._stream),
            )
            self._bar = self._bars.add_task(title, total=total)
            self._bars.start()
        self._keep()

    def advance(self, *, more: bool) -> None:
        """Count one finished task; `more` says that it was followed by another."""
        self._done += 1
        self._total += more
        if self._bars is not None and self._bar is not None:
            self._bars.update(self._bar, completed=self._done, total=self._total)
        elif self._done < self._total and time.monotonic() - self._said > LINE_SECONDS:
            self._line()
        if time.monotonic() - self._kept > STATUS_SECONDS:
            self._keep()

    def stop(self) -> None:
        """End the batch."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
        else:
            self._line()
        self._keep()

    def close(self) -> None:
        """Leave the terminal as it was, whatever happened."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    def note(self, message: str) -> None:
        """Say one line."""
        if self._stream is not None:
            print(printable(message), file=self._stream, flush=True)

    def _line(self) -> None:
        self._said = time.monotonic()
        seconds = self._said - self._began
        self.note(f"{self._title:<28} {self._done:,}/{self._total:,}  {seconds:.1f} s")

    def _keep(self) -> None:
        self._kept = time.monotonic()
        if self._journal is not None:
            self._journal.status("running", step=self._step, done=self._done, total=self._total)
