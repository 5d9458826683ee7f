"""Progress: all that is at work in one view of a terminal, lines elsewhere, files for machines.

    sign documents             ━━━━━━━━━━━━━━━━━  12/47   0:00:31  0:01:12   3,120 documents/s
    encode                     ━━━━━               9/47   0:00:12  0:00:58   8,004 documents/s
    3 of 9 steps done   memory 1.2 GiB of 8 GiB   2 warnings   0:02:10

Phases that are done stand above it as lines. status.json and metrics.prom say the same to machines.
"""

import time
from collections.abc import Callable, Iterable
from typing import TextIO

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.text import Text

from pipeline.state.journal import Journal, PhaseMetrics
from pipeline.system.printable import printable, show_bytes

LINE_SECONDS = 10.0
"""Between two plain lines of one batch."""
_CLOCK = "%Y-%m-%d %H:%M:%S"
"""Before a plain line, in local time."""
STATUS_SECONDS = 1.0
"""Between two writings of status.json."""
_WARNING = "warning:"


class _View(Bars):
    """The bars of all that is at work, and a line about the run as a whole."""

    def __init__(self, console: Console, footer: Callable[[], str]) -> None:
        self._footer = footer
        super().__init__(
            TextColumn("{task.description:<28}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[rate]}", markup=False),
            console=console,
        )

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bars, and the line below them."""
        yield self.make_tasks_table(self.tasks)
        yield Text(self._footer())


class Progress:
    """Says how far a run is.

    Args:
        journal: keeps the files for machines; None keeps nothing.
        stream: where people read; None says nothing.
        verbose: whether each unit of work is told when it is done.
    """

    def __init__(self, journal: Journal | None, stream: TextIO | None, *, verbose: bool = False) -> None:
        self._journal = journal
        self._stream = stream
        self._verbose = verbose
        self._bars: _View | None = None
        self._open: list[BatchProgress] = []
        self._kept = 0.0
        self._began = time.monotonic()
        self._warnings = 0
        self._memory: Callable[[], int] | None = None
        self._limit = 0
        self._steps_done = self._steps_total = 0

    def watch_memory(self, memory: Callable[[], int], limit: int) -> None:
        """Show what the run holds.

        Args:
            memory: returns its bytes.
            limit: `resources.memory`, bytes.
        """
        self._memory, self._limit = memory, limit

    def count_steps(self, *, done: int, total: int) -> None:
        """Show how many of the steps of a run are whole."""
        self._steps_done, self._steps_total = done, total

    def end_step(self) -> None:
        """Count a step that became whole."""
        self._steps_done += 1

    def start(self, step: str, title: str, *, total: int) -> "BatchProgress":
        """Begin a batch of tasks; others may be open beside it."""
        if self._stream is not None and self._stream.isatty() and self._bars is None:
            self._bars = _View(Console(file=self._stream), self._line_of_all)
            self._bars.start()
        bar = None if self._bars is None else self._bars.add_task(title, total=total, rate="")
        batch = BatchProgress(self, step, title, total, bar)
        self._open.append(batch)
        self.write_status()
        return batch

    def close(self) -> None:
        """Leave the terminal as it was, whatever happened."""
        self._open = []
        if self._bars is not None:
            for task in self._bars.task_ids:  # what was at work is told by the message that follows
                self._bars.remove_task(task)
            self._bars.stop()
            self._bars = None

    def note(self, message: str) -> None:
        """Say one line."""
        self._warnings += message.startswith(_WARNING)
        if self._bars is not None:  # which would be drawn over it
            self._bars.console.print(printable(message), markup=False, highlight=False, soft_wrap=True)
        elif self._stream is not None:
            print(f"{time.strftime(_CLOCK)} {printable(message)}", file=self._stream, flush=True)

    def tell_unit(self, message: Callable[[], str]) -> None:
        """Say one line about a unit of work, if that was asked for."""
        if self._verbose:
            self.note(message())

    def show(self, batch: "BatchProgress") -> None:
        """Show how far a batch is."""
        if self._bars is not None and batch.bar is not None:
            self._bars.update(batch.bar, completed=batch.done, total=batch.total, rate=batch.rate())
        elif batch.done < batch.total and time.monotonic() - batch.said > LINE_SECONDS:
            self.note(batch.line())
        if time.monotonic() - self._kept > STATUS_SECONDS:
            self.write_status()

    def end(self, batch: "BatchProgress") -> None:
        """End a batch."""
        if batch not in self._open:
            return
        self._open.remove(batch)
        if self._bars is not None and batch.bar is not None:
            self._bars.remove_task(batch.bar)
        self.note(batch.line())
        self.write_status(batch)

    def write_status(self, last: "BatchProgress | None" = None) -> None:
        """Write the files for machines: the batch that began first, and the steps of all."""
        self._kept = time.monotonic()
        first = self._open[0] if self._open else last
        if self._journal is not None and first is not None:
            steps = list(dict.fromkeys(batch.step for batch in self._open))
            self._journal.status(
                "running", step=first.step, done=first.done, total=first.total, steps_at_work=steps
            )
            self.write_metrics(running=True)

    def write_metrics(self, *, running: bool) -> None:
        """Write metrics.prom."""
        if self._journal is not None:
            self._journal.metrics(
                running=running,
                seconds=round(time.monotonic() - self._began, 3),
                steps=(self._steps_done, self._steps_total),
                warnings=self._warnings,
                memory=(0 if self._memory is None else self._memory(), self._limit),
                phases=tuple(batch.metrics() for batch in self._open),
            )

    def _line_of_all(self) -> str:
        """Return the line about the run as a whole."""
        parts = []
        if self._steps_total:
            parts.append(f"{self._steps_done:,} of {self._steps_total:,} steps done")
        if self._memory is not None:
            parts.append(f"memory {show_bytes(self._memory())} of {show_bytes(self._limit)}")
        if self._warnings:
            parts.append(f"{self._warnings:,} warning{'s' * (self._warnings != 1)}")
        minutes, seconds = divmod(round(time.monotonic() - self._began), 60)
        hours, minutes = divmod(minutes, 60)
        return "   ".join([*parts, f"{hours}:{minutes:02}:{seconds:02}"])


class BatchProgress:
    """How far a batch of tasks is."""

    def __init__(
        self, progress: Progress, step: str, title: str, total: int, bar: TaskID | None
    ) -> None:
        self._progress = progress
        self.step, self.title, self.total, self.bar = step, title, total, bar
        self.done = self.documents = 0
        self._began = self.said = time.monotonic()

    def advance(self, *, more: bool, documents: int = 0) -> None:
        """Count one finished task; `more` says that it was followed by another."""
        self.done += 1
        self.total += more
        self.documents += documents
        self._progress.show(self)

    def grow(self, tasks: int) -> None:
        """Count tasks that were not known before."""
        self.total += tasks
        self._progress.show(self)

    def end(self) -> None:
        """End the batch."""
        self._progress.end(self)

    def rate(self) -> str:
        """Return how many documents are done in a second; nothing if tasks count none."""
        seconds = time.monotonic() - self._began
        return f"{self.documents / seconds:,.0f} documents/s" if self.documents and seconds > 0 else ""

    def line(self) -> str:
        """Return what people read where there are no bars."""
        self.said = time.monotonic()
        line = f"{self.title:<28} {self.done:,}/{self.total:,}  {self.said - self._began:.1f} s"
        rate = self.rate()
        return f"{line}  {rate}" if rate else line

    def metrics(self) -> PhaseMetrics:
        """Return what metrics.prom says of it."""
        return PhaseMetrics(self.step, self.title, self.done, self.total, self.documents)
