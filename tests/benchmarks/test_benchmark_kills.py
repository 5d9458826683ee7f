"""What benchmarks/kills.py promises: kills spread over the run, losses seen, no campaign half passed."""

import argparse
import random
import statistics
import time
from pathlib import Path
from typing import Any

import pytest
from kill_figures import passed
from kill_stages import stages_of
from kill_victims import KINDS, drawn_victim
from kills import Kill, add_recovery, begun_units
from run_log import commit_times, first_of_uniform, progress
from run_processes import RunProcess

COMMITS = [{"event": "start", "time": 10.0}] + [
    {"event": "commit", "time": moment, "attempt": "a", "step": "ingest", "unit": str(moment)}
    for moment in (11.0, 11.5, 14.0)
]
CAMPAIGN: dict[str, Any] = {
    "kills_asked": 1,
    "kills": [{}],
    "completed": True,
    "files": 3,
    "differing": [],
    "broken_promises": [],
    "left_in_tmp": [],
}


def kill_at(moment: float) -> Kill:
    return Kill(
        time=moment,
        step="ingest",
        victim="driver",
        process="driver",
        workers=1,
        in_work={},
        lost_seconds=0.0,
        marker="run-0",
    )


def test_progress_is_the_time_that_the_reference_took_to_come_as_far() -> None:
    times = commit_times(COMMITS)
    assert times == [1.0, 1.5, 4.0]
    assert progress(times, 0, 0.25) == 0.25
    assert progress(times, 2, 0.5) == 2.0
    assert progress(times, 2, 9.0) == 4.0
    assert progress(times, 3, 9.0) == progress(times, 7, 0.0) == 4.0


def test_kills_drawn_one_after_the_other_are_uniform_over_the_run() -> None:
    chance = random.Random(5)  # noqa: S311  # when to kill, no secret
    moments: list[float] = []
    for _ in range(2000):
        done = 0.0
        for left in (3, 2, 1):
            done += (1.0 - done) * first_of_uniform(left, chance.random())
            moments.append(done)
    assert statistics.mean(moments) == pytest.approx(0.5, abs=0.02)
    assert statistics.pvariance(moments) == pytest.approx(1 / 12, abs=0.01)
    assert 0 <= min(moments) < max(moments) <= 1


def test_recovery_lasts_from_the_kill_to_the_next_commit() -> None:
    kills = [kill_at(11.2), kill_at(20.0)]
    add_recovery(kills, COMMITS, starts=[10.0, 11.4])
    assert [kill.recovery_seconds for kill in kills] == [0.3, None]
    assert [kill.after_restart_seconds for kill in kills] == [0.1, None]


def test_units_in_work_are_known_by_their_folders_and_when_those_were_made(tmp_path: Path) -> None:
    assert begun_units(tmp_path) == {}
    before = time.time()
    (tmp_path / "tmp/attempt/0001/ingest/a unit.of-00000").mkdir(parents=True)
    begun = begun_units(tmp_path)
    assert list(begun) == ["ingest/a unit.of-00000"]
    assert before - 1 < begun["ingest/a unit.of-00000"] < time.time() + 1


def test_a_campaign_passes_only_whole_and_with_the_same_bytes() -> None:
    assert passed(CAMPAIGN)
    wrong: list[dict[str, Any]] = [
        {"kills": []},
        {"completed": False},
        {"files": 0},
        {"differing": ["tokens/x"]},
        {"broken_promises": ["ingest/x: committed twice"]},
        {"left_in_tmp": ["attempt"]},
        {"kills": [{"exit_seconds": 61.0}]},
        {"kills": [{"exit_seconds": None, "recovery_seconds": 61.0}]},
        {"kills": [{"exit_seconds": 1.0, "leftover_processes": ["raylet"]}]},
    ]
    assert not any(passed({**CAMPAIGN, **change}) for change in wrong)


def test_every_kind_of_process_is_drawn_and_no_other() -> None:
    driver = RunProcess(1, 0, "/bin/python /bin/shardmill run --output monitor.py")
    commands = {
        "worker": "ray::ingest/a-00000",
        "raylet": "/ray/raylet/raylet --x",
        "gcs_server": "/ray/gcs/gcs_server --x",
        "agent": "/bin/python -u /ray/dashboard/agent.py --x",
        "none": "ray::IDLE",
    }
    others = [RunProcess(number, 0, text) for number, text in enumerate(commands.values(), 2)]
    chance = random.Random(3)  # noqa: S311  # whom to kill, no secret
    drawn = [drawn_victim(driver, [driver, *others], KINDS, chance) for _ in range(300)]
    assert {kind: victim.command for kind, victim in drawn} == {
        **{kind: commands[kind] for kind in ("worker", "raylet", "gcs_server", "agent")},
        "frozen": commands["worker"],
        "driver": driver.command,
    }
    assert drawn_victim(driver, [], ["raylet"], chance) == ("driver", driver)


def test_stages_add_files_and_then_another_setting(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).touch()
    given: dict[str, Any] = {
        "corpus": str(tmp_path / "[abc]"),
        "grow": True,
        "replace": "seed=2",
        "overrides": [],
        "command": "shardmill",
        "run_file": Path("run.toml"),
    }
    found = []
    for stage in stages_of(argparse.Namespace(**given), tmp_path):
        stage.lay()
        words = stage.command(argparse.Namespace(**given), tmp_path / "out", 2)
        found.append((stage.name, sorted(file.name for file in (tmp_path / "corpus").iterdir()), words))
    assert [(name, files) for name, files, _ in found] == [
        ("first", ["a", "c"]),
        ("grown", ["a", "b", "c"]),
        ("replaced", ["a", "b", "c"]),
    ]
    assert found[0][2] == found[1][2] == found[2][2][:-3]
    assert found[2][2][-3:] == ["--set", "seed=2", "--replace"]
    (alone,) = stages_of(
        argparse.Namespace(**{**given, "corpus": None, "grow": False, "replace": None}), tmp_path
    )
    assert "sources" not in " ".join(alone.command(argparse.Namespace(**given), tmp_path / "out", 2))
