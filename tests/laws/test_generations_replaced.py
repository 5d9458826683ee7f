"""`--replace` says before it works what it makes again of generations, and which it deletes."""

import contextlib
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from pipeline.inputs.own_files import REPLACEMENT
from pipeline.run_file.load import load_run_file
from pipeline.session import session
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.state.storage import TEMPORARY
from pipeline.tools.export.quick import quick_run_file
from tests.called import called
from tests.campaign import FULL, some_of
from tests.laws.grown_folders import content_of
from tests.unpacked_runs import unpack_run

RUN = ("run", "run.toml", "--output", "out", "--workers", "0")
PLAN = ("plan", "run.toml", "--output", "out")
DECIDES = ("--set", "dedup.minhash.threshold=0.7")
MOMENTS = [*range(28), 99]
"""Changes of names before a kill. With the last there is none, and how many there are is counted."""
PACKS = ("--set", "packing.seq_len=64")
DELETED = "generations 0001 to 0002 (70 documents, 2 datasets) are deleted and all files become one run"
AGAIN = "are made again in each generation; all else stays"


class Replaced(NamedTuple):
    """A folder, and what the command said that made one run of its generations."""

    folder: Path
    said: subprocess.CompletedProcess[str]


@pytest.fixture
def grown(tmp_path: Path) -> Path:
    """A run of three generations."""
    return unpack_run("grown", tmp_path)


@pytest.fixture(scope="module")
def replaced(tmp_path_factory: pytest.TempPathFactory) -> Replaced:
    """Such a run in whose place one run of all files is, and what was said of it."""
    folder = unpack_run("grown", tmp_path_factory.mktemp("replaced"))
    return Replaced(folder, called(*RUN, *DECIDES, "--replace", cwd=folder))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a run, killed as the new one was whole and nothing was exchanged yet."""
    folder = unpack_run("grown", tmp_path_factory.mktemp("whole"))

    def killed(_: Path) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(session, "finish_replacement", killed)
        run_session(request_of(folder), stream=None)
    assert (folder / "out" / REPLACEMENT / ".whole").exists()
    return folder


def kept(folder: Path) -> dict[str, str]:
    """Return the digest of every file of a run, but for those about sessions and places of inputs."""
    content = content_of(folder / "out")
    return {
        name: digest
        for name, digest in content.items()
        if not name.startswith(("commits/scan", "scan/"))
    }


def every(folder: Path) -> dict[str, str]:
    """Return the digest of every file of the run and its generations, but for those about sessions."""
    folders = [folder / "out", *sorted((folder / "out" / "generations").iterdir())]
    found = {f"{one.name}/{name}": it for one in folders for name, it in content_of(one).items()}
    return {name: digest for name, digest in found.items() if f"/{REPLACEMENT}/" not in name}


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


def test_what_decides_documents_deletes_generations_and_says_so_first(replaced: Replaced) -> None:
    folder, done = replaced
    assert done.returncode == 0, done.stderr
    assert DELETED in done.stderr
    assert done.stderr.index(DELETED) < done.stderr.index("find near-duplicates")
    assert not (folder / "out" / REPLACEMENT).exists()
    assert called("verify", "out", "--workers", "0", cwd=folder).returncode == 0
    assert not (folder / "out" / "generations").exists()
    report = json.loads((folder / "out" / "report" / "report.json").read_text())
    read = sum(path.read_bytes().count(b"\n") for path in (folder / "in").glob("*.jsonl"))
    assert report["documents"]["read"] == read


@pytest.mark.campaign  # that generations stay, `test_lineage` says too
def test_what_packs_rows_keeps_generations(grown: Path) -> None:
    done = called(*RUN, *PACKS, "--replace", cwd=grown)
    assert done.returncode == 0, done.stderr
    assert "deleted" not in done.stderr
    assert [path.name for path in sorted((grown / "out" / "generations").iterdir())] == ["0001", "0002"]


@pytest.mark.parametrize(
    "wrong",
    [
        ("--set", "sources.web.text_column=absent"),
        pytest.param(("--set", "tokenizer.train.vocab_size=900000"), marks=pytest.mark.campaign),
        ("--set", "resources.memory=64MiB"),
        ("--set", "tokenizer.path=absent.model"),
        ("--until", "draw"),
    ],
    ids=lambda wrong: wrong[1],
)
def test_a_run_that_is_refused_deletes_nothing(wrong: tuple[str, ...], grown: Path) -> None:
    shutil.copy(grown / "later" / "d3.jsonl", grown / "in")
    before, rows = every(grown), stored(grown)
    refused = called(*RUN, *DECIDES, *wrong, "--replace", cwd=grown)
    assert refused.returncode == 2, refused.stderr
    assert every(grown) == before, "the old run is whole"
    if (grown / "out" / REPLACEMENT).exists():
        (grown / "in" / "d3.jsonl").unlink()
        assert called(*RUN, cwd=grown).returncode == 0, "it goes on beside what is left of the new one"
        assert stored(grown) == rows


def test_a_new_run_that_goes_only_as_far_as_asked_deletes_nothing_and_is_finished_by_the_next(
    grown: Path, replaced: Replaced
) -> None:
    before = stored(grown)
    report = run_session(replace(request_of(grown), until="ingest"), stream=None)
    assert report["passed"] is None
    assert stored(grown) == before
    assert not (grown / "out" / REPLACEMENT / ".whole").exists()
    finish(grown, replaced)


@pytest.mark.parametrize("calls", MOMENTS if FULL else MOMENTS[-1:])
def test_a_new_run_that_was_killed_is_finished_by_the_next_command(
    calls: int, grown: Path, replaced: Replaced, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(grown, calls, monkeypatch)
    finish(grown, replaced)


@pytest.mark.parametrize("calls", some_of(range(20), 3))
def test_an_exchange_that_was_killed_is_finished_by_the_next_run(
    calls: int, whole: Path, replaced: Replaced, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "grown"))
    kill(folder, calls, monkeypatch)
    finish(folder, replaced)


def kill(folder: Path, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin a replacement, and end it when it gives a new run, or something old, another name."""
    left, rename = calls, Path.rename

    def dying(self: Path, target: Path) -> Path:
        nonlocal left
        is_new = REPLACEMENT in f"{self}{target}" and TEMPORARY not in self.parts
        if is_new or "removed" in target.name:
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", dying)
        with contextlib.suppress(KeyboardInterrupt):
            run_session(request_of(folder), stream=None)
    assert left < 0 or calls - left == MOMENTS[-2] + 1, "it was killed, or had all the moments"


def finish(folder: Path, replaced: Replaced) -> None:
    """Run again, and hold what is there to a replacement that nothing disturbed."""
    done = called(*RUN, *DECIDES, *(() if waits(folder) else ("--replace",)), cwd=folder)
    assert done.returncode == 0, done.stderr
    assert not (folder / "out" / "generations").exists()
    assert not [path for path in (folder / "out").iterdir() if path.name.startswith(".")]
    assert kept(folder) == kept(replaced.folder)


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
    file = quick_run_file([f"{folder}/in/*.jsonl"], model)
    assert run_session(RunRequest(file, folder, folder / "bin.work", workers=0), stream=None)["passed"]
