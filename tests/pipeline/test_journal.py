"""What the journal promises: whole lines, a status replaced whole, and one writer at a time."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline.state.journal import LOCK, LOG, STATUS, Journal, end_last_line, read_log, run_lock
from stages.errors import Stopped


def test_events_are_read_back_in_order_with_their_attempt_and_fields(tmp_path: Path) -> None:
    Journal(tmp_path, "one").log("start", workers=2)
    Journal(tmp_path, "two").log("commit", step="ingest", unit="é", seconds=0.5)
    first, second = read_log(tmp_path)
    assert (first["attempt"], first["event"], first["workers"]) == ("one", "start", 2)
    assert (second["attempt"], second["unit"], second["seconds"]) == ("two", "é", 0.5)
    assert first["time"] <= second["time"]


def test_a_run_without_a_log_has_no_events(tmp_path: Path) -> None:
    assert list(read_log(tmp_path)) == []


def test_an_event_is_one_line_even_if_its_text_has_many(tmp_path: Path) -> None:
    Journal(tmp_path, "one").log("stop", error="a\nb\r\n\u2028c")
    assert (tmp_path / LOG).read_bytes().count(b"\n") == 1
    assert next(read_log(tmp_path))["error"] == "a\nb\r\n\u2028c"


def test_lines_of_many_writers_at_once_are_whole(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for turn in range(50):
            Journal(tmp_path, str(number)).log("commit", turn=turn, filler="x" * 5000)

    with ThreadPoolExecutor(4) as writers:
        list(writers.map(write, range(4)))
    events = list(read_log(tmp_path))
    assert len((tmp_path / LOG).read_bytes().splitlines()) == len(events) == 200
    for number in range(4):
        turns = [event["turn"] for event in events if event["attempt"] == str(number)]
        assert turns == list(range(50))


def test_a_last_line_that_was_cut_is_passed_over(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "one")
    journal.log("start")
    journal.log("commit", unit="u")
    whole = (tmp_path / LOG).read_bytes()
    first = whole.index(b"\n") + 1
    assert len(whole) - first > 50
    for cut in range(first, len(whole) - 1):
        (tmp_path / LOG).write_bytes(whole[:cut])
        assert [event["event"] for event in read_log(tmp_path)] == ["start"]


def test_a_status_replaces_the_one_before_as_a_whole(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "one")
    journal.status("running", step="ingest", note="x" * 1000)
    journal.status("done")
    status = json.loads((tmp_path / STATUS).read_text())
    assert status == {"state": "done", "attempt": "one", "pid": os.getpid()}
    assert [path.name for path in tmp_path.iterdir()] == [STATUS]


def test_a_status_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "one")
    journal.status("running")
    with pytest.raises(TypeError):
        journal.status("done", strange=object())
    assert json.loads((tmp_path / STATUS).read_text())["state"] == "running"


def test_a_second_holder_is_refused_with_the_first_one_s_process(tmp_path: Path) -> None:
    message = rf"{tmp_path}: in use by process {os.getpid()}; wait for it or stop it"
    with run_lock(tmp_path):
        for _ in range(2):
            with pytest.raises(Stopped, match=message), run_lock(tmp_path):
                pass
    assert (tmp_path / LOCK).exists()


def test_the_lock_is_free_after_its_holder_left_in_any_way(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="of the work"), run_lock(tmp_path):
        raise RuntimeError("of the work")
    with run_lock(tmp_path):
        assert (tmp_path / LOCK).read_text() == str(os.getpid())


def test_the_lock_goes_with_a_process_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib, pipeline.state.journal as j\n"
        "with j.run_lock(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    home = Path(__file__).parents[2]
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(
        command, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Stopped, match=f"process {holder.pid};"), run_lock(tmp_path):
            pass
        holder.kill()
        holder.wait()
    with run_lock(tmp_path):
        assert (tmp_path / LOCK).read_text() == str(os.getpid())


def test_an_event_after_a_line_cut_inside_a_character_is_not_lost(tmp_path: Path) -> None:
    Journal(tmp_path, "a").log("first")
    with (tmp_path / "log.jsonl").open("ab") as file:
        file.write('{"event": "é'.encode()[:-1])
    end_last_line(tmp_path)
    Journal(tmp_path, "b").log("second")
    assert [event["event"] for event in read_log(tmp_path)] == ["first", "second"]
