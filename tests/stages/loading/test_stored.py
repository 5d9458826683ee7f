"""What a dataset in a store promises a trainer: the rows of a folder, and no more cache than there is.

The server is a real one, on loopback. What a folder has is the oracle.
"""

import re
import signal
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import shardmill
from stages.errors import ConfigError
from stages.loading.mapped import row_files
from stages.store.digests import FileDigest
from stages.store.drawn import read_drawn
from stages.store.manifest import MANIFEST_NAME, read_manifest, write_manifest
from stages.stores.objects import ObjectStore
from stages.stores.url import StoreUrl
from tests.material.store_server import BUCKET, StoreServer
from tests.stages.loading.test_dataset import EOS, write_dataset
from tests.stages.loading.test_drawn_epochs import EPOCHS, with_epochs
from tests.stages.loading.test_interleaved import COUNTS, write_dealt

pytest.importorskip("obstore")

SHARDS, ROWS = 6, 4
PATIENCE = 60
"""Seconds after which workers hang."""
Opened = shardmill.ShardDataset


class Stored:
    """A run in a folder and in a store, and the cache of this machine.

    Args:
        folder: of the run.
        store: where it is put.
        cache: folder of the cache.
        patch: sets the size of the cache.
    """

    def __init__(self, folder: Path, store: ObjectStore, cache: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.store, self.cache, self._patch = folder, store, cache, patch

    @property
    def url(self) -> str:
        """Of the run."""
        return self.store.place

    def put(self) -> None:
        """Put the files of the folder into the store."""
        for path in (path for path in self.folder.rglob("*") if path.is_file()):
            self.store.put(path.relative_to(self.folder).as_posix(), path)

    def allow(self, size: int) -> None:
        """Have another cache from now on, which may hold so many bytes."""
        self.cache = self.cache.with_name(f"cache-{uuid.uuid4().hex}")
        self._patch.setenv("SHARDMILL_CACHE", str(self.cache))
        self._patch.setenv("SHARDMILL_CACHE_BYTES", str(size))

    def used(self) -> int:
        """Return the bytes that the cache holds."""
        files = [path for path in (self.cache / "objects").rglob("*") if path.is_file()]
        return sum(path.stat().st_size for path in files if "." not in path.name)

    def opened(self, name: str = "clm", **options: Any) -> tuple[Opened, Opened]:
        """Return a dataset of the store, and that of the folder."""
        stored = shardmill.open_dataset(f"{self.url}/datasets/{name}", **options)
        return stored, shardmill.open_dataset(self.folder / "datasets" / name, **options)


@pytest.fixture
def run(store_server: StoreServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stored:
    """An empty run."""
    for name, value in store_server.environment.items():
        monkeypatch.setenv(name, value)
    store = ObjectStore(StoreUrl("s3", BUCKET, f"{uuid.uuid4().hex}/run"))
    made = Stored(tmp_path / "run", store, tmp_path / "cache", monkeypatch)
    made.allow(1 << 20)
    return made


def write_rows(folder: Path, first: int, *, name: str = "clm", shards: int = SHARDS) -> None:
    """Write shards of as many bytes each, of rows that begin with consecutive numbers."""
    documents = [
        [[[first + shard * ROWS + row, EOS], [9, EOS]] for row in range(ROWS)] for shard in range(shards)
    ]
    path = write_dataset(folder, tuple(documents)).rename(folder / name) / "train"
    manifest = read_manifest(path).model_copy(update={"name": name})
    (path / MANIFEST_NAME).unlink()
    write_manifest(path / MANIFEST_NAME, manifest.signed())


def bytes_of(files: Mapping[str, FileDigest]) -> int:
    return sum(file.bytes for file in files.values())


def shard_bytes(dataset: Path) -> int:
    """Return the bytes of the rows of the largest shard."""
    return max(bytes_of(row_files(shard)) for shard in read_manifest(dataset / "train").shards)


def numbers(rows: Any, positions: Any) -> list[int]:
    """Return the numbers that rows begin with."""
    found: list[int] = rows.batch(positions)["input_ids"][:, 0].tolist()
    return found


def test_epochs_on_disk_need_room_too_and_give_way_to_later_ones(run: Stored) -> None:
    folder = with_epochs(run.folder / "datasets")
    run.put()
    drawn = read_drawn(folder / "train", dataset=read_manifest(folder / "train").fingerprint)
    assert drawn is not None
    of_rows = sum(bytes_of(row_files(one)) for one in read_manifest(folder / "train").shards)
    of_epoch = sum(bytes_of(one.files) for one in drawn.shards[0])
    run.allow(of_rows + of_epoch - 1)
    with pytest.raises(ConfigError, match=f"needs {of_rows + of_epoch:,} bytes of cache, and"):
        run.opened()
    run.allow(of_rows + of_epoch)
    stored, local = run.opened()
    for epoch in range(EPOCHS):
        stored.set_epoch(epoch)
        local.set_epoch(epoch)
        wanted = local.batch(range(len(local)))
        for name, column in stored.batch(range(len(stored))).items():
            assert np.array_equal(column, wanted[name]), name
        assert of_rows < run.used() <= of_rows + of_epoch


def test_generations_share_two_groups_and_those_left_out_need_no_room(run: Stored) -> None:
    for number, place in enumerate(("datasets", "generations/0001/datasets")):
        write_rows(run.folder / place, 100 + 100 * number, shards=3)
    run.put()
    size = shard_bytes(run.folder / "datasets/clm")
    run.allow(2 * size)
    stored, local = run.opened(window=1)
    batches = shardmill.Batches(stored, 1)
    assert len(batches) == 6 * ROWS
    for step, batch in enumerate(batches):
        assert batch["input_ids"][0, 0] == numbers(local, [step])[0]
        assert run.used() <= 2 * size
    run.allow(3 * size)
    assert len(run.opened(generations=1)[0]) == 3 * ROWS
    with pytest.raises(ConfigError, match=f"needs {6 * size:,} bytes"):
        run.opened()


def test_a_small_cache_is_refused_with_the_size_and_the_window_that_do(run: Stored) -> None:
    write_rows(run.folder / "datasets", 100)
    run.put()
    size = shard_bytes(run.folder / "datasets/clm")
    run.allow(5 * size)
    said = (
        f"{run.url}/datasets/clm: its order mixes rows of all shards, which needs {6 * size:,} bytes of"
        f" cache, and {run.cache} has {5 * size:,}: give it {6 * size:,} (SHARDMILL_CACHE_BYTES), or"
        " open the dataset with window = 2"
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(said)}$"):
        run.opened()
    with pytest.raises(ConfigError, match=r"window = 3, which needs .* with window = 2$"):
        run.opened(window=3)
    with pytest.raises(ConfigError, match=r"window = 0: must be at least 1"):
        run.opened(window=0)
    for window in (1, 2):
        stored, local = run.opened(window=window)
        assert numbers(stored, range(24)) == numbers(local, range(24)) != list(range(100, 124))
    run.allow(2 * size - 1)
    with pytest.raises(ConfigError, match=f"give it at least {2 * size:,} .*, for window = 1$"):
        run.opened()
    with pytest.raises(ConfigError, match=rf"two shards at a time.* give it {2 * size:,} \(\w+\)$"):
        run.opened(shuffle=False)
    run.allow(2 * size)
    assert numbers(run.opened(shuffle=False)[0], range(24)) == list(range(100, 124))
    assert run.used() <= 2 * size
    run.allow(6 * size)
    assert sorted(numbers(run.opened()[0], range(24))) == list(range(100, 124))


def test_where_rows_take_no_window_none_is_offered(run: Stored) -> None:
    folder = write_dealt(run.folder / "datasets", COUNTS)
    run.put()
    run.allow(2 * shard_bytes(folder))
    with pytest.raises(ConfigError, match=r"exact shares .* give it [\d,]+ \(SHARDMILL_CACHE_BYTES\)$"):
        run.opened()
    run.allow(1 << 20)
    with pytest.raises(ConfigError, match="window = 1: the rows of sources with exact shares"):
        run.opened(window=1)


def test_a_blend_needs_the_room_of_all_and_stages_that_of_one_after_the_other(run: Stored) -> None:
    for first, name in ((100, "a"), (200, "b")):
        write_rows(run.folder / "datasets", first, name=name)
    run.put()
    size = shard_bytes(run.folder / "datasets/a")
    run.allow(7 * size)
    whole = [run.opened(name)[0] for name in "ab"]
    said = f"2 datasets are read together, which needs {12 * size:,} bytes .* with window = 1$"
    with pytest.raises(ConfigError, match=f"datasets/a, .*datasets/b: {said}"):
        shardmill.Blend(whole, [1, 1])
    blends = [
        shardmill.Blend(pair, [1, 1])
        for pair in zip(*(run.opened(name, window=1) for name in "ab"), strict=True)
    ]
    batches = [shardmill.Batches(blend, 4) for blend in blends]
    for stored, local in zip(*batches, strict=True):
        assert np.array_equal(stored["input_ids"], local["input_ids"])
        assert run.used() <= 7 * size
    assert batches[0].state_dict()["window"] == "1+1"
    with pytest.raises(ConfigError, match=r"is of window = 1\+1, and these rows have none"):
        shardmill.Batches(
            shardmill.Blend([run.opened(name)[1] for name in "ab"], [1, 1]), 4
        ).load_state_dict(batches[0].state_dict())
    run.allow(2 * size)
    with pytest.raises(ConfigError, match=r"with window = 1$"):
        shardmill.open_sequence(run.url, ["a", "b"], 4)
    walks = [shardmill.open_sequence(place, ["a", "b"], 4, window=1) for place in (run.url, run.folder)]
    for stored, local in zip(*walks, strict=True):
        assert np.array_equal(stored["input_ids"], local["input_ids"])
        assert run.used() <= 2 * size


def test_a_state_names_its_window_and_other_ranks_go_on_through_a_small_cache(run: Stored) -> None:
    write_rows(run.folder / "datasets", 100)
    run.put()
    size = shard_bytes(run.folder / "datasets/clm")
    run.allow(4 * size)
    rows = run.opened(window=2)[0]
    before = [shardmill.Batches(rows, 2, rank=rank, world_size=2) for rank in range(2)]
    seen = [int(n) for one in before for step in range(3) for n in one[step]["input_ids"][:, 0]]
    state = before[0].state_dict(3)
    assert state["window"] == 2
    again = run.opened(window=2)[0]
    after = [shardmill.Batches(again, 1, rank=rank, world_size=3) for rank in range(3)]
    for one in after:
        one.load_state_dict(state)
        seen += [int(n) for batch in one for n in batch["input_ids"][:, 0]]
    assert sorted(seen) == list(range(100, 124))
    earlier = {name: value for name, value in state.items() if name != "window"}
    after[0].load_state_dict(earlier)
    other = shardmill.Batches(run.opened(window=1)[0], 2)
    with pytest.raises(ConfigError, match="it is of window = 2, and these rows are of window = 1"):
        other.load_state_dict(state)
    with pytest.raises(ConfigError, match="it names no window, and these rows are of window = 1"):
        other.load_state_dict(earlier)
    first, second = (shardmill.open_sequence(run.folder, ["clm"], 2, window=window) for window in (2, 1))
    stages = first.state_dict()
    with pytest.raises(ConfigError, match=r"shuffled, window = 2, .* has .* shuffled, window = 1,"):
        second.load_state_dict(stages)
    first.load_state_dict(stages | {"rows_0": str(stages["rows_0"]).replace(", window = 2", "")})


@pytest.fixture
def patience() -> Iterator[None]:
    """A test that hangs fails."""

    def give_up(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise TimeoutError(f"no batch within {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_workers_read_what_the_parent_opened_however_they_start(run: Stored, start: Any) -> None:
    for first, name in ((100, "a"), (200, "b")):
        write_rows(run.folder / "datasets", first, name=name, shards=3)
    run.put()

    def batches(opened: Callable[..., Opened]) -> shardmill.Sequence:
        blend = shardmill.Blend([opened("a"), opened("b", window=1)], [1, 2])
        stages = [
            shardmill.Stage(opened("a"), 4, name="whole"),
            shardmill.Stage(opened("b", window=1), 4, name="window"),
            shardmill.Stage(blend, 4, name="blend"),
        ]
        return shardmill.Sequence(stages)

    stored, local = (
        batches(lambda *given, place=place, **options: run.opened(*given, **options)[place])
        for place in range(2)
    )
    stored[0]  # so that the parent has a client before it forks
    loader = shardmill.TorchtitanLoader(shardmill.Loader(stored, num_workers=1, start=start))
    wanted = shardmill.TorchtitanLoader(shardmill.Loader(local))
    read = iter(loader)
    for _, (own, own_labels) in zip(range(len(local)), wanted, strict=False):
        found, labels = next(read)
        assert found["input"].equal(own["input"])
        assert labels.equal(own_labels)
    loader.close()
    assert not len(stored)
