"""What holding `resources.memory` promises.

What processes hold is seen, shared pages once; a step gets as many workers as fit, and is refused, with
what it needs and the way out, where not even one does.
"""

import mmap
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.engine.memory import (
    BASE,
    MIB,
    WORKER,
    Need,
    fitting_workers,
    process_tree,
    room_of_worker,
    unreclaimable_bytes,
)
from pipeline.planning.needs import require_memory
from pipeline.run_file.config import MIN_MEMORY, RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import plan_session, run_session
from pipeline.steps.step import Scope
from pipeline.steps.table import step_needs
from pipeline.steps.tokenizer.step import LANGUAGE, training_need
from pipeline.system.printable import show_bytes
from stages.errors import ConfigError
from stages.stores.bucket import BUFFER_BYTES
from tests.conftest import small_run

HOLD = "import sys; held = bytearray(b'x') * (64 << 20); print('ready', flush=True); sys.stdin.read()"


def test_what_a_process_below_holds_is_seen_and_gone_with_it() -> None:
    before = unreclaimable_bytes(mypid())
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        assert child.pid in process_tree(mypid())
        assert unreclaimable_bytes(child.pid) >= 64 * MIB
        both = [pid for pid in process_tree(mypid()) if pid in {mypid(), child.pid}]  # others may end
        assert sum(map(unreclaimable_bytes, both)) >= before + 60 * MIB
        child.communicate()
    assert child.pid not in process_tree(mypid())
    assert unreclaimable_bytes(child.pid) == 0


def mypid() -> int:
    """Return this process."""
    return int(Path("/proc/self").readlink().name)


