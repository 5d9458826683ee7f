"""Column: a bound on what a record says of its document, such as a quality score that somebody gave it.

    missing        the column is absent, null, empty or not a number (NaN); kept with `missing = "keep"`
    not_a_number   min or max is set, and the value is neither a number nor a text that spells one
    below_min, above_max, not_among

Values of `one_of` are compared as texts in NFC: 7 is "7", true is "true". In CSV every value is a text.
"""

import math
from decimal import Decimal
from typing import Literal
from unicodedata import normalize

from pydantic import Field, field_validator, model_validator

from stages.filtering.filter import Document, Filter, FilterConfig, Judge, Removal, measured

Missing = Literal["drop", "keep"]
_RULES = ("missing", "not_a_number", "below_min", "above_max", "not_among")
_SHOWN = 80
"""Characters of a value in a detail."""


class ColumnBound(FilterConfig):
    """A bound on a column of the record."""

    kind: Literal["column"] = "column"
    """Names the filter."""
    column: str = Field(min_length=1)
    """The field. It may be inside of others, as `meta.score`. One that no record of a source has is
    refused."""
    min: float | None = None
    """Least value kept."""
    max: float | None = None
    """Largest value kept."""
    one_of: tuple[str, ...] | None = Field(None, min_length=1)
    """The values kept, instead of bounds."""
    missing: Missing = "drop"
    """What becomes of a document whose record has no value there."""

    @field_validator("one_of")
    @classmethod
    def _in_nfc(cls, values: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return values and tuple(normalize("NFC", value) for value in values)

    @model_validator(mode="after")
    def _one_sort_of_bound(self) -> "ColumnBound":
        bounds = [bound for bound in (self.min, self.max) if bound is not None]
        if bool(bounds) == (self.one_of is not None):
            raise ValueError("needs min, max or both, or else one_of")
        if bounds != sorted(bounds):
            raise ValueError(f"min = {self.min}: over max = {self.max}")
        return self


def _open(config: ColumnBound) -> Judge:
    def judge(document: Document) -> Removal | None:
        return _judge(document.values.get(config.column), config)

    return judge


def _judge(value: object, config: ColumnBound) -> Removal | None:
    if is_missing(value):
        if config.missing == "keep":
            return None
        return Removal("missing", f"column {config.column!r} has no value")
    if config.one_of is not None:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if normalize("NFC", text) in config.one_of:
            return None
        return Removal("not_among", f"column {config.column!r}: {text[:_SHOWN]!r} is not in one_of")
    return _within(value, config)


def _within(value: object, config: ColumnBound) -> Removal | None:
    """Return the verdict on a value that must lie within bounds."""
    number = _number_of(value)
    if number is None:
        shown = str(value)[:_SHOWN]
        return Removal("not_a_number", f"column {config.column!r}: {shown!r} ({type(value).__name__})")
    if config.min is not None and number < config.min:
        return measured("below_min", f"column {config.column!r}", number, "min", config.min)
    if config.max is not None and number > config.max:
        return measured("above_max", f"column {config.column!r}", number, "max", config.max)
    return None


def is_missing(value: object) -> bool:
    """Say whether a record has no value: absent, null, an empty text, or not a number."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _number_of(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(number) else number


def _columns(config: ColumnBound) -> tuple[str, ...]:
    return (config.column,)


COLUMN = Filter(ColumnBound, _RULES, _open, version=2, columns=_columns)
