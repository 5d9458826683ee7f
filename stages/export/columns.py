"""The columns of exported rows: those of the loader in narrow dtypes, and two that trainers ask for.

    attention_mask   uint8, the shape of input_ids: 1 for a token, 0 for padding
    tokens           the same as input_ids, under the name that llm-foundry reads; only of decoder-only
                     datasets, where the model makes the labels itself

`attention_mask` is about padding alone: that documents of a row do not see each other follows from
`segment_ids` and `position_ids`. A dtype follows from what the manifest says of a column, not from its
values, so it is the same in every shard; a value outside of it stops the export.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.objectives.rows import IGNORED, Columns
from stages.store.manifest import Manifest

ATTENTION_MASK, TOKENS = "attention_mask", "tokens"
_IDS, _SEGMENTS, _LENGTHS = "input_ids", "segment_ids", "input_length"
_DTYPES = ("|u1", "<u2", "<i2", "<i4", "<i8")
"""From narrow to wide; each is one that every format of rows can hold."""


@dataclass(frozen=True)
class ColumnType:
    """What a column of the rows holds: the dtype, with its byte order, and the shape of one row."""

    dtype: str
    shape: tuple[int, ...]


def available_columns(native: Mapping[str, ColumnType], manifest: Manifest) -> dict[str, ColumnType]:
    """Return every column that rows can be exported with, by name, sorted.

    Args:
        native: the columns that the loader gives; none of a split without a row.
        manifest: of the split.
    """
    found = {name: _narrowed(name, column, manifest) for name, column in native.items()}
    ids = native.get(_IDS)
    if ids is not None:
        if _tells_padding(native):
            found[ATTENTION_MASK] = ColumnType("|u1", ids.shape)
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
        return _attention_mask(columns)
    return columns[_IDS if name == TOKENS and name not in columns else name]


def _tells_padding(native: Mapping[str, ColumnType]) -> bool:
    """Say whether the columns tell which positions are padding."""
    shape = native[_IDS].shape
    lengths, segments = native.get(_LENGTHS), native.get(_SEGMENTS)
    by_length = lengths is not None and shape and lengths.shape == shape[:-1]
    return bool(by_length) or (segments is not None and segments.shape == shape)


def _attention_mask(columns: Columns) -> NDArray[np.uint8]:
    """Return 1 for each token and 0 for each padding, of N rows."""
    if _LENGTHS in columns:
        ids, lengths = columns[_IDS], columns[_LENGTHS]
        return (np.arange(ids.shape[-1]) < lengths[..., None]).astype(np.uint8)
    return (columns[_SEGMENTS] >= 0).astype(np.uint8)


def _narrowed(name: str, column: ColumnType, manifest: Manifest) -> ColumnType:
    """Return a column in the narrowest dtype that holds all it may hold."""
    width = column.shape[-1] if column.shape else 1
    bounds = {
        "labels": (IGNORED, 1 if manifest.label_convention == "replaced" else manifest.vocab_size - 1),
        "position_ids": (0, width - 1),
        _SEGMENTS: (-1, width - 1),
    }
    if name not in bounds:
        return column
    lowest, highest = bounds[name]
    for dtype in _DTYPES:
        held = np.iinfo(dtype)
        if held.min <= lowest and highest <= held.max:
            return ColumnType(dtype, column.shape)
    return column
