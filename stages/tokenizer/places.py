"""Places: where a part of a document is, which decides the spaces that a tokenizer puts around it.

    document   <|user|> Hi <|end|> The sum of | 2 and 2        | is a border of sections
    place               SPECIAL    SPECIAL     TEXT

Many tokenizers put a space before every text (SentencePiece: the dummy prefix), and take white space
from its ends. A part that continues a text gets neither; one behind a special piece gets what the
library of the file puts there.
"""

from enum import Enum
from typing import NamedTuple


class Before(Enum):
    """What is before a part."""

    START = "the beginning of a document"
    SPECIAL = "a special piece"
    TEXT = "text"


class TextPlace(NamedTuple):
    """Where a part of a document is."""

    before: Before = Before.START
    ends: bool = True
    """Whether the document or a special piece follows, and no text."""


WHOLE = TextPlace()
"""Of a text that is a document by itself."""
EVERY = tuple(TextPlace(before, ends) for before in Before for ends in (True, False))
"""All places."""
