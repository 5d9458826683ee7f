"""What verify promises of the files of a dataset: they are those that the manifests name, and no others.

Every damage is signed again, so that digests pass: what a file is, where it lies or its dtype gives it
away. Both manifests, all levels of folders, all files and all columns are gone through.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stages.errors import FormatError
from stages.loading.dataset import open_dataset
from stages.store.arrays import write_array
from stages.store.drawn import DRAWN_NAME
from stages.store.manifest import MANIFEST_NAME
from tests.campaign import FULL
from tests.material.fault_copies import Copy, copied
from tests.material.fault_material import Material, make_material
from tests.stages.store.test_plain_names import write_signed

NAMES = ("nsp", "ul2", "unigram", "prompts")
"""Datasets with every kind of file, and with a column of every dtype."""


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """A run with a dataset of each."""
    return make_material(tmp_path_factory.mktemp("files"), seed=1, names=NAMES)


@pytest.fixture
def damage(material: Material, tmp_path: Path) -> Callable[..., set[tuple[str, str]]]:
    """Damage a copy of a dataset; give the (file, check) of all that verify finds of it."""
    cache: dict[str, Any] = {}

    def found(name: str, change: Callable[[Copy], object], *, sign: bool = True) -> set[tuple[str, str]]:
        with copied(material, name, tmp_path / "copy", written=True, cache=cache) as copy:
            change(copy)
            if sign:
                copy.sign()
            return {(finding.file, finding.check) for finding in copy.findings()}

    return found


def test_nothing_is_found_of_sound_datasets(damage: Callable[..., set[tuple[str, str]]]) -> None:
    assert {name: damage(name, lambda _: None) for name in NAMES} == {name: set() for name in NAMES}


STRAYS = {
    "file.npy": "datasets/nsp/file.npy",
    "hidden/file": "datasets/nsp/hidden",
    "train/file.npy": "datasets/nsp/train/file.npy",
    "train/dataset.old.json": "datasets/nsp/train/dataset.old.json",
    "train/epoch-0000/file.npy": "datasets/nsp/train/epoch-0000/file.npy",
    "train/epoch-0000/00007/input_ids.npy": "datasets/nsp/train/epoch-0000/00007",
    "train/epoch-0001/00000/input_ids.npy": "datasets/nsp/train/epoch-0001",
    "train/epoch-0000/00000/file": "datasets/nsp/train/epoch-0000/00000",
    "train/epoch-0000/00000/segments/file": "datasets/nsp/train/epoch-0000/00000",
    "train/drawn/file.npy": "datasets/nsp/train/drawn/file.npy",
    "train/drawn/epoch-0002/00000/labels.npy": "datasets/nsp/train/drawn/epoch-0002",
    "train/drawn/epoch-0000/00007/labels.npy": "datasets/nsp/train/drawn/epoch-0000/00007",
    "train/drawn/epoch-0000/00000/file": "datasets/nsp/train/drawn/epoch-0000/00000",
    "other/epoch-0000/00000/input_ids.npy": "datasets/nsp/other",
}
"""Files that no manifest names, and what is said to hold each."""


ALONE = "train/epoch-0000/00000/segments/file"
"""The holder of this one holds another stray too."""


@pytest.mark.parametrize("strays", [STRAYS.keys() - {ALONE}, {ALONE}], ids=["all but one", "one"])
def test_what_no_manifest_names_is_named(
    strays: set[str], damage: Callable[..., set[tuple[str, str]]]
) -> None:
    def plant(copy: Copy) -> None:
        for stray in strays:
            path = copy.split.parent / stray
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("left here")

    wanted = {(STRAYS[stray], "files") for stray in strays}
    assert len(wanted) == len(strays)
    assert damage("nsp", plant) == wanted


def test_an_empty_folder_is_none_of_its_business(damage: Callable[..., set[tuple[str, str]]]) -> None:
    assert damage("nsp", lambda copy: (copy.split / "epoch-0000" / "00009").mkdir()) == set()


def places(copy: Copy) -> Iterator[Path]:
    """Yield the dataset's folder and all that is below it, of the shards that are looked at."""
    yield copy.split.parent
    for path in sorted(copy.split.parent.rglob("*")):
        inside = path.is_relative_to(copy.split) or path.parent == copy.split.parent
        if inside and "00001" not in path.parts:
            yield path


def test_every_file_and_folder_that_is_a_link_is_named(
    material: Material, damage: Callable[..., set[tuple[str, str]]], tmp_path: Path
) -> None:
    with copied(material, "nsp", tmp_path / "first", written=True, cache={}) as sound:
        every = [path.relative_to(sound.root) for path in places(sound)]
        groups = {(path.is_file(), len(path.parts)): set[Path]() for path in places(sound)}
        for path in places(sound):
            groups[path.is_file(), len(path.parts)].add(path.relative_to(sound.root))
    for group in groups.values():  # none of a group lies in another

        def link(copy: Copy, group: set[Path] = group) -> None:
            for number, place in enumerate(sorted(group)):
                elsewhere = copy.root / f"elsewhere{number}"
                os.rename(copy.root / place, elsewhere)  # noqa: PTH104  # a folder or a file
                (copy.root / place).symlink_to(elsewhere.resolve())

        found = damage("nsp", link, sign=False)
        assert {(place.as_posix(), "links") for place in group} <= found
    assert len(every) == sum(map(len, groups.values())) > 40


