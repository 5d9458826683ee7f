"""What is noted of the cost of tests, and that slow ones do not grow unseen."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiers

from tests.seconds import LEAST, grown

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
from tests.seconds import Seconds
def pytest_configure(config):
    config.pluginmanager.register(Seconds())
"""
TESTS = """
import time, pytest
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
@pytest.fixture(scope="session")
def shared():
    burn(0.4)
@pytest.fixture
def own():
    burn(0.06)
def test_of_its_own(shared, own):
    burn(0.06)
@pytest.mark.slow
def test_short():
    pass
"""


def test_a_test_may_take_twice_what_is_listed_times_what_this_machine_takes() -> None:
    listed = {"a": 2.0, "b": 3.0, "c": 5.0}
    assert list(grown({"a": 2.0, "b": 3.0, "c": 11.5, "d": 1.6}, listed)) == []
    assert list(grown({"a": 6.0, "b": 9.0, "c": 34.0, "d": 5.0}, listed)) == [], "three times as slow"
    (line,) = grown({"a": 2.0, "b": 3.0, "c": 11.6, "d": 1.6}, listed)
    assert line.startswith("SLOW: c takes 11.6 CPU s, and may take 11.5 on this machine (")
    (line,) = grown({"a": 2.0, "b": 3.0, "c": 5.0, "d": 1.8}, listed)
    assert "d takes 1.8" in line
    assert "not there" in line


def test_what_a_test_costs_is_its_own_part_and_kept_after_a_whole_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = tmp_path / "tests" / "pipeline"
    tests.mkdir(parents=True)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tests / "test_it.py").write_text(TESTS)
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\nmarkers = ["slow"]\n')
    name = "tests/pipeline/test_it.py::test_of_its_own"
    (tmp_path / "slow.json").write_text(json.dumps({name: 0.05}))
    listing = (
        "import tests.seconds as s, pathlib; s.SLOW = pathlib.Path('slow.json'); import pytest, sys; "
    )
    code = f"{listing}sys.exit(pytest.main(['-n', '2']))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    kept = json.loads((tmp_path / ".pytest_cache/v/tiers/seconds").read_text())
    assert 0.07 <= kept["all"][name] < 0.4, "not what is made for the session"
    assert kept["quick"] == [name]
    assert tiers.main(["--root", str(tmp_path), "--write"]) == 0
    printed = capsys.readouterr().out
    assert "| quick | make quick-test | 1 | 0 |" in printed
    assert "| whole | make test | 2 | 0 |" in printed
    slow = {name: seconds for name, seconds in kept["all"].items() if seconds >= LEAST}
    assert json.loads((tmp_path / "tests" / "slow.json").read_text()) == slow
