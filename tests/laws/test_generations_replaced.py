"""`--replace` says before it works what it makes again of generations, and which it deletes."""

import json
import shutil
from pathlib import Path

import pytest

from tests.called import called
from tests.unpacked_runs import unpack_run

RUN = ("run", "run.toml", "--output", "out", "--workers", "0")
PLAN = ("plan", "run.toml", "--output", "out")
DECIDES = ("--set", "dedup.minhash.threshold=0.7")
PACKS = ("--set", "packing.seq_len=64")
DELETED = "generations 0001 to 0002 (70 documents, 2 datasets) are deleted and all files become one run"
AGAIN = "are made again in each generation; all else stays"


@pytest.fixture
def grown(tmp_path: Path) -> Path:
    """A run of three generations."""
    return unpack_run("grown", tmp_path)


def stored(folder: Path) -> dict[str, bytes]:
    """Return the rows of each generation, by file."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted((folder / "out").rglob("datasets/**/input_ids.npy"))
    }


@pytest.mark.parametrize(("change", "said"), [(DECIDES, DELETED), (PACKS, AGAIN)])
def test_the_refusal_and_the_plan_say_which_of_the_two_happens(
    change: tuple[str, ...], said: str, grown: Path
) -> None:
    before = stored(grown)
    refused = called(*RUN, *change, cwd=grown)
    assert refused.returncode == 2
    assert said in refused.stderr
    planned = called(*PLAN, *change, cwd=grown)
    assert said in planned.stdout
    steps = json.loads(called(*PLAN, *change, "--json", cwd=grown).stdout)
    assert {one["replaced"] is not None for one in steps if one["state"] == "stale"} == {True}
    assert all(said in one["replaced"] for one in steps if one["replaced"])
    assert stored(grown) == before


def test_what_decides_documents_deletes_generations_and_says_so_first(grown: Path) -> None:
    done = called(*RUN, *DECIDES, "--replace", cwd=grown)
    assert done.returncode == 0, done.stderr
    assert DELETED in done.stderr
    assert done.stderr.index(DELETED) < done.stderr.index("read and clean")
    assert not (grown / "out" / "generations").exists()


def test_what_packs_rows_keeps_generations(grown: Path) -> None:
    done = called(*RUN, *PACKS, "--replace", cwd=grown)
    assert done.returncode == 0, done.stderr
    assert "deleted" not in done.stderr
    assert [path.name for path in sorted((grown / "out" / "generations").iterdir())] == ["0001", "0002"]


@pytest.mark.parametrize(
    "wrong",
    [
        ("--set", "resources.memory=64MiB"),
        ("--set", "tokenizer.path=absent.model"),
        ("--until", "draw"),
    ],
    ids=lambda wrong: wrong[1],
)
def test_a_run_that_is_refused_deletes_nothing(wrong: tuple[str, ...], grown: Path) -> None:
    shutil.copy(grown / "later" / "d3.jsonl", grown / "in")
    before = stored(grown)
    refused = called(*RUN, *DECIDES, *wrong, "--replace", cwd=grown)
    assert refused.returncode == 2, refused.stderr
    assert stored(grown) == before


def test_an_export_of_quick_never_lacks_the_rows_of_a_new_file(grown: Path) -> None:
    model = next((grown / "out" / "tokenizer").glob("*.model"))
    quick = ("quick", "in/*.jsonl", "--tokenizer", str(model), "--format", "nanogpt", "--to", "bin")
    assert called(*quick, "--workers", "0", cwd=grown).returncode == 0
    first = (grown / "bin" / "train.bin").read_bytes()
    shutil.copy(grown / "later" / "d3.jsonl", grown / "in")
    refused = called(*quick, "--workers", "0", cwd=grown)
    assert refused.returncode == 2
    assert "--replace" in refused.stderr
    assert (grown / "bin" / "train.bin").read_bytes() == first
    shutil.rmtree(grown / "bin")
    assert called(*quick, "--workers", "0", "--replace", cwd=grown).returncode == 0
    assert len((grown / "bin" / "train.bin").read_bytes()) > len(first)
