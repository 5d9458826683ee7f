"""What trials of campaigns promise: after a stop the rest is done, and the table is the unbroken one."""

import argparse
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from long_tests import FinishedFiles
from target_tables import HERE as BENCHMARKS
from trial_lines import Tally, Trials, add_trial_options, conduct, read_lines

NUMBER = 6
SETTINGS = {"number": NUMBER}


def given(words: list[str]) -> argparse.Namespace:
    """What the command line of a campaign asks for."""
    parser = argparse.ArgumentParser()
    add_trial_options(parser)
    return parser.parse_args(words)


class ToyCampaign:
    """Trials that square a number; number 4 fails.

    Args:
        stop: the trial in which a signal comes, if any.
        swallowed: whether what the trial calls handles the signal itself.
    """

    def __init__(self, *, stop: int | None = None, swallowed: bool = False) -> None:
        self.stop, self.swallowed, self.done = stop, swallowed, list[int]()

    def square(self, number: int, base: int, trials: Trials) -> dict[str, Any]:
        """Do one trial."""
        self.done.append(number)
        if not self.done[1:]:
            trials.new_folder()
        if number == self.stop:
            before = signal.getsignal(signal.SIGTERM)
            if self.swallowed:
                signal.signal(signal.SIGTERM, lambda *_: None)
            os.kill(os.getpid(), signal.SIGTERM)
            signal.signal(signal.SIGTERM, before)
        return {"square": base + number**2, "pair": (number, number)}

    def body(self, trials: Trials) -> int:
        """Do the campaign and print its table."""
        base = trials.fact("base", lambda: 10)
        found = [
            trials.trial(
                str(number),
                partial(self.square, number, base, trials),
                failed=lambda one: one["square"] == 10 + 16,
            )
            for number in range(NUMBER)
        ]
        print(*found, sep="\n")  # noqa: T201  # as campaigns do
        return int(trials.tally.failed > 0)

    def conduct(self, work: Path, *words: str, code: str = "this", **settings: int) -> int:
        """Do the campaign in a folder."""
        asked = {**SETTINGS, **settings}
        return conduct(self.body, given([*words]), asked, work=work, code=code)


def without_seconds(said: str) -> list[str]:
    """What a campaign printed, but for the line of its seconds."""
    return said.splitlines()[:-1]


