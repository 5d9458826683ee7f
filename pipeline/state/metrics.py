"""Metrics: DIR/metrics.prom, how far a run is in the text format of Prometheus.

Nothing is served: an agent that collects text files reads it, such as node_exporter with
--collector.textfile.directory. (Prometheus documentation, "Exposition formats".)
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

METRICS = "metrics.prom"
_PREFIX = "shardmill_"


class PhaseMetrics(NamedTuple):
    """A phase of a step at work."""

    step: str
    phase: str
    done: int
    """Tasks."""
    total: int
    documents: int
    """Of the tasks that were done in this session; 0 if they count none."""


class RunMetrics(NamedTuple):
    """What is known of a run at a moment."""

    run: str
    """The name of its folder."""
    folder: str
    """The path of its folder: another run's may have the same name."""
    running: bool
    time: float
    """Seconds since 1970."""
    seconds: float
    """Of this session."""
    steps_done: int
    steps_total: int
    warnings: int
    memory: int
    """Bytes that its processes hold on this node, as they were last looked at."""
    memory_limit: int
    """`resources.memory`."""
    phases: tuple[PhaseMetrics, ...]


def metrics_text(found: RunMetrics) -> str:
    """Return the text of metrics.prom."""
    run = {"run": found.run, "folder": found.folder}
    phases = [({**run, "step": one.step, "phase": one.phase}, one) for one in found.phases]
    lines = [
        *_gauge(
            "running", "1 while the run is at work, 0 when it has ended or stopped.", run, found.running
        ),
        *_gauge("updated_timestamp_seconds", "When this was written.", run, found.time),
        *_gauge("session_seconds", "Time since this call began.", run, found.seconds),
        *_gauge("steps_done", "Steps that are whole.", run, found.steps_done),
        *_gauge("steps_total", "Steps of the run.", run, found.steps_total),
        *_gauge("warnings", "Warnings of this call.", run, found.warnings),
        *_gauge("memory_bytes", "Memory of its processes on this node.", run, found.memory),
        *_gauge("memory_limit_bytes", "resources.memory.", run, found.memory_limit),
    ]
    for name, what in (
        ("tasks_done", "Tasks of a phase that are done."),
        ("tasks_total", "Tasks of a phase that are known."),
        ("documents_done", "Documents of the tasks that this call did."),
    ):
        values = [(labels, _of(name, one)) for labels, one in phases]
        lines += _family(name, what, values)
    return "\n".join(lines) + "\n"


def _of(name: str, phase: PhaseMetrics) -> int:
    return {"tasks_done": phase.done, "tasks_total": phase.total, "documents_done": phase.documents}[
        name
    ]


def _gauge(name: str, what: str, labels: Mapping[str, str], value: float) -> Iterator[str]:
    return _family(name, what, [(labels, value)])


def _family(name: str, what: str, values: Sequence[tuple[Mapping[str, str], float]]) -> Iterator[str]:
    """Yield the lines of a metric: what it is, its type, and a value for each set of labels."""
    if not values:
        return
    yield f"# HELP {_PREFIX}{name} {what}"
    yield f"# TYPE {_PREFIX}{name} gauge"
    for labels, value in values:
        said = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{_PREFIX}{name}{{{said}}} {float(value):.15g}"


def _escaped(text: str) -> str:
    """Return a text as a label has it, with backslashes, quotes and line feeds written out."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
