"""What measuring a run promises: its processes found, its memory counted once, its log read right."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from process_memory import STARTING, MemorySampler, Peaks, private_bytes, running_step
from run_log import broken_promises, committed, current_step, edges, next_commit, step_figures
from run_processes import (
    RunProcess,
    corpus_override,
    cpu_seconds,
    launch,
    new_marker,
    process_tree,
    run_command,
    run_processes,
    wait_until_gone,
)
from scale import top_languages

from pipeline.inputs.files import find_inputs
from pipeline.run_file.load import load_run_file

MIB = 1 << 20
HOLD = "import sys; held = b'x' * (64 << 20); print('ready', flush=True); sys.stdin.read()"
ORPHAN = (
    "import os, subprocess, sys;"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
    " start_new_session=True); print(child.pid, flush=True)"
)


def event(kind: str, time: float, **fields: Any) -> dict[str, Any]:
    return {"event": kind, "time": time, "attempt": "a", **fields}


LOG = [
    event("start", 0.0),
    event("begin", 1.0, step="ingest"),
    event("dispatch", 1.0, step="ingest", unit="x"),
    event("dispatch", 1.0, step="ingest", unit="y"),
    event("commit", 3.0, step="ingest", unit="x", seconds=2.0, cpu_seconds=1.5, peak_rss=10.0),
    event("commit", 4.0, step="ingest", unit="y", seconds=3.0, cpu_seconds=2.5, peak_rss=7.0),
    event("step", 4.5, step="ingest", fingerprint="f"),
    event("begin", 5.0, step="dedup"),
]


def test_memory_of_a_process_is_what_it_allocated_itself() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        held = private_bytes(process.pid)
        assert cpu_seconds(process.pid) > 0
        process.kill()
    assert 64 * MIB < held < 96 * MIB
    assert private_bytes(process.pid) == 0
    assert cpu_seconds(process.pid) == 0


def test_a_process_that_left_its_session_is_found_by_the_marker(tmp_path: Path) -> None:
    marker, log = new_marker(), tmp_path / "log"
    launch([sys.executable, "-c", ORPHAN], marker, log=log).wait()
    (orphan,) = run_processes(marker)
    try:
        assert orphan.pid == int(log.read_text())
        assert "time.sleep" in orphan.command
        assert wait_until_gone(marker, timeout=0) is None
        assert not run_processes(new_marker())
    finally:
        subprocess.run(["kill", "-9", str(orphan.pid)], check=True)  # noqa: S607  # from the shell's path
    assert wait_until_gone(marker, timeout=30) is not None


def test_a_tree_is_a_process_and_its_descendants() -> None:
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLD!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", nested], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert len(process_tree(process.pid)) == 2
        assert process.stdin is not None
        process.stdin.close()
    assert process_tree(process.pid) == []


@pytest.mark.parametrize(
    ("command", "label", "is_worker"),
    [
        ("ray::RayWorker.run", "ray::RayWorker.run", True),
        ("ray::IDLE", "ray::IDLE", False),
        ("ray::DashboardAgent", "ray::DashboardAgent", False),
        ("/x/bin/python -u /y/dashboard.py --port=1", "python dashboard.py", False),
        ("/x/raylet --raylet_socket=/y", "raylet", False),
        ("", "?", False),
    ],
)
def test_processes_are_told_apart_by_their_titles(command: str, label: str, *, is_worker: bool) -> None:
    process = RunProcess(1, 1, command)
    assert (process.label, process.is_worker) == (label, is_worker)


def test_peaks_are_of_the_sum_over_processes_and_by_step() -> None:
    driver, worker = RunProcess(1, 1, "/x/driver"), RunProcess(2, 1, "ray::RayWorker")
    peaks = Peaks()
    peaks.add("ingest", [(driver, 5 * MIB), (worker, 3 * MIB)])
    peaks.add("dedup", [(driver, 1 * MIB), (worker, 9 * MIB)])
    peaks.add("dedup", [(driver, 2 * MIB), (worker, 4 * MIB)])
    peaks.add_cpu(worker, 2.0)
    peaks.add_cpu(RunProcess(2, 1, "ray::RayWorker.run"), 3.0)
    peaks.add_cpu(RunProcess(2, 7, "another of the same number"), 1.0)
    figures = peaks.figures()
    assert figures["peak_mib"] == 10.0
    assert figures["peak_step"] == "dedup"
    assert figures["peak_processes"][0] == {"process": "ray::RayWorker", "mib": 9.0}
    assert figures["by_step_mib"] == {"ingest": 8.0, "dedup": 10.0}
    assert figures["largest_worker_by_step_mib"] == {"ingest": 3.0, "dedup": 9.0}
    assert figures["cpu_seconds"] == 4.0
    assert figures["cpu_seconds_by_process"] == {"ray::RayWorker.run": 3.0, "another": 1.0}


def test_the_step_is_that_of_the_status_only_if_its_process_is_of_the_run(tmp_path: Path) -> None:
    assert running_step(tmp_path, [7]) == STARTING
    (tmp_path / "status.json").write_text(json.dumps({"pid": 7, "step": "dedup"}))
    assert running_step(tmp_path, [6, 7]) == "dedup"
    assert running_step(tmp_path, [6]) == STARTING
    (tmp_path / "status.json").write_text("{")
    assert running_step(tmp_path, [7]) == STARTING


def test_a_sampler_counts_what_it_is_told_to_find(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = process_tree(process.pid)
        (tmp_path / "status.json").write_text(json.dumps({"pid": process.pid, "step": "ingest"}))
        sampler = MemorySampler(lambda: found, tmp_path, period=600)
        sampler.start()
        sampler.sample()
        figures = sampler.stop()
        process.kill()
    assert 64 < figures["by_step_mib"]["ingest"] < 96
    assert figures["processes"] == 1


def test_steps_are_added_up_from_the_log_over_attempts() -> None:
    again = [{**entry, "attempt": "b", "time": entry["time"] + 100} for entry in LOG[1:3]]
    figures = step_figures([*LOG, *again])
    assert list(figures) == ["ingest", "dedup"]
    assert figures["ingest"] == {
        "units": 2,
        "wall_seconds": 3.5,
        "worker_seconds": 5.0,
        "cpu_seconds": 4.0,
        "longest_cpu_seconds": 2.5,
        "peak_rss": 10.0,
    }
    assert figures["dedup"]["wall_seconds"] == 0.0


def test_moments_are_found_in_the_log() -> None:
    assert edges(LOG) == (1.0, 5.0)
    assert edges(LOG[:1]) is None
    assert next_commit(LOG, 3.0) == 4.0
    assert next_commit(LOG, 4.0) is None
    assert committed(LOG, 3.5) == {"ingest/x"}
    assert current_step(LOG, 0.5) == ""
    assert current_step(LOG, 4.9) == "ingest"


def test_a_sound_log_breaks_no_promise() -> None:
    assert broken_promises(LOG) == []
    replaced = [*LOG, event("replace", 6.0, step="ingest"), *LOG[1:]]
    assert broken_promises(replaced) == []


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (LOG[2:3], "ingest/x: given out after its commit"),
        (LOG[4:5], "ingest/x: committed twice"),
        (
            [event("step", 9.0, step="ingest", fingerprint="g")],
            "ingest: committed under two fingerprints",
        ),
    ],
)
def test_a_broken_promise_is_named(more: list[dict[str, Any]], message: str) -> None:
    assert broken_promises([*LOG, *more]) == [message]


def test_a_corpus_takes_the_place_of_the_sources_of_the_run_file(tmp_path: Path) -> None:
    run_file = Path(__file__).parents[2] / "benchmarks" / "scale.toml"
    assert find_inputs(load_run_file(run_file), run_file.parent).files
    (tmp_path / 'a "quoted".jsonl').write_text('{"text": "x"}')
    file = load_run_file(run_file, [corpus_override(f'{tmp_path}/a "*".jsonl')])
    (found,) = find_inputs(file, run_file.parent).files
    assert found.source == "corpus"
    command = run_command("a 'b c'", run_file, tmp_path, workers=2, overrides=["x=1"])
    assert command[:4] == ["a", "b c", "run", str(run_file)]
    assert command[4:] == ["--output", str(tmp_path), "--workers", "2", "--set", "x=1"]


def test_languages_beyond_the_limit_are_one_row() -> None:
    rows = [{"language": f"l{n}", "documents": 1, "bytes": 10, "tokens": n} for n in range(5)]
    top = top_languages(rows, 2)
    assert [row["language"] for row in top] == ["l4", "l3", "3 others"]
    assert top[-1] == {"language": "3 others", "documents": 3, "bytes": 30, "tokens": 3}
    assert len(top_languages(rows, 5)) == 5
