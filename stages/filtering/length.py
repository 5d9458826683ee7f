"""Length filter: documents without text go always, short ones below a bound that the user sets."""

from collections.abc import Sequence

from pydantic import Field

from stages.columns import DropReason
from stages.config import Config


class LengthFilter(Config):
    """Bounds on the length of a cleaned document."""

    min_chars: int = Field(1, ge=1)
    """Shortest document kept, in characters that are not white space."""


def length_verdicts(texts: Sequence[str], config: LengthFilter) -> list[tuple[DropReason, str] | None]:
    """Say why each text goes, or None if it stays.

    ["", "ab cd", "abcdef"] with min_chars = 5 -> [(EMPTY, ...), (TOO_SHORT, ...), None]
    """
    return [_verdict(text, config) for text in texts]


def _verdict(text: str, config: LengthFilter) -> tuple[DropReason, str] | None:
    if len(text) >= 2 * config.min_chars and config.min_chars == 1 and not text[0].isspace():
        return None
    visible = sum(map(len, text.split()))
    if visible == 0:
        return DropReason.EMPTY, "no character but white space"
    if visible < config.min_chars:
        return DropReason.TOO_SHORT, f"{visible} characters; min_chars = {config.min_chars}"
    return None
