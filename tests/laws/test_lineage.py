"""Lineage: each dataset says which generation it is of, and what that generation rests on.

So a reader that has nothing but datasets refuses a generation in the place of another. What is said is a
function of content: not of the folder, nor of how often datasets were made again.
"""

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import shardmill
from pipeline.session.session import run_session
from pipeline.session.verifying import verify_session
from pipeline.steps.run_folder import KEEPING, RunFolder
from stages.errors import ConfigError, FormatError
from stages.store.manifest import read_manifest
from tests.called import called
from tests.laws.grown_folders import (
    MIX,
    lines,
    make_first,
    make_grown,
    make_mixed,
    renamed,
    request_of,
    write,
)
from tests.made_once import MadeOnce
from tests.unpacked_runs import unpack_run

NUMBERS = (1, 2)
NOTHING: dict[str, Any] = {"dedup": {"exact": False, "near": False}}


def place(folder: Path, number: int) -> Path:
    """Return the folder of a generation; 0 is the run's own."""
    return folder / "run" / "generations" / f"{number:04d}" if number else folder / "run"


def dataset(folder: Path, number: int = 0) -> Path:
    """Return the dataset of a generation."""
    return place(folder, number) / "datasets" / "mlm"


@pytest.fixture(scope="module")
def grown(made_once: MadeOnce) -> Path:
    """A run and two generations."""
    return made_once(partial(make_grown, made_once(make_first)))


@pytest.fixture(scope="module")
def foreign(made_once: MadeOnce) -> Path:
    """A run of other documents, with a generation."""
    return made_once(make_mixed)


def assert_refused(folder: Path, number: int, **changes: Any) -> None:
    """Hold the loader, `status`, `verify` and `run` to refusing a folder by a generation's number."""
    named = f"generation {number:04d} "
    with pytest.raises(FormatError, match=named):
        shardmill.open_dataset(dataset(folder))
    for command in (("status", "run"), ("verify", "run", "--workers", "0")):
        done = called(*command, cwd=folder)
        assert done.returncode == 2, (command, done.stdout, done.stderr)
        assert named in done.stderr, command
    with pytest.raises((ConfigError, FormatError), match=named):
        run_session(request_of(folder, **changes), stream=None)


@pytest.mark.parametrize("number", [0, *NUMBERS])
def test_a_validation_split_that_is_taken_away_is_missed(number: int, copied: Path) -> None:
    shutil.rmtree(dataset(copied, number) / "validation")
    path = dataset(copied)
    assert len(shardmill.open_dataset(path)) > 0
    with pytest.raises((ConfigError, FormatError), match="validation"):
        shardmill.open_dataset(path, split="validation")


def test_each_dataset_names_the_generation_before_it(copied: Path) -> None:
    for split in ("train", "validation"):
        before = None
        for number in (0, *NUMBERS):
            own = read_manifest(dataset(copied, number) / split).lineage
            assert own is not None
            assert (own.number, own.after) == (number, before)
            before = own.digest
    assert len(shardmill.open_dataset(dataset(copied))) > 0


def test_generations_in_another_order_are_refused(copied: Path) -> None:
    aside = place(copied, 1).rename(copied / "aside")
    place(copied, 2).rename(place(copied, 1))
    aside.rename(place(copied, 2))
    assert_refused(copied, 1)


@pytest.mark.parametrize(("one", "other"), [(1, 2), (2, 1)], ids=str)
def test_a_copy_of_a_generation_in_the_place_of_another_is_refused(
    one: int, other: int, copied: Path
) -> None:
    shutil.rmtree(place(copied, other))
    shutil.copytree(place(copied, one), place(copied, other))
    assert_refused(copied, other)


def test_a_generation_of_another_run_is_refused(copied: Path, foreign: Path) -> None:
    shutil.rmtree(place(copied, 1))
    shutil.copytree(place(foreign, 1), place(copied, 1))
    assert_refused(copied, 1)


