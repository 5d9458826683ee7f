"""What growth promises of a folder: new files make a generation, and nothing that was there changes."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import shardmill
from pipeline.engine.tasks import Worker
from pipeline.planning.against import open_earlier
from pipeline.planning.plan import State
from pipeline.session.request import RunRequest, generation_requests
from pipeline.session.session import decides_anew, plan_session, run_session
from pipeline.steps.earlier_runs import ORDER
from stages.errors import ConfigError, DataError, FormatError, Interrupted
from stages.loading.batches import Batches
from stages.loading.blend import Blend
from stages.loading.grown import GrownDataset
from stages.loading.split_reader import MAX_OPEN_SHARDS
from tests.laws.grown_folders import (
    content_of,
    grown_run,
    lines,
    make_first,
    make_grown,
    renamed,
    request_of,
    second_dump,
    write,
)
from tests.made_once import MadeOnce

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def first(made_once: MadeOnce) -> Path:
    """A folder of 14 documents and a finished run over it, to be copied or to be read."""
    return made_once(make_first)


@pytest.fixture
def begun(first: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(first, tmp_path / "input"))


@pytest.fixture(scope="module")
def grown(first: Path, made_once: MadeOnce) -> Path:
    """The first folder with two generations, to be read."""
    return made_once(partial(make_grown, first))


def removed_of(run: Path) -> dict[str, dict[str, object]]:
    """Return the removals of one generation by own id."""
    return {row["own_id"]: row for row in pq.read_table(run / "dedup/removed.parquet").to_pylist()}


def test_old_documents_outrank_and_are_named_with_their_run(grown: Path) -> None:
    run = grown / "run"
    steps = json.loads((run / "run.json").read_text())["steps"]
    first, second = (removed_of(run / "generations" / name) for name in ("0001", "0002"))
    assert {f"near{n}" for n in range(12)} & first.keys(), "near-duplicates of old documents go"
    assert first["copy3"]["kept_own_id"] == "n3"
    assert first["copy0"]["kept_own_id"] == "n0"
    assert {row["kept_run"] for row in first.values()} <= {steps["dedup"]["fingerprint"], None}
    assert first["copy3"]["kept_run"] == steps["dedup"]["fingerprint"]
    of_first = json.loads((run / "generations/0001/run.json").read_text())["steps"]["dedup"][
        "fingerprint"
    ]
    assert second["copy15"]["kept_own_id"] == "n15"
    assert second["copy15"]["kept_run"] == of_first


def test_a_generation_has_the_tokenizer_of_the_first_and_a_seed_of_its_own(grown: Path) -> None:
    run = grown / "run"
    folders = [run, *sorted((run / "generations").iterdir())]
    assert len({(one / "tokenizer/tokenizer.model").read_bytes() for one in folders}) == 1
    assert len({(one / "tokenizer/special_ids.json").read_bytes() for one in folders}) == 1
    assert len({json.loads((one / "run.json").read_text())["run"]["seed"] for one in folders}) == 3


@pytest.mark.parametrize("call", [plan_session, lambda request: run_session(request, stream=None)])
def test_a_source_under_another_name_is_asked_about_and_nothing_changes(
    call: Callable[[RunRequest], object], copied: Path
) -> None:
    run, before = copied / "run", content_of(copied / "run")
    source = {"name": "t", "paths": ["*.jsonl"], "language": {"column": "lang"}, "id_column": "name"}
    with pytest.raises(
        ConfigError, match=r"was s renamed to t\? .*write name = 's' again, or use --replace"
    ):
        call(request_of(copied, sources=[source]))
    assert content_of(run) == before


def test_a_trainer_sees_all_rows_or_those_of_the_first_generations(grown: Path) -> None:
    path = grown / "run/datasets/mlm"
    parts = [shardmill.open_dataset(path, generations=1, shuffle=False)]
    for name in ("0001", "0002"):
        own = grown / "run/generations" / name / "datasets/mlm"
        parts.append(shardmill.open_dataset(own, shuffle=False))
    whole = shardmill.open_dataset(path, shuffle=False)
    assert len(whole) == sum(map(len, parts)) > len(parts[0])
    rows = whole.batch(np.arange(len(whole)))
    for name, column in rows.items():
        joined = np.concatenate([part.batch(np.arange(len(part)))[name] for part in parts])
        assert np.array_equal(column, joined), name
    shuffled = shardmill.open_dataset(path)
    taken = shuffled.batch(np.arange(len(shuffled)))["input_ids"]
    assert len(taken) == len(whole)
    two = shardmill.open_dataset(path, generations=2)
    assert len(two) == len(parts[0]) + len(parts[1])
    state = Batches(two, 2).state_dict()
    with pytest.raises(ConfigError, match="generations=N"):
        Batches(shuffled, 2).load_state_dict(state)
    Batches(shardmill.open_dataset(path, generations=2), 2).load_state_dict(state)
    with pytest.raises(ConfigError, match="has 3"):
        shardmill.open_dataset(path, generations=4)


@pytest.mark.parametrize("generation", ["", "generations/0001"])
def test_rows_that_are_missing_before_others_are_not_passed_over(grown: Path, generation: str) -> None:
    manifest = grown / "run" / generation / "datasets/mlm/train/dataset.json"
    away = manifest.rename(manifest.with_suffix(".away"))
    try:
        with pytest.raises(FormatError, match=r"no dataset.json"):
            shardmill.open_dataset(grown / "run/datasets/mlm")
    finally:
        away.rename(manifest)


def test_all_parts_together_map_as_many_files_as_one_dataset(grown: Path) -> None:
    rows = shardmill.open_dataset(grown / "run/datasets/mlm")
    assert isinstance(rows, GrownDataset)
    Blend([rows, rows], [1, 1])
    kept = {id(part.reader.kept[0]): part.reader.kept[0].bound for part in rows.parts}
    assert list(kept.values()) == [MAX_OPEN_SHARDS // 2]


def test_plan_says_what_is_new(grown: Path, copied: Path) -> None:
    steps = plan_session(request_of(grown))
    assert {step.state for step in steps} == {State.DONE}
    assert {step.step.name.split("/")[0] for step in steps} >= {"ingest", "generations"}
    with pytest.raises(ConfigError, match="holds a run of another config"):
        run_session(request_of(copied, seed=9), stream=None)


def test_a_generation_that_was_stopped_is_resumed(
    begun: Path, grown: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(begun, "b.jsonl", second_dump())
    real, stops = Worker.run, 0
    for after in (3, 12, 30):
        done = 0

        def stop(self: Worker, task: object, after: int = after, **how: bool) -> object:
            nonlocal done
            done += 1
            if done > after:
                raise KeyboardInterrupt
            return real(self, task, **how)  # type: ignore[arg-type]

        with monkeypatch.context() as patched:
            patched.setattr(Worker, "run", stop)
            try:
                run_session(request_of(begun), stream=None)
            except Interrupted:
                stops += 1
    run_session(request_of(begun), stream=None)
    assert stops >= 2
    own, other = (content_of(folder / "run/generations/0001") for folder in (begun, grown))
    made = {
        name: digest for name, digest in own.items() if not name.startswith(("commits/scan", "scan/"))
    }
    assert made == {name: other[name] for name in made}


@pytest.mark.campaign  # `test_generations_replaced` counts the documents of such a run
def test_replace_makes_one_run_of_all_files(copied: Path) -> None:
    write(copied, "d.jsonl", [renamed(lines()[0], "last", added=" and the last")])
    report = run_session(replace(request_of(copied), replace=True), stream=None)
    assert not (copied / "run/generations").exists()
    read = [path.read_bytes().count(b"\n") for path in copied.glob("*.jsonl")]
    assert report["documents"]["read"] == sum(read)
    assert len(read) == 4


def test_an_old_file_that_changed_is_refused(begun: Path) -> None:
    known = lines()
    write(begun, "a.jsonl", known[:13])
    write(begun, "b.jsonl", known[14:])
    with pytest.raises(ConfigError, match=r"--replace .* dedup.against"):
        run_session(request_of(begun), stream=None)
    assert not (begun / "run/generations").exists()


def test_a_begun_generation_whose_file_is_gone_says_how_to_begin_anew(begun: Path) -> None:
    write(begun, "b.jsonl", [b'{"text": "short", "name": "q", "lang": "en"}'])
    with pytest.raises(DataError, match="no document is left"):
        run_session(request_of(begun), stream=None)
    (begun / "b.jsonl").unlink()
    write(begun, "c.jsonl", lines()[14:24])
    with pytest.raises(ConfigError, match=r"generations/0001: .* delete its folder and run again"):
        run_session(request_of(begun), stream=None)
    shutil.rmtree(begun / "run/generations/0001")
    assert run_session(request_of(begun), stream=None)["passed"]


def test_replace_makes_one_run_only_where_documents_are_decided_anew(grown: Path) -> None:
    other_texts = request_of(grown, ingest={"min_chars": 30})
    other_rows = request_of(grown, packing={"seq_len": 32, "shards": 2})
    for request, anew in ((other_texts, True), (other_rows, False)):
        own, *later = generation_requests(request)
        assert len(later) == 2
        assert decides_anew(own) is anew


def test_a_stray_file_of_ranks_says_nothing_of_an_earlier_run(grown: Path) -> None:
    stray = grown / "run" / ORDER
    stray.write_bytes(b"")
    try:
        assert not open_earlier(grown / "run", grown_run(), label="run").ranked
    finally:
        stray.unlink()


def test_signatures_of_normalised_texts_are_compared_and_refused_likewise(tmp_path: Path) -> None:
    old, new, known = tmp_path / "old", tmp_path / "new", lines()
    normal: dict[str, object] = {"minhash": {"normalize": ["case"]}}
    write(old, "a.jsonl", known[2:5])
    run_session(request_of(old, dedup=normal, until="dedup"), stream=None)
    write(new, "b.jsonl", [renamed(known[3], "again"), *known[14:16]])
    against = {"against": ["../old/run"]}
    with pytest.raises(
        ConfigError, match=r"normalize is \['case', 'Unicode [\d.]+'\] there and \[\] here"
    ):
        run_session(request_of(new, dedup=against), stream=None)
    run_session(request_of(new, dedup={**against, **normal}, until="dedup"), stream=None)
    removed = pq.read_table(new / "run/dedup/removed.parquet").to_pylist()
    assert [(row["own_id"], row["kept_own_id"]) for row in removed] == [("again", "n3")]


def test_signatures_of_other_settings_are_refused(first: Path, tmp_path: Path) -> None:
    write(tmp_path / "new", "b.jsonl", lines()[6:24])
    dedup = {"against": [str(first / "run")], "minhash": {"size": 3}}
    with pytest.raises(ConfigError, match=r"dedup.minhash.size is 5 there and 3 here"):
        run_session(request_of(tmp_path / "new", dedup=dedup), stream=None)
