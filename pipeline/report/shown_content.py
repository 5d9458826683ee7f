"""What the report holds of the rows that it shows: the beginning of one of each dataset."""

from typing import TypedDict


class ShownToken(TypedDict):
    """One token of the page."""

    piece: str
    css: str
    was: str | None


class ShownSequence(TypedDict):
    """The beginning of a sequence."""

    name: str
    tokens: list[ShownToken]
    more: int
    """Tokens behind them."""


class ShownRow(TypedDict):
    """The beginning of a row."""

    dataset: str
    split: str
    row: int
    epoch: int
    key: list[list[str]]
    """Signs, and what each means."""
    sequences: list[ShownSequence]
