"""Partitions: how many keys each range of a band or of digests has, noted before the first is cut."""

from pipeline.engine.tasks import Workspace
from pipeline.steps.records import UnitRecord


class PartitionsRecord(UnitRecord):
    """How keys are cut."""

    keys: int
    """In a partition, at the most, on average."""


def note_partitions(_: Workspace, keys: int) -> PartitionsRecord:
    """Return the record of how many keys a partition has."""
    return PartitionsRecord(keys=keys)
