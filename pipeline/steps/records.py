"""Records: what tasks and steps report, as their commits hold it."""

from collections.abc import Mapping
from typing import TypeVar

from pipeline.state.commit_object import Commit
from stages.config import Config
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
