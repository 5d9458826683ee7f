"""Lineage: each dataset says which generation it is of, and what that generation rests on.

So a reader that has nothing but datasets refuses a generation in the place of another. What is said is a
function of content: not of the folder, nor of how often datasets were made again.
"""

import itertools
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import shardmill
from pipeline.steps.lineage import KEEPING, digest_of
from stages.errors import ConfigError, FormatError
from stages.store.manifest import read_manifest
from tests.called import called
from tests.campaign import FULL, some_of
from tests.unpacked_runs import generation_of as place
from tests.unpacked_runs import unpack_run

NUMBERS = (1, 2, 3) if FULL else (1, 2)
"""Generations; a third one is checked as the second is."""
ORDERS = [order for order in itertools.permutations(NUMBERS) if order != NUMBERS]
COPIES = [(one, other) for one, other in itertools.permutations(NUMBERS, 2)]
TAKEN = some_of(NUMBERS, 1)
"""Generations in whose place one of another run is put."""
RUN = ("run", "run.toml", "--output", "out", "--workers", "0")


def grow(folder: Path, dumps: Sequence[Path]) -> None:
    """Make a run anew, and a generation of it of each dump after the first."""
    shutil.rmtree(folder / "out")
    shutil.rmtree(folder / "in")
    (folder / "in").mkdir()
    for dump in dumps:
        shutil.copy(dump, folder / "in")
        done = called(*RUN, cwd=folder)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run and its generations."""
    folder = unpack_run("grown", tmp_path_factory.mktemp("lineage"))
    kept = Path(shutil.copytree(folder / "in", folder / "all"))
    shutil.copy(folder / "later" / "d3.jsonl", kept)
    grow(folder, sorted(kept.iterdir())[: len(NUMBERS) + 1])
    return folder


def assert_refused(folder: Path, number: int) -> None:
    """Hold the loader, `status` and `verify` to refusing a folder by the number of a generation."""
    with pytest.raises(FormatError, match=f"generation {number:04d} "):
        shardmill.open_dataset(folder / "out" / "datasets" / "clm")
    for command in (("status", "out"), ("verify", "out", "--workers", "0"), RUN):
        done = called(*command, cwd=folder)
        assert done.returncode == 2, (command, done.stdout, done.stderr)
        assert f"generation {number:04d} " in done.stderr, command


@pytest.mark.parametrize("number", [0, *NUMBERS])
def test_a_validation_split_that_is_taken_away_is_missed(number: int, copied: Path) -> None:
    shutil.rmtree(place(copied, number) / "datasets" / "clm" / "validation")
    path = copied / "out" / "datasets" / "clm"
    assert len(shardmill.open_dataset(path)) > 0
    with pytest.raises((ConfigError, FormatError), match="validation"):
        shardmill.open_dataset(path, split="validation")


def test_each_dataset_names_the_generation_before_it(grown: Path) -> None:
    for split in ("train", "validation"):
        before = None
        for number in (0, *NUMBERS):
            own = read_manifest(place(grown, number) / "datasets" / "clm" / split).lineage
            assert own is not None
            assert (own.number, own.after) == (number, before)
            before = own.digest
    done = called("verify", "out", "--workers", "0", "--json", cwd=grown)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["passed"]
    assert {name: one["passed"] for name, one in report["generations"].items()} == {
        f"{number:04d}": True for number in NUMBERS
    }
    assert len(shardmill.open_dataset(grown / "out" / "datasets" / "clm")) > 0


@pytest.mark.parametrize("order", some_of(ORDERS, 2), ids=str)
def test_generations_in_another_order_are_refused(order: Sequence[int], copied: Path) -> None:
    for number in NUMBERS:
        place(copied, number).rename(copied / f"aside{number}")
    for number, other in zip(NUMBERS, order, strict=True):
        (copied / f"aside{other}").rename(place(copied, number))
    wrong = next(n for n, other in zip(NUMBERS, order, strict=True) if n != other)
    assert_refused(copied, wrong)


@pytest.mark.parametrize(("one", "other"), some_of(COPIES, 2), ids=str)
def test_a_copy_of_a_generation_in_the_place_of_another_is_refused(
    one: int, other: int, copied: Path
) -> None:
    shutil.rmtree(place(copied, other))
    shutil.copytree(place(copied, one), place(copied, other))
    assert_refused(copied, other)


@pytest.fixture(scope="module")
def foreign(grown: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run like it whose documents are others, with the generations that are taken from it."""
    folder = Path(shutil.copytree(grown, tmp_path_factory.mktemp("foreign") / "run"))
    dumps = sorted((folder / "all").iterdir())
    for dump in dumps:
        records = [json.loads(line) for line in dump.read_text("utf-8").splitlines()]
        dump.write_text(
            "".join(json.dumps({**one, "text": one["text"] + " more"}) + "\n" for one in records),
            encoding="utf-8",
        )
    grow(folder, dumps[: max(TAKEN) + 1])
    return folder


