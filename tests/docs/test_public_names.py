"""What the package `shardmill` promises: each public name is there, typed, and costs nothing unused."""

import ast
import inspect
import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import shardmill
from pipeline.cli import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("name", shardmill.__all__)
def test_a_public_name_is_there_and_says_what_it_is(name: str) -> None:
    value = getattr(shardmill, name)
    if name != "Batch":  # the name of a type
        assert inspect.getdoc(value)
    assert name in dir(shardmill)


def test_the_types_that_a_checker_sees_are_those_that_are_imported() -> None:
    tree = ast.parse(Path(shardmill.__file__).read_text(encoding="utf-8"))
    typed = next(node for node in tree.body if isinstance(node, ast.If) and len(node.body) > 1)
    seen = {
        alias.name: node.module
        for node in typed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == shardmill._HOMES  # noqa: SLF001  # what is compared
    assert sorted(seen) == sorted(shardmill.__all__)


def test_the_version_is_the_installed_one_and_a_stranger_is_refused() -> None:
    assert shardmill.__version__ == version("shardmill")
    with pytest.raises(AttributeError, match="module 'shardmill' has no attribute 'walk'"):
        _ = shardmill.walk  # type: ignore[attr-defined]  # what is tested


def test_importing_shardmill_imports_nothing_of_what_it_offers() -> None:
    program = "import sys, json, shardmill; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = set(json.loads(done.stdout))
    assert "shardmill" in loaded
    assert not {name for name in loaded if name.startswith(("stages.", "pipeline"))}
    assert not loaded & {"numpy", "pydantic", "torch"}


def test_pages_and_examples_name_no_internal_package() -> None:
    blocks = [
        block
        for page in PAGES
        for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    ]
    programs = [*blocks, *(path.read_text(encoding="utf-8") for path in EXAMPLES)]
    assert len(programs) > 10
    found = [
        line
        for program in programs
        for line in program.splitlines()
        if re.match(r"\s*(from|import) (stages|pipeline)\b", line)
    ]
    assert found == []


def test_the_functions_do_what_the_commands_do(reference: Path) -> None:
    row = shardmill.inspect(reference, "clm", row=1)
    assert row["dataset"] == "clm"


def test_an_option_that_a_function_and_its_command_have_is_the_same_by_default() -> None:
    called = [(one.name, one.callback) for one in app.registered_commands if one.callback]
    commands = {name or callback.__name__: callback for name, callback in called}
    pairs = [(name, name) for name in commands if name in shardmill.__all__]
    pairs.append(("export", "export_stages"))
    compared = {}
    for command, function in pairs:
        both = [
            {
                name: one.default
                for name, one in inspect.signature(either).parameters.items()
                if one.default is not one.empty
            }
            for either in (commands[command], getattr(shardmill, function))
        ]
        for name in both[0].keys() & both[1].keys():
            asked, given = (str(one[name] or "") for one in both)  # nothing: "", (), None, False, 0
            assert asked == given, (command, function, name)
            compared[function, name] = given
    assert len(compared) > 12, compared
