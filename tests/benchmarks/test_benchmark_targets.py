"""What the tables of benchmarks/ promise: each script that users are told of is in one, and runs."""

import importlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest
import targets
from small_material import make_small_material
from target_tables import (
    CAMPAIGNS,
    Target,
    TargetError,
    environment,
    lacking,
    program_of,
    read_targets,
    words_of,
)

from tests.made_once import MadeOnce

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
FIGURES, SEARCHES = read_targets(), read_targets(CAMPAIGNS)
TARGETS = [*FIGURES.values(), *SEARCHES.values()]
QUICK = [target for target in TARGETS if target.small and not target.slow]
SLOW = [target for target in TARGETS if target.small and target.slow]
BESIDE = {"campaigns", "encode_alone", "process_cost", "process_memory", "targets", "tiers"}
"""Programs that other scripts call, the two runners, and a tool of the Makefile."""
TELL = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "Makefile",
    *sorted((ROOT / "docs").rglob("*.md")),
]
named = partial(pytest.mark.parametrize, "target", ids=lambda target: target.name)


@pytest.fixture
def small(made_once: MadeOnce) -> Path:
    """Return what the small forms read."""
    return made_once(make_small_material)


def scripts_of(entries: Iterable[Target]) -> set[str]:
    """Return the scripts that targets call."""
    return {command.split()[0] for one in entries for command in one.commands} - {"shardmill"}


def test_every_script_with_a_main_is_in_one_table_and_none_is_missing() -> None:
    paths = [*BENCHMARKS.glob("*.py"), *BENCHMARKS.glob("oracles/*.py")]
    programs = {
        path.relative_to(BENCHMARKS).as_posix() for path in paths if '"__main__"' in path.read_text()
    }
    figures, searches = scripts_of(FIGURES.values()), scripts_of(SEARCHES.values())
    assert len(programs) > 50
    assert programs - figures - searches == {f"{name}.py" for name in BESIDE}
    assert figures | searches <= programs
    assert not figures & searches
    assert not FIGURES.keys() & SEARCHES.keys()


def test_no_module_of_tests_has_the_name_of_one_of_benchmarks() -> None:
    """Folders of both are on the path of tests, and which comes first depends on the tests that run."""
    names = {path.name for path in BENCHMARKS.glob("*.py")}
    assert len(names) > 50
    assert [path for path in (ROOT / "tests").rglob("*.py") if path.name in names] == []


def test_a_script_that_writes_trials_is_a_campaign() -> None:
    told = re.compile(r"\b(add_trial_options|campaign_main)\(")
    writers = {path.name for path in BENCHMARKS.glob("*.py") if told.search(path.read_text())}
    own = scripts_of(one for one in SEARCHES.values() if one.results)
    assert len(writers) > 15
    assert writers - {"trial_lines.py"} == scripts_of(SEARCHES.values()) - own


def test_every_script_that_a_page_or_the_makefile_names_is_in_a_table() -> None:
    said = {
        name for page in TELL for name in re.findall(r"python benchmarks/([\w/]+\.py)", page.read_text())
    }
    assert len(said) > 10
    assert said - scripts_of(TARGETS) <= {"campaigns.py", "targets.py", "tiers.py"}


def test_every_name_that_a_page_gives_make_is_in_its_table() -> None:
    told = "".join(page.read_text() for page in TELL)
    figures = set(re.findall(r"make figure NAME=(\w+)", told))
    searches = set(" ".join(re.findall(r"make campaign ONLY='?([\w -]+)", told)).split())
    assert min(len(figures), len(searches)) > 5
    assert figures <= FIGURES.keys()
    assert searches <= SEARCHES.keys()


@named(QUICK)
def test_a_small_form_runs_to_its_last_line(
    target: Target,
    small: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    for command in target.small:
        words = words_of(command, {"SMALL": str(small), "WORK": str(tmp_path / "work")})
        monkeypatch.setattr(sys, "argv", words)
        main = importlib.import_module(Path(words[0]).stem).main
        assert not main(), shlex.join(words)
    assert capsys.readouterr().out


@pytest.mark.campaign
@pytest.mark.slow
@named(SLOW)
def test_a_small_form_that_takes_long_runs_to_its_last_line(
    target: Target, small: Path, tmp_path: Path
) -> None:
    if missing := lacking(target.small_needs):
        pytest.skip(f"needs {missing}")
    given = {**os.environ, "ROOT": str(ROOT), "SMALL": str(small), "WORK": str(tmp_path / "work")}
    try:
        calls = [program_of(words_of(command, given)) for command in target.small]
    except TargetError as error:
        pytest.skip(str(error))
    for call in calls:
        done = subprocess.run(
            call, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout


def test_a_variable_is_one_word_and_dots_make_it_many() -> None:
    given = {"MODEL": "a b", "FILES": "c 'd e'", "WORK": "w"}
    words = words_of("encoders.py $MODEL $FILES... --json $WORK.json", given)
    assert words == ["encoders.py", "a b", "c", "d e", "--json", "w.json"]
    with pytest.raises(TargetError, match=r"CORPUS has no value: CORPUS=\.\.\."):
        words_of("filters.py --corpus $CORPUS", given)


def test_a_need_that_nobody_checks_is_refused() -> None:
    with pytest.raises(TargetError, match="x: needs luck: not one of"):
        Target("x", "?", ["a.py"], "seconds", needs=["luck"])
    assert lacking(["module none.of.these", "module json", "corpus"]) == "module none.of.these"


def test_the_list_has_the_call_of_each_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert targets.main([]) == 0
    out = capsys.readouterr().out
    assert "    make figure NAME=recall PAIRS=... RUN=...\n" in out
    assert out.count("make figure NAME=") == len(FIGURES)


def test_a_target_is_run_with_words_and_the_environment(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTHER", str(small / "run"))
    assert targets.main(["digests", f"RUN={small / 'run'}", f"WORK={tmp_path / 'work'}"]) == 0
    assert ", 0 differ" in capfd.readouterr().out
    monkeypatch.delenv("OTHER")
    with pytest.raises(SystemExit):
        targets.main(["digests", f"RUN={small / 'run'}", f"WORK={tmp_path / 'work'}"])
    assert "OTHER has no value" in capfd.readouterr().err
    assert "WORK" not in os.environ
