"""Runs: units that follow each other and are worked on together, so that many small ones cost little."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.steps.units import Unit

RUN_BYTES = 64 << 20
"""Text of the units of a run, at least."""
MAX_RUNS = 2_048
"""Of a larger corpus the runs are larger: a run is compared with each run before it."""


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
    """Cut the units into runs of some text, `MAX_RUNS` or a few more: a function of the corpus alone."""
    most = max(RUN_BYTES, sum(unit.text_bytes for unit in units) // MAX_RUNS)
    return [UnitRun(number, run) for number, run in enumerate(_cut(units, most))]


def _cut(units: Sequence[Unit], most: int) -> Iterator[tuple[Unit, ...]]:
    start, size = 0, 0
    for number, unit in enumerate(units):
        other = unit.folder != units[start].folder
        if number > start and (other or size + unit.text_bytes > most):
            yield tuple(units[start:number])
            start, size = number, 0
        size += unit.text_bytes
    if units:
        yield tuple(units[start:])
