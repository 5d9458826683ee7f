"""What else runs in stores meet: copies of runs, exports, other runs, files of the user's machine.

The server is a real one, on loopback. What a folder has is the oracle.
"""

import gzip
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
from pipeline.state.stored_run import StoredRun
from stages.errors import ConfigError, FormatError
from stages.stores import pins
from stages.stores.cache import NodeCache
from stages.stores.given import GivenFolder
from stages.stores.objects import ObjectStore
from stages.stores.url import StoreUrl
from tests.laws.stored_tiny_run import RUN, require_same, url_of
from tests.laws.tiny_run import write_tiny_corpus
from tests.material.store_server import BUCKET
from tests.material.stored_runs import artifacts_of_folder, artifacts_of_store

obstore = pytest.importorskip("obstore")

SMALL = {"dataset.json", "drawn.json", "parity.json"}
"""Files that tell of the run, and do not grow with it."""


def test_a_run_that_was_copied_to_a_folder_is_a_run_there(
    store: ObjectStore, in_folder: dict[str, str], tmp_path: Path
) -> None:
    api.run(RUN, url_of(store), workers=0)
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
    wanted, found = api.open_run("out"), api.open_run(url_of(store))
    assert found.datasets == wanted.datasets
    assert found.report == wanted.report
    assert other_runs.LoggedFiles(store).below("tokens"), "as a worker of another run reads it"
    rows, own = (shardmill.open_dataset(f"{place}/datasets/mlm") for place in (url_of(store), "out"))
    assert np.array_equal(rows.batch([3, 1])["input_ids"], own.batch([3, 1])["input_ids"])
    for name, place in (("one", "out"), ("two", url_of(store))):
        shardmill.export(place, "mlm", "megatron", tmp_path / name)
    assert artifacts_of_folder(tmp_path / "one") == artifacts_of_folder(tmp_path / "two")
    with pytest.raises(ConfigError, match="was copied from a folder; it can be read here"):
        api.run(RUN, url_of(store), workers=0)
    (tmp_path / "half").write_text('{"format":', encoding="utf-8")
    store.put("run.json", tmp_path / "half")
    with pytest.raises(FormatError, match=f"{url_of(store)}/run.json: "):
        api.open_run(url_of(store))


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

    def give(run: StoredRun, folders: Sequence[GivenFolder]) -> None:
        given(run, folders)
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
    (own / "lines" / "de.txt").write_text("Eine Zeile.\nUnd mehr.\n", encoding="utf-8")
    assert api.run(file, url_of(store), workers=0, replace=True)["passed"]
    (new,) = {one.key for one in store.list("given")} - before
    assert [key for key in put if key.startswith("given/")] == [new], "what is there is not put again"
