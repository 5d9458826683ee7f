"""What an export to a store promises: one that was cut goes on, and indices come behind their data.

The server is a real one, on loopback. What an export to a folder has is the oracle.
"""

import uuid
from pathlib import Path

import pytest

from pipeline.tools.export import dataset, stages
from stages.errors import ConfigError, Stopped
from stages.export.table import FORMATS
from stages.stores.objects import ObjectStore
from stages.stores.url import StoreUrl
from tests.material.store_server import BUCKET, StoreServer
from tests.pipeline.exporting import build_both, contents

pytest.importorskip("obstore")

OPENED_FIRST = {
    "mds": ("index.json",),
    "litdata": ("index.json",),
    "hf": ("dataset_info.json", "state.json", "dataset_dict.json"),
    "hf-parquet": ("README.md",),
    "megatron": (".idx",),
    "megatron-sentences": (".idx",),
    "datatrove": (".ds.index",),
    "nanogpt": ("meta.pkl",),
    "olmo-core": ("metadata.json",),
    "safetensors": (),
    "array-record": (),
}
"""What names end with of files that tell of others; what reads the last two lists files."""


@pytest.fixture
def place(store_server: StoreServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ObjectStore:
    """An empty place in the bucket."""
    for name, value in store_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SHARDMILL_CACHE", str(tmp_path / "cache"))
    return ObjectStore(StoreUrl("s3", BUCKET, f"{uuid.uuid4().hex}/export"))


def keep_puts(monkeypatch: pytest.MonkeyPatch, *, cut_at: int | None = None) -> list[str]:
    """Return the list of keys as they are put; the server answers no more from one of them on."""
    keys: list[str] = []
    put = ObjectStore.put

    def kept(self: ObjectStore, key: str, file: Path) -> str:
        if len(keys) == cut_at:
            raise Stopped("no answer")
        keys.append(key)
        return put(self, key, file)

    monkeypatch.setattr(ObjectStore, "put", kept)
    return keys


def objects(place: ObjectStore) -> dict[str, bytes]:
    """Return the bytes of all objects by key."""
    found = {one.key: place.get(one.key) for one in place.list("")}
    return {key: one.data for key, one in found.items() if one is not None}


def test_an_export_that_was_cut_puts_the_rest(place: ObjectStore, tmp_path: Path) -> None:
    run, to = build_both(tmp_path / "run"), place.place
    dataset.export(run, "tiny", "mds", tmp_path / "near")
    wanted = contents(tmp_path / "near")
    put: list[str] = []
    for cut_at in (0, 2, len(wanted) - 3, None):
        with pytest.MonkeyPatch.context() as patch:
            keys = keep_puts(patch, cut_at=cut_at)
            if cut_at is None:
                dataset.export(run, "tiny", "mds", to)
            else:
                with pytest.raises(Stopped):
                    dataset.export(run, "tiny", "mds", to)
        put += keys
    assert put[-1] == "export.json"
    assert sorted(put) == sorted(wanted), "each is put once"
    assert objects(place) == wanted
    assert not list((tmp_path / "cache" / "written").rglob("export.json"))
    with pytest.raises(ConfigError, match="already"):
        dataset.export(run, "tiny", "mds", to)


@pytest.mark.parametrize("key", ["note.txt", "READ.md", "export.json"])
def test_what_no_cut_export_put_is_refused(
    place: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    run = build_both(tmp_path / "run")
    with pytest.MonkeyPatch.context() as patch:
        keep_puts(patch, cut_at=1)
        with pytest.raises(Stopped):
            dataset.export(run, "tiny", "mds", place.place)
    (tmp_path / "other").write_bytes(b"of another")
    place.put(key, tmp_path / "other")
    keys = keep_puts(monkeypatch)
    with pytest.raises(ConfigError, match=f"holds '{key}' already"):
        dataset.export(run, "tiny", "mds", place.place)
    assert keys == []


def test_a_file_of_the_same_size_and_other_bytes_is_refused(place: ObjectStore, tmp_path: Path) -> None:
    run = build_both(tmp_path / "run")
    with pytest.MonkeyPatch.context() as patch:
        keep_puts(patch, cut_at=1)
        with pytest.raises(Stopped):
            dataset.export(run, "tiny", "mds", place.place)
    ((key, data),) = objects(place).items()
    (tmp_path / "other").write_bytes(data[::-1])
    place.put(key, tmp_path / "other")
    with pytest.raises(ConfigError, match=f"holds '{key}' already"):
        dataset.export(run, "tiny", "mds", place.place)


def test_a_cut_export_of_something_else_is_refused(place: ObjectStore, tmp_path: Path) -> None:
    run = build_both(tmp_path / "run")
    with pytest.MonkeyPatch.context() as patch:
        keep_puts(patch, cut_at=1)
        with pytest.raises(Stopped):
            dataset.export(run, "tiny", "mds", place.place)
    with pytest.raises(ConfigError, match="holds another export"):
        dataset.export(run, "tiny", "hf", place.place)


@pytest.mark.parametrize("name", FORMATS)
def test_what_readers_open_first_is_put_behind_what_it_tells_of(
    name: str, place: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "array-record":
        pytest.importorskip("array_record")
    run, last = build_both(tmp_path / "run"), [*OPENED_FIRST[name], "export.json"]
    keys = keep_puts(monkeypatch)
    dataset.export(run, "tiny", name, place.place)
    turns = [
        next((turn for turn, ending in enumerate(last, 1) if key.endswith(ending)), 0) for key in keys
    ]
    assert turns == sorted(turns), keys
    assert set(turns) == set(range(len(last) + 1)), keys
    assert keys[-1] == "export.json"


def test_of_stages_the_list_of_them_is_put_last(
    place: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, keys = build_both(tmp_path / "run"), keep_puts(monkeypatch)
    made = stages.export_stages(run, ["tiny"], "mds", place.place)
    assert made["to"] == place.place
    assert str(tmp_path) not in str(made)
    assert keys[-1] == "stages.json"
    assert keys[-2] == "tiny/export.json"
    assert [key.endswith("index.json") for key in keys[-4:]] == [True, True, False, False]
