"""Groups, partitions and blocks: how work on all documents is cut, so that small parts cost little.

Partitions: how many keys each range of a band or of digests has, noted before the first is cut.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.records import UnitRecord
from pipeline.steps.units import Unit
from stages.dedup.lsh import partition_of

GROUP_BYTES = 64 << 20
"""Text of the units of a group, at least."""
MAX_GROUPS = 2_048
"""Of a larger corpus the groups are larger: a group is compared with each group before it."""


@dataclass(frozen=True)
class UnitGroup:
    """A group of units."""

    number: int
    units: tuple[Unit, ...]

    @property
    def name(self) -> str:
        """Name of its folders and commits."""
        return f"{self.number:05d}"

    @property
    def first(self) -> int:
        """Number of its first document."""
        return self.units[0].first

    @property
    def last(self) -> int:
        """Number after its last document."""
        return self.units[-1].last


def unit_groups(units: Sequence[Unit]) -> list[UnitGroup]:
    """Cut the units into groups of some text, about `MAX_GROUPS`: a function of the corpus alone."""
    most = max(GROUP_BYTES, sum(unit.text_bytes for unit in units) // MAX_GROUPS)
    return [UnitGroup(number, own) for number, own in enumerate(cut_units(units, most))]


def cut_units(units: Sequence[Unit], most: int) -> Iterator[tuple[Unit, ...]]:
    """Yield units that have at most so many bytes of text together and are of one run, or one alone."""
    start, size = 0, 0
    for number, unit in enumerate(units):
        other = unit.folder != units[start].folder
        if number > start and (other or size + unit.text_bytes > most):
            yield tuple(units[start:number])
            start, size = number, 0
        size += unit.text_bytes
    if units:
        yield tuple(units[start:])


class PartitionsRecord(UnitRecord):
    """How keys are cut."""

    keys: int
    """In a partition, at the most, on average."""


def note_partitions(_: Workspace, keys: int) -> PartitionsRecord:
    """Return the record of how many keys a partition has."""
    return PartitionsRecord(keys=keys)


BLOCK_KEYS = 1 << 20
"""Keys or digests that a partition reads at a time."""

_Value = TypeVar("_Value", bound=np.generic)


def by_partition(
    keys: NDArray[np.uint64], partitions: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the order of keys by partition, stable, and where each partition begins: (N,), (P + 1,)."""
    if partitions == 1:
        return np.arange(len(keys)), np.array([0, len(keys)])
    partition = partition_of(keys, partitions=partitions)
    counts = np.bincount(partition, minlength=partitions)
    return np.argsort(partition, kind="stable"), np.concatenate([[0], np.cumsum(counts)])


def in_blocks(
    parts: Iterator[tuple[NDArray[_Value], NDArray[np.int64]]],
) -> Iterator[tuple[NDArray[_Value], NDArray[np.int64]]]:
    """Join small parts and cut large ones, so that blocks hold `BLOCK_KEYS` at the most."""
    buffer: list[tuple[NDArray[_Value], NDArray[np.int64]]] = []
    size = 0
    for values, documents in parts:
        for start in range(0, len(documents), BLOCK_KEYS):
            block = slice(start, start + BLOCK_KEYS)
            if size + len(documents[block]) > BLOCK_KEYS:
                yield _joined(buffer)
                buffer, size = [], 0
            buffer.append((values[block], documents[block]))
            size += len(documents[block])
    if buffer:
        yield _joined(buffer)


def _joined(
    parts: Sequence[tuple[NDArray[_Value], NDArray[np.int64]]],
) -> tuple[NDArray[_Value], NDArray[np.int64]]:
    return (
        np.concatenate([values for values, _ in parts]),
        np.concatenate([documents for _, documents in parts]),
    )
