"""Weights of documents: numbers in a field of their records, as the token store has it, to levels."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stages.columns import kept_names
from stages.mixing.classes import levels_of

_NUMBER = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
"""A number as JSON has it; anything else is no weight, whatever a library would make of it."""


def weight_columns(column: str | None) -> tuple[str, ...]:
    """Return the columns of the token store that hold the weights of a source's documents."""
    return () if column is None else kept_names((column,))


def levels_in(table: pa.Table, column: str | None) -> tuple[NDArray[np.int64], int]:
    """Return the level of each document's weight, (N,), and how many have no number there.

    Args:
        table: rows of documents.parquet of the token store.
        column: the field of their records; None if the source has no weights, and all levels are 0.
    """
    if column is None:
        return np.zeros(table.num_rows, np.int64), 0
    texts = table.column(weight_columns(column)[0])
    numbers = pc.if_else(pc.match_substring_regex(texts, _NUMBER), texts, pa.scalar(None, pa.string()))
    values = pc.cast(numbers, pa.float64()).to_numpy(zero_copy_only=False)
    known = np.isfinite(values)
    return levels_of(np.where(known, values, 1.0)), int(np.count_nonzero(~known))
