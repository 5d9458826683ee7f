"""Selection: the steps that decide what of the ingested documents is kept, and which one decides last.

    dedup -> ...        each reads the masks of the one before, and writes masks of its own

Later steps read units as the last of them left them: `kept_units`.
"""

from collections.abc import Callable
from dataclasses import replace

from pipeline.run_file.config import RunFile
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.records import StepRecord
from pipeline.steps.step import Job
from pipeline.steps.units import LanguageSize, Unit, units_of

DEDUP_NAME = "dedup"
DECONTAMINATE_NAME = "decontaminate"
CUT_NAME = "cut"
_SELECTING: tuple[tuple[str, Callable[[RunFile], bool]], ...] = (
    (DEDUP_NAME, lambda _: True),
    (DECONTAMINATE_NAME, lambda file: file.decontamination is not None),
    (CUT_NAME, lambda file: file.dedup.cuts),
)
"""The steps in the order of the flow, each with whether a run has it."""

SELECTING = tuple(name for name, _ in _SELECTING)
"""Their names, for what takes documents from the last one that a run has."""


class SelectionRecord(StepRecord):
    """What is kept."""

    kept: int
    removed: dict[str, int]
    """Documents by reason."""
    languages: dict[str, LanguageSize]
    """Of what is kept."""


def selecting(file: RunFile) -> tuple[str, ...]:
    """Return the names of the steps of a run that decide what is kept, in the order of the flow."""
    return tuple(name for name, applies in _SELECTING if applies(file))


def last_selecting(file: RunFile) -> str:
    """Return the name of the step whose masks later steps read."""
    return selecting(file)[-1]


def kept_units(job: Job, *, after: str | None = None) -> tuple[Unit, ...]:
    """Return the units of ingest as the last step that decides what is kept left them.

    Args:
        job: of a step that comes later.
        after: the name of a step to read them after, in place of the last.
    """
    return tuple(as_kept(job, unit, after=after) for unit in units_of(job.records.of(INGEST).units))


def as_kept(job: Job, unit: Unit, *, after: str | None = None) -> Unit:
    """Return one unit, as `kept_units` does all of them."""
    return as_kept_by(unit, after or last_selecting(job.file))


def as_kept_by(unit: Unit, name: str) -> Unit:
    """Return a unit as a step of these leaves it."""
    return replace(unit, kept_by=name, cut=name == CUT_NAME and is_cut(unit))


def cut_units(job: Job) -> tuple[Unit, ...]:
    """Return the units as the step cut reads them: those that it may cut say so."""
    units = kept_units(job, after=selecting_before(job.file, CUT_NAME))
    return tuple(replace(unit, cut=is_cut(unit)) for unit in units)


def is_cut(unit: Unit) -> bool:
    """Say whether text may be cut from a unit: from documents of one section."""
    return unit.sections == 1


def selecting_before(file: RunFile, name: str) -> str:
    """Return the name of the step whose masks a step of these reads."""
    return selecting(file)[selecting(file).index(name) - 1]


def selection(job: Job) -> SelectionRecord:
    """Return the record of the last step that decides what is kept."""
    record = job.records.named(last_selecting(job.file))
    assert isinstance(record, SelectionRecord)
    return record
