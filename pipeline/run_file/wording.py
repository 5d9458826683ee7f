"""Wording: what a setting must be, in words that need no knowledge of Python or pydantic."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import ErrorDetails

_WHOLE, _NUMBER, _FLAG = "must be a whole number", "must be a number", "must be true or false"
_LIST, _TABLE = "must be a list", "must be a table"
_SIZE = "must be a size, such as 65536, '200KiB' or '4GiB'"
_KINDS: Mapping[str, str] = {
    "bool_type": _FLAG,
    "bool_parsing": _FLAG,
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "must be a finite number",
    "string_type": "must be text, in quotes",
    "path_type": "must be a path, in quotes",
    "tuple_type": _LIST,
    "list_type": _LIST,
    "dict_type": _TABLE,
    "model_type": _TABLE,
    "model_attributes_type": _TABLE,
    "byte_size": _SIZE,
    "byte_size_unit": _SIZE,
}
"""By the type of a fault."""
_BOUNDS: Mapping[str, tuple[str, str]] = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}
_UNITS: Mapping[str, int] = {"TiB": 1 << 40, "GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10}
_OTHERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "literal_error": lambda bound: f"must be {bound['expected']}",
    "enum": lambda bound: f"must be {bound['expected']}",
    "too_short": lambda bound: f"must have at least {_items(bound['min_length'])}",
    "too_long": lambda bound: f"must have at most {_items(bound['max_length'])}",
    "string_too_short": lambda bound: f"must have at least {_characters(bound['min_length'])}",
    "string_too_long": lambda bound: f"must have at most {_characters(bound['max_length'])}",
}


def what_must_be(fault: ErrorDetails) -> str:
    """Return what a setting must be: "must be a whole number"."""
    kind, bound = fault["type"], fault.get("ctx", {})
    if kind in _KINDS:
        return _KINDS[kind]
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f"must be {words} {_bound(bound[name], fault['input'])}"
    if kind in _OTHERS:
        return _OTHERS[kind](bound)
    message = fault["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return f"{message[:1].lower()}{message[1:]}"


def _bound(bound: float, given: object) -> str:
    """Return a bound as it can be written: of sizes with their unit, if the value was given with one."""
    if not isinstance(bound, int):
        return f"{bound:g}"
    with_unit = size_with_unit(bound)
    if with_unit is None:
        return f"{bound}"
    if isinstance(given, str) and given.strip()[-1:].isalpha():
        return with_unit
    return f"{bound}, which is {with_unit}" if bound >= _UNITS["MiB"] else f"{bound}"


def size_with_unit(bound: int) -> str | None:
    """Return a number of bytes with its unit, if it is a whole number of one."""
    fitting = (f"{bound // size}{unit}" for unit, size in _UNITS.items() if bound and bound % size == 0)
    return next(fitting, None)


def _items(number: int) -> str:
    return "1 item" if number == 1 else f"{number} items"


def _characters(number: int) -> str:
    return "1 character" if number == 1 else f"{number} characters"
