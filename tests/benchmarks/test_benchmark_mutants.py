"""What benchmarks/mutants.py promises: each fault planted alone, into a copy, and a true count."""

import json
import os
from pathlib import Path
from typing import Any

import mutant_trees
import mutants
import pytest
from mutant_trees import BrokenError, mirrored_tests, read_list

SUM = '''"""Sums."""

from store.digits import BASE


def add(first: int, second: int) -> int:
    """Return a sum."""
    left = second
    while left > 0:
        first, left = first + 1, left - 1
    return first % BASE


def scale(number: int) -> int:
    """Return a number, scaled."""
    return number * 2
'''
TESTS = """from store.sums import add

def test_a_sum_of_two_numbers():
    assert add(2, 3) == 5
"""


def line(old: str, new: str, equivalent: str = "", **changes: Any) -> str:
    """Return a line of a list, about the tiny tree's sums unless told otherwise."""
    content = {"file": "store/sums.py", "old": old, "new": new, "tests": ["tests/store/test_sums.py"]}
    return json.dumps({**content, "equivalent": equivalent, **changes})


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of two modules and one test, which needs none of our plugins and libraries."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(mutant_trees, "LIBRARIES", ("pytest",))
    root = tmp_path / "tree"
    for name, text in {
        "store/__init__.py": "",
        "store/digits.py": "BASE = 1000\n",
        "store/sums.py": SUM,
        "tests/store/test_sums.py": TESTS,
        "tests/store/test_more.py": "def test_nothing():\n    assert True\n",
    }.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return root


def call(tree: Path, lines: list[str], *options: str) -> int:
    """Try the mutants of a list."""
    path, results = tree.parent / "list.jsonl", tree.parent / "results.jsonl"
    path.write_text("\n".join(lines))
    return mutants.main([str(path), "--root", str(tree), "--results", str(results), *options])


def test_each_mutant_is_noticed_unnoticed_equivalent_or_without_end_and_counted_as_such(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in tree.rglob("*.*")}
    lines = [
        line("first + 1, left", "first + 2, left"),
        line("left - 1\n", "left + 0\n"),
        line("number * 2", "number * 3"),
        line("left > 0", "left >= 1", "whole numbers"),
        line("BASE = 1000", "BASE = 4", file="store/digits.py"),
    ]
    options = ("--patience", "2", "--jobs", "2", "--reach", "named")
    assert call(tree, lines, *options) == 3
    printed = capsys.readouterr().out
    assert "| store | 5 | 1 | 3 | 1 |" in printed
    assert "noticed 3 of 4 (75.0%); at least 99% must be" in printed
    assert call(tree, lines, *options, "--least", "0.75") == 0
    assert "UNNOTICED: store/sums.py: 'number * 2' -> 'number * 3'" in printed
    assert "equivalent: store/sums.py: 'left > 0' -> 'left >= 1': whole numbers" in printed
    assert "hangs: store/sums.py: 'left - 1' -> 'left + 0'" in printed
    assert before == {path: path.read_bytes() for path in tree.rglob("*.*")}


