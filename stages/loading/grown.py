"""A dataset that grew: the rows of a run and of its later generations as one dataset.

    DIR/datasets/clm/train                      generation 0    rows 0 .. A-1
    DIR/generations/0001/datasets/clm/train     generation 1    rows A .. B-1

Every part keeps its own manifest, files and keys: a row is drawn as its own generation draws it. The
order of an epoch is one permutation of all rows, by the seed of generation 0. If the rows of every part
are interleaved by source, those of all parts are interleaved together.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stages.errors import ConfigError, ShardmillError
from stages.loading.arguments import whole_number
from stages.loading.blend import refuse_to_blend
from stages.loading.dataset import Batch, ShardDataset, with_window
from stages.loading.dataset import open_dataset as open_one
from stages.loading.empty_split import EmptySplit, holds_out
from stages.loading.interleaved import InterleavedRows, interleaved_rows
from stages.loading.room import hold_to_cache
from stages.loading.split_reader import FileCheck, SplitReader
from stages.loading.stored import stored_dataset
from stages.store.folders import entries
from stages.store.generations import (
    generation_name,
    missing_generation,
    numbered_generations,
    require_no_gap,
)
from stages.store.manifest import MANIFEST_NAME, read_manifest
from stages.stores.cache import node_cache
from stages.stores.objects import ObjectStore
from stages.stores.url import StoreUrl, is_store_url

_DATASETS, _TRAIN, _VALIDATION = "datasets", "train", "validation"


class GrownDataset(ShardDataset):
    """The rows of one split of several generations, in the order of one epoch.

    Args:
        parts: one for each generation, unshuffled, in their order.
        epoch: the pass over the data, which decides the order and the masks.
        shuffle: False gives the rows as they are stored.
        window: as of `open_dataset`.
    """

    def __init__(
        self,
        parts: Sequence[ShardDataset],
        *,
        epoch: int = 0,
        shuffle: bool = True,
        window: int | None = None,
    ) -> None:
        super().__init__(parts[0].reader, epoch=epoch, shuffle=shuffle, window=window)
        self.parts = tuple(parts)
        for number, part in enumerate(parts):
            part.reader.keep_in(parts[0].reader.kept, number)
        self._firsts = np.cumsum([0, *map(len, parts)])
        self.share_descriptors(1)

    @property
    def fingerprint(self) -> str:
        """Names the content of all parts, in their order."""
        parts = " ".join(part.fingerprint for part in self.parts)
        return with_window(hashlib.sha256(parts.encode()).hexdigest(), self.window)

    @property
    def shard_rows(self) -> list[int]:
        """The rows of each shard of all parts, in stored order."""
        return [rows for part in self.parts for rows in part.shard_rows]

    def __len__(self) -> int:
        """Rows of all parts."""
        return int(self._firsts[-1])

    def share_descriptors(self, datasets: int) -> None:
        """Map so many times fewer files of all parts together at a time."""
        for part in self.parts:
            part.share_descriptors(datasets)

    @property
    def readers(self) -> tuple[SplitReader, ...]:
        """Of all generations."""
        return tuple(part.reader for part in self.parts)

    def hold_shards(self, shards: int) -> None:
        """Map at most so many shards of all parts together at a time."""
        for part in self.parts:
            part.hold_shards(shards)

    def release(self) -> None:
        """Unmap all files of all parts."""
        for part in self.parts:
            part.release()

    def locate(self, row: int) -> tuple[int, int]:
        """Return the shard of a row, counted through all parts, and its number there."""
        part = int(np.searchsorted(self._firsts, row, side="right")) - 1
        shard, number = self.parts[part].locate(row - int(self._firsts[part]))
        return shard + sum(len(one.manifest.shards) for one in self.parts[:part]), number

    def sound_epoch(self, epoch: int) -> int:
        """Return an epoch that rows of every part can be read of.

        Raises:
            ConfigError: a part has no such epoch.
        """
        return max(part.sound_epoch(epoch) for part in self.parts)

    def keep(self, columns: Collection[str]) -> None:
        """Return these columns alone from now on.

        Raises:
            ConfigError: rows have no such column.
        """
        for part in self.parts:
            part.keep(columns)

    def _at(self, epoch: int, rows: NDArray[np.int64]) -> Batch:
        """Return rows of one epoch, each read by the part that it is of."""
        if not len(rows):
            return self.parts[0].at(epoch, rows)
        outside = rows.view(np.uint64) >= len(self)  # below 0 is far above
        if np.count_nonzero(outside):
            raise IndexError(f"row {rows[outside][0]} of {len(self)}")
        if self.shuffle:
            rows = self._orders.get(epoch, self._order).rows(rows)
        owners = self._firsts.searchsorted(rows, "right") - 1
        batch: Batch = {}
        for owner in np.unique(owners).tolist():
            places = np.flatnonzero(owners == owner)
            found = self.parts[owner].at(epoch, rows[places] - self._firsts[owner])
            for name, column in found.items():
                shape = (len(rows), *column.shape[1:])
                batch.setdefault(name, np.empty(shape, np.int64))[places] = column
        return batch

    @cached_property
    def _interleaved(self) -> InterleavedRows | None:
        """The rows of all parts, if those of every part are interleaved."""
        return interleaved_rows([part.manifest for part in self.parts])


def open_dataset(  # noqa: PLR0913  # each names one thing that a trainer decides
    path: str | Path,
    *,
    split: str = "train",
    epoch: int = 0,
    shuffle: bool = True,
    check: FileCheck = "xxh3",
    columns: Collection[str] | None = None,
    generations: int | None = None,
    window: int | None = None,
) -> ShardDataset:
    """Open one split of a dataset, with the rows that later generations of its run added.

    Args:
        path: the folder `DIR/datasets/NAME`, or its URL in a store: `s3://BUCKET/RUN/datasets/NAME`.
        split: its name.
        epoch: the pass over the data, which decides the order and the masks.
        shuffle: False gives the rows as they are stored.
        check: "xxh3" hashes each file when its shard is first touched; "size" trusts it if it is as
            long as it must be.
        columns: the columns wanted; None gives all of them.
        generations: how many generations to read, from the first on; None reads all that there are. A
            training that is to continue with the same rows, whatever is added, names a number.
        window: shards that are read together, for a node whose cache cannot hold the dataset. Shards
            come in an order of the seed and the epoch, in groups of so many; rows are shuffled within a
            group. The order is the same for any ranks and workers. None mixes the rows of all shards.

    Files of a dataset in a store come to the cache of this machine when their shard is first touched.
    Each is compared with its digest. The environment names the folder of the cache, `SHARDMILL_CACHE`,
    and its size in bytes, `SHARDMILL_CACHE_BYTES`.

    The manifest is checked. Each file that rows are made of must be there and have the right length.
    Other files of a shard are checked when it is first touched.

    Raises:
        ConfigError: no such split, epoch, check, column or generation; a window where rows have none;
            a cache that is too small.
        FormatError: the dataset is not whole, was changed, or says what this reader cannot do.
        Stopped: the store has no answer.
    """
    place, url = path, str(path)
    if is_store_url(url):
        place = _stored(url)
    try:
        dataset = _opened(
            place, split=split, epoch=epoch, shuffle=shuffle, check=check, generations=generations
        )
        if window is not None:
            dataset = _windowed(dataset, window)
        hold_to_cache([dataset])
        _require_alike(dataset)
    except ShardmillError as error:
        if place is not path:  # people know no folder of the cache
            error.args = (str(error).replace(str(place), url), *error.args[1:])
        raise
    if columns is not None:
        dataset.keep(columns)
    return dataset


def _stored(url: str) -> Path:
    """Return the folder of a dataset in a store, in the node's cache.

    Raises:
        ConfigError: no dataset is there.
    """
    parsed, cache = StoreUrl.parse(url, key="path"), node_cache()
    whole, _, name = parsed.prefix.rpartition("/")
    prefix, _, below = whole.rpartition("/")
    if below == _DATASETS:
        store = ObjectStore(StoreUrl(parsed.scheme, parsed.bucket, prefix))
        return stored_dataset(store, name, below=below, cache=cache)
    return stored_dataset(ObjectStore(parsed), name or parsed.bucket, below="", cache=cache)


def _windowed(dataset: ShardDataset, window: int) -> ShardDataset:
    """Return a dataset whose shards are read in groups.

    Raises:
        ConfigError: a window that is none, or rows whose order needs all of them.
    """
    if whole_number("window", window) < 1:
        raise ConfigError(f"window = {window}: must be at least 1, the shards that are read together")
    if not dataset.shuffle:
        raise ConfigError(f"window = {window}: rows that are not shuffled need none; leave it out")
    if dataset.is_interleaved:
        raise ConfigError(
            f'window = {window}: the rows of sources with exact shares (interleave = "exact") are dealt'
            " from all shards; leave it out, and give the dataset a cache that holds it"
        )
    dataset.window = window
    dataset.hold_shards(2 * window)
    return dataset


def _opened(
    path: str | Path,
    *,
    split: str,
    epoch: int,
    shuffle: bool,
    check: FileCheck,
    generations: int | None,
) -> ShardDataset:
    """Open one split, with the rows that later generations added.

    Args and errors are those of `open_dataset`.
    """
    root = _root(Path(path))
    later = {} if root is None else _later(root, Path(path).resolve().name)
    if generations is not None:
        wanted, there = whole_number("generations", generations), max([0, *later]) + 1
        if not 1 <= wanted <= there:
            raise ConfigError(f"generations = {generations}: {path} has {there}")
        require_no_gap(root or Path(path), later, until=wanted - 1)
        later = {number: folder for number, folder in later.items() if number < wanted}
    elif root is not None:
        require_no_gap(root, later)
    later = {number: folder for number, folder in later.items() if _has(folder, split)}
    first = [Path(path)] if not later or _has(Path(path), split) else []
    if not later:
        if root is not None and not _has(Path(path), split) and holds_out(root):
            other = open_one(path, check=check)
            return EmptySplit(other, split, epoch=epoch, shuffle=shuffle)
        return open_one(path, split=split, epoch=epoch, shuffle=shuffle, check=check)
    folders = [*first, *later.values()]
    parts = [open_one(one, split=split, shuffle=False, check=check) for one in folders]
    numbers = [*([0] if first else []), *later]
    _require_lineage(root or Path(path), dict(zip(numbers, parts, strict=True)))
    parts = [part for part in parts if len(part)] or parts[:1]
    dataset = GrownDataset(parts, shuffle=shuffle)
    dataset.set_epoch(epoch)
    return dataset


def _require_alike(dataset: ShardDataset) -> None:
    """Refuse generations whose rows are no rows of one dataset; reads the first row of each."""
    if isinstance(dataset, GrownDataset):
        for part in dataset.parts[1:]:
            refuse_to_blend(dataset.parts[0], part)


def _require_lineage(root: Path, parts: Mapping[int, ShardDataset]) -> None:
    """Refuse a generation that is another than its folder says, or that was made after others.

    Datasets of earlier versions say nothing of it: of these, only the numbers of folders are known.

    Raises:
        FormatError: names the generation.
    """
    for number, part in parts.items():
        own = part.manifest.lineage
        before = parts[number - 1].manifest.lineage if number - 1 in parts else None
        if own is None or (own.number == number and (before is None or own.after == before.digest)):
            continue
        why = f"is generation {generation_name(own.number)} by its {MANIFEST_NAME}"
        if own.number == number:
            why = (
                "was made after other generations than those before it, or it waits to be made again"
                " after them"
            )
        raise missing_generation(root, number, last=max(parts), why=why)


def _root(path: Path) -> Path | None:
    """Return the folder of the run that a dataset is of; None if it is not among those of a run."""
    folder = path.resolve()
    return folder.parent.parent if folder.parent.name == _DATASETS else None


def _later(root: Path, name: str) -> dict[int, Path]:
    """Return the folders of a dataset in later generations, as far as the last that has it.

    The last generations may still be made. One before others that has not this dataset is missing.

    Raises:
        FormatError: something there is no generation.
    """
    found = {n: one / _DATASETS / name for n, one in numbered_generations(root).items()}
    return {number: folder for number, folder in found.items() if _is_made(folder)}


def _is_made(folder: Path) -> bool:
    """Say whether a dataset has a split."""
    return any((one / MANIFEST_NAME).exists() for one in entries(folder) if one.is_dir())


def _has(folder: Path, split: str) -> bool:
    """Say whether a dataset must have a split.

    A generation that an earlier version made, whose manifests have no lineage, has no validation split
    if nothing was held out.
    """
    if split != _VALIDATION or (folder / split).exists():
        return True
    made = (folder / _TRAIN / MANIFEST_NAME).exists()
    return not made or read_manifest(folder / _TRAIN).lineage is not None
