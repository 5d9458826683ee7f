"""What tests of laws share."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from stages.verify import drawn


@pytest.fixture(scope="module")
def few_redrawn() -> Iterator[None]:
    """32 rows of each part are drawn again by the plain functions in this process, not 256.

    For runs of dozens of datasets: a third of their time would be these rows. Every kind is still
    redrawn, and the other tests of verify redraw all 256.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawn, "_REDRAWN", 32)
        yield


@pytest.fixture(scope="session")
def few_texts(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A third of the small corpus, for runs to read."""
    folder = tmp_path_factory.mktemp("few")
    shutil.copy(small_corpus / "a.jsonl", folder)
    return folder


@pytest.fixture
def copied(grown: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy, which a test may change, of the grown run of its module."""
    yield Path(shutil.copytree(grown, tmp_path / "copy"))
    shutil.rmtree(tmp_path / "copy")