def test_a_mutant_whose_tests_took_too_long_together_is_unnoticed(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = tree.parent / "ended"
    body = f"time.sleep(2)\n    pathlib.Path({str(ended)!r}).touch()"
    slow = f"import pathlib\nimport time\n\n\ndef test_first():\n    {body}\n\n\n"
    slow += "def test_second():\n    time.sleep(3)\n\n\n"
    test = tree / "tests/store/test_sums.py"
    test.write_text(f"{slow}{test.read_text()}")
    lines = [line("first + 1, left", "first + 2, left")]
    assert call(tree, lines, "--budget", "0.5", "--reach", "named") == 3
    assert "UNNOTICED" in capsys.readouterr().out
    assert ended.exists(), "a test that has begun comes to its end"
    assert call(tree, lines, "--reach", "named") == 0


def test_results_are_kept_and_only_what_changed_is_tried_again(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line("first + 1, left", "first + 2, left")]
    noticed = "(tests/store/test_sums.py::test_a_sum_of_two_numbers)"
    helper = tree / "tests" / "helper.py"
    helper.write_text("FIVE = 5\n")
    test = tree / "tests/store/test_sums.py"
    test.write_text(f"from tests.helper import FIVE\n{TESTS.replace('5', 'FIVE')}")
    assert call(tree, lines) == 0
    assert noticed in capsys.readouterr().out
    assert call(tree, lines) == 0
    assert "1 mutants, 0 to try" in capsys.readouterr().out
    helper.write_text("FIVE = 4 + 1\n")
    assert call(tree, lines) == 0, "what a test imports has changed"
    assert noticed in capsys.readouterr().out
    test.write_text("def test_nothing():\n    assert True\n")
    assert call(tree, lines) == 3
    assert "UNNOTICED" in capsys.readouterr().out


def test_an_equivalent_mutant_that_a_test_notices_is_no_such_thing(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tree, [line("first + 1, left", "first + 2, left", "so one says")]) == 3
    assert "CALLED EQUIVALENT, but tests/store/test_sums.py" in capsys.readouterr().out


def test_tests_that_fail_without_a_mutant_teach_nothing(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "tests/store/test_sums.py").write_text("def test_it():\n    assert False\n")
    assert call(tree, [line("number * 2", "number * 3")]) == 2
    assert "test_sums.py::test_it fails without any mutant" in capsys.readouterr().err


def test_mutants_whose_tests_all_fail_without_them_are_named_and_the_others_tried(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "tests/store/test_broken.py").write_text("def test_it():\n    assert False\n")
    broken = json.loads(line("number * 2", "number * 3")) | {"tests": ["tests/store/test_broken.py"]}
    assert call(tree, [json.dumps(broken), line("first + 1, left", "first + 2, left")]) == 2
    told = capsys.readouterr()
    assert "UNTRIED: store/sums.py: 'number * 2' -> 'number * 3': tests/store/test_broken.py" in told.err
    assert "1 mutants were not tried: their tests fail without them" in told.err
    assert "noticed 1 of 1 (100.0%)" in told.out


def test_a_test_that_fails_without_a_mutant_is_left_out_beside_others(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = tree / "tests/store/test_sums.py"
    test.write_text(f"def test_it():\n    assert False\n\n{TESTS}")
    assert call(tree, [line("first + 1, left", "first + 2, left")]) == 0
    said = capsys.readouterr()
    assert "(tests/store/test_sums.py::test_a_sum_of_two_numbers)" in said.out
    assert "left out: tests/store/test_sums.py::test_it" in said.err


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("{", "line 1: not JSON"),
        ('{"file": "store/sums.py"}', "must have exactly the keys equivalent, file, new, old, tests"),
        (line("number * 9", "1"), r"store/sums.py: 'number \* 9' is there 0 times"),
        (line("left", "right"), r"store/sums.py: 'left' is there \d times; it must be there once"),
        (line("number * 2", "number *"), "is no Python"),
        (line("number * 2", "1", file="store/none.py"), "store/none.py: no such file"),
        (line("number * 2", "1", tests=["tests/none.py"]), "no such tests: tests/none.py"),
        (
            line("number * 2", "1", tests=["tests/store/test_sums.py::test_none"]),
            "no such tests: tests/store/test_sums.py::test_none",
        ),
        (line("number * 2", "1", tests=[]), "no such tests: none named"),
        (f"{line('number * 2', '1')}\n{line('number * 2', '1')}", "'number \\* 2' is there twice"),
    ],
)
def test_a_mutant_that_cannot_be_planted_is_named(wrong: str, message: str, tree: Path) -> None:
    path = tree.parent / "list.jsonl"
    path.write_text(wrong)
    with pytest.raises(BrokenError, match=message):
        read_list(path, tree)


def test_the_tests_that_mirror_a_file_are_the_nearest_folder(tree: Path) -> None:
    assert mirrored_tests("store/sums.py", tree) == ("tests/store",)
    assert mirrored_tests("store/deeper/sums.py", tree) == ("tests/store",)
    assert mirrored_tests("sums.py", tree) == ("tests",)


def test_every_mutant_of_the_list_can_be_planted_today() -> None:
    root = Path(mutants.__file__).parent.parent
    listed = read_list(root / "benchmarks" / "mutants.jsonl", root)
    assert len(listed) > 50
    assert os.path.commonpath([one.file for one in listed]) == ""
