"""What state files promise: a damaged one is named, with what was found and the way out."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from pipeline.report.status import print_status
from pipeline.state.commits import Commits
from pipeline.state.journal import STATUS, read_log, read_status
from pipeline.state.publishing import Outcome
from pipeline.state.state_files import parse_json, parse_model, read_object
from pipeline.state.storage import LocalStorage
from pipeline.steps.run_folder import RunFolder
from stages.errors import ConfigError, FormatError
from tests.campaign import examples

OUT = "do this"


class Small(BaseModel):
    """A model to hold a file to."""

    name: str
    number: int


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b'{"a": 1', "is not whole JSON: Expecting ',' delimiter at line 1, column 8"),
        (b'{"a": 1}}', "is not whole JSON: Extra data at line 1, column 9"),
        (b"\x00\x00", "is not whole JSON: Expecting value at line 1, column 1"),
        (b'{"\xff": 1}', "is not UTF-8 at byte 2"),
        (b'{"a": 1, "b": {"c": 1, "c": 1}}', "the key 'c' stands twice in one object"),
        (b'{"a": NaN}', "holds NaN, which is no number of JSON"),
        (b'{"a": -Infinity}', "holds -Infinity, which is no number of JSON"),
        (b"[" * 200_000, "is nested too deep"),
    ],
)
def test_what_is_no_json_is_named_with_what_was_found(data: bytes, found: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_json(data, "DIR/x.json", way_out=OUT)
    assert str(caught.value) == f"DIR/x.json: {found}; {OUT}"


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"[]", "holds a list, not an object"),
        (b"null", "holds null, not an object"),
        (b"7", "holds a number, not an object"),
        (b"true", "holds a truth value, not an object"),
        (b'"x"', "holds a string, not an object"),
        (b"{}", "of another shape: name: Field required"),
        (b'{"name": 7, "number": 1}', "of another shape: name: Input should be a valid string"),
    ],
)
def test_json_of_another_shape_is_named_with_what_is_wrong(data: bytes, found: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_model(Small, data, "DIR/x.json", way_out=OUT)
    assert str(caught.value) == f"DIR/x.json: {found}; {OUT}"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=examples(200))
@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_whole_json_is_read_as_it_was_written(content: dict[str, Any]) -> None:
    data = json.dumps(content, ensure_ascii=True).encode()
    assert parse_json(data, "x", way_out=OUT) == content


@settings(deadline=None, max_examples=examples(300))
@given(st.binary(max_size=60))
def test_any_bytes_give_json_or_a_named_fault_and_nothing_else(data: bytes) -> None:
    try:
        parse_json(data, "DIR/x.json", way_out=OUT)
    except FormatError as error:
        assert str(error).startswith("DIR/x.json: ")  # noqa: PT017  # one of two outcomes
        assert str(error).endswith(f"; {OUT}")  # noqa: PT017  # likewise


def test_a_folder_in_place_of_a_file_is_named_and_a_missing_file_is_the_caller_s_affair(
    tmp_path: Path,
) -> None:
    (tmp_path / "x.json").mkdir()
    with pytest.raises(FormatError, match=f"{tmp_path}/x.json: is a folder, not a file; {OUT}"):
        read_object(tmp_path / "x.json", way_out=OUT)
    with pytest.raises(FileNotFoundError):
        read_object(tmp_path / "y.json", way_out=OUT)


def _commit(folder: Path, data: bytes) -> None:
    (folder / "commits" / "ingest").mkdir(parents=True)
    (folder / "commits" / "ingest" / "u.json").write_bytes(data)
    list(Commits(LocalStorage(folder)).all("ingest"))


def _plan(folder: Path, data: bytes) -> None:
    (folder / "run.json").write_bytes(data)
    _ = RunFolder(folder).file


def test_a_commit_of_which_any_byte_changed_is_named(tmp_path: Path) -> None:
    commits = Commits(LocalStorage(tmp_path))
    commits.put("ingest", "u", "f", Outcome(tmp_path, {}, {"read": 473, "units": [["é", 1.5, None]]}))
    place = tmp_path / "commits" / "ingest" / "u.json"
    sound = place.read_bytes()
    for at in range(len(sound)):
        place.write_bytes(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :])
        with pytest.raises(FormatError, match=f"^{place}: .*run again with --replace"):
            list(commits.all("ingest"))
    for other in (b"1e999", b'"\\ud800"', b"474", b"473.0"):
        place.write_bytes(sound.replace(b"473", other))
        with pytest.raises(FormatError, match=f"^{place}: .*changed after it was written"):
            list(commits.all("ingest"))
    place.write_bytes(sound)
    assert len(list(commits.all("ingest"))) == 1


@pytest.mark.parametrize("copy", ["ingest/v", "dedup/u"])
def test_a_commit_is_believed_under_its_own_name_alone(copy: str, tmp_path: Path) -> None:
    commits = Commits(LocalStorage(tmp_path))
    commits.put("ingest", "u", "f", Outcome(tmp_path, {}, {}))
    step, unit = copy.split("/")
    place = tmp_path / "commits" / f"{copy}.json"
    place.parent.mkdir(exist_ok=True)
    place.write_bytes((tmp_path / "commits" / "ingest" / "u.json").read_bytes())
    with pytest.raises(FormatError, match=f"^{place}: is the commit of unit u of step ingest"):
        Commits(LocalStorage(tmp_path)).get(step, unit, "f")


@pytest.mark.parametrize("read", [_commit, _plan])
@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b"7", b'{"run": {}, "steps": {}}', b'{"run": 1, "run": 1}', b"\xff"],
)
def test_commits_and_the_kept_plan_name_their_file_and_a_way_out(
    read: Callable[[Path, bytes], None], data: bytes, tmp_path: Path
) -> None:
    with pytest.raises(
        FormatError, match=rf"^{tmp_path}/.*\.json: .*(run again with --replace|delete it and run)"
    ):
        read(tmp_path, data)


def test_a_run_without_its_plan_is_told_from_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no run"):
        _ = RunFolder(tmp_path).plan
    (tmp_path / "commits").mkdir()
    with pytest.raises(
        FormatError, match=r"run\.json: is missing, though the folder holds a run; run the"
    ):
        _ = RunFolder(tmp_path).plan


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"state": 7}', b"\xff", b'{"pid": "x"}'])
def test_a_damaged_status_is_unknown_and_says_why(data: bytes, tmp_path: Path) -> None:
    assert read_status(tmp_path).state == "unknown"
    (tmp_path / "status.json").write_bytes(data)
    status = read_status(tmp_path)
    assert status.state == "unknown"
    assert str(status.error).startswith(f"{tmp_path}/status.json: ")


def test_lines_of_a_log_that_are_no_events_are_passed_over(tmp_path: Path) -> None:
    good = b'{"event": "start", "attempt": "a", "time": 1.0}\n'
    bad = [b"7\n", b"[]\n", b"null\n", b"\xff\xfe\n", b"{\n", b"\n", b"[" * 200_000 + b"\n"]
    (tmp_path / "log.jsonl").write_bytes(good.join(bad) + good)
    events = list(read_log(tmp_path))
    assert len(events) == len(bad)
    assert all(event["event"] == "start" for event in events)


def test_a_run_whose_process_is_gone_was_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    told = {}
    for state, pid in (("running", os.getpid()), ("running", ended.pid), ("stopped", ended.pid)):
        (tmp_path / STATUS).write_text(json.dumps({"state": state, "pid": pid}))
        print_status({tmp_path: ["ingest"]}, as_json=True)
        told[state, pid] = json.loads(capsys.readouterr().out)["state"]
    assert list(told.values()) == ["running", "killed", "stopped"]
