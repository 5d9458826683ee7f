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

from pipeline.state.journal import Journal
from pipeline.system.printable import printable

LINE_SECONDS = 10.0
"""Between two plain lines of one batch."""
_CLOCK = "%Y-%m-%d %H:%M:%S"
"""Before a plain line, in local time."""
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
        self._open: list[BatchProgress] = []
        self._kept = 0.0

    def start(self, step: str, title: str, *, total: int) -> "BatchProgress":
        """Begin a batch of tasks; others may be open beside it."""
        if self._stream is not None and self._stream.isatty() and self._bars is None:
            self._bars = Bars(
                TextColumn("{task.description:<28}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=Console(file=self._stream),
            )
            self._bars.start()
        bar = None if self._bars is None else self._bars.add_task(title, total=total)
        batch = BatchProgress(self, step, title, total, bar)
        self._open.append(batch)
        self.keep()
        return batch

    def close(self) -> None:
        """Leave the terminal as it was, whatever happened."""
        self._open = []
        self._stop_bars()

    def note(self, message: str) -> None:
        """Say one line."""
        if self._bars is not None:  # which would be drawn over it
            self._bars.console.print(printable(message), markup=False, highlight=False, soft_wrap=True)
        elif self._stream is not None:
            print(f"{time.strftime(_CLOCK)} {printable(message)}", file=self._stream, flush=True)

    def show(self, batch: "BatchProgress") -> None:
        """Show how far a batch is."""
        if self._bars is not None and batch.bar is not None:
            self._bars.update(batch.bar, completed=batch.done, total=batch.total)
        elif batch.done < batch.total and time.monotonic() - batch.said > LINE_SECONDS:
            self.note(batch.line())
        if time.monotonic() - self._kept > STATUS_SECONDS:
            self.keep()

    def end(self, batch: "BatchProgress") -> None:
        """End a batch."""
        if batch not in self._open:
            return
        self._open.remove(batch)
        if self._bars is None:
            self.note(batch.line())
        elif not self._open:
            self._stop_bars()
        self.keep(batch)

    def keep(self, last: "BatchProgress | None" = None) -> None:
        """Write status.json: the batch that began first, and the steps of all."""
        self._kept = time.monotonic()
        first = self._open[0] if self._open else last
        if self._journal is not None and first is not None:
            steps = list(dict.fromkeys(batch.step for batch in self._open))
            self._journal.status(
                "running", step=first.step, done=first.done, total=first.total, steps_at_work=steps
            )

    def _stop_bars(self) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None


class BatchProgress:
    """How far a batch of tasks is."""

    def __init__(
        self, progress: Progress, step: str, title: str, total: int, bar: TaskID | None
    ) -> None:
        self._progress = progress
        self.step, self.title, self.total, self.bar = step, title, total, bar
        self.done = 0
        self._began = self.said = time.monotonic()

    def advance(self, *, more: bool) -> None:
        """Count one finished task; `more` says that it was followed by another."""
        self.done += 1
        self.total += more
        self._progress.show(self)

    def grow(self, tasks: int) -> None:
        """Count tasks that were not known before."""
        self.total += tasks
        self._progress.show(self)

    def end(self) -> None:
        """End the batch."""
        self._progress.end(self)

    def line(self) -> str:
        """Return what people read where there are no bars."""
        self.said = time.monotonic()
        return f"{self.title:<28} {self.done:,}/{self.total:,}  {self.said - self._began:.1f} s"
