"""The cache of a node: whole files by digest, within a bound, and nothing goes that is in use."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

import stages.stores.cache
from stages.errors import ConfigError, DataError
from stages.store.digests import FileDigest, digest_file, xxh3_file
from stages.stores.cache import NodeCache, node_cache
from stages.stores.mounts import StoredFiles
from stages.stores.store import FoundObject, Listed

SIZE = 1_000


class FewObjects:
    """A store in memory that counts what is read."""

    place = "s3://bucket/run"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.read = 0

    def at(self, key: str) -> "FewObjects":
        """Not asked for."""
        raise AssertionError(key)

    def get(self, key: str, begin: int = 0, end: int | None = None) -> FoundObject | None:
        """Return bytes, and count them."""
        if key not in self.objects:
            return None
        data = self.objects[key][begin:end]
        self.read += len(data)
        return FoundObject(data, "tag")

    def put(self, key: str, file: Path) -> str:
        """Not asked for."""
        raise AssertionError(key, file)

    def put_new(self, key: str, data: bytes) -> str | None:
        """Not asked for."""
        raise AssertionError(key, data)

    def replace(self, key: str, data: bytes, tag: str) -> str | None:
        """Not asked for."""
        raise AssertionError(key, data, tag)

    def list(self, prefix: str) -> Iterator[Listed]:
        """Not asked for."""
        raise AssertionError(prefix)

    def delete(self, keys: Collection[str]) -> None:
        """Not asked for."""
        raise AssertionError(keys)


@pytest.fixture
def store(tmp_path: Path) -> FewObjects:
    """Ten objects of 100 bytes."""
    del tmp_path
    found = FewObjects()
    found.objects = {f"a/{n}": bytes([n]) * (SIZE // 10) for n in range(10)}
    return found


def _digest(store: FewObjects, key: str, tmp_path: Path) -> FileDigest:
    place = tmp_path / "digested"
    place.write_bytes(store.objects[key])
    return digest_file(place)


def _bring(cache: NodeCache, store: FewObjects, key: str, tmp_path: Path) -> Path:
    place = cache.folder / "trees" / "run" / key
    cache.bring(store, key, _digest(store, key, tmp_path), place)
    return place


def test_what_was_brought_is_not_read_again(store: FewObjects, tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", SIZE)
    place = _bring(cache, store, "a/3", tmp_path)
    assert place.read_bytes() == store.objects["a/3"]
    read = store.read
    assert _bring(cache, store, "a/3", tmp_path) == place
    other = cache.folder / "trees" / "other" / "b"
    cache.bring(store, "a/3", _digest(store, "a/3", tmp_path), other)
    assert other.read_bytes() == store.objects["a/3"]
    assert store.read == read


def test_other_bytes_than_were_committed_are_never_there(store: FewObjects, tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", SIZE)
    digest = _digest(store, "a/3", tmp_path)
    store.objects["a/3"] = b"x" * 100
    place = cache.folder / "trees" / "run" / "a" / "3"
    with pytest.raises(DataError, match=r"s3://bucket/run/a/3: committed with 100 bytes .* found 100"):
        cache.bring(store, "a/3", digest, place)
    del store.objects["a/3"]
    with pytest.raises(DataError, match="s3://bucket/run/a/3: committed with 100 bytes, found nothing"):
        cache.bring(store, "a/3", digest, place)
    assert not place.exists()
    assert not list(cache.folder.rglob("*.part"))


def test_the_file_used_longest_ago_goes_first(store: FewObjects, tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", 320)
    places = []
    for number in (0, 1, 2):
        with cache.using():
            places.append(_bring(cache, store, f"a/{number}", tmp_path))
    with cache.using():
        _bring(cache, store, "a/0", tmp_path)
    with cache.using():
        _bring(cache, store, "a/3", tmp_path)
    assert [place.exists() for place in places] == [True, False, True]
    assert _held(cache) == 300


def test_what_is_in_use_stays_and_the_cache_grows_for_a_while(store: FewObjects, tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", 320)
    with cache.using():
        places = [_bring(cache, store, f"a/{number}", tmp_path) for number in range(5)]
        assert all(place.exists() for place in places)
    with cache.using():
        _bring(cache, store, "a/9", tmp_path)
    assert _held(cache) == 300


def test_a_hold_outlasts_the_task_that_it_was_made_in(store: FewObjects, tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", 200)
    with cache.using():
        hold = cache.hold()
        place = cache.folder / "trees" / "run" / "kept"
        cache.bring(store, "a/0", _digest(store, "a/0", tmp_path), place, hold)
    for number in range(1, 6):
        with cache.using():
            _bring(cache, store, f"a/{number}", tmp_path)
    assert place.exists()
    hold.close()
    for number in range(6, 9):
        with cache.using():
            _bring(cache, store, f"a/{number}", tmp_path)
    assert not place.exists()


def test_what_another_process_uses_stays_until_that_ends(store: FewObjects, tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", 200)
    code = """
import sys; from pathlib import Path
from tests.stages.stores.test_cache import FewObjects, _bring
from stages.stores.cache import NodeCache
store = FewObjects(); store.objects = {"a/0": bytes(100)}
cache = NodeCache(Path(sys.argv[1]), 200)
with cache.using():
    print(_bring(cache, store, "a/0", Path(sys.argv[2])), flush=True)
    sys.stdin.read()