@pytest.mark.parametrize("swallowed", [False, True])
def test_a_campaign_that_a_signal_stops_goes_on_to_the_table_of_an_unbroken_one(
    swallowed: bool,  # noqa: FBT001  # a parameter of the test
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ToyCampaign().conduct(tmp_path / "unbroken") == 1
    unbroken = without_seconds(capsys.readouterr().out)
    assert len(unbroken) == NUMBER
    before = signal.getsignal(signal.SIGTERM)
    work, stopped = tmp_path / "broken", ToyCampaign(stop=3, swallowed=swallowed)
    assert stopped.conduct(work) == 75
    assert signal.getsignal(signal.SIGTERM) == before
    assert "stopped: 3 trials, 0 failed" in capsys.readouterr().err
    (work / "left").touch()
    rest = ToyCampaign()
    assert rest.conduct(work, "--continue") == 1
    assert (stopped.done, rest.done) == ([0, 1, 2, 3], [3, 4, 5])
    assert not (work / "left").exists()
    assert without_seconds(capsys.readouterr().out) == unbroken


def test_a_finished_campaign_tells_the_same_at_once_with_the_same_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ToyCampaign().conduct(tmp_path / "toy") == 1
    said = capsys.readouterr().out
    again = ToyCampaign()
    assert again.conduct(tmp_path / "toy", "--continue") == 1
    assert again.done == []
    assert capsys.readouterr().out == said
    assert Tally.read(tmp_path / "toy.jsonl").failed == 1


@pytest.mark.parametrize("kept", [1, 40])
def test_a_last_line_that_was_cut_is_tried_again(
    kept: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "toy.jsonl"
    ToyCampaign().conduct(tmp_path / "toy")
    said = without_seconds(capsys.readouterr().out)
    whole = lines.read_bytes().splitlines(keepends=True)
    lines.write_bytes(b"".join(whole[:-1]) + whole[-1][:kept])
    assert len(read_lines(lines)) == len(whole) - 1
    again = ToyCampaign()
    again.conduct(tmp_path / "toy", "--continue")
    assert again.done == [NUMBER - 1]
    assert without_seconds(capsys.readouterr().out) == said
    assert all(json.loads(line) for line in lines.read_bytes().splitlines())


@pytest.mark.parametrize("change", [{"code": "other"}, {"seed": 2}])
def test_lines_of_other_code_or_settings_do_not_count(
    change: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work, lines = tmp_path / "toy", tmp_path / "toy.jsonl"
    ToyCampaign(stop=2).conduct(work)
    capsys.readouterr()
    other = ToyCampaign()
    other.conduct(work, "--continue", **change)
    assert other.done == list(range(NUMBER))
    assert "2 trials of other code or settings are not counted" in capsys.readouterr().err
    assert Tally.read(lines).trials == NUMBER
    back = ToyCampaign()
    back.conduct(work, "--continue")
    assert back.done == list(range(2, NUMBER))


def test_nothing_that_may_be_wanted_is_overwritten_or_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work, lines = tmp_path / "toy", tmp_path / "toy.jsonl"
    ToyCampaign(stop=2).conduct(work)
    own = tmp_path / "own"
    own.mkdir()
    (own / "thesis").touch()
    elsewhere = ["--json", str(tmp_path / "other.jsonl")]
    before = lines.read_bytes()
    for folder, words, said in (
        (work, [], f"{lines}: has the lines of a campaign; go on with --continue"),
        (work, elsewhere, f"{work}: is of another campaign; go on with --continue"),
        (own, ["--continue"], f"{own}: holds files of something else; name a new folder"),
    ):
        capsys.readouterr()
        with pytest.raises(SystemExit, match="2"):
            ToyCampaign().conduct(folder, *words)
        assert said in capsys.readouterr().err
    assert lines.read_bytes() == before
    assert (own / "thesis").exists()


def test_a_line_that_is_none_is_refused_by_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ToyCampaign(stop=2).conduct(tmp_path / "toy")
    with (tmp_path / "toy.jsonl").open("a") as file:
        file.write("{\n")
    with pytest.raises(SystemExit, match="2"):
        ToyCampaign().conduct(tmp_path / "toy", "--continue")
    assert "toy.jsonl, line 5: no line of a campaign" in capsys.readouterr().err


TOY_SCRIPT = """
import argparse, os, signal, sys
from pathlib import Path
sys.path.insert(0, "BENCHMARKS")
from trial_lines import add_trial_options, conduct

def do(number):
    mark = Path(given.work).with_suffix(".stop")
    if given.stop == number and not mark.exists():
        mark.touch()
        os.kill(os.getppid(), signal.SIGTERM)  # the driver's, which stops this one
        signal.pause()
    return {"number": number}

def body(trials):
    for number in range(4):
        trials.trial(str(number), lambda: do(number), failed=lambda one: one["number"] == given.failing)
    return int(trials.tally.failed > 0)

parser = argparse.ArgumentParser()
parser.add_argument("work", type=Path)
parser.add_argument("--stop", type=int)
parser.add_argument("--failing", type=int)
add_trial_options(parser)
given = parser.parse_args()
sys.exit(conduct(body, given, {"failing": given.failing}, work=given.work, code="this"))
"""
TOY_LIST = """
[one]
answers = "What comes of a campaign in which the driver is stopped?"
takes = "seconds"
commands = ["SCRIPT $WORK --stop 2"]
small = ["SCRIPT $WORK"]

[two]
answers = "And of one that fails?"
takes = "seconds"
commands = ["SCRIPT $WORK --failing 1"]

[three]
answers = "And of one that cannot be done here?"
takes = "seconds"
commands = ["SCRIPT $WORK $LACKED"]
"""


def test_all_campaigns_stop_and_go_on_and_end_in_one_table(tmp_path: Path) -> None:
    script, listed = tmp_path / "toy.py", tmp_path / "list.toml"
    script.write_text(TOY_SCRIPT.replace("BENCHMARKS", str(BENCHMARKS)))
    listed.write_text(TOY_LIST.replace("SCRIPT", str(script)))
    command = [sys.executable, str(BENCHMARKS / "campaigns.py"), str(tmp_path / "all")]
    done = [
        subprocess.run(
            [*command, "--list", str(listed), *words], capture_output=True, text=True, check=False
        )
        for words in ([], [], ["--short"])
    ]
    assert [one.returncode for one in done] == [75, 1, 0], done
    stopped, whole, short = (one.stdout.split("\n\n")[1].splitlines() for one in done)
    lines = tmp_path / "all" / "long"
    assert [row.split()[0] for row in stopped] == ["campaign", "one", "two", "three", "stopped;"]
    assert stopped[1].split() == ["one", "2", "0", "0", "75", str(lines / "one.jsonl")]
    assert stopped[2].split() == ["two", "not", "begun"]
    assert whole[1].split() == ["one", "4", "0", "0", "0", str(lines / "one.jsonl")]
    assert whole[2].split() == ["two", "4", "1", "0", "1", str(lines / "two.jsonl")]
    assert whole[3].endswith("left out: LACKED has no value: LACKED=...")
    assert short[1].split()[:5] == ["one", "4", "0", "0", "0"]
    assert short[2].endswith("left out: has no small form")


def a_part(name: str, when: Literal["setup", "call", "teardown"], *, passes: bool) -> pytest.TestReport:
    """A part of a test that ended after a quarter of a second."""
    outcome: Literal["passed", "failed"] = "passed" if passes else "failed"
    return pytest.TestReport(name, ("", 1, ""), {}, outcome, None, when, duration=0.25)


def test_a_file_of_tests_has_its_line_when_its_last_test_has_ended() -> None:
    trials = Trials(None, "stamp")
    plugin = FinishedFiles(trials, {"a.py": "1", "b.py": "2"})
    plugin.pytest_xdist_node_collection_finished(["a.py::x", "b.py::y", "a.py::z"])
    for name, passes in (("a.py::x", True), ("b.py::y", True), ("a.py::z", False)):
        assert "a.py" not in trials.lines
        for when in ("setup", "call", "teardown"):
            plugin.pytest_runtest_logreport(a_part(name, when, passes=passes or when != "call"))
    assert [trials.lines[file].failed for file in ("a.py", "b.py")] == [True, False]
    assert trials.lines["a.py"].result == {"digest": "1", "tests": 2, "failed": ["a.py::z"]}
    assert trials.lines["a.py"].seconds == 1.5
