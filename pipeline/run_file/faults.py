"""Faults of a run file: what pydantic found, as sentences that name the key, the value and the bound.

What a setting must be is said in words that need no knowledge of Python or pydantic.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pipeline.run_file.config import RunFile
from stages.config import Config
from stages.dedup.ranking import KeepColumn
from stages.filtering.table import FILTERS
from stages.objectives.table import KINDS
from stages.reading.records import LanguageColumn

_SHOWN = 400
"""Characters of a value in a message."""
_Fault = tuple[tuple[int | str, ...], ErrorDetails]
_BRANCHES = frozenset({"str", "bool", LanguageColumn.__name__, KeepColumn.__name__})
"""Names that pydantic gives the branches of a union, beside `literal[...]`."""
_ALSO = {"model_type": "a table", "bool_parsing": "true or false", "bool_type": "true or false"}
"""Faults of branches of a union, and what they take."""
_FILTER_KINDS = ", ".join(map(repr, FILTERS))
"""An objective without a kind is the causal one."""


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


def explain(error: ValidationError, content: object) -> list[str]:
    """Return one sentence for each fault: the dotted key, the value, the bound.

    Args:
        error: what pydantic found.
        content: the run file that it found it in.
    """
    sentences = []
    faults = [(_place(fault["loc"]), fault) for fault in error.errors()]
    for here, fault, also in _of_unions(faults):
        if fault["type"] == "union_tag_invalid":
            place = _dotted((*here, "kind"), content)
            found, known = fault["ctx"]["tag"], fault["ctx"]["expected_tags"]
            sentences.append(f"{place} = {_shown(found)}: must be one of {known}")
            continue
        if any(len(other) > len(here) and other[: len(here)] == here for other, _ in faults):
            continue  # a table is only wrong because something in it is
        place = _dotted(here, content)
        is_table = isinstance(fault["input"], dict)
        if fault["type"] == "extra_forbidden":
            sentences.append(f"{place}: no such key{_nearest(fault['loc'])}")
        elif fault["type"] == "missing":
            sentences.append(f"{place}: is required")
        elif fault["type"] == "union_tag_not_found":
            sentences.append(f"{place}: needs kind, one of {_FILTER_KINDS}")
        elif fault["type"] == "tuple_type" and is_table and len(here) == 1:
            sentences.append(f"{place}: is one table, and must be a list of tables; write [[{place}]]")
        elif fault["type"] == "tuple_type" and isinstance(fault["input"], str):
            shown = _shown(fault["input"])
            sentences.append(f"{place} = {shown}: must be a list; write {here[-1]} = [{shown}]")
        else:
            shown = "" if is_table else f" = {_shown(fault['input'])}"
            message = f"{what_must_be(fault)}{also}"
            sentences.append(f"{place}{shown}: {message}" if place else message)
    return sentences


def _of_unions(faults: list[_Fault]) -> Iterator[tuple[tuple[int | str, ...], ErrorDetails, str]]:
    """Yield each fault once, where a union has one for each branch, with what else may stand there."""
    for here, fault in faults:
        kinds = [other["type"] for place, other in faults if place == here]
        others = [_ALSO[kind] for kind in kinds if kind in _ALSO]
        if len(others) == len(kinds):
            yield here, fault, ""
        elif fault["type"] not in _ALSO:
            yield here, fault, "".join(f", or {other}" for other in others)


def _dotted(here: tuple[int | str, ...], content: object) -> str:
    """Return a place as a dotted key: of a source or a dataset by its name, if it has one of its own."""
    parts = list(map(str, here))
    if here[:1] in (("sources",), ("datasets",)) and len(here) > 1 and isinstance(content, Mapping):
        items = content[here[0]]
        names = [item.get("name") if isinstance(item, Mapping) else None for item in items]
        name = None if here[2:] == ("name",) else names[int(here[1])]
        if isinstance(name, str) and names.count(name) == 1:
            parts[1] = name
    return ".".join(parts)


def _shown(value: object) -> str:
    """Return a value as Python spells it, cut if it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of too many digits; lists in lists in lists
        return "..."
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _place(location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return the place in the run file: without the names that pydantic gives a union's branches."""
    if location[:1] == ("filters",):
        return (*location[:2], *location[3:])
    return tuple(
        part
        for before, part in zip((None, *location), location, strict=False)
        if not _is_branch(part) and not (before == "objective" and part in KINDS)
    )


def _is_branch(part: int | str) -> bool:
    return part in _BRANCHES or str(part).startswith("literal[")


def _nearest(location: tuple[int | str, ...]) -> str:
    """Name the key that was probably meant."""
    model: Any = RunFile
    for before, part in zip((None, *location), location[:-1], strict=False):
        if before == "objective" and part in KINDS:
            model = KINDS[str(part)].config
        elif isinstance(before, int) and location[0] == "filters":
            model = FILTERS[str(part)].config
        elif isinstance(part, str) and not _is_branch(part):
            model = _model_of(model, part)
    known = list(model.model_fields) if model is not None else []
    close = difflib.get_close_matches(str(location[-1]), known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    elsewhere = [place for place in _keys(RunFile) if place.split(".")[-1] == location[-1]]
    if elsewhere:
        return f"; did you mean {' or '.join(elsewhere)}?"
    return f"; known here: {', '.join(known)}" if known else ""


def _keys(model: type[Config], before: str = "") -> Iterator[str]:
    """Yield all dotted keys of a table and of the tables in it, but not of those in lists."""
    for name, field in model.model_fields.items():
        yield f"{before}{name}"
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Config):
            yield from _keys(kind, f"{before}{name}.")


def _model_of(model: Any, name: str) -> Any:
    """Return the config class of a field, through tuples and options."""
    pending = [model.model_fields[name].annotation] if name in getattr(model, "model_fields", {}) else []
    while pending:
        kind = pending.pop()
        if isinstance(kind, type) and issubclass(kind, Config):
            return kind
        pending += getattr(kind, "__args__", ())
    return None


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
