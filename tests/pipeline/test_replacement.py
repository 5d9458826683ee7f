"""What the replacement of a folder and its generations promises.

The old run stays as it is until the new one is whole. Then the folder has what the new run has and no
more of a run; its log goes on, and what is nobody's stays.
"""

from pathlib import Path

import pytest

from pipeline.inputs.own_files import REPLACEMENT
from pipeline.session.replacement import begin_replacement, finish_replacement, mark_whole

OLD = {
    "commits/cut/_step.json": "old cut",
    "commits/ingest/_step.json": "old ingest",
    "cut/removed.parquet": "old cuts",
    "datasets/clm/train/dataset.json": "old rows",
    "generations/0001/run.json": "a generation",
    "log.jsonl": "old line\n",
    "notes/mine.txt": "mine",
    "report/counts.json": "old counts",
    "run.json": "old",
    "verify/clm/verdict.json": "old verdict",
}


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files in place, as reports are."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def held(folder: Path) -> dict[str, str]:
    """Return the files of a folder but those of a replacement."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {
        name: path.read_text("utf-8")
        for name, path in files.items()
        if not name.startswith(f"{REPLACEMENT}/")
    }


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """A run with a generation."""
    write(tmp_path / "run", OLD)
    return tmp_path / "run"


def test_what_the_new_run_writes_changes_nothing_of_the_old_one(output: Path) -> None:
    beside = begin_replacement(output)
    assert held(beside).keys() == OLD.keys() - {"generations/0001/run.json", "log.jsonl"}
    rows = "datasets/clm/train/dataset.json"
    assert (beside / rows).samefile(output / rows), "what stays is a link"
    write(beside, {"report/counts.json": "new", "verify/clm/verdict.json": "new", "log.jsonl": "new"})
    assert held(output) == OLD
    assert begin_replacement(output) == beside
    assert held(beside)["verify/clm/verdict.json"] == "new", "a second call goes on with it"


def test_the_folder_has_what_the_new_run_has_and_what_is_nobodys(output: Path) -> None:
    beside = begin_replacement(output)
    for path in (beside / "cut", beside / "commits/cut"):
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    (beside / "run.json").unlink()
    write(beside, {"run.json": "new", "tokens/a/ids.npy": "new ids", "log.jsonl": "new line\n"})
    write(output, {"later/too.txt": "mine too"})
    mark_whole(output)
    finish_replacement(output)
    gone = {"commits/cut/_step.json", "cut/removed.parquet", "generations/0001/run.json"}
    stays = {name: text for name, text in OLD.items() if name not in gone}
    assert held(output) == {
        **stays,
        "later/too.txt": "mine too",
        "log.jsonl": "old line\nnew line\n",
        "run.json": "new",
        "tokens/a/ids.npy": "new ids",
    }
    assert sorted(path.name for path in output.iterdir() if path.name.startswith(".")) == []
    assert not (output / "cut").exists()
