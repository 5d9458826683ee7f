"""Copies of a run's datasets: damaged, signed again, and checked by what `shardmill verify` calls."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.decode.check import DecodeUnit, check_texts
from pipeline.steps.draw.step import DrawWork, draw_rows, draw_shard, material_of
from pipeline.steps.records import CheckRecord, FoundIn
from pipeline.steps.shard.make import ShardCounts, ShardWork, make_shard
from pipeline.steps.shard.rows import RowSettings
from pipeline.steps.tokenize.encode import TokenizeUnit
from pipeline.steps.verify.check import checks_of
from pipeline.steps.verify.settings import Settings
from stages.loading.mapped import vocabulary_for
from stages.loading.split_reader import SplitReader
from stages.objectives.table import read_objective, traits_of
from stages.objectives.traits import Objective, Traits
from stages.objectives.vocabulary import Vocabulary
from stages.store.digests import digest_file
from stages.store.drawn import DRAWN_NAME, DrawnManifest, write_drawn
from stages.store.manifest import MANIFEST_NAME, SEGMENT_COLUMNS, Manifest, read_manifest, write_manifest
from stages.tokenizer.special import special_ids
from tests.material.fault_material import Material

Array = NDArray[Any]
SPLIT, NUMBER, EPOCH = "train", 0, 1
"""Where faults are planted: a shard and, of what is written out, an epoch."""
_OWN = ("datasets", "tokens", "sentences")
"""Folders that faults are planted into; of all others a copy has links."""


class NoPlaceError(Exception):
    """A fault that this dataset has no place for."""


@dataclass
class Copy:
    """One dataset of a run, to be damaged.

    Args:
        material: the run.
        name: of the dataset.
        root: where the copy is.
        written: whether it keeps the epochs that are written out.
    """

    material: Material
    name: str
    root: Path
    written: bool
    cache: dict[str, Any]
    units: set[str] = field(default_factory=set)
    """Names of the units of the token store that were damaged."""
    shards: set[int] = field(default_factory=lambda: {NUMBER})
    """Shards of training to look at."""
    undo: ExitStack = field(default_factory=ExitStack)
    """What is called when the copy goes."""
    everything: bool = False
    """Whether to look at every unit and at every shard of both splits."""

    @property
    def split(self) -> Path:
        """The split's folder."""
        return self.root / "datasets" / self.name / SPLIT

    @property
    def shard(self) -> Path:
        """The shard's."""
        return self.split / "epoch-0000" / f"{NUMBER:05d}"

    @property
    def drawn(self) -> Path:
        """What is written out of it in an epoch."""
        return self.split / "drawn" / f"epoch-{EPOCH:04d}" / f"{NUMBER:05d}"

    @cached_property
    def manifest(self) -> Manifest:
        """Of the undamaged split."""
        return read_manifest(self.split)

    @cached_property
    def objective(self) -> Objective:
        """Of the undamaged split."""
        return read_objective(self.manifest.objective)

    @property
    def traits(self) -> Traits:
        """What follows from it."""
        return traits_of(self.objective)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Of the undamaged split."""
        return vocabulary_for(self.split, self.manifest)

    @property
    def workspace(self) -> Workspace:
        """Where checks read."""
        return Workspace(self.root, self.root / "tmp", self.cache)

    def segments(self) -> dict[str, Array]:
        """Return the shard's segments."""
        return {name: np.load(self.shard / "segments" / f"{name}.npy") for name in SEGMENT_COLUMNS}

    def by_row(self) -> list[str]:
        """Return the names of the columns of the stored rows."""
        return list(self.manifest.columns)

    def put_segments(self, **changed: Array) -> None:
        """Put some of the segments' columns in the place of the old."""
        for name, column in changed.items():
            put(self.shard / "segments" / f"{name}.npy", column.astype(SEGMENT_COLUMNS[name]))

    def change(self, name: str, change: Callable[[Array], Array | None]) -> None:
        """Change a column of the stored rows."""
        change_array(self.shard / f"{name}.npy", change)

    def change_written(self, name: str, change: Callable[[Array], Array | None]) -> None:
        """Change a column of an epoch that is written out."""
        change_array(self.drawn / f"{name}.npy", change)

    def columns(self) -> dict[str, Array]:
        """Return what is written out."""
        return {path.stem: np.load(path) for path in sorted(self.drawn.glob("*.npy"))}

    def change_documents(self, change: Callable[[pa.Table], pa.Table]) -> None:
        """Change the list of documents."""
        path = self.shard / "documents.parquet"
        table = pq.read_table(path)
        changed = change(table)
        if changed.equals(table):
            raise NoPlaceError
        path.unlink()
        pq.write_table(changed, path)

    def change_manifest(
        self, change: Callable[[dict[str, Any]], object], name: str = MANIFEST_NAME
    ) -> None:
        """Change what a manifest says."""
        path = self.split / name
        before = path.read_text()
        content = json.loads(before)
        change(content)
        if content == json.loads(before):
            raise NoPlaceError
        path.unlink()
        path.write_text(json.dumps(content))

    def remake(self) -> None:
        """Make the shard again, and what is written out of it, from the token store as it is now."""
        material, dataset = self.material, self.material.dataset(self.name)
        workspace = self.workspace
        work = ShardWork(
            material.units,
            self.name,
            SPLIT,
            NUMBER,
            NUMBER,
            RowSettings(dataset.objective, material.run.packing_of(dataset), material.run.seed),
            vocab_size=self.manifest.vocab_size,
        )
        made = make_shard(workspace, work)
        record = made.model_dump(include=set(ShardCounts.model_fields))
        shutil.rmtree(self.shard)
        shutil.move(workspace.folder / work.key, self.shard)
        self.change_manifest(lambda content: content["shards"][NUMBER].update(record, remade=1))
        self.sign()
        for epoch in range(dataset.epochs_on_disk if self.written else 0):
            item = DrawWork(self.name, SPLIT, NUMBER, epoch)
            counts = draw_shard(workspace, item).counts
            shutil.rmtree(self.split / item.path)
            shutil.move(workspace.folder / item.folder / item.path, self.split / item.path)
            drawn = json.loads((self.split / DRAWN_NAME).read_text())
            drawn["shards"][epoch][NUMBER]["counts"] = counts
            (self.split / DRAWN_NAME).unlink()
            (self.split / DRAWN_NAME).write_text(json.dumps(drawn))

    def redraw(self, *, epoch: int = EPOCH, **changed: Any) -> None:
        """Write an epoch out as another manifest would have it drawn."""
        manifest = self.manifest.model_copy(update=changed)
        reader = SplitReader(self.split, manifest, check="size")
        folder = f"datasets/{self.name}/{SPLIT}"
        extra = material_of(self.workspace, reader, folder, number=NUMBER, with_model=True)
        rows = np.arange(manifest.shards[NUMBER].rows)
        made = draw_rows(reader, NUMBER, rows, epoch, extra)
        if all(np.array_equal(column, old) for column, old in zip_columns(made, self.columns())):
            raise NoPlaceError
        for name, column in made.items():
            path = self.drawn / f"{name}.npy"
            path.unlink()
            np.save(path, np.ascontiguousarray(column))

    def sign(self) -> None:
        """Make the manifests vouch for the files as they are now."""
        path = self.split / MANIFEST_NAME
        content = json.loads(path.read_text())
        for shard in content["shards"]:
            shard.pop("remade", None)
            folder = self.split / shard["path"]
            for name in shard["files"]:
                shard["files"][name] = digest_file(folder / name).model_dump()
        for name in content["tables"]:
            content["tables"][name] = digest_file(self.split / name).model_dump()
        manifest = Manifest.model_validate(content).signed()
        path.unlink()
        write_manifest(path, manifest)
        place = self.split / DRAWN_NAME
        if place.exists():
            content = {**json.loads(place.read_text()), "dataset": manifest.fingerprint}
            for shard in (shard for shards in content["shards"] for shard in shards):
                for name in shard["files"]:
                    shard["files"][name] = digest_file(self.split / shard["path"] / name).model_dump()
            place.unlink()
            write_drawn(place, DrawnManifest.model_validate(content).signed())

    def findings(self) -> list[FoundIn]:
        """Return all that verify finds of the split and of the shards that were touched, or of all."""
        run, dataset = self.material.run, self.material.dataset(self.name)
        epochs = dataset.epochs_on_disk if self.written else 0
        rows = RowSettings(dataset.objective, run.packing_of(dataset), run.seed)
        settings = Settings(rows, epochs, special_ids())
        train, validation = self.material.train, self.material.validation
        checks = checks_of(
            self.name, settings, self.material.units, {"train": train, "validation": validation}
        )
        wanted = {f"split-{SPLIT}", *(f"shard-{SPLIT}-{number:05d}" for number in self.shards)}
        found: list[FoundIn] = []
        for name, function, check in checks:
            if self.everything or name in wanted:
                record = function(self.workspace, check)
                assert isinstance(record, CheckRecord), "what a check returns"
                found += record.findings
        for unit in self.material.units:
            if self.everything or unit.name in self.units:
                work = TokenizeUnit(unit, train, validation, run.seed)
                check_ = DecodeUnit(work, run.needs_sentences)
                found += check_texts(self.workspace, check_).findings
        return found


