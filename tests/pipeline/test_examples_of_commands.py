"""What the examples under `--help` promise: every command has some, and each is a call that is taken."""

import shlex
from pathlib import Path

import pytest
import typer

from pipeline.cli import app
from pipeline.commands.options import EXAMPLES
from tests.called import called
from tests.docs.generated_pages import COMMANDS

ROOT = typer.main.get_command(app)


def test_every_command_has_examples() -> None:
    assert EXAMPLES.keys() == set(COMMANDS) - {"launch", "tokenizer"}


@pytest.mark.parametrize("command", EXAMPLES)
def test_its_help_shows_them(command: str, tmp_path: Path) -> None:
    shown = [called(*command.split(), option, cwd=tmp_path) for option in ("--help", "-h")]
    assert shown[0].stdout == shown[1].stdout
    assert [one.returncode for one in shown] == [0, 0]
    for example in EXAMPLES[command]:
        assert f"\n    {example}\n" in shown[0].stdout


@pytest.mark.parametrize("example", [line for lines in EXAMPLES.values() for line in lines])
def test_it_is_parsed(example: str) -> None:
    words = shlex.split(example.partition(" > ")[0])
    command = next(name for name, lines in EXAMPLES.items() if example in lines)
    assert words[0] == "shardmill"
    assert words[1 : 1 + len(command.split())] == command.split()
    context, left = ROOT.make_context("shardmill", words[1:]), words[1:]
    for name in command.split():
        group = context.command
        found = group.get_command(context, name)  # type: ignore[attr-defined]  # it is a group
        left = left[1:]
        context = found.make_context(name, list(left), parent=context)
    assert context.info_name == command.split()[-1]


def test_completion_can_be_installed(tmp_path: Path) -> None:
    said = called("--help", cwd=tmp_path).stdout
    assert "--install-completion" in said
    assert "--show-completion" in said
