r"""Delimiters: the one character between two fields of delimited text, and whether quotes mean anything.

id;text\n1;"a; b"\n      delimiter = ";"     -> {"id": "1", "text": "a; b"}
id\ttext\n1\t"a" b\n    quoting = "none"    -> {"id": "1", "text": '"a" b'}
"""

import csv
from enum import StrEnum
from typing import Literal


class Quoting(StrEnum):
    """What a quote means in delimited text."""

    CSV = "csv"
    """A field that begins with a quote ends at the next one that is not doubled (RFC 4180)."""
    NONE = "none"
    """A quote is a character like any other, and a record is one line (IANA: tab-separated-values)."""


def csv_rule(quoting: Quoting) -> Literal[0, 3]:
    """Return what Python's csv module calls a quoting."""
    return csv.QUOTE_NONE if quoting is Quoting.NONE else csv.QUOTE_MINIMAL


USUAL_DELIMITERS = (",", ";", "\t", "|")
"""What programs write, the most usual first."""
_TAKEN = '"\r\n\0 '
"""Characters that mean something else, or that stand in most texts."""


def possible_delimiter(delimiter: str | None) -> str | None:
    """Return a delimiter that a file may have.

    Raises:
        ValueError: it is none.
    """
    if delimiter is None:
        return None
    possible = len(delimiter) == 1 and delimiter.isascii()
    if not possible or delimiter.isalnum() or delimiter in _TAKEN:
        raise ValueError(
            "must be one ASCII character that is no letter, digit, quote, space or line end; write one"
            ' such as ";", "|" or "\\t"'
        )
    return delimiter


def looks_quoted(value: str) -> bool:
    """Say whether a field begins and ends with a quote, and holds quotes that are all doubled."""
    inner = value[1:-1]
    return (
        len(value) > 1
        and value[0] == value[-1] == '"'
        and '"' in inner
        and '"' not in inner.replace('""', "")
    )
