"""The journal of a run: what happened, append-only, and how far it is, for people and machines.

    DIR/log.jsonl      one line an event: start, workers, dispatch, commit, step, stop; times only here
    DIR/status.json    the state now, replaced whole
    DIR/metrics.prom   the same for Prometheus
    DIR/lock           held by the one process that may write

None of it is an artifact: the bytes of shards never depend on it.

Metrics: DIR/metrics.prom, how far a run is in the text format of Prometheus.

Nothing is served: an agent that collects text files reads it, such as node_exporter with
--collector.textfile.directory. (Prometheus documentation, "Exposition formats".)
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from pipeline.state.state_files import as_model, read_object, require_file
from pipeline.system.disk_faults import named
from pipeline.system.regular_files import open_regular
from stages.errors import FormatError, Stopped

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


LOG = "log.jsonl"
STATUS = "status.json"
LOCK = "lock"


class Status(BaseModel):
    """What status.json says; there may be more in it."""

    model_config = ConfigDict(extra="allow")

    state: str
    pid: int | None = None
    step: str | None = None
    done: int | None = None
    total: int | None = None
    steps_at_work: tuple[str, ...] = ()
    error: str | None = None


class Journal:
    """Writes a run's log and status.

    Args:
        root: the run's folder.
        attempt: this run of the program.
    """

    def __init__(self, root: Path, attempt: str) -> None:
        self._root = root
        self._attempt = attempt
        self._waiting: list[str] = []
        """Lines that `flush` writes."""

    def log(self, event: str, **fields: Any) -> None:
        """Append one event; a line is written whole or not at all."""
        self.log_soon(event, **fields)
        self.flush()

    def log_soon(self, event: str, **fields: Any) -> None:
        """Append one event with those that follow, when `flush` is called."""
        line = {"time": round(time.time(), 3), "attempt": self._attempt, "event": event, **fields}
        self._waiting.append(json.dumps(line, ensure_ascii=False))

    def flush(self) -> None:
        """Write the events that wait."""
        if not self._waiting:
            return
        data = "".join(f"{line}\n" for line in self._waiting).encode()
        self._waiting = []
        descriptor = _open(self._root / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            with named(self._root / LOG):
                os.write(descriptor, data)
        finally:
            os.close(descriptor)

    def status(self, state: str, **fields: Any) -> None:
        """Replace the status."""
        content = {"state": state, "attempt": self._attempt, "pid": os.getpid(), **fields}
        self._replace(STATUS, json.dumps(content, indent=1) + "\n")

    def metrics(
        self,
        *,
        running: bool,
        seconds: float,
        steps: tuple[int, int],
        warnings: int,
        memory: tuple[int, int],
        phases: tuple[PhaseMetrics, ...],
    ) -> None:
        """Replace metrics.prom.

        Args:
            running: whether the run is at work.
            seconds: of this call.
            steps: how many are whole, and how many there are.
            warnings: how many were told.
            memory: bytes held, and the limit.
            phases: those at work.
        """
        found = RunMetrics(
            self._root.resolve().name,
            str(self._root.resolve()),
            running,
            round(time.time(), 3),
            seconds,
            *steps,
            warnings,
            *memory,
            phases,
        )
        self._replace(METRICS, metrics_text(found))

    def _replace(self, name: str, text: str) -> None:
        beside = self._root / f".{name}.{self._attempt}"
        beside.write_text(text, encoding="utf-8")
        beside.replace(self._root / name)


def end_last_line(root: Path) -> None:
    """End a line that a crash cut, so that the next event has its own; only the lock's holder may."""
    log = root / LOG
    if log.exists() and log.stat().st_size:
        with log.open("rb+") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")


def read_log(root: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a run; a line cut by a crash is passed over."""
    with contextlib.suppress(FileNotFoundError), os.fdopen(_open(root / LOG, os.O_RDONLY), "rb") as file:
        for line in file:
            with contextlib.suppress(ValueError, RecursionError):
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event


def read_status(root: Path) -> Status:
    """Return how far a run says that it is; a damaged status is unknown, and says why."""
    place = root / STATUS
    try:
        content = read_object(place, way_out="the next run writes it anew")
        return as_model(Status, content, place, way_out="the next run writes it anew")
    except FileNotFoundError:
        return Status(state="unknown")
    except (FormatError, OSError) as error:
        return Status(state="unknown", error=str(error))


@contextlib.contextmanager
def run_lock(root: Path) -> Iterator[None]:
    """Hold the run's folder; the lock goes with its holder, so none is ever left behind.

    Raises:
        Stopped: another process holds it.
    """
    descriptor = _open(root / LOCK, os.O_RDWR | os.O_CREAT)
    with os.fdopen(descriptor, "r+", encoding="utf-8", errors="replace") as file:
        try:
            with named(root / LOCK):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                raise Stopped(
                    f"{root}: shardmill verify reads it in another process; wait for its end, then run"
                    " again"
                ) from error
            file.seek(0)
            raise _in_use(root, file.read(20)) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


@contextlib.contextmanager
def read_lock(root: Path) -> Iterator[None]:
    """Hold the folder of a run that is only read, with others who read it.

    Raises:
        Stopped: a run is at work in it.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # there is none, or this user may not open it
            descriptor = _open(root / LOCK, os.O_RDONLY)
            file = stack.enter_context(os.fdopen(descriptor, encoding="utf-8", errors="replace"))
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise _in_use(root, file.read(20)) from error
        yield


def _in_use(root: Path, holder: str) -> Stopped:
    """Return the error of a folder that another process holds, by what its lock says."""
    process = holder.strip() or "unknown"
    return Stopped(f"{root}: in use by process {process}; wait for it or stop it, then run again")


def _open(place: Path, flags: int) -> int:
    """Open a file of the journal; a FIFO in its place would wait for ever."""
    return open_regular(place, partial(require_file, place, way_out="remove it and run again"), flags)
