"""What the speed guard promises: it names a path that became slow, whatever the speed of the machine."""

import itertools
import json
import re
from inspect import signature
from pathlib import Path
from time import process_time

import guard_material
import guarded_paths
import pytest
import speed_guard
from guard_material import GuardMaterial
from guarded_paths import PATHS, Call
from speed_guard import (
    RECORDS,
    Clock,
    SpeedRecords,
    cpu_name,
    expected,
    guard,
    main,
    measure,
    read_records,
    record_faults,
    versions,
)

FAST = ("digest", "jaccard")
"""Paths whose material takes little time."""


class CpuClock:
    """A clock that only work moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the seconds of work so far."""
        return self.now

    def work(self, *seconds: float) -> Call:
        """Return a call that takes these seconds in turn, the last ones again and again."""
        left = list(seconds)

        def call() -> None:
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return call


def even_clock() -> Clock:
    """Return a clock on which each turn takes the same time."""
    return map(float, itertools.count()).__next__


def write_records(path: Path, ratios: dict[str, float], *, cpu: str | None = None) -> None:
    """Write records of these ratios, for this machine's kind of CPU or another."""
    speed_guard.write_records(path, {cpu or cpu_name(): SpeedRecords(versions(), ratios)})


def thrice(call: Call) -> Call:
    """Return a call that does its work three times."""
    return lambda: (call(), call(), call())


def test_a_ratio_is_of_the_path_to_the_reference_beside_it() -> None:
    clock = CpuClock()
    calls = {"long": clock.work(1.0), "short": clock.work(1 / 1024)}
    found = measure(calls, rounds=3, reference=clock.work(1 / 4), clock=clock)
    assert found == {"long": 4, "short": 1 / 256}


def test_a_machine_of_another_speed_gives_the_same_ratios() -> None:
    found = []
    for slow in (1, 4):
        clock = CpuClock()
        calls = {"a": clock.work(slow / 64), "b": clock.work(slow / 8)}
        found.append(measure(calls, rounds=3, reference=clock.work(slow / 32), clock=clock))
    assert found[0] == found[1] == {"a": 0.5, "b": 4.0}


def test_a_path_that_does_its_work_three_times_fails_and_is_named() -> None:
    clock = CpuClock()
    calls = {name: clock.work(1 / 64) for name in ("pack", "mask")}
    recorded = measure(calls, rounds=1, reference=clock.work(1 / 64), clock=clock)
    calls["pack"] = thrice(calls["pack"])
    found = guard(calls, recorded, reference=clock.work(1 / 64), clock=clock)
    assert [(one.path, one.factor, one.slow) for one in found] == [("pack", 3, True), ("mask", 1, False)]
    said = speed_guard.advice(found, {"numpy": "1.0"})
    assert said[0].endswith("times slower than recorded: pack.")
    assert said[1].endswith("--record --paths pack")
    assert said[-1] == "The records were made with numpy 1.0; that may be why."
    assert re.findall(r"(\w+) .* SLOWER", speed_guard.table(found)) == ["pack"]


def test_a_sound_run_passes() -> None:
    clock = CpuClock()
    calls = {name: clock.work(1 / 64) for name in ("pack", "mask")}
    recorded = measure(calls, rounds=1, reference=clock.work(1 / 64), clock=clock)
    found = guard(calls, recorded, reference=clock.work(1 / 64), clock=clock)
    assert len(found) == 2
    assert not any(one.slow or one.fast for one in found)
    (said,) = speed_guard.advice(found, {})
    assert said == "No path is over 1.75 times slower or faster than recorded."


def test_on_a_kind_of_cpu_without_records_more_is_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "records.json"
    write_records(path, dict.fromkeys(PATHS, 1.0))
    assert main(["--record", "--paths", "bands"], path=path, clock=even_clock()) == 0
    ratios = dict(read_records(path)[cpu_name()].ratios)
    ratios["bands"] /= 2.2
    write_records(path, ratios)
    assert main(["--paths", "bands"], path=path, clock=even_clock()) == 1
    write_records(path, ratios, cpu="z80")
    capsys.readouterr()
    assert main(["--paths", "bands"], path=path, clock=even_clock()) == 0
    assert "No path is over 3.0 times slower" in capsys.readouterr().out
    ratios["bands"] /= 2
    write_records(path, ratios, cpu="z80")
    assert main(["--paths", "bands"], path=path, clock=even_clock()) == 1
    assert f"No records were made with {cpu_name()}" in capsys.readouterr().out


