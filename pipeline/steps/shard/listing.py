"""The list of a shard's documents: what `trace`, `inspect` and people read of them."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.steps.shard.merge import MergedGroup
from pipeline.steps.units import Unit, hex_strings, kept_of_all
from stages.columns import SHARD_DOCUMENTS, kept_names, with_kept


def documents_of(group: MergedGroup, units: Sequence[Unit], scratch: Path) -> Iterator[pa.Table]:
    """Return what a shard says of its documents, in tables whose names have some bytes together."""
    names, keep_columns = group.own_names(scratch, units), kept_of_all(units)
    sources = [unit.source for unit in units]
    of_unit = np.array([len(source.encode()) for source in sources], np.int64)
    first = 0
    for rows in names.blocks(group.row, beside=of_unit[group.unit]):
        part = slice(first, first + len(rows))
        first += len(rows)
        yield pa.table(
            {
                "doc": np.arange(part.start, part.stop, dtype=np.int32),
                "id": hex_strings(group.id[part]),
                "own_id": names.take("own_id", rows),
                "source": _of_units(group.unit[part], sources),
                "language": names.take("language", rows),
                "path": names.take("path", rows),
                "position": group.position[part],
                "copy": group.copy_number[part],
                "tokens": group.lengths[part],
                **{name: names.take(name, rows) for name in kept_names(keep_columns)},
            },
            schema=shard_schema(units),
        )


def shard_schema(units: Iterable[Unit]) -> pa.Schema:
    """Return the columns of a shard's list of documents: of all units' records what goes along."""
    return with_kept(SHARD_DOCUMENTS, kept_of_all(units))


def _of_units(numbers: NDArray[np.int64], values: Sequence[str]) -> pa.Array:
    """Return for each document what is said of its unit: (D,) strings."""
    owners = pa.array(numbers.astype(np.int32))
    return pa.DictionaryArray.from_arrays(owners, pa.array(values, pa.string())).cast(pa.string())
