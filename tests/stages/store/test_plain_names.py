"""What manifests promise of names: none leads out of its folder, none stands twice, in either manifest.

Every manifest here is signed: its fingerprint is right, and the names alone are wrong.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stages.config import canonical_json
from stages.errors import FormatError
from stages.loading.dataset import open_dataset
from stages.store.digests import FileDigest
from stages.store.drawn import DRAWN_NAME, DrawnManifest, DrawnShard, read_drawn
from stages.store.manifest import (
    FORMAT_VERSION,
    MANIFEST_NAME,
    Column,
    Manifest,
    read_manifest,
    read_signed,
)
from tests.stages.store.test_manifest import MANIFEST

DIGEST = FileDigest(bytes=144, sha256="00", xxh3="11")
DRAWN = DrawnManifest(
    format_version=FORMAT_VERSION,
    dataset=MANIFEST.fingerprint,
    epochs=2,
    columns={"labels": Column(dtype="<i4", shape=(4,), meaning="labels")},
    shards=tuple(
        tuple(
            DrawnShard(path=f"drawn/epoch-{epoch:04d}/{number:05d}", files={"labels.npy": DIGEST})
            for number in range(2)
        )
        for epoch in range(2)
    ),
).signed()
BAD = (
    "../00000",
    "epoch-0000/../../00000",
    "drawn/epoch-0000/../00000",
    "epoch-0000/..",
    "..",
    ".",
    "",
    "/srv/00000",
    "/",
    "epoch-0000//00000",
    "./epoch-0000/00000",
    "epoch-0000/00000/",
    "epoch-0000/00000\n",
    "epoch-0000\\00000",
    "C:epoch-0000",
    ".hidden",
    "epoch-0000/00000\x00",
    "epoch-0000/٠٠٠٠٠",
    "~/00000",
)
BAD_TOKENIZERS = ("../../../../tokenizer/tokenizer.model", "/etc/passwd", "../tokenizer/../x", "..", "")
Content = dict[str, Any]


def rename(table: Content, name: str) -> None:
    """Return the first entry of a table another name."""
    table[name] = table.pop(next(iter(table)))


PLACES: dict[str, Callable[[Content, str], object]] = {
    "shards.1.path": lambda content, name: content["shards"][1].update(path=name),
    "shards.0.files": lambda content, name: rename(content["shards"][0]["files"], name),
    "columns": lambda content, name: rename(content["columns"], name),
    "tables": lambda content, name: content.update(tables={name: DIGEST.model_dump()}),
}
DRAWN_PLACES: dict[str, Callable[[Content, str], object]] = {
    "shards.1.0.path": lambda content, name: content["shards"][1][0].update(path=name),
    "shards.0.1.files": lambda content, name: rename(content["shards"][0][1]["files"], name),
    "columns": lambda content, name: rename(content["columns"], name),
}


def write_signed(folder: Path, content: Content, name: str = MANIFEST_NAME) -> None:
    """Write a manifest whose fingerprint is right, whatever it says."""
    rest = {key: value for key, value in content.items() if key != "fingerprint"}
    signed = {**rest, "fingerprint": hashlib.sha256(canonical_json(rest)).hexdigest()}
    (folder / name).write_text(json.dumps(signed, indent=1, sort_keys=True) + "\n", encoding="utf-8")


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("place", PLACES)
def test_a_name_that_is_not_of_the_documented_form_is_refused(
    place: str, bad: str, tmp_path: Path
) -> None:
    content = MANIFEST.model_dump(mode="json")
    PLACES[place](content, bad)
    (tmp_path / "train").mkdir()
    write_signed(tmp_path / "train", content)
    for read in (lambda: read_manifest(tmp_path / "train"), lambda: open_dataset(tmp_path)):
        with pytest.raises(FormatError, match="no name of the documented form") as error:
            read()
        assert f"{MANIFEST_NAME}: {place}" in str(error.value)
        assert repr(bad) in str(error.value)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("place", DRAWN_PLACES)
def test_a_name_of_drawn_epochs_that_is_not_of_the_documented_form_is_refused(
    place: str, bad: str, tmp_path: Path
) -> None:
    content = DRAWN.model_dump(mode="json")
    DRAWN_PLACES[place](content, bad)
    write_signed(tmp_path, content, DRAWN_NAME)
    with pytest.raises(FormatError, match="no name of the documented form") as error:
        read_drawn(tmp_path, dataset=MANIFEST.fingerprint)
    assert f"{DRAWN_NAME}: {place}" in str(error.value)
    assert repr(bad) in str(error.value)


@pytest.mark.parametrize("bad", BAD_TOKENIZERS)
def test_a_tokenizer_outside_of_the_run_is_refused(bad: str, tmp_path: Path) -> None:
    content = MANIFEST.model_dump(mode="json")
    content["tokenizer"]["file"] = bad
    write_signed(tmp_path, content)
    with pytest.raises(FormatError, match=r"tokenizer\.file"):
        read_manifest(tmp_path)


def test_two_shards_in_one_folder_are_refused(tmp_path: Path) -> None:
    content, drawn = MANIFEST.model_dump(mode="json"), DRAWN.model_dump(mode="json")
    content["shards"][1]["path"] = content["shards"][0]["path"]
    drawn["shards"][1][1]["path"] = drawn["shards"][0][1]["path"]
    write_signed(tmp_path, content)
    write_signed(tmp_path, drawn, DRAWN_NAME)
    with pytest.raises(FormatError, match=r"dataset\.json: 'epoch-0000/00000' is named twice"):
        read_manifest(tmp_path)
    with pytest.raises(FormatError, match=r"drawn\.json: 'drawn/epoch-0000/00001' is named twice"):
        read_drawn(tmp_path, dataset=MANIFEST.fingerprint)


def keys_of(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the place of every key of every object."""
    if isinstance(value, dict):
        yield from ((*place, key) for key in value)
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from keys_of(part, (*place, key))


def spelled(value: object, twice: tuple[str | int, ...]) -> str:
    """Spell a value as JSON with the key at a place standing twice, the false value first."""
    if isinstance(value, dict):
        pairs = [
            f"{json.dumps(key)}: {spelled(part, twice[1:] if twice[:1] == (key,) else ())}"
            for key, part in value.items()
        ]
        if len(twice) == 1:
            pairs.insert(0, f"{json.dumps(twice[0])}: 1")
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        parts = (spelled(part, twice[1:] if twice[:1] == (n,) else ()) for n, part in enumerate(value))
        return f"[{', '.join(parts)}]"
    return json.dumps(value)


@pytest.mark.parametrize(
    ("name", "manifest"), [(MANIFEST_NAME, MANIFEST), (DRAWN_NAME, DRAWN)], ids=["dataset", "drawn"]
)
def test_a_key_that_stands_twice_in_any_object_is_refused_by_name(
    name: str, manifest: Manifest | DrawnManifest, tmp_path: Path
) -> None:
    content, refused = manifest.model_dump(mode="json"), set()
    for place in keys_of(content):
        (tmp_path / name).write_text(spelled(content, place), encoding="utf-8")
        assert json.loads((tmp_path / name).read_text()) == content, "the last value is the right one"
        with pytest.raises(FormatError, match="stands twice in one object") as error:
            read_signed(tmp_path / name, type(manifest))
        assert f"{tmp_path / name}: the key {place[-1]!r}" in str(error.value)
        refused.add(place)
    assert {len(place) for place in refused} >= {1, 2, 3, 5}
    assert len(refused) > 30