def test_records_of_one_kind_of_cpu_leave_the_others(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    write_records(path, dict.fromkeys(PATHS, 1.0), cpu="z80")
    assert main(["--record", "--paths", "bands"], path=path, clock=even_clock()) == 0
    records = read_records(path)
    assert set(records) == {"z80", cpu_name()}
    assert set(records[cpu_name()].ratios) == {"bands"}
    assert set(records["z80"].ratios.values()) == {1.0}


def test_a_path_without_a_record_on_this_cpu_has_the_slowest_of_the_others() -> None:
    records = {
        "z80": SpeedRecords({}, {"pack": 1.0, "mask": 3.0}),
        "6502": SpeedRecords({}, {"pack": 2.0, "mask": 1.0}),
        "8086": SpeedRecords({}, {"pack": 0.5}),
    }
    ratios, bounds = expected(records, "8086")
    assert ratios == {"pack": 0.5, "mask": 3.0}
    assert bounds == {"pack": speed_guard.FACTOR, "mask": speed_guard.FACTOR_ELSEWHERE}


def test_a_path_that_became_much_faster_is_a_hint() -> None:
    clock = CpuClock()
    (found,) = guard({"pack": clock.work(0.5)}, {"pack": 1.0}, reference=clock.work(1.0), clock=clock)
    assert found.fast
    assert not found.slow
    assert speed_guard.advice([found], {})[0].startswith("Hint, much faster than recorded: pack.")


def test_a_path_in_doubt_is_measured_again() -> None:
    clock = CpuClock()
    disturbed = clock.work(*[2.0] * (speed_guard.ROUNDS + 2), 1.0)
    (found,) = guard({"pack": disturbed}, {"pack": 1.0}, reference=clock.work(1.0), clock=clock)
    assert found.ratio == 1.0


@pytest.mark.campaign
@pytest.mark.parametrize("planted", FAST)
def test_a_slow_down_planted_into_a_real_path_is_found(planted: str, tmp_path: Path) -> None:
    material = GuardMaterial(tmp_path)
    calls = {name: PATHS[name](material) for name in FAST}
    recorded = measure(calls, rounds=5)
    calls[planted] = thrice(calls[planted])
    assert [one.path for one in guard(calls, recorded) if one.slow] == [planted]


def test_a_path_without_a_record_and_a_record_without_a_path_are_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "records.json"
    ratios = dict.fromkeys([*list(PATHS)[1:], "gone"], 1.0)
    content = {cpu_name(): {"versions": versions(), "ratios": ratios}}
    path.write_text(json.dumps(content))
    assert main([], path=path) == 2
    first = next(iter(PATHS))
    assert capsys.readouterr().err.splitlines() == [
        f"{first}: no record; add it with --record --paths {first}",
        "gone: recorded, but no path; remove it with --record",
    ]
    assert main([], path=tmp_path / "absent.json") == 2
    assert len(capsys.readouterr().err.splitlines()) == len(PATHS)
    with pytest.raises(SystemExit, match="2"):
        main(["--paths", "gone"], path=path)


def test_the_exit_code_is_1_if_a_path_is_too_slow(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    write_records(path, dict.fromkeys(PATHS, 2.0))
    assert main(["--record", "--paths", "bands"], path=path, clock=even_clock()) == 0
    ratios = dict(read_records(path)[cpu_name()].ratios)
    assert set(ratios) == set(PATHS)
    assert {name for name, ratio in ratios.items() if ratio != 2.0} == {"bands"}
    assert main(["--paths", "bands"], path=path, clock=even_clock()) == 0
    write_records(path, {**ratios, "bands": ratios["bands"] / 3})
    assert (
        main(["--paths", "bands", "--json", str(tmp_path / "found.json")], path=path, clock=even_clock())
        == 1
    )
    assert '"path": "bands"' in (tmp_path / "found.json").read_text()


@pytest.mark.parametrize("cpu", read_records(RECORDS))
def test_the_records_are_those_of_guarded_paths(cpu: str) -> None:
    records = read_records(RECORDS)[cpu]
    assert set(records.ratios) <= set(PATHS)
    assert min(records.ratios.values()) > 0
    assert set(records.versions) == {"python", "numpy", "numba"}


def test_each_guarded_path_has_a_record() -> None:
    held = {name for one in read_records(RECORDS).values() for name in one.ratios}
    assert record_faults(PATHS, held) == []


def test_nothing_looks_at_a_clock_on_the_wall() -> None:
    for function in (measure, guard, main):
        assert signature(function).parameters["clock"].default is process_time
    sources = [Path(str(module.__file__)) for module in (speed_guard, guarded_paths, guard_material)]
    named = [name for path in sources for name in re.findall(r"\btime\.(\w+)", path.read_text())]
    assert set(named) == {"process_time"}
