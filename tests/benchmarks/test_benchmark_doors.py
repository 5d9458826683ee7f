"""What the campaigns on the command line promise: a short slice passes, and what is wrong is seen."""

import errno
import json
import os
from pathlib import Path

import damaged_state
import door_material
import io_errors
import pytest
from damaged_state import DAMAGES, Material
from door_material import Answer, take_way_out
from faulty_disk import Fault, faulty_disk

CASES = 10
"""Of each campaign; the long ones are for people."""


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """A small finished run and its export."""
    return Material.make(tmp_path_factory.mktemp("doors") / "material")


def test_state_files_of_every_kind_are_damaged(material: Material) -> None:
    files = material.state_files()
    assert len(files) == len(set(files)) >= 25
    assert all((material.run.parent / file).is_file() for file in files)
    names = {Path(file).name for file in files}
    assert names >= {"_step.json", "run.json", "status.json", "log.jsonl", "lock", "verdict.json"}
    assert names >= {"export.json", "parts.jsonl", "report.json"}


@pytest.mark.parametrize("name", DAMAGES)
def test_every_damage_changes_the_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    before = json.dumps({"fingerprint": "abc", "record": {"units": [1, 2]}}).encode()
    path.write_bytes(before)
    DAMAGES[name](path)
    assert not path.is_file() or path.read_bytes() != before


@pytest.mark.campaign
def test_damaged_state_ends_in_no_traceback_and_every_way_out_works(
    material: Material, tmp_path: Path
) -> None:
    cases = list(damaged_state.cases_of(material.state_files(), CASES, seed=4))
    for case in cases:
        damaged_state.do_case(case, material, tmp_path / "case")
    assert [case for case in cases if case.faults] == []
    assert {0, 2} <= {case.code for case in cases} <= {0, 2, 3}
    assert {case.command for case in cases} == set(damaged_state.COMMANDS)


@pytest.mark.campaign
def test_a_failing_disk_ends_in_no_traceback_and_the_same_command_goes_on(
    material: Material, tmp_path: Path
) -> None:
    calls = io_errors.count_calls(material, tmp_path / "case")
    assert min(calls.values()) > 10
    cases = list(io_errors.cases_of(CASES, 5, every=0))
    for case in cases:
        io_errors.do_case(case, material, tmp_path / "case", calls=calls[case.command])
    assert [case for case in cases if case.faults] == []
    assert {case.code for case in cases} >= {2, 75}
    assert sum(bool(case.call) for case in cases) == CASES


def test_a_campaign_sees_a_traceback_a_wrong_code_and_wrong_bytes(
    material: Material, tmp_path: Path
) -> None:
    case = damaged_state.Case("run/run.json", "empty", "run")
    damaged_state._judge(case, Answer(1, "", "Traceback (most recent call last)"), "run")  # noqa: SLF001
    damaged_state._judge(case, Answer(1, "", "shardmill: x"), "run")  # noqa: SLF001
    damaged_state._judge(case, Answer(2, "", ""), "run")  # noqa: SLF001
    assert len(case.faults) == 3
    copy = tmp_path / "run"
    (copy / "tokens").mkdir(parents=True)
    assert door_material.wrong_bytes(copy, material.run)
    assert not door_material.wrong_bytes(material.run, material.run)


@pytest.mark.parametrize(
    ("line", "gone"),
    [
        ("DIR/a/x.json: is empty; delete the folder DIR/a and run again: the step is made anew", "a"),
        ("DIR/a/x.json: of another shape; delete DIR/a, or choose another --to", "a"),
        ("DIR/b: is empty; delete it and run the run file again, which writes it anew", "b"),
        ("DIR/a: Is a directory; a folder stands there; move it away and run again", "a"),
        ("DIR/b: no such thing", None),
    ],
)
def test_a_way_out_is_taken_as_the_message_says(line: str, gone: str | None, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.json").write_text("")
    (tmp_path / "b").write_text("")
    assert take_way_out(line.replace("DIR", str(tmp_path))) == (gone is not None)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"} - {gone}


def use_a_disk(folder: Path) -> None:
    """Make a folder, write a file in it and bring it to the disk: five calls."""
    folder.mkdir()
    with (folder / "x").open("w") as file:
        file.write("text")
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("at", range(1, 6))
def test_a_faulty_disk_refuses_the_call_that_it_is_told_to(
    at: int,
    lasting: bool,  # noqa: FBT001  # a parameter of the test
    tmp_path: Path,
) -> None:
    with faulty_disk(Fault(str(tmp_path / "in"), 0)) as counted:
        use_a_disk(tmp_path / "in")
        (tmp_path / "out").write_text("not counted")
    assert counted.seen == 5
    fault = Fault(str(tmp_path / "other"), at, errno.EIO, lasting=lasting)
    with faulty_disk(fault) as counted, pytest.raises(OSError, match="Input/output") as caught:
        use_a_disk(tmp_path / "other")
    assert caught.value.errno == errno.EIO
    assert len(counted.refused) >= 1
    use_a_disk(tmp_path / "afterwards")
    assert Fault.of_text(fault.text()) == fault
