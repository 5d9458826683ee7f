"""State files: the JSON that a run or an export keeps of itself, read with care.

A file that is cut, empty, no JSON, of another shape, a folder or unreadable is named, with what was
found and the way out. A key that stands twice is refused, since readers differ in which one counts.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from pipeline.system.regular_files import read_regular
from stages.errors import FormatError

Model = TypeVar("Model", bound=BaseModel)


def parse_json(data: bytes, place: Path | str, *, way_out: str) -> Any:
    """Return what a state file holds.

    Args:
        data: its bytes.
        place: its name, for the message.
        way_out: what a user does about a damaged one.

    Raises:
        FormatError: it is damaged.
    """
    if not data.strip():
        raise FormatError(f"{place}: is empty; {way_out}")
    try:
        return json.loads(data, object_pairs_hook=_pairs, parse_constant=_no_number)
    except UnicodeDecodeError as error:
        found = f"is not UTF-8 at byte {error.start:,}"
    except json.JSONDecodeError as error:
        found = f"is not whole JSON: {error.msg} at line {error.lineno}, column {error.colno}"
    except RecursionError:
        found = "is nested too deep"
    except ValueError as error:
        found = str(error)
    raise FormatError(f"{place}: {found}; {way_out}")


def parse_object(data: bytes, place: Path | str, *, way_out: str) -> dict[str, Any]:
    """Return what a state file holds that is one object.

    Raises:
        FormatError: it is damaged, or holds something else.
    """
    content = parse_json(data, place, way_out=way_out)
    if not isinstance(content, dict):
        raise FormatError(f"{place}: holds {_kind(content)}, not an object; {way_out}")
    return content


def parse_model(model: type[Model], data: bytes, place: Path | str, *, way_out: str) -> Model:
    """Return what a state file holds as the model that it must be of.

    Raises:
        FormatError: it is damaged, or of another shape.
    """
    return as_model(model, parse_object(data, place, way_out=way_out), place, way_out=way_out)


def as_model(model: type[Model], content: object, place: Path | str, *, way_out: str) -> Model:
    """Return content as a model.

    Raises:
        FormatError: it is of another shape.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "all of it"
        raise FormatError(f"{place}: of another shape: {where}: {first['msg']}; {way_out}") from error


def require_file(place: Path, kind: str | None, *, way_out: str) -> None:
    """Refuse what stands where a state file belongs and is none.

    Args:
        place: where it stands.
        kind: what it is instead of a regular file, or None.
        way_out: what a user does about it.

    Raises:
        FormatError: it is a folder, a FIFO, a socket or a device.
    """
    if kind is not None:
        raise FormatError(f"{place}: is {kind}, not a file; {way_out}")


@contextmanager
def readable(place: Path | str, *, way_out: str) -> Iterator[None]:
    """Refuse by name a state file that is a folder or cannot be read; one that is missing may be.

    Raises:
        FormatError: it is a folder, or cannot be read.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except IsADirectoryError as error:
        raise FormatError(f"{place}: is a folder, not a file; {way_out}") from error
    except PermissionError as error:
        raise FormatError(f"{place}: cannot be read: {error.strerror}; {way_out}") from error


def read_bytes(place: Path, *, way_out: str) -> bytes:
    """Return the bytes of a state file.

    Raises:
        FileNotFoundError: there is none.
        FormatError: it is no file, or cannot be read.
    """
    with readable(place, way_out=way_out):
        return read_regular(place, partial(require_file, place, way_out=way_out))


def read_object(place: Path, *, way_out: str) -> dict[str, Any]:
    """Return what a state file holds that is one object.

    Raises:
        FileNotFoundError: there is none.
        FormatError: it is damaged.
    """
    return parse_object(read_bytes(place, way_out=way_out), place, way_out=way_out)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return content


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"holds {name}, which is no number of JSON")


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "a list"
    return {str: "a string", bool: "a truth value", type(None): "null"}.get(type(value), "a number")
