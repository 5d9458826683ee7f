"""What the rooms of the pipeline promise: each imports those below it and no other."""

import ast
from collections.abc import Iterator
from pathlib import Path

PIPELINE = Path(__file__).resolve().parents[2] / "pipeline"
ROOMS = (
    "system",
    "run_file",
    "inputs",
    "state",
    "engine",
    "steps",
    "planning",
    "report",
    "session",
    "commands",
    "tools",
    "cli",
    "main",
)
"""From the lowest to the highest."""


OF_TOOLS = {
    ("commands", "compare"): "the commands of all tools",
    ("commands", "export"): "likewise",
    ("commands", "init"): "likewise",
    ("commands", "tokenizer"): "likewise",
    ("tokenizer", "export"): "a tokenizer's folder is made as an export's is; both read kept texts",
}
"""Which tool imports which other, and why."""


def arrows(folder: Path = PIPELINE) -> Iterator[tuple[str, str]]:
    """Yield which room of a folder imports which, module by module."""
    inside = folder.relative_to(PIPELINE.parent).parts
    for path in folder.rglob("*.py"):
        room = path.relative_to(folder).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert not node.level
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
                parts = tuple(name.split("."))
                if parts[: len(inside)] == inside and parts[len(inside)] != room:
                    yield room, parts[len(inside)]


def test_every_room_is_known_and_imports_only_those_below_it() -> None:
    rooms = {path.stem for path in PIPELINE.iterdir() if path.name not in ("__init__.py", "__pycache__")}
    assert rooms == set(ROOMS)
    found = set(arrows())
    assert len(found) > len(ROOMS)
    assert [one for one in found if ROOMS.index(one[1]) > ROOMS.index(one[0])] == []


def test_only_the_command_line_imports_tools() -> None:
    assert {room for room, used in arrows() if used == "tools"} == {"cli"}


def test_tools_import_each_other_only_where_the_table_says_why() -> None:
    assert set(arrows(PIPELINE / "tools")) == OF_TOOLS.keys()