@pytest.mark.parametrize("number", TAKEN)
def test_a_generation_of_another_run_is_refused(number: int, copied: Path, foreign: Path) -> None:
    shutil.rmtree(place(copied, number))
    shutil.copytree(place(foreign, number), place(copied, number))
    assert_refused(copied, number)


@pytest.mark.campaign
@pytest.mark.parametrize("number", NUMBERS)
def test_without_deduplication_too(number: int, copied: Path, foreign: Path) -> None:
    for folder in (copied, foreign):
        run = folder / "run.toml"
        if "exact" not in run.read_text("utf-8"):
            run.write_text(run.read_text("utf-8") + "[dedup]\nexact = false\nnear = false\n", "utf-8")
            grow(folder, sorted((folder / "all").iterdir()))
    shutil.rmtree(place(copied, number))
    shutil.copytree(place(foreign, number), place(copied, number))
    assert_refused(copied, number)


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
        edit(place(copied, number) / "datasets" / "clm" / split, key)
    done = called("verify", "out", "--workers", "0", "--json", cwd=copied)
    assert done.returncode == 3
    for number, (split, _) in edits.items():
        findings = json.loads(done.stdout)["generations"][f"{number:04d}"]["verify"]["clm"]["findings"]
        found = [one for one in findings if one["message"].startswith("lineage = ")]
        assert {one["file"] for one in found} == {f"datasets/clm/{split}/dataset.json"}, findings


def remade(change: tuple[str, ...], folder: Path) -> list[str]:
    """Return the digests after datasets were made again."""
    done = called(*RUN, *change, "--replace", cwd=folder)
    assert done.returncode == 0, done.stderr
    return digests(folder)


def digests(folder: Path) -> list[str]:
    """Return the digest of the run and of its first generation."""
    read: Callable[[int], Path] = lambda n: place(folder, n) / "datasets" / "clm" / "train"  # noqa: E731
    found = [read_manifest(read(number)).lineage for number in (0, 1)]
    return [one.digest for one in found if one is not None]


def test_datasets_that_are_made_again_change_no_digest_and_a_split_changes_all(copied: Path) -> None:
    for number in NUMBERS[1:]:
        shutil.rmtree(place(copied, number))
        (copied / "in" / f"d{number}.jsonl").unlink()
    before, path = digests(copied), copied / "out" / "datasets" / "clm"
    assert len(before) == 2
    assert remade(("--set", "packing.seq_len=64"), copied) == before
    assert len(shardmill.open_dataset(path)) > 0
    after = remade(("--set", "validation.fraction=0.3"), copied)
    assert len(set(before) & set(after)) == 0
    assert len(shardmill.open_dataset(path)) > 0


def test_a_generation_that_has_not_decided_all_has_no_digest(tmp_path: Path) -> None:
    """Its reading, its split and its tokenizer decide; a digest without one would be that of another."""
    out = unpack_run("grown", tmp_path) / "out"
    whole, keeping = digest_of(out, None), digest_of(out, None, KEEPING)
    assert None not in (whole, keeping)
    for step in ("ingest", "split", "tokenizer"):
        commit = out / "commits" / step / "_step.json"
        aside = commit.rename(commit.with_suffix(".aside"))
        assert digest_of(out, None) is None, step
        assert digest_of(out, None, KEEPING) == (None if step == "ingest" else keeping), step
        aside.rename(commit)
    assert digest_of(out, None) == whole
