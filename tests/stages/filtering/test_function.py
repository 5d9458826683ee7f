"""What a user's own function promises: its answer decides, and its faults are said in one line."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from stages.errors import ConfigError, DataError
from stages.filtering.filter import Document, FilterConfig, Removal
from stages.filtering.function import UserFunction
from stages.filtering.table import filter_of

SOURCE = """
def keep(text, columns):
    known = {"a": True, "b": False, "c": "it is\\n  a c", "d": None, "e": 1}
    return known.get(text, columns == {"n": 3, "m": None})

def fail(text, columns):
    raise ValueError("no\\nsuch thing")

number = 7
"""
BASE = Path()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """The name of a new module with the functions above."""
    name = f"own_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    (tmp_path / "broken_module.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def resolved(name: str, **settings: object) -> FilterConfig:
    """Return the settings with the digest of the module's source."""
    config = UserFunction.model_validate({"function": name, **settings})
    return filter_of(config).resolve(config, BASE, "filters.0 (kind = 'function')")


def asked(config: FilterConfig, text: str, **values: object) -> object:
    """Return the verdict on a text."""
    return filter_of(config).open(config)(Document(text.encode(), len(text), values=values))


def test_the_answer_decides(module: str) -> None:
    config = resolved(f"{module}:keep")
    assert asked(config, "a") is None
    assert asked(config, "b") == Removal("dropped", f"{module}:keep returned False")
    assert asked(config, "c") == Removal("dropped", "it is a c")
    with_columns = resolved(f"{module}:keep", columns=["n", "m"])
    assert asked(with_columns, "x", n=3, other=4) is None
    assert isinstance(asked(with_columns, "x", n=4), Removal)


@pytest.mark.parametrize(("text", "kind"), [("d", "NoneType"), ("e", "int")])
def test_another_answer_is_an_error_that_says_what_is_needed(module: str, text: str, kind: str) -> None:
    message = (
        f"{module}:keep returned {kind}; it must return True to keep the document, or False or a text"
    )
    with pytest.raises(DataError, match=message):
        asked(resolved(f"{module}:keep"), text)


def test_what_the_function_raises_is_one_line(module: str) -> None:
    with pytest.raises(DataError, match=f"{module}:fail raised ValueError: no such thing; correct it"):
        asked(resolved(f"{module}:fail"), "a")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:keep", "No module named 'no_such_module'"),
        ("{}:none", "has no function 'none'"),
        ("{}:number", "has no function 'number'"),
        ("broken_module:keep", "ZeroDivisionError: division by zero"),
        ("builtins:exec", "module 'builtins' has no source in Python"),
        ("broken_module.inner:keep", "ZeroDivisionError"),
    ],
)
def test_what_cannot_be_imported_is_refused_when_the_run_is_planned(
    module: str, name: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        resolved(name.format(module))
    assert str(error.value).startswith("filters.0 (kind = 'function'): function = ")
    assert "importable wherever a worker runs" in str(error.value)


def test_another_source_than_that_of_the_plan_is_refused(module: str, tmp_path: Path) -> None:
    config = resolved(f"{module}:keep")
    with pytest.raises(ConfigError, match="digest = '0': the module's source has"):
        resolved(f"{module}:keep", digest="0")
    (tmp_path / f"{module}.py").write_text(SOURCE + "# changed\n")
    assert resolved(f"{module}:keep") != config
    with pytest.raises(DataError, match="its source is not the one that the run was planned with"):
        filter_of(config).open(config)


@pytest.mark.parametrize("name", ["keep", "module.keep", ":keep", "a b:keep", "a:b.c"])
def test_a_name_of_another_form_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="pattern"):
        UserFunction(function=name)
