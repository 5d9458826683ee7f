"""What the rooms of the pipeline promise: each imports those below it and no other."""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.laws.tiny_run import TINY, write_tiny_corpus

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
    ("commands", "launch"): "likewise",
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


@pytest.mark.slow
def test_without_the_tools_a_run_is_made_verified_looked_at_and_opened(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(PIPELINE, tree / "pipeline", ignore=shutil.ignore_patterns("tools"))
    for name in ("stages", "shardmill"):  # with their compiled code
        (tree / name).symlink_to(PIPELINE.parent / name)
    write_tiny_corpus(tmp_path / "corpus")
    (tmp_path / "corpus" / "run.toml").write_text(TINY, encoding="utf-8")

    def called(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-P", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "200"},
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    shardmill = ("-m", "pipeline.main")
    assert "run " in called(*shardmill, "run", "corpus/run.toml", "--output", "run", "--workers", "0")
    assert "verify mlm: PASS" in called(*shardmill, "verify", "run", "--workers", "0", "--quiet")
    assert "shard-mlm" in called(*shardmill, "status", "run")
    opened = "import shardmill; print(len(shardmill.open_dataset('run/datasets/mlm')))"
    assert int(called("-c", opened)) > 10
    commands = called(*shardmill, "--help").partition("Commands:")[2].splitlines()
    left = ["plan", "run", "status", "verify", "inspect", "schema"]
    assert [line.split()[0] for line in commands if line.strip()] == left
