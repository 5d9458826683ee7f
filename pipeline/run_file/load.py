"""Loading: a TOML file, and the settings of the command line, to the model of a run.

The JSON schema of the run file, which editors complete and check it by.
"""

import sys
import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from pipeline.run_file.config import RunFile
from pipeline.run_file.faults import explain
from pipeline.system.regular_files import kind_of
from stages.config import meanings_of
from stages.errors import ConfigError

_WHOLE_LIST = "its items have no names: set all of it, or change the run file"
_TOO_DEEP = "its lists or tables are nested too deep; no setting needs more than five levels"


def load_run_file(path: Path, overrides: Sequence[str] = ()) -> RunFile:
    """Return the run that a file describes, with `KEY=VALUE` overrides applied.

    Raises:
        ConfigError: no such file, no TOML, an unknown key, or a value out of bounds.
    """
    try:
        content = _parsed(_text_of(path), str(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error
    for override in overrides:
        _override(content, override)
    try:
        return RunFile.model_validate(content)
    except ValidationError as error:
        raise ConfigError(f"{path}: " + "; ".join(explain(error, content))) from error
    except RecursionError as error:
        raise ConfigError(f"{path}: {_TOO_DEEP}") from error


def read_run(content: Mapping[str, Any], overrides: Sequence[str] = ()) -> RunFile:
    """Return the run that a mapping describes, as a run file does: {"sources": [], "datasets": []}.

    Raises:
        ConfigError: an unknown key, or a value out of bounds.
    """
    changed = deepcopy(dict(content))
    for override in overrides:
        _override(changed, override)
    try:
        return RunFile.model_validate(changed)
    except ValidationError as error:
        raise ConfigError("run: " + "; ".join(explain(error, changed))) from error


def _text_of(path: Path) -> str:
    """Read a run file: a file, or the FIFO that a shell makes of <(...); a device may never end."""
    try:
        kind = kind_of(path.stat().st_mode)
        if kind not in (None, "a FIFO"):
            raise ConfigError(f"{path}: is {kind}, and a run file is a regular file or a FIFO; name one")
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path}: no such run file; name the one you have, or let `shardmill init FOLDER` write one"
            " for your texts"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


def _parsed(text: str, name: str) -> dict[str, Any]:
    """Parse TOML; `name` is what messages begin with.

    Raises:
        TOMLDecodeError: it is none.
        ConfigError: it is, but cannot be held.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:  # of Python's own conversion
        digits = sys.get_int_max_str_digits()
        raise ConfigError(
            f"{name}: holds a number of more than {digits:,} digits; shorten it"
        ) from error
    except RecursionError as error:
        raise ConfigError(f"{name}: {_TOO_DEEP}") from error


def _override(content: dict[str, Any], override: str) -> None:
    """Set one dotted key; the value is TOML, or a string if it is none.

    A source or a dataset goes by its name: sources.web.text_column=body.
    """
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set {override}: must be KEY=VALUE, such as packing.seq_len=1024")
    try:
        value = _parsed(f"value = {text}", f"--set {key}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *groups, last = key.split(".")
    table: Any = content
    for number, group in enumerate(groups):
        if isinstance(table, list):
            table = _named(table, group, override, ".".join(groups[:number]))
            continue
        table = table.setdefault(group, {})
        if not isinstance(table, dict | list):
            raise ConfigError(f"--set {override}: {group} is not a table")
    if isinstance(table, list):
        where = ".".join(groups)
        names = ", ".join(_by_name(table))
        ways = f"write {where}.NAME.{last}={text}; names: {names}" if names else _WHOLE_LIST
        raise ConfigError(f"--set {override}: {where} is a list; {ways}")
    table[last] = value


def _named(tables: list[Any], name: str, override: str, where: str) -> dict[str, Any]:
    """Return the table of that name, of a list such as `sources`."""
    found = _by_name(tables)
    if not found:
        raise ConfigError(f"--set {override}: {where} is a list; {_WHOLE_LIST}")
    if name not in found:
        known = ", ".join(found)
        raise ConfigError(f"--set {override}: {where} has none of the name {name!r}; there are {known}")
    return found[name]


def _by_name(tables: list[Any]) -> dict[str, dict[str, Any]]:
    """Return the tables of a list that have a name."""
    return {str(table["name"]): table for table in tables if isinstance(table, dict) and "name" in table}


class _ExplainedSchema(GenerateJsonSchema):
    """Says of each setting what it is for."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        meanings = meanings_of(schema["cls"])
        for name, setting in made.get("properties", {}).items():
            if name in meanings:
                setting.setdefault("description", meanings[name])
        return made


def run_file_schema() -> dict[str, Any]:
    """Return the schema."""
    return RunFile.model_json_schema(schema_generator=_ExplainedSchema)
