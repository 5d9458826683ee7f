"""Differences: where two versions of a file or of a record differ, by row and value, for people."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

_SHOWN = 120
"""Characters of a value, at the most."""


def differing_values(own: Any, again: Any, name: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield the values of a JSON object that another one has otherwise: its path, and both.

    Left out are keys that the first lacks: see `lacking_keys`.

    Args:
        own: as it is kept.
        again: as it is made again.
        name: path of both.
    """
    if isinstance(own, dict) and isinstance(again, dict):
        for key, value in own.items():
            inner = f"{name}.{key}" if name else key
            if key in again:
                yield from differing_values(value, again[key], inner)
            else:
                yield inner, _shown(value), "nothing"
        for key in again.keys() - own.keys() if name else ():
            yield f"{name}.{key}", "nothing", _shown(again[key])
    elif isinstance(own, list) and isinstance(again, list) and len(own) == len(again):
        for row, (one, other) in enumerate(zip(own, again, strict=True)):
            yield from differing_values(one, other, f"{name}[{row}]")
    elif own != again or isinstance(own, bool) != isinstance(again, bool):
        yield name, _shown(own), _shown(again)


def lacking_keys(own: Mapping[str, Any], again: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys that a record lacks, as one of an earlier version does."""
    return tuple(sorted(again.keys() - own.keys()))


def difference(own: Path, again: Path, *, left_out: frozenset[str] | None = None) -> str | None:
    """Say where a file differs from the same file made again, or None if they hold the same.

    Args:
        own: as it is kept.
        again: as it is made again.
        left_out: keys of a JSON object that are not compared; then those that `own` lacks are not,
            either.

    Raises:
        OSError: one cannot be read.
        ValueError: likewise.
        pyarrow.ArrowException: likewise.
    """
    match own.suffix:
        case ".parquet":
            return _of_tables(own, again)
        case ".npy":
            return _of_arrays(own, again)
        case ".json":
            one, other = (json.loads(path.read_bytes()) for path in (own, again))
            return _of_objects(one, other, left_out)
    return "holds other bytes than when it is made again"


def _of_objects(one: Any, other: Any, left_out: frozenset[str] | None) -> str | None:
    if left_out is not None:
        one, other = (
            {name: value for name, value in each.items() if name not in left_out}
            for each in (one, other)
        )
    elif isinstance(one, dict) and isinstance(other, dict) and (lacking := lacking_keys(one, other)):
        return f"lacks {lacking[0]}, and made again it is {_shown(other[lacking[0]])}"
    found = differing_values(one, other)
    return next((f"{name} is {own}, and made again it is {again}" for name, own, again in found), None)


def _of_tables(own: Path, again: Path) -> str | None:
    return differing_tables(*(pq.read_table(path, use_threads=False) for path in (own, again)))


def differing_tables(one: pa.Table, other: pa.Table) -> str | None:
    """Say where a table differs from the same table made again, or None if they hold the same.

    Args:
        one: as it is kept.
        other: as it is made again.
    """
    if one.schema.names != other.schema.names:
        return f"has the columns {', '.join(one.schema.names)}, not {', '.join(other.schema.names)}"
    rows = min(one.num_rows, other.num_rows)
    for name in one.schema.names:
        left, right = one.column(name).slice(0, rows), other.column(name).slice(0, rows)
        if left.type != right.type:
            return f"column {name} is of type {left.type}, not {right.type}"
        row = _first_row(left, right)
        if row is not None:
            values = (_shown(column[row].as_py()) for column in (left, right))
            return "row {:,}, {}: is {}, and made again it is {}".format(row, name, *values)
    if one.num_rows != other.num_rows:
        return f"has {one.num_rows:,} rows, and made again {other.num_rows:,}"
    return None


def _first_row(left: pa.ChunkedArray, right: pa.ChunkedArray) -> int | None:
    """Return the first row in which two columns differ; two that are no numbers are the same."""
    if left.equals(right):
        return None
    if pa.types.is_nested(left.type) or pa.types.is_dictionary(left.type):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return next((row for row, (one, other) in enumerate(pairs) if one != other), None)
    same = pc.fill_null(pc.equal(left, right), fill_value=False)
    same = pc.or_(same, pc.and_(pc.is_null(left), pc.is_null(right)))
    if pa.types.is_floating(left.type):
        both = (pc.fill_null(pc.is_nan(column), fill_value=False) for column in (left, right))
        same = pc.or_(same, pc.and_(*both))
    rows = np.flatnonzero(~np.asarray(same.to_numpy(zero_copy_only=False), bool))
    return int(rows[0]) if len(rows) else None


def mapped_array(path: Path) -> NDArray[Any]:
    """Return an array of a file, mapped.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no array.
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except EOFError as error:
        raise ValueError(f"{path}: it is empty") from error
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path}: it is no array")  # noqa: TRY004  # of a file, not of an argument
    return array


def _of_arrays(own: Path, again: Path) -> str | None:
    one, other = mapped_array(own), mapped_array(again)
    if one.dtype != other.dtype or one.shape[1:] != other.shape[1:]:
        return (
            f"is of {one.dtype} and shape {one.shape}, and made again of {other.dtype} and {other.shape}"
        )
    rows = min(len(one), len(other)) if one.ndim else 1
    left, right = one[:rows] if one.ndim else one, other[:rows] if one.ndim else other
    places = np.argwhere(~((left == right) | ((left != left) & (right != right))))  # noqa: PLR0124  # NaN
    if len(places):
        place = tuple(int(number) for number in places[0])
        row = ", ".join(map(str, place))
        values = _shown(left[place].item()), _shown(right[place].item())
        return "row {}: is {}, and made again it is {}".format(row, *values)
    if one.shape != other.shape:
        return f"has {len(one):,} rows, and made again {len(other):,}"
    return None


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
