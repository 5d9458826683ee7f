"""What a file of tests rests on: the modules of the tree that it imports, and those that helpers import.

Tests share helpers, which are modules of `tests` and `benchmarks`; what these import counts, too. Of
the product only what is imported by name counts, not what that imports: nearly every test would rest on
nearly every module. For the same reason the `conftest.py` of all tests counts only for those that import
it.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

HELPERS = ("tests", "benchmarks")


@cache
def rests_on(root: Path, test: str) -> frozenset[Path]:
    """Return the files of the tree that a file or a folder of tests rests on, itself among them."""
    place = root / test
    known, new = set[Path](), set(place.rglob("*.py")) if place.is_dir() else {place}
    while new:
        known |= new
        helpers = [path for path in new if path.relative_to(root).parts[0] in HELPERS]
        new = set[Path]().union(*(_imported(root, path) for path in helpers)) - known
    return frozenset(known)


@cache
def _imported(root: Path, path: Path) -> frozenset[Path]:
    named = set(_names(ast.parse(path.read_bytes())))
    places = (base / name.replace(".", "/") for name in named for base in (root, root / "benchmarks"))
    found = (file for place in places for file in (place.with_suffix(".py"), place / "__init__.py"))
    return frozenset(file for file in found if file.is_file())


def _names(tree: ast.AST) -> Iterator[str]:
    """Yield the names of modules, and those that may be modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
