r"""Delimiters: the one character between two fields of delimited text, if its ending does not say it.

id;text\n1;"a; b"\n      delimiter = ";"  -> {"id": "1", "text": "a; b"}
"""

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
