"""Groups: row groups of documents that are drawn, to make again what was made of their texts.

Row groups are drawn, not documents: texts are read from the disk by the group.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from pipeline.engine.tasks import Workspace
from pipeline.steps.units import Unit


@dataclass(frozen=True)
class DrawnUnit:
    """A unit of which some row groups are drawn."""

    unit: Unit
    documents: int
    """As many as these, at least, if it has them."""
    key: str
    """Of the draw."""


def drawn_units(units: Sequence[Unit], wanted: int, key: str) -> Iterator[DrawnUnit]:
    """Yield units that have a number of documents together, in the order of a draw.

    Args:
        units: of the run.
        wanted: the number.
        key: of the draw.
    """
    left = wanted
    for unit in sorted(units, key=lambda unit: place_of(key, unit.commit_name)):
        if left <= 0:
            return
        yield DrawnUnit(unit, left, key)
        left -= unit.documents


def drawn_groups(workspace: Workspace, drawn: DrawnUnit) -> Iterator[tuple[int, pa.ChunkedArray]]:
    """Yield the texts of row groups, each with the row of its first document in the unit."""
    with pq.ParquetFile(workspace.path(drawn.unit.table)) as file:
        sizes = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
        firsts = np.cumsum([0, *sizes]).tolist()
        done = 0
        for group in sorted(range(len(sizes)), key=lambda n: place_of(drawn.key, str(n))):
            if done >= drawn.documents:
                return
            texts = file.read_row_group(group, columns=["text"], use_threads=False).column("text")
            yield firsts[group], texts
            done += sizes[group]


def place_of(key: str, name: str) -> bytes:
    """Return the place of something in the order of a draw."""
    return xxhash.xxh3_128_digest(f"{key}/{name}".encode())
