"""Length: documents without text go always, short and long ones by bounds that the user sets."""

from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field, model_validator

from stages.config import Config
from stages.filtering.filter import Document, Dropped, Filter, FilterConfig, Judge, Removal, measured

EMPTY, TOO_SHORT, TOO_LONG = "empty", "too_short", "too_long"
_FIRST_BYTES = 64
_BYTES = 1 << 16
"""Of a text that are Python strings at once: the words of 32 MiB would be a gigabyte of objects."""


class LengthFilter(Config):
    """The bound that every run has on the length of a cleaned document."""

    min_chars: int = Field(1, ge=1)
    """Shortest document kept, in characters that are not white space."""


class Length(FilterConfig):
    """Bounds on the length of a document."""

    kind: Literal["length"] = "length"
    """Names the filter."""
    min_chars: int | None = Field(None, ge=1)
    """Shortest document kept, in characters that are not white space."""
    max_chars: int | None = Field(None, ge=1)
    """Longest document kept, likewise."""

    @model_validator(mode="after")
    def _one_bound(self) -> "Length":
        if self.min_chars is None and self.max_chars is None:
            raise ValueError("has no bound; set min_chars, max_chars or both")
        if None not in (self.min_chars, self.max_chars) and self.min_chars > self.max_chars:  # type: ignore[operator]
            raise ValueError(f"min_chars = {self.min_chars}: over max_chars = {self.max_chars}")
        return self


def length_verdicts(texts: Sequence[str], config: LengthFilter) -> list[Dropped]:
    """Say why each text goes, or None if it stays.

    ["", "ab cd", "abcdef"] with min_chars = 5 -> [(EMPTY, ...), (TOO_SHORT, ...), None]
    """
    return [length_verdict(text.encode(), config) for text in texts]


def length_verdict(data: bytes, config: LengthFilter) -> Dropped:
    """Say why a text goes, given in UTF-8, or None if it stays; no more of it is read than needed."""
    visible = visible_characters(data, most=config.min_chars)
    if visible >= config.min_chars:
        return None
    if visible == 0:
        return EMPTY, "no character but white space"
    return TOO_SHORT, f"{visible} characters; min_chars = {config.min_chars}"


def visible_characters(data: bytes, *, most: int) -> int:
    """Return how many characters are not white space; once there are `most`, how many were counted."""
    visible = 0
    for stretch in _stretches(data):
        visible += sum(map(len, stretch.split()))
        if visible >= most:
            break
    return visible


def _stretches(data: bytes) -> Iterator[str]:
    """Decode a text a stretch at a time, a short one first: most need no more."""
    decoder = getincrementaldecoder("utf-8")()
    start, size = 0, _FIRST_BYTES
    while start < len(data):
        yield decoder.decode(data[start : start + size])
        start, size = start + size, _BYTES


def _open(config: Length) -> Judge:
    least, most = config.min_chars or 0, config.max_chars
    enough = least if most is None else most + 1

    def judge(document: Document) -> Removal | None:
        visible = visible_characters(document.text, most=enough)
        if visible < least:
            return measured(TOO_SHORT, "characters", visible, "min_chars", least)
        if most is not None and visible > most:
            return Removal(TOO_LONG, f"characters: over {most:,}; max_chars = {most:,}")
        return None

    return judge


LENGTH = Filter(Length, (TOO_SHORT, TOO_LONG), _open)
