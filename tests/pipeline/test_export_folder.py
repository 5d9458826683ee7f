"""What the folder of an export promises.

It is never the run's; what is called whole is whole, and of what was asked for; what the disk refuses is
one line, and one process at a time is at it.
"""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.tools.export import folder as export_folder
from pipeline.tools.export import folder as export_parts
from pipeline.tools.export.folder import DonePart
from stages.errors import ConfigError, FormatError, Stopped
from stages.export.source import open_source
from stages.store.drawn import DRAWN_NAME, DrawnManifest, write_drawn
from stages.store.manifest import FORMAT_VERSION, MANIFEST_NAME
from tests.pipeline.exporting import SPLITS, TRAIN, build_both, contents, export
from tests.stages.export.built_dataset import EOS, build_dataset

pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a dataset of both splits that stores where sentences end."""
    return build_both(tmp_path / "run")


@pytest.mark.parametrize("change", ["gone", "cut", "grown"])
def test_a_finished_export_of_which_a_file_was_changed_is_not_called_whole(
    run: Path, tmp_path: Path, change: str
) -> None:
    export(run, tmp_path / "out")
    file = tmp_path / "out" / "train.bin"
    if change == "gone":
        file.unlink()
    else:
        os.truncate(file, 26 if change == "cut" else 30)
    found = {"gone": "gone", "cut": "26 bytes", "grown": "30 bytes"}[change]
    said = rf"train\.bin: {found}, but 28 bytes were exported; delete .*out and export again"
    with pytest.raises(FormatError, match=said):
        export(run, tmp_path / "out")


def test_a_new_journal_has_its_name_on_the_disk_before_a_part_is_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(export_folder, "sync_path", synced.append)
    identity = export_folder.Identity(format="megatron", dataset="clm", epoch=0, splits={})
    assert export_folder.resume_parts(tmp_path, identity) == []
    assert synced == [tmp_path]
    assert export_folder.resume_parts(tmp_path, identity) == []
    assert synced == [tmp_path], "the journal was there"


def test_an_export_never_lies_in_the_run_nor_is_it_made_over_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(run)
    build_dataset(tmp_path / "out.partial", SPLITS)
    monkeypatch.chdir(run)
    for folder, to in (
        (run, run),
        (run, run / "tmp" / "out"),
        (run, tmp_path / "link" / "out"),
        (run, Path("out")),
        (Path(), run / "out"),
        (run, tmp_path),
        (tmp_path / "out.partial", tmp_path / "out"),
    ):
        before = contents(tmp_path)
        with pytest.raises(ConfigError, match="overlaps with the run folder"):
            export(folder, to)
        assert contents(tmp_path) == before
    assert export(run, tmp_path / "run2")["files"], "a name that begins alike is another folder"


def test_a_row_export_is_the_same_whatever_epochs_stand_on_disk(tmp_path: Path) -> None:
    folder = build_dataset(tmp_path / "run", {"train": TRAIN}) / "train"
    export(tmp_path / "run", tmp_path / "out", "safetensors")
    made = json.loads((folder / MANIFEST_NAME).read_text())["fingerprint"]
    drawn = DrawnManifest(
        format_version=FORMAT_VERSION, dataset=made, epochs=0, columns={}, shards=()
    ).signed()
    write_drawn(folder / DRAWN_NAME, drawn)
    assert export(tmp_path / "run", tmp_path / "out", "safetensors")["already"]
    by_model = drawn.model_copy(update={"generator": "v2"}).signed()
    write_drawn(folder / DRAWN_NAME, by_model)
    with pytest.raises(ConfigError, match="the dataset was made anew since"):
        export(tmp_path / "run", tmp_path / "out", "safetensors")


def test_epochs_that_cannot_be_drawn_again_are_part_of_what_an_export_is(
    run: Path, tmp_path: Path
) -> None:
    places = [run / "datasets" / "tiny" / split / DRAWN_NAME for split in SPLITS]
    drawn = [json.loads(place.read_text())["fingerprint"] for place in places]
    assert [open_source(place.parents[1], split=place.parent.name).drawn for place in places] == drawn
    assert not list(tmp_path.glob("out*"))


def test_what_the_disk_refuses_is_one_line_that_names_the_file(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file.partial").write_text("mine")
    (tmp_path / "folder" / "export.json").mkdir(parents=True)
    (tmp_path / "inner").write_text("mine")
    for name, said in (
        ("file", r"--to .*/file: cannot be made: .*/file\.partial: File exists"),
        ("folder", r"folder/export\.json: is a folder, not a file; delete"),
        ("inner/out", r"--to .*inner/out: cannot be made: .*Not a directory"),
    ):
        with pytest.raises((ConfigError, FormatError), match=said):
            export(run, tmp_path / name)


LIMITED = """
import resource, sys
from pipeline.tools.export.dataset import export
from stages.errors import Stopped

run, to, *formats = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (int(1e3), resource.RLIM_INFINITY))
for name in formats:
    try:
        export(run, "tiny", name, f"{to}-{name}")
    except Stopped as error:
        print(error)
"""


def test_a_file_that_may_not_grow_is_named(tmp_path: Path) -> None:
    formats = ["megatron", "olmo-core", "hf", "hf-parquet"]
    build_dataset(tmp_path / "run", {"train": [[[*range(10, 290), EOS]] * 9]})
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "run"), str(tmp_path / "out"), *formats]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert not done.stderr
    for name, line in zip(formats, done.stdout.splitlines(), strict=True):
        assert line.startswith(f"{tmp_path}/out-{name}.partial/train")
        assert ": File too large: a file of this process may have 1000 B (ulimit -f); raise the" in line
        export(tmp_path / "run", tmp_path / f"out-{name}", name)


@pytest.mark.parametrize(
    ("number", "said"), [(errno.ENOSPC, "the disk is full"), (errno.EDQUOT, "the disk quota is used up")]
)
def test_a_disk_without_room_stops_an_export_that_goes_on_later(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, number: int, said: str
) -> None:
    def refuse(folder: Path, done: DonePart) -> None:
        raise OSError(number, os.strerror(number), str(folder / done.part))

    with monkeypatch.context() as patch:
        patch.setattr(export_parts, "record_part", refuse)
        with pytest.raises(Stopped, match=f"{said}.*; free space and run again to resume"):
            export(run, tmp_path / "out")
    assert not export(run, tmp_path / "out")["already"]


def test_the_lock_is_held_until_the_folder_has_its_name(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, tried = Path.rename, []

    def rename_late(self: Path, target: Path) -> Path:
        with pytest.raises(Stopped, match="in use by process"):
            export(run, tmp_path / "out")
        tried.append(target)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", rename_late)
    export(run, tmp_path / "out")
    assert tried == [tmp_path / "out"]
    assert not {"lock", "parts.jsonl"} & contents(tmp_path / "out").keys()
    (tmp_path / "out" / "lock").write_text("of a process that was killed after the rename")
    assert export(run, tmp_path / "out")["already"]
    assert "lock" not in contents(tmp_path / "out")