@pytest.mark.campaign
def test_without_deduplication_too(tmp_path: Path) -> None:
    known, folders = lines(), {added: tmp_path / f"run{added}" for added in ("", " more")}
    for added, folder in folders.items():
        texts = [renamed(line, f"n{n}", added=added) for n, line in enumerate(known)]
        for name, documents in (("a.jsonl", texts[:8]), ("b.jsonl", texts[14:20])):
            write(folder, name, documents)
            run_session(request_of(folder, **NOTHING), stream=None)
    one, other = folders.values()
    shutil.rmtree(place(one, 1))
    shutil.copytree(place(other, 1), place(one, 1))
    assert_refused(one, 1, **NOTHING)


def edit(folder: Path, key: str) -> None:
    """Let a dataset name another digest."""
    manifest = read_manifest(folder)
    assert manifest.lineage is not None
    other = manifest.lineage.model_copy(update={key: "0" * 64})
    changed = manifest.model_copy(update={"lineage": other})
    file = folder / "dataset.json"
    file.write_text(json.dumps(changed.signed().model_dump(mode="json")), encoding="utf-8")


def test_verify_holds_a_dataset_to_what_the_run_decided(copied: Path) -> None:
    edits = {1: ("train", "digest"), 2: ("validation", "after")}
    for number, (split, key) in edits.items():
        edit(dataset(copied, number) / split, key)
    report = verify_session(copied / "run", workers=0, address=None, stream=None)
    assert not report["passed"]
    assert report["verify"]["mlm"]["findings"] == [], "the first generation is as it was"
    for number, (split, _) in edits.items():
        findings = report["generations"][f"{number:04d}"]["verify"]["mlm"]["findings"]
        found = [one for one in findings if one["message"].startswith("lineage = ")]
        assert {one["file"] for one in found} == {f"datasets/mlm/{split}/dataset.json"}, findings
        changed = [f"datasets/mlm/{split}/{name}.json" for name in ("dataset", "drawn")]
        assert {one["file"] for one in findings} == {*changed, "commits/shard-mlm/_step.json"}


def remade(folder: Path, **changes: Any) -> list[str]:
    """Return the digests after datasets were made again."""
    run_session(replace(request_of(folder, **changes), replace=True), stream=None)
    return digests(folder)


def digests(folder: Path) -> list[str]:
    """Return the digest of the run and of its generation."""
    found = [read_manifest(dataset(folder, number) / "train").lineage for number in (0, 1)]
    return [one.digest for one in found if one is not None]


def test_datasets_that_are_made_again_change_no_digest_and_a_split_changes_all(
    foreign: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(foreign, tmp_path / "run"))
    before, rows = digests(folder), len(shardmill.open_dataset(dataset(folder)))
    assert len(before) == 2
    assert remade(folder, **MIX, packing={"seq_len": 32, "shards": 2}) == before
    assert len(shardmill.open_dataset(dataset(folder))) > rows
    after = remade(folder, **MIX, validation={"fraction": 0.5})
    assert len(set(before) & set(after)) == 0
    assert len(shardmill.open_dataset(dataset(folder))) > 0


def test_a_generation_that_has_not_decided_all_has_no_digest(tmp_path: Path) -> None:
    """Its reading, its split and its tokenizer decide; a digest without one would be that of another."""
    out = unpack_run("grown", tmp_path) / "out"
    whole, keeping = RunFolder(out).digest(None), RunFolder(out).digest(None, KEEPING)
    assert None not in (whole, keeping)
    for step in ("ingest", "split", "tokenizer"):
        commit = out / "commits" / step / "_step.json"
        aside = commit.rename(commit.with_suffix(".aside"))
        assert RunFolder(out).digest(None) is None, step
        assert RunFolder(out).digest(None, KEEPING) == (None if step == "ingest" else keeping), step
        aside.rename(commit)
    assert RunFolder(out).digest(None) == whole
