"""Faults of a run file: what pydantic found, as sentences that name the key, the value and the bound."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pipeline.run_file.config import RunFile
from pipeline.run_file.wording import what_must_be
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