"""
    (tmp_path / "theirs").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", code, str(cache.folder), str(tmp_path / "theirs")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        place = Path(other.stdout.readline().strip())
        for number in range(1, 5):
            with cache.using():
                _bring(cache, store, f"a/{number}", tmp_path)
        assert place.exists()
        other.kill()
    for number in range(5, 8):
        with cache.using():
            _bring(cache, store, f"a/{number}", tmp_path)
    assert not place.exists()
    assert len(list((cache.folder / "pins").iterdir())) == 1, "that of a process that ended goes"


def test_a_file_that_this_process_wrote_is_taken_in(store: FewObjects, tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", SIZE)
    written = tmp_path / "written"
    written.write_bytes(store.objects["a/7"])
    place = cache.folder / "trees" / "run" / "a" / "7"
    cache.add(written, digest_file(written), place)
    assert not written.exists()
    assert place.read_bytes() == store.objects["a/7"]
    _bring(cache, store, "a/7", tmp_path)
    assert store.read == 0


def test_what_a_killed_process_left_half_filled_goes(store: FewObjects, tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", SIZE)
    digest = _digest(store, "a/1", tmp_path)
    folder = cache.folder / "objects" / digest.sha256[:2]
    folder.mkdir(parents=True)
    (folder / f".{digest.sha256}.x.part").write_bytes(b"half")
    _bring(cache, store, "a/1", tmp_path)
    assert not list(folder.glob("*.part"))
    assert not list(folder.glob(".*.part"))


def test_what_was_changed_in_the_cache_is_brought_again(store: FewObjects, tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", SIZE)
    place = _bring(cache, store, "a/1", tmp_path)
    place.write_bytes(b"short")
    assert _bring(NodeCache(cache.folder, SIZE), store, "a/1", tmp_path).read_bytes() == bytes([1]) * 100
    place.write_bytes(bytes(100))  # of the same length, as a power cut may leave it
    files = StoredFiles(cache.folder / "trees" / "run", store, NodeCache(cache.folder, SIZE))
    digests = {"1": _digest(store, "a/1", tmp_path)}
    files.bring_sound(files.root / "a", digests, check=True).close()
    assert place.read_bytes() == bytes([1]) * 100


def test_what_an_earlier_session_left_is_hashed_once_in_a_session(
    store: FewObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[Path] = []

    def noted(path: Path) -> str:
        hashed.append(path)
        return xxh3_file(path)

    monkeypatch.setattr(stages.stores.cache, "xxh3_file", noted)

    def brought(session: str) -> bytes:
        cache = NodeCache(tmp_path / "cache", SIZE, session)
        return _bring(cache, store, "a/1", tmp_path).read_bytes()

    assert brought("first") == brought("first") == bytes([1]) * 100
    assert not hashed, "it came in this session"
    assert brought("second") == brought("second") == bytes([1]) * 100
    assert len(hashed) == 1
    read = store.read
    (tmp_path / "cache" / "trees" / "run" / "a" / "1").write_bytes(bytes(100))
    assert brought("third") == brought("third") == bytes([1]) * 100
    assert (len(hashed), store.read) == (2, read + 100)


def test_a_process_that_is_forked_while_the_cache_is_at_work_keeps_no_lock(
    store: FewObjects, tmp_path: Path
) -> None:
    cache = NodeCache(tmp_path / "cache", SIZE)
    with cache._locked(fcntl.LOCK_EX), cache._filling("ab"):  # noqa: SLF001  # what a download holds
        child = os.fork()
        if not child:
            signal.pause()
    try:
        for name in (cache.folder / "lock", cache.folder / "objects" / "ab" / ".lock"):
            with name.open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert _bring(cache, store, "a/1", tmp_path).exists()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_hold_that_ends_where_the_lock_is_taken_waits_for_nobody(
    store: FewObjects, tmp_path: Path
) -> None:
    cache = NodeCache(tmp_path / "cache", 320)
    hold = cache.hold()
    cache.bring(store, "a/0", _digest(store, "a/0", tmp_path), cache.folder / "trees" / "x", hold)
    with cache._locked(fcntl.LOCK_EX):  # noqa: SLF001  # as when garbage is collected inside
        hold.end()
    for number in range(1, 9):
        with cache.using():
            _bring(cache, store, f"a/{number}", tmp_path)
    assert not (cache.folder / "trees" / "x").exists()


def test_the_folder_and_the_size_are_those_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHARDMILL_CACHE", str(tmp_path / "here"))
    monkeypatch.setenv("SHARDMILL_CACHE_BYTES", "123")
    assert (node_cache().folder, node_cache().size) == (tmp_path / "here", 123)
    assert node_cache(str(tmp_path / "there"), 7).size == 7
    monkeypatch.setenv("SHARDMILL_CACHE_BYTES", "many")
    with pytest.raises(ConfigError, match="SHARDMILL_CACHE_BYTES = many: must be a number of bytes"):
        node_cache()


def _held(cache: NodeCache) -> int:
    """Return the bytes of the objects, and hold the note of them to it."""
    found = [path for path in (cache.folder / "objects").rglob("*") if path.is_file()]
    held = sum(path.stat().st_size for path in found if "." not in path.name)
    assert int((cache.folder / "used").read_text()) == held
    return held
