"""`--replace` says before it works what it makes again of generations, and which it deletes."""

import contextlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.commands.quick import QuickRequest, run_file
from pipeline.inputs.own_files import REPLACEMENT
from pipeline.run_file.load import load_run_file
from pipeline.session.session import RunRequest, run_session
from tests.called import called
from tests.campaign import some_of
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
        if REPLACEMENT not in path.parts
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
    assert done.stderr.index(DELETED) < done.stderr.index("find near-duplicates")
    assert not (grown / "out" / REPLACEMENT).exists()
    assert called("verify", "out", "--workers", "0", cwd=grown).returncode == 0
    assert not (grown / "out" / "generations").exists()


def test_what_packs_rows_keeps_generations(grown: Path) -> None:
    done = called(*RUN, *PACKS, "--replace", cwd=grown)
    assert done.returncode == 0, done.stderr
    assert "deleted" not in done.stderr
    assert [path.name for path in sorted((grown / "out" / "generations").iterdir())] == ["0001", "0002"]


@pytest.mark.parametrize(
    "wrong",
    [
        ("--set", "sources.web.text_column=absent"),
        ("--set", "tokenizer.train.vocab_size=900000"),
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
    (grown / "in" / "d3.jsonl").unlink()
    assert called(*RUN, cwd=grown).returncode == 0, "the old run is whole"
    assert stored(grown) == before


def test_a_new_run_that_goes_only_as_far_as_asked_deletes_nothing(grown: Path) -> None:
    before = stored(grown)
    report = run_session(replace(request_of(grown), until="ingest"), stream=None)
    assert report["passed"] is None
    assert stored(grown) == before
    assert not (grown / "out" / REPLACEMENT / ".whole").exists()


@pytest.mark.parametrize("calls", some_of([*range(30), 99], 4))
def test_an_exchange_that_was_killed_is_finished_by_the_next_run(
    calls: int, grown: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, rename = calls, Path.rename

    def dying(self: Path, target: Path) -> Path:
        nonlocal left
        if REPLACEMENT in f"{self}{target}" or "removed" in target.name:
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", dying)
        with contextlib.suppress(KeyboardInterrupt):
            run_session(request_of(grown), stream=None)
    done = called(*RUN, *DECIDES, *(() if waits(grown) else ("--replace",)), cwd=grown)
    assert done.returncode == 0, done.stderr
    assert not (grown / "out" / "generations").exists()
    assert not (grown / "out" / REPLACEMENT).exists()
    assert called("verify", "out", "--workers", "0", cwd=grown).returncode == 0
    assert not [path for path in (grown / "out").iterdir() if path.name.startswith(".")]


def waits(folder: Path) -> bool:
    """Say whether a whole run waits to take the place of the old one, or has taken it."""
    return (folder / "out" / REPLACEMENT / ".whole").exists() or not (
        folder / "out/generations"
    ).exists()


def request_of(folder: Path) -> RunRequest:
    """Return a call of `run --replace` with another threshold."""
    file = load_run_file(folder / "run.toml", [DECIDES[1]])
    return RunRequest(file, folder, folder / "out", workers=0, replace=True)


def test_an_export_of_quick_never_lacks_the_rows_of_a_file_that_came_later(grown: Path) -> None:
    model = next((grown / "out" / "tokenizer").glob("*.model"))
    quick = ("quick", "in/*.jsonl", "--tokenizer", str(model), "--format", "nanogpt", "--to", "bin")
    assert called(*quick, "--workers", "0", cwd=grown).returncode == 0
    first = (grown / "bin" / "train.bin").read_bytes()
    shutil.copy(grown / "later" / "d3.jsonl", grown / "in")
    refused = called(*quick, "--workers", "0", cwd=grown)
    assert refused.returncode == 2
    assert "--replace" in refused.stderr
    assert (grown / "bin" / "train.bin").read_bytes() == first
    grow_quick(grown, model)
    assert (grown / "bin.work" / "generations" / "0001").is_dir()
    shutil.rmtree(grown / "bin")
    assert called(*quick, "--workers", "0", "--replace", cwd=grown).returncode == 0
    assert not (grown / "bin.work" / "generations").exists()
    assert len((grown / "bin" / "train.bin").read_bytes()) > len(first)


def grow_quick(folder: Path, model: Path) -> None:
    """Make a generation of new files in the folder of `quick`, as its earlier versions did."""
    asked = QuickRequest((f"{folder}/in/*.jsonl",), model, "nanogpt", folder / "bin")
    file = run_file(asked)
    assert run_session(RunRequest(file, folder, folder / "bin.work", workers=0), stream=None)["passed"]
