"""Runs in a store keep the laws of runs in a folder: the same bytes, whole or not there, damage named.

The server is a real one, on loopback. What a folder has is the oracle.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from pipeline.commands import api
from pipeline.report.report import RunReport
from pipeline.run_file.deduplication import Dedup
from pipeline.session import scanning
from pipeline.state import lease, other_runs, tree
from pipeline.state.log import LogState
from pipeline.state.stored_commits import mirror
from pipeline.steps.dedup import method
from stages.errors import ConfigError, DataError, FormatError, Stopped, VerificationError
from stages.stores import ranges
from stages.stores.cache import NodeCache
from stages.stores.mounts import StoredFiles
from stages.stores.objects import ObjectStore
from stages.stores.ranges import ArrayRows
from stages.stores.url import StoreUrl
from tests.laws.tiny_run import tiny_run, write_tiny_corpus
from tests.made_once import MadeOnce
from tests.material.store_server import BUCKET, StoreServer
from tests.material.stored_runs import artifacts_of_folder, artifacts_of_store

obstore = pytest.importorskip("obstore")


RUN = tiny_run(sources=[{"name": "s", "paths": ["corpus/*.jsonl"], "language": {"column": "lang"}}])
CUTTING = {"containment": {}, "substrings": {"min_bytes": 60}}
"""Deduplication by all that reads partitions."""


@pytest.fixture(scope="session")
def corpus(made_once: MadeOnce) -> Path:
    """A folder with the corpus, and the tiny run over it in `out`."""

    def make(folder: Path) -> None:
        folder.mkdir()
        write_tiny_corpus(folder / "corpus")
        lines = (folder / "corpus" / "a.jsonl").read_bytes().splitlines(keepends=True)
        for place, name in enumerate("abc"):
            part = lines[place * 5 : place * 5 + 5]
            (folder / "corpus" / f"{name}.jsonl").write_bytes(b"".join(part))
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            api.run(RUN, "out", workers=0)

    return made_once(make)


@pytest.fixture
def in_folder(corpus: Path) -> dict[str, str]:
    """The files of the tiny run in a folder."""
    return artifacts_of_folder(corpus / "out")


@pytest.fixture
def store(
    store_server: StoreServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, corpus: Path
) -> ObjectStore:
    """An empty place in the bucket; the corpus lies in the current folder."""
    for name, value in store_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SHARDMILL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(corpus)
    return ObjectStore(StoreUrl("s3", BUCKET, f"{uuid.uuid4().hex}/tiny"))


def _url(store: ObjectStore) -> str:
    return store.place


def test_a_run_in_a_store_has_the_bytes_of_one_in_a_folder(
    store: ObjectStore, in_folder: dict[str, str]
) -> None:
    report = api.run(RUN, _url(store), workers=0)
    assert report["passed"]
    _require_same(artifacts_of_store(store), in_folder)
    before = {one.key: one.tag for one in store.list("datasets")}
    shutil.rmtree(os.environ["SHARDMILL_CACHE"])  # so the plan comes from the log, whose keys are sorted
    again = api.run(RUN, _url(store), workers=0)  # another machine: nothing is done again
    assert again["passed"]
    _require_same(artifacts_of_store(store), in_folder)
    assert {one.key: one.tag for one in store.list("datasets")} == before
    rows = shardmill.open_dataset(f"{_url(store)}/datasets/mlm")
    wanted = shardmill.open_dataset("out/datasets/mlm")
    for name, column in wanted.batch(range(len(wanted))).items():
        assert np.array_equal(rows.batch(range(len(rows)))[name], column), name


def test_a_plan_keeps_the_order_in_which_it_was_written(tmp_path: Path) -> None:
    state, written = LogState(plan={"a": 1, "b": 2}), b'{"b": 2, "a": 1}'
    mirror(state, tmp_path, written=written)
    assert (tmp_path / "run.json").read_bytes() == written
    for other in (b'{"b": 3, "a": 1}', b'{"b":', None):
        mirror(state, tmp_path, written=other)
        assert json.loads((tmp_path / "run.json").read_bytes()) == state.plan


def test_partitions_read_rows_of_large_files(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: set[str] = set()

    def fetch_rows(stored: StoredFiles, begin: str, wanted: Sequence[ArrayRows]) -> object:
        read.update(one.key for one in wanted)
        return fetched(stored, begin, wanted)

    fetched = ranges.fetch_rows
    monkeypatch.setattr(ranges, "fetch_rows", fetch_rows)
    monkeypatch.setattr(NodeCache, "has", lambda *_: False)
    monkeypatch.setattr(tree, "WHOLE_BYTES", 0)
    monkeypatch.setattr(method, "num_partitions", lambda *_, **__: 3)
    file = RUN.model_copy(update={"dedup": Dedup.model_validate(CUTTING)})
    for place in (str(tmp_path / "out"), _url(store)):
        assert api.run(file, place, workers=0)["passed"]
    _require_same(artifacts_of_store(store), artifacts_of_folder(tmp_path / "out"))
    folders = ("dedup/digests", "dedup/keys", "dedup/contained/keys", "cut/spans/windows", "tokens")
    for folder in folders:
        assert any(key.startswith(folder) for key in read), (folder, read)


def test_workers_put_what_they_make_themselves_and_find_what_others_made(
    store: ObjectStore, in_folder: dict[str, str], ray_session: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del ray_session
    monkeypatch.setenv("SHARDMILL_CACHE_BYTES", "1")  # so that nothing is here that no task asks for
    monkeypatch.setattr(scanning, "TASK_FILES", 1)
    assert api.run(RUN, _url(store), workers=2)["passed"]
    found, wanted = (  # of the scan there was one task in the folder, and not three
        {key: digest for key, digest in files.items() if not key.startswith("scan/")}
        for files in (artifacts_of_store(store), in_folder)
    )
    _require_same(found, wanted)
    assert api.verify(_url(store), workers=0)["passed"]


def test_a_killed_run_is_gone_on_with(
    store: ObjectStore, in_folder: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    api.run(RUN, _url(store), workers=0, until="scan")  # so the probe is no part of what is killed
    monkeypatch.setattr(lease, "PERIOD", 1.0)
    for killed_at in (4, 9):
        _kill_at(store, killed_at)
    assert api.run(RUN, _url(store), workers=0)["passed"]
    _require_same(artifacts_of_store(store), in_folder)


def test_an_object_that_went_or_changed_is_named_and_made_anew(
    store: ObjectStore, in_folder: dict[str, str], tmp_path: Path
) -> None:
    api.run(RUN, _url(store), workers=0)
    gone = "datasets/mlm/train/epoch-0000/00000/input_ids.npy"
    changed = "datasets/mlm/train/epoch-0000/00001/input_ids.npy"
    store.delete([gone])
    (tmp_path / "other").write_bytes(b"other")
    store.put(changed, tmp_path / "other")
    run, verify = partial(api.run, RUN, workers=0), partial(api.verify, workers=0)
    for ask in (run, verify):
        with pytest.raises((DataError, VerificationError)) as said:
            _require_passed(ask(_url(store)))
        assert gone in str(said.value)
        assert changed in str(said.value)
    assert api.run(RUN, _url(store), workers=0, replace=True)["passed"]
    _require_same(artifacts_of_store(store), in_folder)


def test_verify_on_another_machine_names_what_is_gone(store: ObjectStore) -> None:
    api.run(RUN, _url(store), workers=0)
    gone = "dedup/removed.parquet"
    store.delete([gone])
    shutil.rmtree(os.environ["SHARDMILL_CACHE"])
    report = api.verify(_url(store), workers=0)
    assert not report["passed"]
    assert gone in str(report["audit"])


def test_a_stray_of_any_name_stops_no_run(store: ObjectStore, in_folder: dict[str, str]) -> None:
    api.run(RUN, _url(store), workers=0, until="dedup")
    odd, plain = "datasets/my notes (1).txt", "datasets/left.npy"
    for key in (odd, plain):
        obstore.put(_client(store), f"{store.url.prefix}/{key}", b"left")
    assert api.run(RUN, _url(store), workers=0)["passed"]
    keys = {one.key for one in store.list("datasets")}
    assert odd in keys
    assert plain not in keys
    obstore.delete(_client(store), f"{store.url.prefix}/{odd}")
    _require_same(artifacts_of_store(store), in_folder)


def test_a_renewal_whose_answer_was_lost_is_its_own(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = lease.Lease(store, "own", "here", 1, period=0.3)
    own.take(least=1, tell=print)
    replace = ObjectStore.replace
    lost: list[str | None] = []

    def answerless(self: ObjectStore, key: str, data: bytes, tag: str) -> str | None:
        done = replace(self, key, data, tag)
        if not lost:
            lost.append(done)
            raise Stopped("no answer")
        return done

    monkeypatch.setattr(ObjectStore, "replace", answerless)
    end = time.monotonic() + 10
    while len(lost) < 1 or own._beat < 4:  # noqa: SLF001  # it goes on to beat
        assert time.monotonic() < end
        time.sleep(0.02)
    own.require()
    own.give_back()


def test_a_run_that_is_held_is_not_taken(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "PERIOD", 1.0)
    api.run(RUN, _url(store), workers=0, until="scan")
    other = lease.Lease(store, "other", "elsewhere", 7, period=1.0)
    other.take(least=9, tell=print)
    try:
        with pytest.raises(Stopped, match="in use by process 7 of elsewhere"):
            api.run(RUN, _url(store), workers=0)
    finally:
        other.give_back()
    assert api.run(RUN, _url(store), workers=0)["passed"]


def test_new_files_are_a_later_generation(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tiny_corpus(Path("corpus"))
    api.run(RUN, _url(store), workers=0)
    api.run(RUN, "out", workers=0)
    write_tiny_corpus(Path("more"))
    text = (Path("more") / "a.jsonl").read_text(encoding="utf-8").replace(" the ", " that ")
    (Path("corpus") / "b.jsonl").write_text(text, encoding="utf-8")
    api.run(RUN, _url(store), workers=0)
    api.run(RUN, "out", workers=0)
    _require_same(artifacts_of_store(store), artifacts_of_folder(Path("out")))
    assert "generations/0001/datasets/mlm/train/dataset.json" in artifacts_of_store(store)
    rows = shardmill.open_dataset(f"{_url(store)}/datasets/mlm", window=1)
    wanted = shardmill.open_dataset("out/datasets/mlm", window=1)
    assert rows.fingerprint == wanted.fingerprint
    assert len(rows) == len(wanted)
    for name, column in wanted.batch(range(len(wanted))).items():
        assert np.array_equal(rows.batch(range(len(rows)))[name], column), name


def test_a_place_that_holds_something_else_is_refused(store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "note").write_bytes(b"mine")
    store.put("note.txt", tmp_path / "note")
    with pytest.raises(ConfigError, match=r"holds 'note.txt', but no run"):
        api.run(RUN, _url(store), workers=0)
    assert [one.key for one in store.list("")] == ["note.txt"]


def test_a_run_that_was_copied_to_a_folder_is_a_run_there(
    store: ObjectStore, in_folder: dict[str, str], tmp_path: Path
) -> None:
    api.run(RUN, _url(store), workers=0)
    copy = tmp_path / "copy"
    for one in store.list(""):
        found = store.get(one.key)
        assert found is not None
        place = copy / one.key
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(found.data)
    assert api.verify(copy, workers=0)["passed"]
    assert api.run(RUN, copy, workers=0)["passed"]
    files = artifacts_of_folder(copy)
    assert {key: files.get(key) for key in in_folder} == in_folder


def test_a_run_that_was_copied_to_a_store_is_read_there(
    store: ObjectStore, corpus: Path, tmp_path: Path
) -> None:
    for path in (path for path in (corpus / "out").rglob("*") if path.is_file()):
        store.put(path.relative_to(corpus / "out").as_posix(), path)
    wanted, found = api.open_run("out"), api.open_run(_url(store))
    assert found.datasets == wanted.datasets
    assert found.report == wanted.report
    assert other_runs.LoggedFiles(store).below("tokens"), "as a worker of another run reads it"
    rows, own = (shardmill.open_dataset(f"{place}/datasets/mlm") for place in (_url(store), "out"))
    assert np.array_equal(rows.batch([3, 1])["input_ids"], own.batch([3, 1])["input_ids"])
    for name, place in (("one", "out"), ("two", _url(store))):
        shardmill.export(place, "mlm", "megatron", tmp_path / name)
    assert artifacts_of_folder(tmp_path / "one") == artifacts_of_folder(tmp_path / "two")
    with pytest.raises(ConfigError, match="was copied from a folder; it can be read here"):
        api.run(RUN, _url(store), workers=0)
    (tmp_path / "half").write_text('{"format":', encoding="utf-8")
    store.put("run.json", tmp_path / "half")
    with pytest.raises(FormatError, match=f"{_url(store)}/run.json: "):
        api.open_run(_url(store))


def test_an_export_goes_to_a_place_where_there_is_nothing(store: ObjectStore, tmp_path: Path) -> None:
    api.run(RUN, _url(store), workers=0)
    to = f"s3://{BUCKET}/{uuid.uuid4().hex}/export"
    made = shardmill.export(_url(store), "mlm", "mds", to)
    assert made["to"] == to
    shardmill.export("out", "mlm", "mds", tmp_path / "export")
    wanted = {
        path.relative_to(tmp_path / "export").as_posix(): path.read_bytes()
        for path in (tmp_path / "export").rglob("*")
        if path.is_file()
    }
    there = ObjectStore(StoreUrl.parse(to, key="to"))
    assert {one.key: there.get(one.key).data for one in there.list("")} == wanted  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match=r"holds 'READ.md' already"):
        shardmill.export(_url(store), "mlm", "mds", to)


def test_another_run_may_lie_in_a_store(store: ObjectStore, tmp_path: Path, corpus: Path) -> None:
    api.run(RUN, _url(store), workers=0)
    write_tiny_corpus(tmp_path / "more")
    text = (tmp_path / "more" / "a.jsonl").read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    new = [line.replace(" the ", " that ") for line in lines]
    (tmp_path / "more" / "a.jsonl").write_text("".join([*lines[:3], *new[3:]]), encoding="utf-8")
    for name, against in (("stored", _url(store)), ("near", str(corpus / "out"))):
        other = RUN.model_dump(mode="json")
        other["sources"][0] |= {"name": "t", "paths": [str(tmp_path / "more" / "*.jsonl")]}
        other["dedup"]["against"] = [against]
        assert api.run(other, tmp_path / name, workers=0)["passed"]
        assert api.verify(tmp_path / name, workers=0)["passed"]
    found, wanted = (artifacts_of_folder(tmp_path / name) for name in ("stored", "near"))
    del found["run.json"], wanted["run.json"]
    _require_same(found, wanted)
    assert _url(store) in (tmp_path / "stored" / "run.json").read_text(encoding="utf-8")


def _client(store: ObjectStore) -> Any:
    """Return the client of the store, for names that no key may have."""
    return store._asked.client  # type: ignore[union-attr]  # noqa: SLF001


def _require_same(found: dict[str, str], wanted: dict[str, str]) -> None:
    assert found.keys() == wanted.keys(), sorted(found.keys() ^ wanted.keys())
    assert found == wanted, sorted(key for key in found if found[key] != wanted[key])


def _require_passed(report: RunReport) -> None:
    if not report["passed"]:
        raise VerificationError(str(report["audit"]))


def _kill_at(store: ObjectStore, number: int) -> None:
    """Kill a run once its log has so many objects."""
    code = (
        "from tests.laws.test_runs_in_stores import RUN; from pipeline.commands import api;"
        " from pipeline.state import lease; lease.PERIOD = 1.0;"
        f" api.run(RUN, {store.place!r}, workers=0)"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    end = time.monotonic() + 60
    while len([one for one in store.list("log") if "state" not in one.key]) < number:
        assert process.poll() is None, "it ended before it was killed"
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
