"""Runs in a store keep the laws of runs in a folder: the same bytes, whole or not there, damage named.

The server is a real one, on loopback. What a folder has is the oracle.
"""

import json
import os
import pickle
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from pipeline.commands import api
from pipeline.run_file.deduplication import Dedup
from pipeline.session import scanning
from pipeline.state import lease, tree
from pipeline.state.key_lengths import KEY_BYTES
from pipeline.state.log import LogState
from pipeline.state.stored_commits import mirror
from pipeline.state.worker_place import TreePlace
from pipeline.steps.dedup import method
from stages.errors import DataError, Stopped
from stages.stores import ranges
from stages.stores.cache import NodeCache, node_cache
from stages.stores.mounts import StoredFiles
from stages.stores.objects import ObjectStore
from stages.stores.ranges import ArrayRows
from tests.laws.stored_tiny_run import RUN, require_same, url_of
from tests.laws.tiny_run import write_tiny_corpus
from tests.material.fault_proxy import FaultProxy, Refusals
from tests.material.store_server import SECRET, StoreServer, changed_environment
from tests.material.stored_runs import artifacts_of_folder, artifacts_of_store

obstore = pytest.importorskip("obstore")


CUTTING = {"containment": {}, "substrings": {"min_bytes": 60}}
"""Deduplication by all that reads partitions."""


def test_a_run_in_a_store_has_the_bytes_of_one_in_a_folder(
    store: ObjectStore, in_folder: dict[str, str]
) -> None:
    report = api.run(RUN, url_of(store), workers=0)
    assert report["passed"]
    require_same(artifacts_of_store(store), in_folder)
    assert max(len(one.key) for one in store.list("")) < KEY_BYTES
    _require_no_secret(store)
    before = {one.key: one.tag for one in store.list("datasets")}
    shutil.rmtree(os.environ["SHARDMILL_CACHE"])  # so the plan comes from the log, whose keys are sorted
    again = api.run(RUN, url_of(store), workers=0)  # another machine: nothing is done again
    assert again["passed"]
    require_same(artifacts_of_store(store), in_folder)
    assert {one.key: one.tag for one in store.list("datasets")} == before
    rows = shardmill.open_dataset(f"{url_of(store)}/datasets/mlm")
    wanted = shardmill.open_dataset("out/datasets/mlm")
    for name, column in wanted.batch(range(len(wanted))).items():
        assert np.array_equal(rows.batch(range(len(rows)))[name], column), name


def _require_no_secret(store: ObjectStore) -> None:
    """Look for credentials in all that a run wrote, here and there, and in what its workers are sent."""
    with changed_environment({"AWS_SESSION_TOKEN": "no-token-either"}):
        stores = (store, ObjectStore(store.url))  # one that has a client, and one that has a token
        places = [TreePlace(Path("a"), one, "", Path("b"), node_cache(), 1) for one in stores]
        sent = pickle.dumps(places)
    files = [path for path in Path(os.environ["SHARDMILL_CACHE"]).rglob("*") if path.is_file()]
    texts = {str(path): path.read_bytes() for path in files} | {"workers": sent}
    texts |= {one.key: found.data for one in store.list("") if (found := store.get(one.key))}
    assert store.url.prefix.encode() in sent
    assert {"log", "events", "report", "run.json"} <= {key.partition("/")[0] for key in texts}
    assert any(key.endswith("/log.jsonl") for key in texts)
    for key, data in texts.items():
        assert SECRET.encode() not in data, key
        assert b"no-token-either" not in data, key


