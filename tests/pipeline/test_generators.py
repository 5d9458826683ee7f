"""What planning promises of models in a run file: found and declared, or refused; none is called."""

import py_compile
from pathlib import Path

import pytest

from pipeline.run_file.config import RunFile
from pipeline.run_file.filters import require_generators
from stages.errors import ConfigError


def run_with(name: str) -> RunFile:
    """Return a run that asks a model."""
    objective = {"kind": "electra", "generator": "model", "model": name}
    return RunFile.model_validate(
        {
            "sources": [{"name": "web", "paths": ["*.jsonl"]}],
            "datasets": [{"name": "clm"}, {"name": "asked", "objective": objective}],
        }
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("os:system", "os does not declare that system makes a generator; if it does, write"),
        ("subprocess:run", 'write SHARDMILL_GENERATORS = ["run"] in that module'),
        ("posix:system", "posix does not declare that system makes a generator"),
        ("os.path:join", "os.path does not declare that join makes a generator"),
        ("no_such_module:make", "no such module here; install it beside shardmill"),
        ("no_such.module:make", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_what_is_no_generator_is_refused_when_the_run_is_planned(name: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        require_generators(run_with(name))
    assert str(caught.value).startswith(f"dataset 'asked': objective.model = '{name}': ")
    assert said in str(caught.value)


def test_a_declared_generator_is_taken_and_its_module_is_not_even_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    text = 'SHARDMILL_GENERATORS = ["make"]\nraise SystemExit("imported")\n'
    (tmp_path / "declared_well.py").write_text(text, encoding="utf-8")
    require_generators(run_with("declared_well:make"))


def test_a_package_that_fails_to_import_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "failing_package").mkdir()
    (tmp_path / "failing_package" / "__init__.py").write_text("raise ValueError('of its own')\n")
    with pytest.raises(ConfigError, match="cannot be imported: ValueError: of its own"):
        require_generators(run_with("failing_package.models:make"))


def test_a_module_without_source_is_left_to_the_worker_to_look_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "compiled.py").write_text("x = 1\n", encoding="utf-8")
    py_compile.compile(str(tmp_path / "compiled.py"), cfile=str(tmp_path / "compiled.pyc"))
    (tmp_path / "compiled.py").unlink()
    require_generators(run_with("compiled:make"))
