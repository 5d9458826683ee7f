"""Every option of every command says what it does, every command has examples, every setting is told."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from pipeline.cli import app
from pipeline.commands.options import EXAMPLES
from pipeline.run_file.load import run_file_schema


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each command by its full name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


ALL = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("name", ALL)
def test_every_option_and_command_says_what_it_is_for(name: str) -> None:
    command = ALL[name]
    assert command.help
    assert EXAMPLES[name]
    for parameter in command.params:
        assert len(getattr(parameter, "help", None) or "") > 5, f"{name} {parameter.name}"


def undocumented(schema: Any, definitions: Any, place: str, seen: set[str]) -> Iterator[str]:
    """Yield the settings of a table, and of those in it, that neither they nor their tables describe."""
    for name, content in schema.get("properties", {}).items():
        tables = [key for key in definitions if f"'#/$defs/{key}'" in str(content)]
        described = tables and all(definitions[key].get("description") for key in tables)
        if not content.get("description") and "const" not in content and not described:
            yield f"{place}.{name}"
        for key in tables:
            if key not in seen:
                seen.add(key)
                yield from undocumented(definitions[key], definitions, key, seen)


def test_every_setting_has_a_description() -> None:
    schema = run_file_schema()
    assert sorted(undocumented(schema, schema["$defs"], "", set())) == []
