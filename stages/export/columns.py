"""The columns of exported rows: those of the loader in narrow dtypes, and two that trainers ask for.

    attention_mask   uint8, the shape of input_ids: 1 for a token, 0 for padding
    tokens           the same as input_ids, under the name that llm-foundry reads; only of decoder-only
                     datasets, where the model makes the labels itself

`attention_mask` is about padding alone: that documents of a row do not see each other follows from
`segment_ids` and `position_ids`. A dtype follows from what the manifest says of a column, not from its
values, so it is the same in every shard; a value outside of it stops the export.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.loading.masks import token_mask
from stages.objectives.rows import IGNORED, Columns
from stages.store.manifest import Manifest

ATTENTION_MASK, TOKENS = "attention_mask", "tokens"
_IDS = "input_ids"
_DTYPES = ("|u1", "<u2", "<i2", "<i4", "<i8")
"""From narrow to wide; each is one that every format of rows can hold."""


@dataclass(frozen=True)
class ColumnType:
    """What a column of the rows holds: the dtype, with its byte order, and the shape of one row."""

    dtype: str
    shape: tuple[int, ...]


def available_columns(native: Columns, manifest: Manifest) -> dict[str, ColumnType]:
    """Return every column that rows can be exported with, by name, sorted.

    Args:
        native: what the loader gives of one row, each (1, ...); none of a split without a row.
        manifest: of the split.
    """
    kinds = {
        name: ColumnType(column.dtype.newbyteorder("<").str, column.shape[1:])
        for name, column in native.items()
    }
    found = {name: _narrowed(name, kind, manifest) for name, kind in kinds.items()}
    if _IDS in kinds:
        if token_mask(native) is not None:
            found.setdefault(ATTENTION_MASK, ColumnType("|u1", kinds[_IDS].shape))
        if manifest.label_convention == "unshifted":
            found[TOKENS] = found[_IDS]
    return dict(sorted(found.items()))


def exported_column(name: str, columns: Columns) -> NDArray[np.integer]:
    """Return one of the available columns, (N, ...), in the dtype that the loader gives.

    Args:
        name: of the column.
        columns: what the loader gives of N rows.
    """
    if name == ATTENTION_MASK and name not in columns:
        mask = token_mask(columns)
        assert mask is not None, "it is among the available columns"
        return mask.astype(np.uint8)
    return columns[_IDS if name == TOKENS and name not in columns else name]


def _narrowed(name: str, column: ColumnType, manifest: Manifest) -> ColumnType:
    """Return a column in the narrowest dtype that holds all it may hold."""
    width = column.shape[-1] if column.shape else 1
    bounds = {
        "labels": (IGNORED, 1 if manifest.label_convention == "replaced" else manifest.vocab_size - 1),
        "position_ids": (0, width - 1),
        "segment_ids": (-1, width - 1),
    }
    if name not in bounds:
        return column
    lowest, highest = bounds[name]
    for dtype in _DTYPES:
        limits = np.iinfo(dtype)
        if limits.min <= lowest and highest <= limits.max:
            return ColumnType(dtype, column.shape)
    return column
