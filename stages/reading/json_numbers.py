"""JSON numbers of any size: the grammar of JSON has no bound on digits (RFC 8259, section 6).

orjson reads an integer of more than 64 bits as a float, and refuses a number that no float holds. Such a
number must not cost its document. So it is read as one of the largest floats first, and a value that is
wanted with all its digits is read once more, by Python's `json`.

    {"text": "a", "n": 1e999}     loaded  -> {"text": "a", "n": 1e300}
    {"id": 36893488147419103233}  exactly -> {"id": 36893488147419103233}
"""

import json
import math
import re
from collections.abc import Mapping

import orjson

from stages.reading.kept_values import UNWRITABLE

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
        found = orjson.loads(_TOKEN.sub(_held, data))
    return found


def _held(token: re.Match[bytes]) -> bytes:
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