def drawn_columns(material: Material) -> list[tuple[str, str]]:
    """Return each column that is written out of each dataset."""
    return [
        (name, column)
        for name in NAMES
        for column in json.loads((material.root / "datasets" / name / "train" / DRAWN_NAME).read_text())[
            "columns"
        ]
    ]


def widened(copy: Copy, manifest: str, name: str, folders: list[Path]) -> None:
    """Write a column as integers of eight bytes, all values as they were, and declare it so."""
    for folder in folders:
        path = folder / f"{name}.npy"
        column = np.load(path).astype(np.int64)
        path.unlink()
        write_array(path, column if name != "borrowed_offset" else column.astype(np.int32))
    dtype = "<i4" if name == "borrowed_offset" else "<i8"
    copy.change_manifest(lambda content: content["columns"][name].update(dtype=dtype), manifest)


def test_a_written_column_of_another_dtype_is_named(
    material: Material, damage: Callable[..., set[tuple[str, str]]]
) -> None:
    columns = drawn_columns(material)
    once = {column: (name, column) for name, column in reversed(columns)}
    for name, column in columns if FULL else once.values():

        def widen(copy: Copy, column: str = column) -> None:
            folders = sorted(copy.split.glob("drawn/*/*"))
            widened(copy, DRAWN_NAME, column, folders)

        assert (f"datasets/{name}/train/{DRAWN_NAME}", "columns") in damage(name, widen), column
    assert {column for _, column in columns} >= {"labels", "selected", "token_type_ids", "objective_id"}


def test_a_stored_column_of_another_dtype_is_named(
    damage: Callable[..., set[tuple[str, str]]],
) -> None:
    stored = {"nsp": ("input_ids", "room"), "ul2": ("objective_id",), "prompts": ("prompt",)}
    for name, columns in stored.items():
        for column in columns:

            def widen(copy: Copy, column: str = column) -> None:
                widened(copy, MANIFEST_NAME, column, sorted(copy.split.glob("epoch-0000/*")))

            assert (f"datasets/{name}/train/{MANIFEST_NAME}", "settings") in damage(name, widen), column


@pytest.mark.parametrize("name", [MANIFEST_NAME, DRAWN_NAME])
def test_a_file_that_the_format_does_not_have_is_named_though_a_manifest_vouches_for_it(
    name: str, damage: Callable[..., set[tuple[str, str]]]
) -> None:
    def plant(copy: Copy) -> None:
        folder = copy.shard if name == MANIFEST_NAME else copy.drawn
        (folder / "notes.npy").write_bytes(b"left here")

        def vouch(content: dict[str, Any]) -> None:
            shards = content["shards"][0 if name == MANIFEST_NAME else 1]
            (shards if name == MANIFEST_NAME else shards[0])["files"]["notes.npy"] = None

        copy.change_manifest(vouch, name)

    assert (f"datasets/ul2/train/{name}", "files") in damage("ul2", plant)


def test_a_shard_that_leads_out_of_the_dataset_is_refused_by_verify_and_by_the_loader(
    damage: Callable[..., set[tuple[str, str]]],
) -> None:
    def lead_out(copy: Copy) -> None:
        shutil.copytree(copy.shard, copy.root / "elsewhere")
        content = json.loads((copy.split / MANIFEST_NAME).read_text())
        content["shards"][0]["path"] = "../../../elsewhere"
        (copy.split / MANIFEST_NAME).unlink()
        write_signed(copy.split, content)
        with pytest.raises(FormatError, match=r"shards\.0\.path = '../../../elsewhere'"):
            open_dataset(copy.split.parent)

    assert damage("nsp", lead_out, sign=False) == {("datasets/nsp/train/dataset.json", "manifest")}


@pytest.mark.parametrize(
    "change",
    [
        lambda ids: ids.update(mask=ids["cls"], cls=ids["mask"]),
        lambda ids: ids.update(sentinel_7=ids["sentinel_8"]),
        lambda ids: ids.pop("sep"),
        lambda ids: ids.update(another=12),
    ],
    ids=["exchanged", "twice", "lost", "made up"],
)
def test_special_ids_that_are_not_the_runs_are_named(
    change: Callable[[dict[str, int]], object], damage: Callable[..., set[tuple[str, str]]]
) -> None:
    def confuse(copy: Copy) -> None:
        tokenizer = (copy.root / "tokenizer").resolve()
        (copy.root / "tokenizer").unlink()
        shutil.copytree(tokenizer, copy.root / "tokenizer")
        place = copy.root / "tokenizer" / "special_ids.json"
        content = json.loads(place.read_text())
        change(content)
        place.write_text(json.dumps(content))

    assert ("tokenizer/special_ids.json", "special_ids") in damage("ul2", confuse)
