"""What the rooms of the pipeline promise: each imports those below it and no other."""

import ast
from collections.abc import Iterator
from pathlib import Path

PIPELINE = Path(__file__).resolve().parents[2] / "pipeline"
ROOMS = (
    "system",
    "run_file",
    "inputs",
    "init",
    "state",
    "engine",
    "steps",
    "planning",
    "report",
    "session",
    "commands",
    "tokenizer_cli",
    "compare_cli",
    "export_cli",
    "init_cli",
    "cli",
    "main",
)
"""From the lowest to the highest."""
UPWARDS = {("cli", "main")}
"""`python -m pipeline.cli` begins as the command does."""


def arrows() -> Iterator[tuple[str, str]]:
    """Yield which room imports which, module by module."""
    for path in PIPELINE.rglob("*.py"):
        room = path.relative_to(PIPELINE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert not node.level
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
                first, *rest = name.split(".")
                if first == "pipeline" and rest[0] != room:
                    yield room, rest[0]


def test_every_room_is_known_and_imports_only_those_below_it() -> None:
    rooms = {path.stem for path in PIPELINE.iterdir() if path.name not in ("__init__.py", "__pycache__")}
    assert rooms == set(ROOMS)
    found = set(arrows())
    assert len(found) > len(ROOMS)
    assert {one for one in found if ROOMS.index(one[1]) > ROOMS.index(one[0])} == UPWARDS
