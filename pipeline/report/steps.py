"""What each step cost over all attempts, from the log, and what it went through, from its record."""

import contextlib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.report.content import StepContent
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
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory: int = 0


@dataclass
class _Cost:
    """Sums over a step's events."""

    units: int = 0
    worker_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory: int = 0
    spans: dict[str, tuple[float, float]] = field(default_factory=dict)
    """First and last event of each attempt: the time between attempts is nobody's."""

    def add(self, event: "_Event") -> None:
        """Count one event of the log."""
        if event.event == "commit":
            self.units += 1
            self.worker_seconds += event.seconds
            self.cpu_seconds += event.cpu_seconds
        self.peak_memory = max(self.peak_memory, event.peak_memory)
        first, _ = self.spans.get(event.attempt, (event.time, 0.0))
        self.spans[event.attempt] = (first, event.time)

    @property
    def wall_seconds(self) -> float:
        """Seconds from the first to the last event, attempt by attempt."""
        return sum(last - first for first, last in self.spans.values())


def step_metrics(output: Path, records: Records, *, input_bytes: int | None = None) -> list[StepContent]:
    """Return for each step that did something: units, documents, bytes, tokens, seconds, memory, rate.

    `peak_memory` is the most that all processes of the run held on the driver's node, in bytes; rates
    are by wall seconds. Steps are at work side by side: `began` and `ended` are seconds since the start
    of the attempt in which a step was last at work.
    """
    costs: defaultdict[str, _Cost] = defaultdict(_Cost)
    starts: dict[str, float] = {}
    for line in read_log(output):
        with contextlib.suppress(ValidationError):  # a log is for people: what is damaged is left out
            event = _Event.model_validate(line)
            starts.setdefault(event.attempt, event.time)
            if event.step is not None:
                costs[event.step].add(event)
    amounts_of = {name: step_of(name).amounts(record, records) for name, record in records.items()}
    amounts_of[SCAN] = Amounts(bytes=input_bytes)
    rows: list[StepContent] = []
    for name in sorted(costs, key=[SCAN, *amounts_of, *costs].index):
        cost = costs[name]
        amounts = amounts_of.get(name, Amounts())
        size, wall = amounts.bytes, cost.wall_seconds
        attempt, (began, ended) = list(cost.spans.items())[-1]
        rows.append(
            {
                "step": name,
                "units": cost.units,
                "documents": amounts.documents or None,
                "bytes": size or None,
                "tokens": amounts.tokens or None,
                "began": round(began - starts[attempt], 2),
                "ended": round(ended - starts[attempt], 2),
                "wall_seconds": round(wall, 2),
                "worker_seconds": round(cost.worker_seconds, 2),
                "cpu_seconds": round(cost.cpu_seconds, 2),
                "peak_memory": cost.peak_memory,
                "bytes_per_second": round(size / wall) if size and wall else None,
            }
        )
    return rows
