"""What laws 1 and 3 promise of a run with all of it switched on: workers and kills change no byte.

SHARDMILL_CAMPAIGN=full asks for ten kills of the whole process group instead of two, and for 1 and 3
workers too.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from pipeline.session.session import RunRequest, run_session
from pipeline.state.journal import read_log
from stages.filtering.table import FILTERS, labels_of
from stages.packing.strategies import PACKINGS
from tests.conftest import digests
from tests.laws.everything_on import FOLDERS, everything_on, write_everything
from tests.laws.killed_runs import kill_until_done, require_each_done_once

WORKERS = (1, 2, 3) if os.environ.get("SHARDMILL_CAMPAIGN") == "full" else (2,)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the run."""
    folder = tmp_path_factory.mktemp("everything")
    write_everything(folder)
    return folder


def run(corpus: Path, output: Path, *, workers: int, until: str | None = None) -> Any:
    """Do the run."""
    return run_session(RunRequest(everything_on(), corpus, output, workers, until=until), stream=None)


@pytest.fixture(scope="module")
def inline(everything: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The run by a plain loop, and its report."""
    output = tmp_path_factory.mktemp("inline") / "run"
    return output, run(everything, output, workers=0)


def test_all_of_it_is_on_and_passes_verify(inline: tuple[Path, Any]) -> None:
    output, report = inline
    file = everything_on()
    assert report["passed"]
    assert {one.kind for one in file.filters} == FILTERS.keys()
    assert {file.packing_of(dataset).strategy for dataset in file.datasets} == PACKINGS.keys()
    heads = {reason.partition(".")[0] for reason in report["documents"]["dropped"]}
    changed = {name.partition(".")[0] for name in report["documents"]["changed"]}
    idle = set(labels_of(file.filters)) - heads - changed
    assert not idle
    assert {"bad_json", "bad_record", "bad_utf8", "missing_text", "not_a_page"} <= heads
    assert report["documents"]["kept"] > 40
    assert len(digests(output, *FOLDERS)) > 300


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.usefixtures("ray_session")
def test_any_number_of_workers_gives_the_bytes_of_a_plain_loop(
    workers: int, everything: Path, inline: tuple[Path, Any], tmp_path: Path
) -> None:
    assert run(everything, tmp_path / "run", workers=workers)["passed"]
    assert digests(tmp_path / "run", *FOLDERS) == digests(inline[0], *FOLDERS)


def test_kill_9_at_random_moments_changes_no_byte(
    everything: Path, inline: tuple[Path, Any], tmp_path: Path
) -> None:
    output, total = tmp_path / "killed", sum(1 for _ in read_log(inline[0]))
    kill_until_done(everything_on(), everything, output, until="verify", events=total)
    assert digests(output, *FOLDERS) == digests(inline[0], *FOLDERS)
    require_each_done_once(list(read_log(output)), least=100)
