"""Length filter: documents without text go always, short ones below a bound that the user sets."""

from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence

from pydantic import Field

from stages.config import Config
from stages.filtering.filter import Dropped, Filter

EMPTY, TOO_SHORT = "empty", "too_short"
_FIRST_BYTES = 64
_BYTES = 1 << 16
"""Of a text that are Python strings at once: the words of 32 MiB would be a gigabyte of objects."""


class LengthFilter(Config):
    """Bounds on the length of a cleaned document."""

    min_chars: int = Field(1, ge=1)
    """Shortest document kept, in characters that are not white space."""


def length_verdicts(texts: Sequence[str], config: LengthFilter) -> list[Dropped]:
    """Say why each text goes, or None if it stays.

    ["", "ab cd", "abcdef"] with min_chars = 5 -> [(EMPTY, ...), (TOO_SHORT, ...), None]
    """
    return [length_verdict(text.encode(), config) for text in texts]


def length_verdict(data: bytes, config: LengthFilter) -> Dropped:
    """Say why a text goes, given in UTF-8, or None if it stays; no more of it is read than needed."""
    visible = 0
    for stretch in _stretches(data):
        visible += sum(map(len, stretch.split()))
        if visible >= config.min_chars:
            return None
    if visible == 0:
        return EMPTY, "no character but white space"
    return TOO_SHORT, f"{visible} characters; min_chars = {config.min_chars}"


def _stretches(data: bytes) -> Iterator[str]:
    """Decode a text a stretch at a time, a short one first: most need no more."""
    decoder = getincrementaldecoder("utf-8")()
    start, size = 0, _FIRST_BYTES
    while start < len(data):
        yield decoder.decode(data[start : start + size])
        start, size = start + size, _BYTES


LENGTH = Filter("length", (EMPTY, TOO_SHORT), length_verdict)