def shared_memory_of_files() -> int:
    """Return the bytes of shared memory among this process's pages, from another table of Linux."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(r"^RssShmem:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) << 10


def test_shared_memory_counts_and_pages_of_files_do_not() -> None:
    before, shared_before = unreclaimable_bytes(mypid()), shared_memory_of_files()
    with tempfile.TemporaryFile() as file:
        for _ in range(64):  # a large piece may stay with the process's memory when it is freed
            file.write(bytes(MIB))
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            assert sum(mapped[:: mmap.PAGESIZE]) == 0
            in_memory = shared_memory_of_files() - shared_before  # 0 if temporary files lie on a disk
            assert unreclaimable_bytes(mypid()) < before + in_memory + 32 * MIB
    with mmap.mmap(-1, 64 * MIB) as shared:
        shared[:: mmap.PAGESIZE] = b"x" * (64 * MIB // mmap.PAGESIZE)
        assert unreclaimable_bytes(mypid()) > before + 60 * MIB


@pytest.mark.parametrize(
    ("room", "workers", "fitting"), [(1, 8, 1), (2, 8, 2), (9, 8, 8), (3, 1, 1), (2.9, 3, 2)]
)
def test_as_many_workers_as_fit_are_given(room: float, workers: int, fitting: int) -> None:
    memory = BASE + int(room * (WORKER + 100 * MIB))
    assert fitting_workers(memory, workers, step="ingest", need=100 * MIB) == fitting


def test_a_step_of_which_no_worker_fits_is_refused_with_the_way_out() -> None:
    memory = BASE + WORKER + 100 * MIB - 1
    with pytest.raises(ConfigError) as error:
        fitting_workers(memory, 4, step="ingest", need=100 * MIB, remedy="lower x")
    assert str(error.value) == (
        "resources.memory = 644 MiB: step ingest needs 644 MiB on a node (448 MiB for Ray and the"
        " driver, 196 MiB for a worker); set it to 644MiB or more, or lower x"
    )
    assert fitting_workers(644 * MIB, 4, step="ingest", need=100 * MIB) == 1


def test_without_ray_its_memory_is_not_asked_for() -> None:
    assert fitting_workers(356 * MIB, 0, step="ingest", need=100 * MIB) == 0
    with pytest.raises(ConfigError) as error:
        fitting_workers(356 * MIB - 1, 0, step="ingest", need=100 * MIB)
    assert str(error.value) == (
        "resources.memory = 356 MiB: step ingest needs 356 MiB on a node (256 MiB for the program,"
        " 100 MiB for its work); set it to 356MiB or more"
    )


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1 << 10, "1 KiB"), (3 << 29, "1.5 GiB")]
)
def test_sizes_are_shown_as_people_read_them(size: int, text: str) -> None:
    assert show_bytes(size) == text


def test_every_step_of_a_run_has_a_need_and_long_documents_raise_it() -> None:
    file = small_run(datasets=[{"name": "a"}, {"name": "b"}])
    needs = step_needs(Scope(file))
    steps = ["ingest", "dedup", "tokenizer", "split", "tokenize", "shard-a", "shard-b", "decode"]
    assert list(needs) == [*steps, "verify-a", "verify-b", "scan"]
    assert all(need.bytes > MIB for need in needs.values())
    short = step_needs(Scope(small_run(ingest={"max_document_bytes": "1MiB"})))
    assert short["ingest"].bytes < needs["ingest"].bytes
    require_memory(file, needs, workers=1)


@pytest.mark.parametrize("workers", [0, 1])
def test_the_buffers_of_a_store_are_counted_before_a_run_begins(workers: int) -> None:
    file = small_run()
    room = room_of_worker(int(file.resources.memory), workers)
    needs = {"ingest": Need(room - BUFFER_BYTES)}
    require_memory(file, needs, workers=workers, buffers=BUFFER_BYTES)
    with pytest.raises(ConfigError, match="step ingest needs"):
        require_memory(file, needs, workers=workers, buffers=BUFFER_BYTES + 1)


@pytest.mark.parametrize("workers", [0, 1])
def test_the_least_memory_that_a_run_file_may_say_is_enough_for_the_default_settings(
    workers: int,
) -> None:
    file = RunFile(
        sources=({"name": "a", "paths": ["x"]},),
        datasets=({"name": "a"}, {"name": "b", "objective": {"kind": "span_corruption"}}),
        resources={"memory": MIN_MEMORY},
    )
    require_memory(file, step_needs(Scope(file)), workers=workers)
    corpus = training_need(file, 8 * MIB, workers=workers)
    assert corpus.bytes <= room_of_worker(MIN_MEMORY, workers)


UNIT, LONGEST = "unit_size", "max_document_bytes"
TIGHT: dict[str, dict[str, Any]] = {
    "long documents": {"ingest": {LONGEST: "64MiB"}},
    "very long documents": {"ingest": {LONGEST: "1GiB"}},
    "large units": {"ingest": {UNIT: "1GiB"}},
    "both": {"ingest": {LONGEST: "64MiB", UNIT: "1GiB"}},
    "a tokenizer": {"tokenizer": {"path": "x.model"}, "ingest": {UNIT: "64MiB"}},
    "a tokenizer, large units": {"tokenizer": {"path": "x.model"}, "ingest": {UNIT: "600MiB"}},
    "sentence pairs": {
        "datasets": [{"name": "a", "objective": {"kind": "nsp"}}],
        "ingest": {LONGEST: "128MiB"},
    },
    "many datasets": {"datasets": [{"name": name} for name in "abc"], "ingest": {LONGEST: "128MiB"}},
}
"""Run files of which a step does not fit into the least memory."""


def fits(settings: dict[str, Any], workers: int) -> str:
    """Return why a run file is refused for memory, or nothing."""
    settings = {"resources": {"memory": "1GiB"}, **settings}
    file = small_run(**settings)
    try:
        require_memory(file, step_needs(Scope(file)), workers=workers)
    except ConfigError as error:
        return str(error)
    return ""


def smaller(settings: dict[str, Any], setting: str, value: str) -> dict[str, Any]:
    """Return settings of which one of ingest is another."""
    return {**settings, "ingest": {**settings.get("ingest", {}), setting: value}}


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("name", TIGHT)
def test_each_advice_of_a_refusal_leads_to_a_run_that_is_not_refused(name: str, workers: int) -> None:
    settings = TIGHT[name]
    refusal = fits(settings, workers)
    if not refusal:
        assert (name, workers) == ("long documents", 0)
        return
    setting = r"(?:, or set ingest\.(\w+) to (\d+)([KM]iB) or less)?"
    advised = re.search(rf"set it to (\d+)MiB or more{setting}$", refusal)
    assert advised, refusal
    enough = int(advised[1])
    assert not fits({**settings, "resources": {"memory": f"{enough}MiB"}}, workers)
    assert fits({**settings, "resources": {"memory": f"{enough - 1}MiB"}}, workers)
    if advised[2]:
        value = int(advised[3])
        assert not fits(smaller(settings, advised[2], f"{value}{advised[4]}"), workers)
        assert fits(smaller(settings, advised[2], f"{value + 1}{advised[4]}"), workers)
    else:
        assert all(fits(smaller(settings, setting, "1KiB"), workers) for setting in (UNIT, LONGEST))


def test_the_refusals_that_are_tried_advise_every_setting_and_none() -> None:
    refusals = [fits(settings, workers) for settings in TIGHT.values() for workers in (0, 1)]
    for advice in (f"or set ingest.{UNIT} to ", f"or set ingest.{LONGEST} to ", "MiB or more$"):
        assert any(re.search(advice, refusal) for refusal in refusals)


def test_an_advice_counts_what_the_input_needs_besides() -> None:
    file = small_run(resources={"memory": "1GiB"}, ingest={LONGEST: "64MiB"})
    needs = step_needs(Scope(file))
    for more, advice in ((0, "32MiB"), (64 * MIB, "24MiB"), (1 << 30, None)):
        found = {**needs, "ingest": Need(needs["ingest"].bytes + more)}
        with pytest.raises(ConfigError) as error:
            require_memory(file, found, workers=1)
        assert (f"or set ingest.{LONGEST} to {advice} or less" in str(error.value)) == bool(advice)
        assert ("or set" in str(error.value)) == bool(advice)
    with pytest.raises(ConfigError, match=r"step training needs .* set it to \d+MiB or more$"):
        require_memory(file, {**needs, "training": Need(2 << 30, "lower x", lowered=0)}, workers=1)
    small = step_needs(Scope(small_run()))
    with pytest.raises(ConfigError, match=r"step training needs .* or more, or lower x$"):
        require_memory(file, {**small, "training": Need(2 << 30, "lower x", lowered=0)}, workers=1)


def test_training_is_refused_with_a_sample_that_fits() -> None:
    file = small_run(resources={"memory": "1GiB"}, tokenizer={"train": {"sample_size": "64MiB"}})
    need = training_need(file, 1 << 30, workers=1)
    advice = re.fullmatch(r"set tokenizer.train.sample_size to (\d+MiB) or less", need.remedy)
    assert advice
    assert need.bytes > room_of_worker(1 << 30, 1)
    smaller = small_run(resources={"memory": "1GiB"}, tokenizer={"train": {"sample_size": advice[1]}})
    assert training_need(smaller, 1 << 30, workers=1).bytes <= room_of_worker(1 << 30, 1)
    assert training_need(file, 1 << 20, workers=1).bytes < need.bytes / 2, "a corpus of 1 MiB"


def test_the_languages_of_the_sample_count_for_training_and_what_is_advised_fits() -> None:
    file = small_run(resources={"memory": "1GiB"})
    few = training_need(file, 1 << 30, workers=1)
    many = training_need(file, 1 << 30, workers=1, languages=100_000)
    assert many.bytes - few.bytes == 100_000 * LANGUAGE > 100 * MIB
    assert many.lowered is not None
    assert many.lowered <= room_of_worker(1 << 30, 1)
    assert fitting_size(many) < fitting_size(few)
    none_fits = training_need(file, 1 << 30, workers=1, languages=400_000)
    assert (none_fits.remedy, none_fits.lowered) == ("", None)


def fitting_size(need: Need) -> int:
    """Return the MiB of a sample that a need advises."""
    found = re.search(r"to (\d+)MiB or less", need.remedy)
    assert found
    return int(found[1])


def test_a_table_that_is_one_page_asks_for_its_memory_before_anything_is_read(tmp_path: Path) -> None:
    texts = [f"{number} " * 20_000 + str(number) for number in range(800)]
    table = pa.table({"text": texts})
    pq.write_table(table, tmp_path / "page.parquet")
    pq.write_table(table, tmp_path / "pages.parquet", use_dictionary=False, write_batch_size=8)
    source = {"name": "a", "paths": ["page.parquet"]}
    roomy = small_run(resources={"memory": "8GiB"}, sources=[source])  # for the tests, too
    run_session(RunRequest(roomy, tmp_path, tmp_path / "out", 0, until="scan"), stream=None)
    file = small_run(resources={"memory": "1GiB"}, sources=[source])
    with pytest.raises(ConfigError) as error:
        plan_session(RunRequest(file, tmp_path, tmp_path / "out", 1))
    message = str(error.value)
    assert "step ingest needs 1." in message
    assert "or write page.parquet again in smaller row groups or pages: one takes 5" in message
    enough = re.search(r"set it to (\d+MiB) or more", message)
    assert enough
    more = small_run(resources={"memory": enough[1]}, sources=[source])
    assert plan_session(RunRequest(more, tmp_path, tmp_path / "out", 1))
    source["paths"] = ["pages.parquet"]
    roomy = small_run(resources={"memory": "8GiB"}, sources=[source])
    run_session(RunRequest(roomy, tmp_path, tmp_path / "again", 0, until="scan"), stream=None)
    rewritten = small_run(resources={"memory": "1GiB"}, sources=[source])
    assert plan_session(RunRequest(rewritten, tmp_path, tmp_path / "again", 1))
