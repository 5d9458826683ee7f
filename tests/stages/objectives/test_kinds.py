"""What the table of kinds promises: a kind is whole, and nobody else asks which kind an objective is."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from stages.config import kind_name
from stages.objectives.clm.kind import CLM
from stages.objectives.kind import Composite, Kind
from stages.objectives.table import KINDS, components_of, read_objective, traits_of

ROOT = Path(__file__).resolve().parents[3]
CONFIGS = {kind.config.__name__: kind.config.__module__ for kind in KINDS.values()}


def asked_of(path: Path) -> Iterator[str]:
    """Return the names of classes that a file asks objects about: in isinstance, and in patterns."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "isinstance"
        ):
            yield from (part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name))
        elif isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Name):
            yield node.cls.id


def test_no_module_asks_which_kind_an_objective_is_but_the_kinds_own() -> None:
    paths = [path for folder in ("stages", "pipeline") for path in (ROOT / folder).rglob("*.py")]
    assert len(paths) > 200
    found = {
        (name, path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."))
        for path in paths
        for name in asked_of(path)
        if name in CONFIGS
    }
    assert found == {("NextSentence", CONFIGS["NextSentence"])}


def test_a_kind_that_lacks_something_is_an_error_at_once() -> None:
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'restore'"):
        Kind(  # type: ignore[call-arg]  # what is tested
            config=CLM.config,
            traits=CLM.traits,
            widths=CLM.widths,
            special_names=CLM.special_names,
            draw=CLM.draw,
            compiled=CLM.compiled,
            learning=CLM.learning,
            questions=CLM.questions,
            laws=CLM.laws,
            draws=CLM.draws,
            category=CLM.category,
        )


def test_a_kind_that_is_missing_in_the_table_is_named() -> None:
    folders = [path.parent.name for path in (ROOT / "stages" / "objectives").glob("*/kind.py")]
    assert len(folders) > 8
    made = {
        (folder, name)
        for folder in folders
        for name, value in vars(import_module(f"stages.objectives.{folder}.kind")).items()
        if isinstance(value, Kind | Composite) and value not in KINDS.values()
    }
    assert made == set(), "put them into SIMPLE_KINDS in stages/objectives/simple_kinds.py"


def test_the_table_has_each_kind_under_its_name() -> None:
    assert list(KINDS) == sorted(KINDS)
    for name, kind in KINDS.items():
        assert kind.name == name
        assert kind_name(kind.config) == name


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if isinstance(kind, Composite)])
def test_a_composite_has_components_that_are_none(name: str) -> None:
    content: dict[str, object] = {"kind": name}
    if name == "mixture":
        content["components"] = [{"objective": {"kind": "clm"}}, {"objective": {"kind": "fim"}}]
    parts = components_of(read_objective(content))
    assert len(parts) > 1
    assert not any(components_of(part) for part in parts)


def test_what_is_drawn_when_it_is_read_and_what_is_written_say_how() -> None:
    for name, kind in KINDS.items():
        if isinstance(kind, Kind):
            written = bool(traits_of(read_objective({"kind": name})).written_for)
            assert (kind.epoch_draws if written else kind.draw) is not None, name
