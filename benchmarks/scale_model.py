"""How long a run would take on more workers and more text than we have, and what would hold it up.

    python benchmarks/scale_model.py growth.json --workers 100 1000 --terabytes 1 100 --unit-mib 64 1024

The model is fitted to what `benchmarks/growth.py` measured with 2 workers, at two sizes of units:

    CPU of all but the driver = once + seconds for a MB of text
    CPU of the driver         = once + a share of the wall time + seconds for a commit
    commits, and files        = for a MB of text: some fewer with larger units, some not

What is done once, such as starting Ray, is left out of the projections. Driver and workers do their
parts at the same time. The model does not know disks, networks, or tasks that fail.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from growth import MB, Point

WORKERS = 2
"""Of the points that the model is fitted to."""
LEAST_POINTS = 3


@dataclass(frozen=True)
class Rate:
    """How many there are for a MB of text."""

    by_unit: float
    """With units of 1 MiB; half as many with units of 2 MiB."""
    fixed: float

    @classmethod
    def fitted(cls, points: Sequence[Point], counts: Sequence[int]) -> Self:
        """Return the rate that fits the counts of some runs."""
        sizes = [(point.text_bytes / MB, point.unit_mib) for point in points]
        by_unit, fixed = _fit([(size / unit, size) for size, unit in sizes], counts)
        return cls(by_unit, fixed)

    def at(self, unit_mib: int) -> float:
        """Return the rate with units of a size."""
        return self.by_unit / unit_mib + self.fixed


@dataclass(frozen=True)
class Costs:
    """What a run costs, but for what it does once."""

    of_a_mb: float
    """CPU seconds of all processes but the driver."""
    watching: float
    """Share of a core that the driver takes while the workers work."""
    of_a_commit: float
    """CPU seconds of the driver."""
    longest_of_a_document: float
    """CPU seconds of the longest task of deduplication, which one worker does while others wait."""
    documents_of_a_mb: float
    commits: Rate
    files: Rate

    @classmethod
    def fitted(cls, points: Sequence[Point]) -> Self:
        """Return the costs that fit some runs."""
        sizes = [point.text_bytes / MB for point in points]
        commits = [sum(point.commits.values()) for point in points]
        others = [point.cpu_seconds - point.driver_seconds for point in points]
        driver = [point.driver_seconds for point in points]
        walls = [point.wall_seconds for point in points]
        documents = [point.documents for point in points]
        largest = max(points, key=lambda point: point.text_bytes)
        _, watching, of_a_commit = _fit(
            [(1, wall, n) for wall, n in zip(walls, commits, strict=True)], driver
        )
        return cls(
            of_a_mb=_fit([(1, size) for size in sizes], others)[1],
            watching=watching,
            of_a_commit=of_a_commit,
            longest_of_a_document=_fit(
                [(1, n) for n in documents], [p.longest["dedup"] for p in points]
            )[1],
            documents_of_a_mb=largest.documents / (largest.text_bytes / MB),
            commits=Rate.fitted(points, commits),
            files=Rate.fitted(points, [point.files for point in points]),
        )

    def most_workers(self, unit_mib: int) -> float:
        """Return the number of workers that keep the driver busy all the time."""
        return self.of_a_mb * (1 - self.watching) / (self.of_a_commit * self.commits.at(unit_mib))


def _fit(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Return the coefficients of least squares, each row and value being relative to the value."""
    scale = 1 / np.asarray(values, np.float64)
    found = np.linalg.lstsq(np.asarray(rows, np.float64) * scale[:, None], np.ones(len(values)))[0]
    return [float(number) for number in found]


@dataclass(frozen=True)
class Projection:
    """A run that was not measured."""

    terabytes: float
    workers: int
    unit_mib: int
    worker_hours: float
    """Wall hours that the workers' part takes."""
    driver_hours: float
    longest_hours: float
    """Of the longest task."""
    files: int
    documents: int

    @property
    def most(self) -> str:
        """What takes most time."""
        hours = {
            "workers": self.worker_hours,
            "driver": self.driver_hours,
            "one task": self.longest_hours,
        }
        return max(hours, key=lambda name: hours[name])


def project(costs: Costs, *, terabytes: float, workers: int, unit_mib: int) -> Projection:
    """Return what a run would take.

    Args:
        costs: of measured runs.
        terabytes: of text.
        workers: each with a core of its own.
        unit_mib: `ingest.unit_size`.
    """
    megabytes = terabytes * 1e6
    documents = costs.documents_of_a_mb * megabytes
    committing = costs.of_a_commit * costs.commits.at(unit_mib) * megabytes
    return Projection(
        terabytes=terabytes,
        workers=workers,
        unit_mib=unit_mib,
        worker_hours=costs.of_a_mb * megabytes / workers / 3600,
        driver_hours=committing / (1 - costs.watching) / 3600,
        longest_hours=costs.longest_of_a_document * documents / 3600,
        files=round(costs.files.at(unit_mib) * megabytes),
        documents=round(documents),
    )


def markdown(projections: Sequence[Projection]) -> str:
    """Return the projections as a table."""
    rows = ["| TB | workers | unit, MiB | workers, h | driver, h | longest task, h | files | most |"]
    rows.append("|---:" * 7 + "|---|")
    for one in projections:
        hours = " | ".join(map(_short, (one.worker_hours, one.driver_hours, one.longest_hours)))
        run = f"{one.terabytes:g} | {one.workers:,} | {one.unit_mib:,}"
        rows.append(f"| {run} | {hours} | {one.files:,} | {one.most} |")
    return "\n".join(rows)


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"  # noqa: PLR2004  # two digits suffice


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("growth", type=Path, nargs="+", help="what growth.py --json wrote")
    parser.add_argument("--workers", nargs="+", type=int, default=[2, 100, 1000], metavar="N")
    parser.add_argument("--terabytes", nargs="+", type=float, default=[0.01, 1, 100], metavar="TB")
    parser.add_argument("--unit-mib", nargs="+", type=int, default=[64, 1024], metavar="MIB")
    return parser.parse_args()


def main() -> int:
    """Print the costs and the projections."""
    arguments = parse_arguments()
    content = [point for path in arguments.growth for point in json.loads(path.read_bytes())]
    points = [point for point in (Point(**entry) for entry in content) if point.workers == WORKERS]
    if len(points) < LEAST_POINTS or len({point.unit_mib for point in points}) == 1:
        print(
            f"the model needs {LEAST_POINTS} runs with {WORKERS} workers, of two sizes of units; found"
            f" {len(points)}: run growth.py with --megabytes 100 1000 --unit-mib 4 64",
            file=sys.stderr,
        )
        return 2
    costs = Costs.fitted(points)
    print(f"workers: {costs.of_a_mb:.3f} CPU s for a MB of text")
    print(f"driver: {1000 * costs.of_a_commit:.1f} CPU ms for a commit, {costs.watching:.1%} of a core")
    for unit in arguments.unit_mib:
        print(
            f"ingest.unit_size = {unit} MiB: {costs.commits.at(unit):.3f} commits and"
            f" {costs.files.at(unit):.2f} files for a MB; the driver has time for"
            f" {costs.most_workers(unit):,.0f} workers"
        )
    runs = [
        project(costs, terabytes=terabytes, workers=workers, unit_mib=unit)
        for terabytes in arguments.terabytes
        for workers in arguments.workers
        for unit in arguments.unit_mib
    ]
    print(markdown(runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
