"""Ranking: which of two duplicates stays, for every document of a corpus.

    sources in the order of `source_order`  >  keep: longest, or a column  >  canonical order

A column ranks by number or by date. `quality` 0.9 outranks 0.5 by "highest"; "2024-05-01" outranks
"2023-11-30" by "highest", which keeps the newest. What is neither ranks last, among its source or among
all.

Memory: 16 bytes a document while they are sorted, 8 afterwards, in mapped files.
"""

import datetime as dt
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from stages.config import Config
from stages.kernels import kernel

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?", re.ASCII)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class KeepColumn(Config):
    """Rank documents by a field of the records."""

    column: str = Field(min_length=1)
    """Name of the field. It holds numbers, or dates as 2024-05-01 or 2024-05-01T12:30:00Z (UTC if there
    is no zone). Documents without such a value rank last, and are counted."""
    order: Literal["highest", "lowest"] = "highest"
    """Which value is the best: with `highest` the best score or the newest date stays, with `lowest` the
    oldest date."""


KeepPolicy = Literal["first", "longest"] | KeepColumn


def rank_value(value: object) -> float:
    """Return what a document is ranked by, NaN if the value says nothing.

    0.5 -> 0.5    "12" -> 12.0    "2024-05-01" -> microseconds since 1970    "good", True, None -> NaN
    """
    if isinstance(value, dt.datetime | dt.date):
        return _moment(value)
    if isinstance(value, str):
        text = value.strip()
        if _NUMBER.fullmatch(text):
            return _finite(float(text))
        return _date(text) if _DATE.fullmatch(text) else math.nan
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        try:
            return _finite(float(value))
        except OverflowError:
            return math.nan
    return math.nan


def _date(text: str) -> float:
    try:
        return _moment(dt.datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return math.nan


def _moment(moment: dt.date) -> float:
    """Return microseconds since 1970, exact in a double for the years 1700 to 2250."""
    if not isinstance(moment, dt.datetime):
        moment = dt.datetime(moment.year, moment.month, moment.day, tzinfo=dt.UTC)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return float((moment - _EPOCH) // dt.timedelta(microseconds=1))


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.nan


def best_first(
    values: NDArray[np.float64], groups: Sequence[tuple[int, int]], *, lowest: bool = False
) -> NDArray[np.int64]:
    """Return the documents in the order of their ranks.

    values 1 NaN 3 3, groups (0, 4) -> 2 3 0 1

    Args:
        values: (N,) by number; overwritten. NaN ranks last.
        groups: ranges of numbers, the best first, that hold each number once.
        lowest: whether the lowest value is the best.

    Returns:
        (N,) int64 numbers; equal values in canonical order.
    """
    if not lowest:
        np.negative(values, out=values)
    order = np.empty(len(values), np.int64)
    done = 0
    for first, last in groups:
        part = order[done : done + last - first]
        part[:] = np.argsort(values[first:last])
        _canonical_ties(values[first:last], part)
        part += first
        done += last - first
    assert done == len(values), "each document is in one group"
    return order


@kernel
def _canonical_ties(values: NDArray[np.float64], order: NDArray[np.int64]) -> None:
    """Put documents of equal values into canonical order, in place."""
    start = 0
    for end in range(1, len(order) + 1):
        if end < len(order):
            before, value = values[order[end - 1]], values[order[end]]
            if before == value or (np.isnan(before) and np.isnan(value)):
                continue
        if end - start > 1:
            order[start:end].sort()
        start = end
