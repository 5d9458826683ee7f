"""What else runs in stores meet: copies of runs, exports, other runs, files of the user's machine.

The server is a real one, on loopback. What a folder has is the oracle.
"""

import gzip
import json
import os
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from pipeline.commands import api
from pipeline.run_file.config import RunFile
from pipeline.state import other_runs
from pipeline.state.log import RunLog
from pipeline.state.stored_run import StoredRun
from stages.errors import ConfigError, FormatError, NoRightError
from stages.stores import pins
from stages.stores.cache import NodeCache
from stages.stores.given import GivenFolder
from stages.stores.objects import ObjectStore
from stages.stores.url import StoreUrl
from tests.laws.stored_tiny_run import RUN, require_same, url_of
from tests.laws.tiny_run import write_tiny_corpus
from tests.material.store_server import BUCKET
from tests.material.stored_runs import artifacts_of_folder, artifacts_of_store, copy_to_folder

obstore = pytest.importorskip("obstore")

SMALL = {"dataset.json", "drawn.json", "parity.json"}
"""Files that tell of the run, and do not grow with it."""


def test_a_run_that_was_copied_to_a_folder_is_a_run_there(
    store: ObjectStore, in_folder: dict[str, str], tmp_path: Path
) -> None:
    api.run(RUN, url_of(store), workers=0)
    copy = tmp_path / "copy"
    copy_to_folder(store, copy)
    _require_readable(copy)
    assert api.verify(copy, workers=0)["passed"]
    assert api.run(RUN, copy, workers=0)["passed"]
    files = artifacts_of_folder(copy)
    assert {key: files.get(key) for key in in_folder} == in_folder


def _require_readable(copy: Path) -> None:
    """Read a copy of a run in a store where nobody may write."""
    before, datasets = sorted(copy.rglob("*")), api.open_run("out").datasets
    with pytest.MonkeyPatch.context() as patch:
        really = os.access
        patch.setattr(os, "access", lambda path, mode: copy != path and really(path, mode))
        assert api.verify(copy, workers=0)["passed"]
        assert api.open_run(copy).datasets == datasets
        assert shardmill.open_dataset(copy / "datasets" / "mlm")
        with pytest.raises(NoRightError, match="make the folder writable"):
            api.run(RUN, copy, workers=0)
        array = copy / "datasets" / "mlm" / "train" / "epoch-0000" / "00000" / "input_ids.npy"
        data = array.read_bytes()
        array.write_bytes(data[::-1])
        assert not api.verify(copy, workers=0)["passed"]
        array.write_bytes(data)
    assert sorted(copy.rglob("*")) == before


def test_a_run_that_was_copied_to_a_store_is_read_there(
    store: ObjectStore, corpus: Path, tmp_path: Path
) -> None:
    for path in (path for path in (corpus / "out").rglob("*") if path.is_file()):
        store.put(path.relative_to(corpus / "out").as_posix(), path)
    wanted, found = api.open_run("out"), api.open_run(url_of(store))
    assert found.datasets == wanted.datasets
    assert found.report == wanted.report
    assert other_runs.LoggedFiles(store).below("tokens"), "as a worker of another run reads it"
    rows, own = (shardmill.open_dataset(f"{place}/datasets/mlm") for place in (url_of(store), "out"))
    assert np.array_equal(rows.batch([3, 1])["input_ids"], own.batch([3, 1])["input_ids"])
    for name, place in (("one", "out"), ("two", url_of(store))):
        shardmill.export(place, "mlm", "megatron", tmp_path / name)
    assert artifacts_of_folder(tmp_path / "one") == artifacts_of_folder(tmp_path / "two")
    assert api.verify(url_of(store), workers=0)["passed"]
    with pytest.raises(ConfigError, match="was copied from a folder; it can be read here"):
        api.run(RUN, url_of(store), workers=0)
    (tmp_path / "half").write_text('{"format":', encoding="utf-8")
    store.put("run.json", tmp_path / "half")
    with pytest.raises(FormatError, match=f"{url_of(store)}/run.json: "):
        api.open_run(url_of(store))


