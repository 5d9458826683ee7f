"""Made: when, with what and how long a run was made; what a reader asks before he trusts a report."""

import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import BaseModel, ByteSize, ValidationError

from pipeline.report.part import Part
from pipeline.run_file.config import RunFile
from pipeline.run_file.faults import size_with_unit
from pipeline.state.commits import SCAN
from pipeline.state.journal import read_log

_LIBRARIES = ("numpy", "pyarrow", "sentencepiece", "tokenizers", "torch", "ray")
_LONGEST = 200
"""Characters of a setting; a longer one is in run.json."""


class Made(Part):
    """How a run was made."""

    shardmill: str
    python: str
    libraries: dict[str, str]
    began: str | None
    """Of the first attempt that made something, UTC; None if none did."""
    ended: str | None
    seconds: int | float
    """Of these attempts; an int if there are none."""
    attempts: int
    """That made something: not a run that found all done."""
    workers: int | None
    """Of the last attempt."""
    settings: dict[str, str]
    """Those that differ from the defaults, as --set takes them; sources by their names."""


class _LogLine(BaseModel):
    event: str
    attempt: str
    step: str | None = None
    time: float
    workers: int | None = None


def made_of(file: RunFile, output: Path) -> Made:
    """Return how a run was made, from its log and its settings."""
    logged = list(_events(output))
    makers = {event.attempt for event in logged if event.event == "commit" and event.step != SCAN}
    events = [event for event in logged if event.attempt in makers]
    spans: dict[str, tuple[float, float]] = {}
    for event in events:
        first, _ = spans.get(event.attempt, (event.time, 0.0))
        spans[event.attempt] = first, event.time
    workers = [event.workers for event in events if event.workers is not None]
    return Made(
        shardmill=installed("shardmill") or "not installed",
        python=platform.python_version(),
        libraries=_versions(),
        began=_instant(events[0].time) if events else None,
        ended=_instant(events[-1].time) if events else None,
        seconds=round(sum(last - first for first, last in spans.values()), 1),
        attempts=len(spans),
        workers=workers[-1] if workers else None,
        settings=dict(_settings(file)),
    )


def _events(output: Path) -> Iterator[_LogLine]:
    for line in read_log(output):
        try:
            yield _LogLine.model_validate(line)
        except ValidationError:  # a log is for people: what is damaged is left out
            continue


def _instant(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


@cache
def installed(name: str) -> str | None:
    """Return the version of a package; a folder of code that is not installed has none."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _versions() -> dict[str, str]:
    found = {name: installed(name) for name in _LIBRARIES}
    return {name: one for name, one in found.items() if one}


def _settings(file: RunFile) -> Iterator[tuple[str, str]]:
    """Yield each setting that is not at its default, by its dotted key."""
    for dataset in file.datasets:
        yield f"datasets.{dataset.name}.objective.kind", dataset.objective.kind
    yield from _below("", file)


def _below(key: str, model: BaseModel) -> Iterator[tuple[str, str]]:
    """Yield the settings of a table that are not at their defaults."""
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if value != field.get_default(call_default_factory=True):
            yield from _set(f"{key}.{name}".removeprefix("."), value)


def _set(key: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, BaseModel):
        yield from _below(key, value)
    elif isinstance(value, tuple) and any(isinstance(one, BaseModel) for one in value):
        for number, one in enumerate(value):
            named = getattr(one, "name", number)
            yield from (
                (own, said) for own, said in _set(f"{key}.{named}", one) if own != f"{key}.{named}.name"
            )
    elif isinstance(value, ByteSize):
        yield key, size_with_unit(value) or str(int(value))
    else:
        said = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        said = said.lower() if isinstance(value, bool) else said
        yield key, said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"
