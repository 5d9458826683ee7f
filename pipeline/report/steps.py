"""What each step cost, from the log, and what it went through, from its record; also as a table.

What was made again, by `verify` or with `--replace`, counts as it was made last. Attempts that made
nothing that is left are nobody's, and so is the time between attempts.
"""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.engine.memory import MIB
from pipeline.report.plain import PlainConsole, PlainTable
from pipeline.report.report import StepCost
from pipeline.state.commits import SCAN
from pipeline.state.journal import read_log
from pipeline.steps.step import Amounts, Records
from pipeline.steps.table import step_of


class _Event(BaseModel):
    """What of the log's events is counted."""

    model_config = ConfigDict(allow_inf_nan=False)

    event: str
    attempt: str
    time: float
    step: str | None = None
    unit: str = ""
    units: list[str] | None = None
    """That are to be made again; all, if it is None."""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory: int = 0


@dataclass
class _Cost:
    """A step's events."""

    commits: dict[str, "_Event"] = field(default_factory=dict)
    """By unit, the last one."""
    peak_memory: int = 0
    all_spans: dict[str, tuple[float, float]] = field(default_factory=dict)
    """First and last event of each attempt."""

    def add(self, event: "_Event") -> None:
        """Take one event of the log."""
        if event.event == "commit":
            self.commits[event.unit] = event
        elif event.event == "replace":
            for unit in list(self.commits) if event.units is None else event.units:
                self.commits.pop(unit, None)
            return
        self.peak_memory = max(self.peak_memory, event.peak_memory)
        first, _ = self.all_spans.get(event.attempt, (event.time, 0.0))
        self.all_spans[event.attempt] = (first, event.time)

    @property
    def spans(self) -> dict[str, tuple[float, float]]:
        """First and last event of each attempt whose work is left; of all, if none made a unit."""
        left = {event.attempt for event in self.commits.values()} or self.all_spans.keys()
        return {name: span for name, span in self.all_spans.items() if name in left}

    @property
    def wall_seconds(self) -> float:
        """Seconds from the first to the last event, attempt by attempt."""
        return sum(last - first for first, last in self.spans.values())


@dataclass
class _Attempts:
    """When attempts began and ended, and which made something."""

    spans: dict[str, tuple[float, float]] = field(default_factory=dict)
    makers: set[str] = field(default_factory=set)

    def add(self, event: "_Event") -> None:
        """Take one event of the log."""
        first, _ = self.spans.get(event.attempt, (event.time, 0.0))
        self.spans[event.attempt] = (first, event.time)
        if event.event == "commit":
            self.makers.add(event.attempt)

    def starts(self) -> dict[str, float]:
        """Return the time that each attempt's times count from, attempts one behind the other."""
        before, found = 0.0, {}
        for name, (first, last) in self.spans.items():
            found[name] = first - before
            before += last - first if name in self.makers else 0.0
        return found


def step_metrics(
    output: Path, records: Records, *, input_bytes: int | None = None
) -> tuple[StepCost, ...]:
    """Return for each step that did something: units, documents, bytes, tokens, seconds, memory, rate.

    `peak_memory` is the most that all processes of the run held on a node, in bytes; rates are by wall
    seconds. Steps are at work side by side: `began` and `ended` are seconds that the run was
    at work, its attempts one behind the other.
    """
    costs: defaultdict[str, _Cost] = defaultdict(_Cost)
    attempts = _Attempts()
    for line in read_log(output):
        with contextlib.suppress(ValidationError):  # a log is for people: what is damaged is left out
            event = _Event.model_validate(line)
            attempts.add(event)
            if event.step is not None:
                costs[event.step].add(event)
    starts = attempts.starts()
    amounts_of = {name: step_of(name).amounts(record, records) for name, record in records.items()}
    amounts_of[SCAN] = Amounts(bytes=input_bytes)
    rows = []
    made_steps = {name for name, cost in costs.items() if cost.all_spans}
    for name in sorted(made_steps, key=[SCAN, *amounts_of, *costs].index):
        cost = costs[name]
        amounts = amounts_of.get(name, Amounts())
        size, wall = amounts.bytes, cost.wall_seconds
        spans = list(cost.spans.items())
        (first, (began, _)), (final, (_, ended)) = spans[0], spans[-1]
        made = cost.commits.values()
        rows.append(
            StepCost(
                step=name,
                units=len(made),
                documents=amounts.documents or None,
                bytes=size or None,
                tokens=amounts.tokens or None,
                began=round(began - starts[first], 2),
                ended=round(ended - starts[final], 2),
                wall_seconds=round(wall, 2),
                worker_seconds=round(sum(event.seconds for event in made), 2),
                cpu_seconds=round(sum(event.cpu_seconds for event in made), 2),
                peak_memory=cost.peak_memory,
                bytes_per_second=round(size / wall) if size and wall else None,
            )
        )
    return tuple(rows)


_COLUMNS: dict[str, Callable[[StepCost], str]] = {
    "units": lambda row: f"{row.units:,}",
    "documents": lambda row: f"{row.documents:,}" if row.documents else "",
    "MB": lambda row: f"{row.bytes / 1e6:,.1f}" if row.bytes else "",
    "M tokens": lambda row: f"{row.tokens / 1e6:,.2f}" if row.tokens else "",
    "when, s": lambda row: f"{row.began:,.0f} to {row.ended:,.0f}",
    "wall s": lambda row: f"{row.wall_seconds:,.1f}",
    "CPU s": lambda row: f"{row.cpu_seconds:,.1f}",
    "MB/s": lambda row: f"{row.bytes_per_second / 1e6:,.2f}" if row.bytes_per_second else "",
    "MiB held": lambda row: f"{row.peak_memory / MIB:,.0f}",
}
_FIRST_LEFT_OUT = ("units", "MB/s", "M tokens", "when, s", "MB", "MiB held", "wall s")


def show_steps(console: PlainConsole, rows: Sequence[StepCost]) -> None:
    """Print what each step cost; where there is no room for all columns, say which are left out."""
    for number in range(len(_FIRST_LEFT_OUT) + 1):
        left_out = _FIRST_LEFT_OUT[:number]
        table = _table(rows, [name for name in _COLUMNS if name not in left_out])
        if console.has_room_for(table):
            break
    console.show(table)
    if left_out:
        console.line(f"no room for: {'; '.join(left_out)} (report/index.html has it)")
    console.line()


def _table(rows: Sequence[StepCost], columns: Sequence[str]) -> PlainTable:
    table = PlainTable("step", *columns).right()
    for row in rows:
        table.add(row.step, *(_COLUMNS[name](row) for name in columns))
    return table