def test_what_was_changed_in_the_cache_between_two_calls_changes_nothing(
    store: ObjectStore, in_folder: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHARDMILL_CACHE", str(tmp_path / "cache"))
    api.run(RUN, url_of(store), workers=0, until="split")
    objects = [path for path in (tmp_path / "cache" / "objects").rglob("*") if len(path.name) == 64]
    assert len(objects) > 10
    for path in objects:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    assert api.run(RUN, url_of(store), workers=0)["passed"]
    require_same(artifacts_of_store(store), in_folder)


def test_a_run_that_was_finished_in_a_folder_and_copied_back_is_read_as_the_folder_has_it(
    store: ObjectStore, tmp_path: Path
) -> None:
    api.run(RUN, url_of(store), workers=0, until="scan")
    copy = tmp_path / "copy"
    copy_to_folder(store, copy)
    api.run(RUN, copy, workers=0)
    for path in (path for path in copy.rglob("*") if path.is_file()):
        store.put(path.relative_to(copy).as_posix(), path)
    assert api.open_run(url_of(store)).datasets == api.open_run(copy).datasets
    assert api.open_run(copy).datasets
    found, wanted = (
        [(one.step.name, one.state, one.commits) for one in api.plan(RUN, place)]
        for place in (url_of(store), copy)
    )
    assert found == wanted
    with pytest.raises(ConfigError, match="remove commits/ to go on from that"):
        api.run(RUN, url_of(store), workers=0)
    store.delete([one.key for one in store.list("commits")])
    assert api.run(RUN, url_of(store), workers=0)["passed"]


def test_a_run_that_was_copied_to_another_store_is_a_run_there(
    store: ObjectStore, in_folder: dict[str, str], tmp_path: Path
) -> None:
    api.run(RUN, url_of(store), workers=0)
    copy, file = ObjectStore(StoreUrl("s3", BUCKET, uuid.uuid4().hex)), tmp_path / "object"
    for one in store.list(""):
        found = store.get(one.key)
        assert found is not None
        file.write_bytes(_with_other_tags(found.data) if one.key.startswith("log/") else found.data)
        copy.put(one.key, file)
    assert api.run(RUN, url_of(copy), workers=0)["passed"]
    logged = RunLog(copy, way_out="").read().state
    tags = {k: t for units in logged.commits.values() for e in units.values() for k, t in e.tags.items()}
    assert {one.key: one.tag for one in copy.list("") if one.key in tags} == tags, "for ever after"
    require_same(artifacts_of_store(copy), in_folder)
    changed = "datasets/mlm/train/epoch-0000/00000/input_ids.npy"
    found = copy.get(changed)
    assert found is not None
    file.write_bytes(found.data[::-1])
    copy.put(changed, file)  # of the same size, as late as can be
    report = api.verify(url_of(copy), workers=0)
    assert not report["passed"]
    assert changed in str(report["audit"])


def _with_other_tags(log: bytes) -> bytes:
    """Return an object of a log as it is beside a server that has other tags."""
    content = json.loads(log)
    for entry in content["entries"]:
        if entry["kind"] == "commit":
            entry["tags"] = {key: f"{tag}-2" for key, tag in entry["tags"].items()}
    return json.dumps(content).encode()


def test_an_export_goes_to_a_place_where_there_is_nothing(store: ObjectStore, tmp_path: Path) -> None:
    api.run(RUN, url_of(store), workers=0)
    to = f"s3://{BUCKET}/{uuid.uuid4().hex}/export"
    made = shardmill.export(url_of(store), "mlm", "mds", to)
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
        shardmill.export(url_of(store), "mlm", "mds", to)
    for place, into in ((url_of(store), f"{to}-texts"), ("out", tmp_path / "texts")):
        shardmill.export_texts(place, "text-jsonl", into)
    there = ObjectStore(StoreUrl.parse(f"{to}-texts", key="to"))
    texts = {one.key: there.get(one.key).data for one in there.list("")}  # type: ignore[union-attr]
    assert texts == {name: (tmp_path / "texts" / name).read_bytes() for name in texts}
    assert "export.json" in texts


def test_another_run_may_lie_in_a_store(store: ObjectStore, tmp_path: Path, corpus: Path) -> None:
    api.run(RUN, url_of(store), workers=0)
    write_tiny_corpus(tmp_path / "more")
    text = (tmp_path / "more" / "a.jsonl").read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    new = [line.replace(" the ", " that ") for line in lines]
    (tmp_path / "more" / "a.jsonl").write_text("".join([*lines[:3], *new[3:]]), encoding="utf-8")
    for name, against in (("stored", url_of(store)), ("near", str(corpus / "out"))):
        other = RUN.model_dump(mode="json")
        other["sources"][0] |= {"name": "t", "paths": [str(tmp_path / "more" / "*.jsonl")]}
        other["dedup"]["against"] = [against]
        assert api.run(other, tmp_path / name, workers=0)["passed"]
        assert api.verify(tmp_path / name, workers=0)["passed"]
    found, wanted = (artifacts_of_folder(tmp_path / name) for name in ("stored", "near"))
    del found["run.json"], wanted["run.json"]
    require_same(found, wanted)
    assert url_of(store) in (tmp_path / "stored" / "run.json").read_text(encoding="utf-8")


def test_a_call_that_finds_nothing_to_do_reads_no_text_again(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARDMILL_CACHE_BYTES", "1")
    monkeypatch.setattr(pins, "_LAST", 8)  # so that the files of a shard stay, and not those of two
    file = RUN.model_copy(update={"packing": RUN.packing.model_copy(update={"shards": 6})})
    first = api.run(file, url_of(store), workers=0)
    shutil.rmtree(os.environ["SHARDMILL_CACHE"])
    brought: list[str] = []

    def bring(cache: NodeCache, place: ObjectStore, key: str, *rest: Any) -> None:
        brought.append(key)
        really(cache, place, key, *rest)

    really = NodeCache.bring
    monkeypatch.setattr(NodeCache, "bring", bring)
    again = api.run(file, url_of(store), workers=0)
    in_folder = api.run(file, tmp_path / "out", workers=0)
    for name in ("texts", "lengths", "languages_before", "rows", "packing", "similarity"):
        assert again[name] == first[name] == in_folder[name] is not None, name
    assert brought
    assert {key.rpartition("/")[2] for key in brought} <= SMALL, brought


def test_what_the_run_file_names_is_brought_to_machines_that_have_it_not(
    store: ObjectStore, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, gone = tmp_path / "own [1]", tmp_path / "gone"
    (own / "sets" / "a").mkdir(parents=True)
    items = (corpus / "corpus" / "a.jsonl").read_bytes().splitlines(keepends=True)
    (own / "sets" / "a" / "x.jsonl").write_bytes(items[0])
    (own / "sets" / "y.jsonl.gz").write_bytes(gzip.compress(items[1]))
    (own / "sets" / "unnamed.jsonl").write_text("{", encoding="utf-8")
    (own / "hosts.txt").write_text("blocked.example\n", encoding="utf-8")
    (own / "lines").mkdir()
    for language, text in {"en": "A line.\nAnd more.\n", "de": "Eine.\nUnd mehr.\n"}.items():
        (own / "lines" / f"{language}.txt").write_text(text, encoding="utf-8")
    shutil.copy(corpus / "out" / "tokenizer" / "tokenizer.model", own)
    sets = [
        {"name": "globbed", "paths": ["sets/*/*.jsonl"]},
        {"name": "single", "paths": ["sets/y.jsonl.gz"], "action": "report"},
    ]
    fairness = {"parallel": "lines", "compare": ["own=tokenizer.model"]}
    content = RUN.model_dump(mode="json")
    content["sources"][0]["paths"] = [str(corpus / "corpus" / "*.jsonl")]
    content["decontamination"] = {"sets": sets}
    content["filters"] = [{"kind": "url", "domains": ["hosts.txt"], "column": "id"}]
    content["tokenizer"]["fairness"] |= fairness
    file = RunFile.model_validate(content)

    def give(run: StoredRun, folders: Sequence[GivenFolder], *, check: bool = False) -> None:
        given(run, folders, check=check)
        own.rename(gone)

    given = StoredRun.give
    monkeypatch.setattr(StoredRun, "give", give)
    monkeypatch.chdir(own)
    assert api.run(file, tmp_path / "out", workers=0)["passed"]
    assert api.run(file, url_of(store), workers=0)["passed"]
    assert not own.exists()
    require_same(artifacts_of_store(store), artifacts_of_folder(tmp_path / "out"))
    assert len(list(store.list("given"))) == 6  # two items, a list, two languages, a model
    gone.rename(own)
    before = {one.key for one in store.list("given")}
    put: list[str] = []

    def put_file(place: ObjectStore, key: str, path: Path) -> str:
        put.append(key)
        return really(place, key, path)

    really = ObjectStore.put
    monkeypatch.setattr(ObjectStore, "put", put_file)
    damaged = min(before)
    found = store.get(damaged)
    assert found is not None
    (tmp_path / "damaged").write_bytes(bytes(len(found.data)))
    really(store, damaged, tmp_path / "damaged")
    (own / "lines" / "de.txt").write_text("Eine Zeile.\nUnd mehr.\n", encoding="utf-8")
    assert api.run(file, url_of(store), workers=0, replace=True)["passed"]
    (new,) = {one.key for one in store.list("given")} - before
    again = sorted(key for key in put if key.startswith("given/"))
    assert again == sorted((new, damaged)), "what is there is not put again, unless it was changed"
