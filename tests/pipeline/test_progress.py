"""What people and machines are told while a run is at work: one view, lines, metrics.prom."""

import errno
import io
import re
from pathlib import Path
from typing import NoReturn

import pytest

from pipeline.engine import progress as progress_module
from pipeline.engine.progress import Progress
from pipeline.session.execution import Execution
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.state.journal import METRICS, Journal, PhaseMetrics, RunMetrics, metrics_text
from stages.errors import Stopped
from tests.conftest import run_small, small_run

VALUE = re.compile(r'shardmill_(\w+)\{((?:\w+="(?:[^"\\\n]|\\.)*",?)+)\} (\S+)')


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def values_of(text: str) -> dict[tuple[str, str], float]:
    """Read the text format of Prometheus: by metric and phase."""
    assert text.endswith("\n")
    found, known = {}, set[str]()
    for line in text.splitlines():
        if line.startswith("# "):
            known.add(line.split()[2].removeprefix("shardmill_"))
            continue
        name, labels, value = VALUE.fullmatch(line).groups()  # type: ignore[union-attr]
        assert name in known, "HELP and TYPE come first"
        phase = re.search(r'phase="([^"]*)"', labels)
        found[name, "" if phase is None else phase[1]] = float(value)
    return found


def test_a_run_leaves_metrics_that_say_it_has_ended(small_corpus: Path, tmp_path: Path) -> None:
    run_small(small_corpus, tmp_path / "run", until="dedup")
    found = values_of((tmp_path / "run" / METRICS).read_text(encoding="utf-8"))
    assert found["running", ""] == 0
    assert found["steps_done", ""] == found["steps_total", ""] == 2
    assert found["memory_limit_bytes", ""] == 8 << 30
    assert found["memory_bytes", ""] > 1 << 20


def test_workers_are_let_go_though_metrics_cannot_be_written(
    small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []
    monkeypatch.setattr(Execution, "close", lambda _: closed.append(True))

    def full(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Progress, "write_metrics", full)
    with pytest.raises(Stopped, match="the disk is full"):
        run_small(small_corpus, tmp_path / "run", until="ingest")
    assert closed == [True]


def test_phases_at_work_are_told_with_their_tasks_and_documents(tmp_path: Path) -> None:
    progress = Progress(Journal(tmp_path, "a"), None)
    progress.watch_memory(lambda: 7, 9)
    progress.count_steps(done=1, total=3)
    batch = progress.start("ingest", "read and clean", total=4)
    progress.note("warning: look")
    batch.advance(more=False, documents=50)
    batch.advance(more=True, documents=20)
    progress.write_status()
    found = values_of((tmp_path / METRICS).read_text(encoding="utf-8"))
    assert {name: found[name, ""] for name in ("running", "warnings", "memory_bytes", "steps_done")} == {
        "running": 1,
        "warnings": 1,
        "memory_bytes": 7,
        "steps_done": 1,
    }
    assert found["tasks_done", "read and clean"] == 2
    assert found["tasks_total", "read and clean"] == 5
    assert found["documents_done", "read and clean"] == 70


def test_the_label_of_a_run_is_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    Journal(Path("out"), "a").metrics(
        running=True, seconds=1.0, steps=(0, 1), warnings=0, memory=(5, 6), phases=()
    )
    text = (tmp_path / "out" / METRICS).read_text(encoding="utf-8")
    assert f'{{run="out",folder="{tmp_path / "out"}"' in text


def test_labels_are_escaped() -> None:
    phase = PhaseMetrics("s", 'a "b" \\ c', 1, 2, 3)
    found = RunMetrics(
        'x"\n\\',
        "/data/x",
        running=True,
        time=1.5,
        seconds=2.0,
        steps_done=0,
        steps_total=1,
        warnings=0,
        memory=5,
        memory_limit=6,
        phases=(phase,),
    )
    text = metrics_text(found)
    assert len(values_of(text)) == 8 + 3
    series = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(',folder="/data/x"' in line for line in series)
    assert '{run="x\\"\\n\\\\",folder="/data/x"' in text


def test_a_terminal_has_one_view_and_lines_of_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    progress = Progress(None, stream)
    assert re.fullmatch(r"0:00:0\d", progress._line_of_all()), "no steps yet"  # noqa: SLF001
    progress.watch_memory(lambda: 1 << 30, 8 << 30)
    progress.count_steps(done=2, total=9)
    one, other = progress.start("a", "first", total=1), progress.start("b", "second [x]", total=2)
    one.advance(more=False, documents=10)
    one.end()
    progress.note("warning: a thing")
    other.advance(more=False)
    progress.close()
    told = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert re.search(r"first +1/1  0\.\d s  [\d,]+ documents/s", told)
    assert "second [x]" in told
    assert re.search(r"2 of 9 steps done   memory 1 GiB of 8 GiB   (1 warning   )?0:00:0\d", told)
    assert told.count("warning: a thing") == 1
    assert "   1 warning   0:00:" in progress._line_of_all()  # noqa: SLF001  # drawn again at its own time
    progress.note("warning: another")
    assert "   2 warnings   0:00:" in progress._line_of_all()  # noqa: SLF001


def test_units_are_told_if_that_is_asked_for(small_corpus: Path, tmp_path: Path) -> None:
    told = []
    for verbose in (False, True):
        stream = io.StringIO()
        request = RunRequest(small_run(), small_corpus, tmp_path / str(verbose), 0, until="ingest")
        run_session(request, stream=stream, verbose=verbose)
        told.append(
            re.findall(
                r"  ingest mixed\.\S+: ([\d,]+) documents, .* written, .* s, a worker", stream.getvalue()
            )
        )
    assert told[0] == []
    assert len(told[1]) >= 3


def test_a_long_phase_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "LINE_SECONDS", 0.0)
    stream = io.StringIO()
    progress = Progress(None, stream)
    batch = progress.start("a", "first", total=3)
    batch.advance(more=False, documents=5)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d first +1/3  0\.\d s  [\d,]+ documents/s\n", stream.getvalue()
    )
