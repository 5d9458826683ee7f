"""Records: what tasks and steps report, as their commits hold it; findings among them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeVar

from pipeline.state.commit_object import Commit
from stages.config import Config
from stages.errors import is_of_the_system
from stages.findings import Finding
from stages.ledger import Flow

Reported = TypeVar("Reported", bound="UnitRecord")


class UnitRecord(Config):
    """What a task reports; part of its commit."""

    flow: Flow | None = None
    """What went through the unit; None if no documents do."""


class StepRecord(Config):
    """What a step reports of itself; part of its last commit."""

    ledger: Flow | None = None
    """What went through all its units; None if it moves no documents."""
    warnings: tuple[str, ...] = ()
    """For people."""


def read_all(commits: Mapping[str, Commit], kind: type[Reported]) -> dict[str, Reported]:
    """Return the records of some commits, by unit."""
    return {unit: commit.read(kind) for unit, commit in commits.items()}


def flows_of(records: Mapping[str, UnitRecord]) -> dict[str, Flow]:
    """Return the flow of each unit."""
    return {unit: record.flow for unit, record in records.items() if record.flow is not None}


class FoundIn(Config):
    """One broken law, and the file that breaks it."""

    file: str
    """Its key in the run."""
    check: str
    message: str


class LookedAt(Config):
    """How much of some evidence was looked at."""

    what: str
    """The step, and what it did."""
    unit: Literal["tasks", "rows", "documents"]
    looked: int
    of: int


class CheckRecord(UnitRecord):
    """What a check found; none if the files are sound."""

    findings: tuple[FoundIn, ...] = ()
    looked: tuple[LookedAt, ...] = ()
    lacking: tuple[str, ...] = ()
    """Keys of a record that an earlier version did not write: what they say is not checked."""


def together(records: Iterable[CheckRecord]) -> CheckRecord:
    """Return what several checks found."""
    every = list(records)
    return CheckRecord(
        findings=tuple(found for one in every for found in one.findings),
        looked=sum_looked(looked for one in every for looked in one.looked),
        lacking=tuple(key for one in every for key in one.lacking),
    )


def sum_looked(every: Iterable[LookedAt]) -> tuple[LookedAt, ...]:
    """Return how much was looked at together, in the order in which each is first named."""
    found: dict[tuple[str, str], LookedAt] = {}
    for one in every:
        key = one.what, one.unit
        before = found.get(key, one.model_copy(update={"looked": 0, "of": 0}))
        sums = {"looked": before.looked + one.looked, "of": before.of + one.of}
        found[key] = before.model_copy(update=sums)
    return tuple(found.values())


def found_in(findings: Sequence[tuple[str, Finding]]) -> tuple[FoundIn, ...]:
    """Return findings as a record has them, each with its file."""
    return tuple(FoundIn(file=file, check=f.check, message=f.message) for file, f in findings)


def unreadable(error: Exception) -> Finding:
    """Return what is found of a file that could not be read.

    Raises:
        OSError: the system refused, which is no verdict on the file.
    """
    if is_of_the_system(error):
        raise error
    return Finding("readable", str(error))


class AuditReport(Config):
    """What an audit looked at, and what it found."""

    files: int
    """Committed files, each of which was hashed."""
    bytes: int
    findings: tuple[FoundIn, ...]
    looked: tuple[LookedAt, ...] = ()
    missed: tuple[str, ...] = ()
    """What is otherwise in a sound run that was made without later rules, for people."""
