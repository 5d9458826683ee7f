"""Runs: units that follow each other and are worked on together, so that many small ones cost little."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.steps.units import Unit

RUN_BYTES = 64 << 20
"""Text of the units of a run."""


@dataclass(frozen=True)
class UnitRun:
    """A run of units."""

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


def unit_runs(units: Sequence[Unit]) -> list[UnitRun]:
    """Cut the units into runs of about `RUN_BYTES` of text: a function of the corpus alone."""
    return [UnitRun(number, run) for number, run in enumerate(_cut(units))]


def _cut(units: Sequence[Unit]) -> Iterator[tuple[Unit, ...]]:
    start, size = 0, 0
    for number, unit in enumerate(units):
        if number > start and size + unit.text_bytes > RUN_BYTES:
            yield tuple(units[start:number])
            start, size = number, 0
        size += unit.text_bytes
    if units:
        yield tuple(units[start:])
