"""What names in the code promise: a word has one meaning, which a reader finds in the glossary.

The second part of coined_words.txt lists words that had none or several, and the names that may have
them.
"""

import ast
import fnmatch
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.prose import ROOT, listed_words

PACKAGES = ("pipeline", "stages", "shardmill")
LISTED = listed_words("identifiers")


class Name(NamedTuple):
    """A name that code defines."""

    path: str
    line: int
    name: str


_NAMED = {
    ast.FunctionDef: "name",
    ast.ClassDef: "name",
    ast.arg: "arg",
    ast.Name: "id",
    ast.Attribute: "attr",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
}
"""What defines a name, and where it has it."""
_NONE = frozenset({ast.Load, ast.Store, ast.Constant, ast.alias})
"""What defines none, nor holds what does: most of a tree."""


def defined(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of all that is defined: what is imported is looked at where it is."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        field = _NAMED.get(type(node))
        if field is not None and type(getattr(node, "ctx", None)) is not ast.Load:
            name = getattr(node, field)
            if name is not None:
                yield node.lineno, name  # type: ignore[attr-defined]  # each of these has a line
        for one in vars(node).values():
            if type(one) is list:
                waiting += (
                    each for each in one if isinstance(each, ast.AST) and type(each) not in _NONE
                )
            elif isinstance(one, ast.AST) and type(one) not in _NONE:
                waiting.append(one)


@cache
def words_of(name: str) -> str:
    """Return the words of a name, as in "_unit_run_" for UnitRun, _UNIT_RUN and unit_run."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    return f"_{'_'.join(parts).lower()}_"


def has(name: str, word: str) -> bool:
    """Say whether a name has a word; one with a capital is the whole name of a class."""
    return name.lstrip("_") == word if word[0].isupper() else f"_{word}_" in words_of(name)


@cache
def names() -> tuple[Name, ...]:
    """Return all names of the code, and those of its modules and folders, each once a module."""
    found = dict[tuple[str, str], Name]()
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        own = [(1, part) for part in Path(place).with_suffix("").parts]
        for line, name in [*own, *defined(ast.parse(path.read_bytes()))]:
            found.setdefault((place, name), Name(place, line, name))
    return tuple(found.values())


def faults(found: tuple[Name, ...], word: str, allowed: str, instead: str) -> list[str]:
    """Return a message for each name that has a word and is not among those that may."""
    return [
        f"{one.path}:{one.line}: the name {one.name!r} has the word {word!r}; write: {instead}. A name"
        " that must have it is listed in tests/docs/coined_words.txt"
        for one in found
        if has(one.name, word)
        and not any(fnmatch.fnmatch(f"{one.path}:{one.name}", glob) for glob in allowed.split())
    ]


def test_there_are_names_to_look_at() -> None:
    assert len(names()) > 10_000
    assert all(len(line) == 3 for line in LISTED)


@pytest.mark.parametrize(("word", "allowed", "instead"), LISTED, ids=[line[0] for line in LISTED])
def test_no_name_has_a_word_in_another_sense(word: str, allowed: str, instead: str) -> None:
    there = faults(names(), word, allowed, instead)
    assert not there, "\n".join(there)


def test_names_that_may_have_a_word_are_there() -> None:
    there = [f"{one.path}:{one.name}" for one in names()]
    gone = [
        f"{word}: {glob}"
        for word, allowed, _ in LISTED
        for glob in allowed.split()
        if glob != "-" and not fnmatch.filter(there, glob)
    ]
    assert not gone, "\n".join(gone)


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("class UnitRun: ...", 1),
        ("\ndef f(unit_run: int) -> None: ...", 2),
        ("class A:\n    def f(self) -> None:\n        self.unit_run = 1", 3),
        ("_UNIT_RUN = 1", 1),
        ("for _, (unit_run, _) in []: ...", 1),
    ],
)
def test_a_new_name_is_found_wherever_it_is_defined(code: str, line: int) -> None:
    found = tuple(Name("stages/a.py", *one) for one in defined(ast.parse(code)))
    (message,) = faults(found, "unit_run", "pipeline/*", "group")
    assert message.startswith(f"stages/a.py:{line}: ")
    assert "has the word 'unit_run'; write: group. " in message


@pytest.mark.parametrize("code", ["from a import UnitRun", "unit_running = 1", "x.unit_run()"])
def test_a_name_that_is_used_or_longer_is_none(code: str) -> None:
    found = tuple(Name("stages/a.py", *one) for one in defined(ast.parse(code)))
    assert not faults(found, "unit_run", "-", "group")
