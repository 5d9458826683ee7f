"""What the lines to read promise: Python that names the files, whatever the folder is called."""

import ast
import glob
from pathlib import Path

import pytest

from stages.export.source import ExportSource, open_source
from stages.export.table import FORMATS
from tests.stages.export.built_dataset import EOS, build_dataset

NAMES = (
    "plain",
    'a "quoted" name',
    "it's",
    "back\\slash",
    "run[1]",
    "what?*",
    "na\u00efve \U0001f600",
    "{x}",
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> ExportSource:
    """A split of one document, of a kind that every format takes."""
    run = tmp_path_factory.mktemp("run")
    path = build_dataset(run, {"train": [[[10, EOS]]]}, sentences={"train": [[[2]]]})
    return open_source(path, split="train")


def paths_in(lines: str, folder: str) -> list[str]:
    """Return the strings that begin with the folder's name."""
    nodes = [node for node in ast.walk(ast.parse(lines)) if isinstance(node, ast.Constant)]
    strings = [node.value for node in nodes if isinstance(node.value, str)]
    return [one for one in strings if one.startswith((folder, glob.escape(folder)))]


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("name", NAMES)
def test_lines_name_the_files_of_any_folder(
    source: ExportSource, tmp_path: Path, *, format_: str, name: str
) -> None:
    folder = tmp_path / name
    (folder / "train").mkdir(parents=True)
    for file in ("train/00000.npy", "train/train-0.parquet", "train/0.array_record"):
        (folder / file).touch()
    (found,) = paths_in(FORMATS[format_].read([source], str(folder)), str(folder))
    if "*." in found:
        assert len(glob.glob(found)) == 1  # noqa: PTH207  # as the readers do
    else:
        inside = Path(found).is_relative_to(folder / "train") or Path(found).parent == folder
        assert Path(found) == folder if format_ == "hf" else inside


@pytest.mark.parametrize("format_", FORMATS)
def test_lines_of_a_plain_folder_are_plain(source: ExportSource, format_: str) -> None:
    (found,) = paths_in(FORMATS[format_].read([source], "EXPORT"), "EXPORT")
    assert found == "EXPORT" if format_ == "hf" else found.startswith("EXPORT/train")
