"""What tests of laws share."""

import shutil
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.commands import api
from stages.stores.objects import ObjectStore
from stages.stores.url import StoreUrl
from stages.verify import drawn
from tests.laws.stored_tiny_run import RUN
from tests.laws.tiny_run import write_tiny_corpus
from tests.made_once import MadeOnce
from tests.material.run_places import FolderRun, RunPlace, StoredRunPlace
from tests.material.store_server import BUCKET, StoreServer
from tests.material.stored_runs import artifacts_of_folder


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


@pytest.fixture(scope="session")
def corpus(made_once: MadeOnce) -> Path:
    """A folder with the corpus, and the tiny run over it in `out`."""

    def make(folder: Path) -> None:
        folder.mkdir()
        write_tiny_corpus(folder / "corpus")
        lines = (folder / "corpus" / "a.jsonl").read_bytes().splitlines(keepends=True)
        for place, name in enumerate("abc"):
            part = lines[place * 5 : place * 5 + 5]
            (folder / "corpus" / f"{name}.jsonl").write_bytes(b"".join(part))
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setitem(sys.modules, "obstore", None)  # a run in a folder asks for no client
            api.run(RUN, "out", workers=0)

    return made_once(make)


@pytest.fixture
def in_folder(corpus: Path) -> dict[str, str]:
    """The files of the tiny run in a folder."""
    return artifacts_of_folder(corpus / "out")


@pytest.fixture
def store(
    store_server: StoreServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, corpus: Path
) -> ObjectStore:
    """An empty place in the bucket; the corpus lies in the current folder."""
    for name, value in store_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SHARDMILL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(corpus)
    return ObjectStore(StoreUrl("s3", BUCKET, f"{uuid.uuid4().hex}/tiny"))


@pytest.fixture(params=["folder", "store"])
def place(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, corpus: Path
) -> RunPlace:
    """An empty place for a run: a folder, then a store. The corpus lies in the current folder."""
    if request.param == "store":
        return StoredRunPlace(request.getfixturevalue("store"), tmp_path / "own")
    monkeypatch.chdir(corpus)
    return FolderRun(tmp_path / "run")
