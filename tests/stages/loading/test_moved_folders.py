"""What a dataset promises whose folder, or whose process, moved since it was opened.

The path is made absolute when the dataset is opened, and links are not followed. So the process may
change its folder, and a link may lead elsewhere. A copy looks again where a relative path leads.
"""

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from stages.loading.batches import Batches
from stages.loading.dataset import ShardDataset
from stages.loading.grown import open_dataset
from stages.loading.torch_loader import Loader
from tests.stages.loading.test_blend import PERMUTED
from tests.stages.loading.test_dataset import write_dataset
from tests.stages.loading.test_drawn_epochs import with_epochs


def ids(rows: ShardDataset) -> list[list[int]]:
    """Return the ids of all rows of the epoch."""
    found: list[list[int]] = rows.batch(np.arange(len(rows)))["input_ids"].tolist()
    return found


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("made", ["one", "grown", "drawn"])
def test_a_process_may_change_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: Path, made: str
) -> None:
    run = tmp_path / "run"
    if made == "drawn":
        path = with_epochs(run / "datasets", changes=PERMUTED)
    else:
        path = write_dataset(run / "datasets")
    if made == "grown":
        write_dataset(run / "generations/0001/datasets")
    wanted = ids(open_dataset(path))
    monkeypatch.chdir(tmp_path)
    rows = open_dataset(path.relative_to(tmp_path))
    monkeypatch.chdir(elsewhere)
    assert ids(rows) == wanted
    assert rows.folder == path / "train"
    assert ids(pickle.loads(pickle.dumps(rows))) == wanted  # noqa: S301  # our own bytes


@pytest.mark.slow
def test_workers_that_start_after_the_process_moved_read_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: Path
) -> None:
    write_dataset(tmp_path)
    monkeypatch.chdir(tmp_path)
    rows = open_dataset("clm")
    loader = Loader(Batches(rows, 2), num_workers=1, start="spawn")
    wanted = [batch["input_ids"].tolist() for batch in Batches(rows, 2)]
    monkeypatch.chdir(elsewhere)
    assert [batch["input_ids"].tolist() for batch in loader] == wanted
    assert len(wanted) == 2


def test_links_are_not_followed(tmp_path: Path) -> None:
    path = write_dataset(tmp_path / "first")
    link = tmp_path / "link"
    link.symlink_to(path)
    rows = open_dataset(link)
    assert rows.folder == link / "train"
    wanted = ids(rows)
    rows.release()
    shutil.copytree(path, tmp_path / "second")
    link.unlink()
    link.symlink_to(tmp_path / "second")
    shutil.rmtree(path)
    assert ids(rows) == wanted


@pytest.mark.parametrize("made", ["one", "drawn"])
def test_a_pickle_finds_a_folder_that_was_moved_with_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    path = with_epochs(Path(), changes=PERMUTED) if made == "drawn" else write_dataset(Path())
    rows = open_dataset(path)
    content, wanted = pickle.dumps(rows), ids(rows)
    (tmp_path / "here").rename(tmp_path / "there")
    monkeypatch.chdir(tmp_path / "there")
    assert ids(pickle.loads(content)) == wanted  # noqa: S301  # our own bytes
