"""Kept values: what of a record goes along with its document, as strings.

    "a.org/x" -> a.org/x      0.75 -> 0.75      true -> true      {"a": [1, "b"]} -> {"a":[1,"b"]}

A string is itself; any other value is its JSON text, without spaces, as Python's `json` writes it. What
is absent or null has none. A value that is too long for what it is has none either, which is counted.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

MOST_BYTES = 4096
"""Of a value; as of the user's own ids, what is longer stands in the wrong column."""
DEEPEST = 64
"""Lists and objects inside of each other."""
_UTF8 = 4
"""Bytes of a character, at the most."""
LARGE = float(1 << 63)
"""Integers of JSON that are larger are read as floats."""
_json_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

UNWRITABLE = object()
"""Stands for a value that goes beyond the bounds, whatever it is."""


@dataclass(frozen=True)
class KeptValues:
    """The values of a record that go along, in the order of the source's `keep_columns`."""

    texts: tuple[str | None, ...] = ()
    too_long: tuple[int, ...] = ()
    """Which of them are not there because they are too long."""


NOTHING_KEPT = KeptValues()


def kept_values(values: Sequence[object]) -> KeptValues:
    """Return what some values of a record are beside its document.

    ["a", None, [1, 2], "x" * 5000] -> ("a", None, "[1,2]", None), too_long (3,)
    """
    texts = tuple(None if value is None else _text(value) for value in values)
    pairs = enumerate(zip(values, texts, strict=True))
    return KeptValues(
        texts, tuple(n for n, (value, text) in pairs if text is None and value is not None)
    )


def _text(value: object) -> str | None:
    """Return a value as a string; None if it is too long."""
    if isinstance(value, str):
        text = value
    elif _is_small(value):
        text = _json_text(value)
    else:
        return None
    if len(text) > MOST_BYTES or (len(text) * _UTF8 > MOST_BYTES and len(text.encode()) > MOST_BYTES):
        return None
    return text


def _is_small(value: object) -> bool:
    """Say whether a value of JSON may be short: neither deep nor of many parts. None are written out."""
    level, size = [value], 0
    for _ in range(DEEPEST):
        if UNWRITABLE in level:
            return False
        size += sum(len(one) for one in level if isinstance(one, str | list | tuple | dict))
        if size > MOST_BYTES:
            return False
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return True
    return not any(isinstance(one, list | tuple | dict) for one in level)


def _inside(value: object) -> Sequence[object]:
    """Return the parts of a list or of an object."""
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list | tuple) else ()


def may_be_inexact(values: Sequence[object]) -> list[bool]:
    """Say of which values some integer may have lost digits: those over 64 bits were read as floats."""
    return [_has_large(value) for value in values]


def _has_large(value: object) -> bool:
    if isinstance(value, float):
        return abs(value) >= LARGE
    if isinstance(value, str) or not _is_small(value):
        return False
    level = [value]
    while level:
        level = [inner for one in level for inner in _inside(one)]
        if any(isinstance(one, float) and abs(one) >= LARGE for one in level):
            return True
    return False