def zip_columns(a: Mapping[str, Array], b: Mapping[str, Array]) -> Iterator[tuple[Array, Array]]:
    """Return the columns of both by name."""
    assert a.keys() == b.keys(), "the objective makes other columns"
    return ((a[name], b[name]) for name in a)


def put(path: Path, array: Array) -> None:
    """Put an array in the place of another one.

    Raises:
        NoPlaceError: nothing would change.
    """
    old = np.load(path)
    if old.dtype == array.dtype and np.array_equal(old, array):
        raise NoPlaceError
    path.unlink()  # a link: the original stays as it is
    np.save(path, np.ascontiguousarray(array))


def change_array(path: Path, change: Callable[[Array], Array | None]) -> None:
    """Change an array in place or give another one."""
    array = np.load(path)
    changed = change(array)
    put(path, array if changed is None else changed.astype(array.dtype))


@contextmanager
def copied(
    material: Material, name: str, root: Path, *, written: bool, cache: dict[str, Any]
) -> Iterator[Copy]:
    """Yield a copy of a dataset: links, but for what is damaged.

    Args:
        material: the run.
        name: of the dataset.
        root: where to make it; it is gone after.
        written: whether to keep the epochs that are written out; those of kinds that cannot be drawn
            when they are read stay.
        cache: what checks keep from copy to copy: a loaded tokenizer.
    """
    shutil.rmtree(root, ignore_errors=True)
    for folder in sorted(path for path in material.root.iterdir() if path.is_dir()):
        (root / folder.name).parent.mkdir(parents=True, exist_ok=True)
        if folder.name not in _OWN:
            (root / folder.name).symlink_to(folder.resolve(), target_is_directory=True)
        elif folder.name != "datasets":
            shutil.copytree(folder, root / folder.name, copy_function=os.link)
    place = root / "datasets" / name
    os.link(material.root / "run.json", root / "run.json")
    shutil.copytree(material.root / "datasets" / name, place, copy_function=os.link)
    copy = Copy(material, name, root, written, cache)
    copy.written = written or bool(copy.traits.written_for)
    if not copy.written:
        for split in place.iterdir():
            shutil.rmtree(split / "drawn")
            (split / DRAWN_NAME).unlink()
    try:
        with copy.undo:
            yield copy
    finally:
        shutil.rmtree(root, ignore_errors=True)


__all__ = ["NoPlaceError", "copied", "put", "replace"]