def test_verify_without_the_right_to_write_gives_its_verdict_and_writes_nothing(
    store: ObjectStore, store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert api.run(RUN, url_of(store), workers=0)["passed"]
    before = list(store.list(""))
    writing = ("put", "put_new", "replace", "delete")
    refusals = Refusals(0, kinds=dict.fromkeys(writing, "denied"))
    with FaultProxy(int(store_server.endpoint.rpartition(":")[2]), refusals) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        assert api.verify(url_of(store), workers=0)["passed"]
    assert list(store.list("")) == before
    tried = {verb: refusals.requests[verb] for verb in writing if refusals.requests[verb]}
    assert tried == {"delete": 1}, "a probe, by which it is known, and no more"


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
    for place in (str(tmp_path / "out"), url_of(store)):
        assert api.run(file, place, workers=0)["passed"]
    require_same(artifacts_of_store(store), artifacts_of_folder(tmp_path / "out"))
    folders = ("dedup/digests", "dedup/keys", "dedup/contained/keys", "cut/spans/windows", "tokens")
    for folder in folders:
        assert any(key.startswith(folder) for key in read), (folder, read)


def test_workers_put_what_they_make_themselves_and_find_what_others_made(
    store: ObjectStore, in_folder: dict[str, str], ray_session: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del ray_session
    monkeypatch.setenv("SHARDMILL_CACHE_BYTES", "1")  # so that nothing is here that no task asks for
    monkeypatch.setattr(scanning, "TASK_FILES", 1)
    assert api.run(RUN, url_of(store), workers=2)["passed"]
    found, wanted = (  # of the scan there was one task in the folder, and not three
        {key: digest for key, digest in files.items() if not key.startswith("scan/")}
        for files in (artifacts_of_store(store), in_folder)
    )
    require_same(found, wanted)
    assert api.verify(url_of(store), workers=0)["passed"]


def test_verify_on_another_machine_names_what_is_gone(
    store: ObjectStore, in_folder: dict[str, str]
) -> None:
    api.run(RUN, url_of(store), workers=0)
    manifests = [f"datasets/mlm/train/{name}.json" for name in ("dataset", "drawn")]
    gone = ["dedup/removed.parquet", *manifests]
    store.delete(gone)
    shutil.rmtree(os.environ["SHARDMILL_CACHE"])
    report = api.verify(url_of(store), workers=0)
    assert not report["passed"]
    assert all(key in str(report["audit"]) for key in gone), report["audit"]
    shutil.rmtree(os.environ["SHARDMILL_CACHE"])
    with pytest.raises(DataError, match=r"dataset\.json"):
        shardmill.inspect(url_of(store), "mlm")
    assert api.run(RUN, url_of(store), workers=0, replace=True)["passed"]
    require_same(artifacts_of_store(store), in_folder)


def test_a_stray_whose_name_no_key_may_have_stops_no_run(
    store: ObjectStore, in_folder: dict[str, str]
) -> None:
    api.run(RUN, url_of(store), workers=0, until="dedup")
    odd, plain = "datasets/my notes (1).txt", "datasets/left.npy"
    for key in (odd, plain):
        obstore.put(_client(store), f"{store.url.prefix}/{key}", b"left")
    assert api.run(RUN, url_of(store), workers=0)["passed"]
    keys = {one.key for one in store.list("datasets")}
    assert odd in keys
    assert plain not in keys
    obstore.delete(_client(store), f"{store.url.prefix}/{odd}")
    require_same(artifacts_of_store(store), in_folder)


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


def test_new_files_are_a_later_generation(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tiny_corpus(Path("corpus"))
    api.run(RUN, url_of(store), workers=0)
    api.run(RUN, "out", workers=0)
    write_tiny_corpus(Path("more"))
    text = (Path("more") / "a.jsonl").read_text(encoding="utf-8").replace(" the ", " that ")
    (Path("corpus") / "b.jsonl").write_text(text, encoding="utf-8")
    api.run(RUN, url_of(store), workers=0)
    api.run(RUN, "out", workers=0)
    require_same(artifacts_of_store(store), artifacts_of_folder(Path("out")))
    assert "generations/0001/datasets/mlm/train/dataset.json" in artifacts_of_store(store)
    rows = shardmill.open_dataset(f"{url_of(store)}/datasets/mlm", window=1)
    wanted = shardmill.open_dataset("out/datasets/mlm", window=1)
    assert rows.fingerprint == wanted.fingerprint
    assert len(rows) == len(wanted)
    for name, column in wanted.batch(range(len(wanted))).items():
        assert np.array_equal(rows.batch(range(len(rows)))[name], column), name


def _client(store: ObjectStore) -> Any:
    """Return the client of the store, for names that no key may have."""
    return store._asked.client  # type: ignore[union-attr]  # noqa: SLF001
