"""What benchmarks/drawn_faults.py promises: slips of every kind, each of which can be planted."""

import json
from pathlib import Path

import drawn_faults
import pytest
import reached_lines
from coverage import CoverageData
from mutant_trees import read_list
from reached_lines import ReachedLines

ROOT = Path(drawn_faults.__file__).parent.parent

MODULE = '''"""Text, 1 < 2."""

def f(a: int = 1, *, b: "list[int]" = []) -> bool:
    """More, not less."""
    if a < 2 and not b:
        print(a, f"{a + 1}")
    names = [one for one in b if one]
    return any(names) if a % 3 else True
'''


def planted(source: str) -> list[str]:
    """Return the lines of a module that each possible slip changes, as they are then."""
    data, found = source.encode(), []
    for slip in drawn_faults.slips(data):
        other = (data[: slip.begin] + slip.new.encode() + data[slip.end :]).decode()
        compile(other, "module", "exec")
        ours, theirs = source.splitlines(), other.splitlines()
        found += [line.strip() for number, line in enumerate(theirs) if line != ours[number]]
        assert ours[slip.line - 1] != theirs[slip.line - 1]
    return sorted(found)


def test_every_slip_changes_what_is_computed_and_nothing_else() -> None:
    assert planted(MODULE) == sorted(
        [
            'def f(a: int = 2, *, b: "list[int]" = []) -> bool:',
            "if (not (a < 2 and (not b))):",
            "if (a < 2 or not b):",
            "if (a <= 2) and not b:",
            "if a < 3 and not b:",
            "if a < 2 and (b):",
            "pass",
            "names = [one for one in b if True]",
            "return any(names) if (not (a % 3)) else True",
            "return any(names) if (a // 3) else True",
            "return any(names) if a % 4 else True",
            "return all(names) if a % 3 else True",
            "return any(names) if a % 3 else False",
        ]
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_a_seed_draws_the_same_faults_each_of_which_can_be_planted(seed: int, tmp_path: Path) -> None:
    drawn = drawn_faults.draw(seed, 40, ["stages/mixing"])
    assert drawn == drawn_faults.draw(seed, 40, ["stages/mixing"])
    assert drawn != drawn_faults.draw(seed + 2, 40, ["stages/mixing"])
    lines = [json.dumps(drawn_faults.mutant_of(path, slip, ["tests"])) for path, slip in drawn]
    (tmp_path / "list.jsonl").write_text("\n".join(lines))
    assert len(read_list(tmp_path / "list.jsonl", ROOT)) == 40


def test_the_tests_of_a_line_are_those_that_run_it_the_nearest_and_cheapest_first(
    tmp_path: Path,
) -> None:
    data = CoverageData(str(tmp_path / "coverage"))
    module = "/elsewhere/tree/stages/mixing/audit.py"
    for context, lines in {
        "": [1, 2],
        "tests/pipeline/test_far.py::test_dear|run": [7, 8],
        "tests/pipeline/test_far.py::test_cheap|call": [7],
        "tests/stages/mixing/test_near.py::test_it[a|b]|setup": [7],
    }.items():
        data.set_context(context)
        data.add_lines({module: lines})
    reached = ReachedLines(data, {"tests/pipeline/test_far.py::test_dear": 9.0})
    near, cheap = (
        "tests/stages/mixing/test_near.py::test_it[a|b]",
        "tests/pipeline/test_far.py::test_cheap",
    )
    dear = "tests/pipeline/test_far.py::test_dear"
    assert reached.tests_of("stages/mixing/audit.py", 7) == [near, cheap, dear]
    assert reached.tests_of("stages/mixing/audit.py", 8) == [dear]
    assert reached.tests_of("stages/mixing/audit.py", 99) == [near, cheap, dear], "of any line"


def test_a_module_that_no_test_runs_has_the_tests_that_import_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {
        "stages/audit.py": "",
        "tests/helper.py": "import stages.audit\n",
        "tests/test_near.py": "from tests import helper\n",
        "tests/test_far.py": "import stages.other\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(reached_lines, "ROOT", tmp_path)
    reached = ReachedLines(CoverageData(no_disk=True), {})
    assert reached.tests_of("stages/audit.py", 1) == ["tests/test_near.py"]
    assert reached.tests_of("stages/none.py", 1) == ["tests"]
