"""Kept values: what of a record goes along with its document, as strings.

    "a.org/x" -> a.org/x      0.75 -> 0.75      true -> true      {"a": [1, "b"]} -> {"a":[1,"b"]}

A string is itself; any other value is its JSON text, without spaces, as Python's `json` writes it. What
is absent or null has none. A value that is too long for what it is has none either, which is counted.

JSON numbers of any size: the grammar of JSON has no bound on digits (RFC 8259, section 6).

orjson reads an integer of more than 64 bits as a float, and refuses a number that no float holds. Such a
number must not cost its document. So it is read as one of the largest floats first, and a value that is
wanted with all its digits is read once more, by Python's `json`.

    {"text": "a", "n": 1e999}     loaded  -> {"text": "a", "n": 1e300}
    {"id": 36893488147419103233}  exactly -> {"id": 36893488147419103233}
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

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


_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?', re.DOTALL)
"""A string or a number; what stands in a string is none."""
_INFINITY = "infinity"
"""Of orjson's message for a number that no float holds."""
_MOST_DIGITS = 4_300
"""That Python makes an integer of."""


def loaded(data: bytes) -> object:
    """Return a value of JSON; a number that no float holds is 1e300 or -1e300.

    Raises:
        orjson.JSONDecodeError: it is no JSON.
    """
    found: object
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if _INFINITY not in error.msg:
            raise
        found = orjson.loads(_TOKEN.sub(_loaded_token, data))
    return found


def _loaded_token(token: re.Match[bytes]) -> bytes:
    """Return a string or a number as it is, unless no float holds it."""
    text = token[0]
    if text[0] == ord('"') or math.isfinite(float(text)):
        return text
    return b"-1e300" if text[0] == ord("-") else b"1e300"


def exactly(data: bytes) -> Mapping[str, object] | None:
    """Return an object of JSON whose integers have all their digits; None if it is nested too deep.

    An integer of more than 4,300 digits, and a number that no float holds, is `UNWRITABLE`.
    """
    try:
        found = json.loads(data, parse_int=_integer, parse_float=_number)
    except (RecursionError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _integer(text: str) -> object:
    return int(text) if len(text) <= _MOST_DIGITS else UNWRITABLE


def _number(text: str) -> object:
    number = float(text)
    return number if math.isfinite(number) else UNWRITABLE
