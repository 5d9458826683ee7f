"""Datasets in a store: manifests are read at once, shards when their rows are asked for.

    s3://BUCKET/RUN/datasets/clm -> manifests -> a tree in the node's cache -> the readers of a folder

The tree is named after the manifests, so another dataset at the same URL never meets what the cache has
of this one. Each file is held to its digest when it is brought.
"""

import hashlib
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stages.errors import ConfigError
from stages.store.digests import FileDigest
from stages.store.drawn import DRAWN_NAME
from stages.store.generations import GENERATIONS, generation_name
from stages.store.manifest import MANIFEST_NAME
from stages.stores.cache import NodeCache
from stages.stores.mounts import StoredFiles, mount
from stages.stores.store import Store

_DATASETS = "datasets"
_SPLITS = ("train", "validation")
_PLAN = "run.json"


@dataclass(frozen=True)
class MountedDataset:
    """The tree of a dataset: its files come by the digests of its manifests alone."""

    root: Path
    store: Store
    cache: NodeCache

    @property
    def place(self) -> str:
        """The URL, for messages."""
        return self.store.place

    @property
    def stored(self) -> StoredFiles:
        """What brings files by their digests."""
        return StoredFiles(self.root, self.store, self.cache)

    def keys_below(self, key: str) -> tuple[str, ...]:
        """Return nothing: manifests say what there is."""
        del key
        return ()

    def brings_whole(self, key: str) -> bool:
        """Say that files are brought whole: nobody asks a dataset for rows of them."""
        del key
        return True

    def bring_again(self, key: str) -> None:
        """Bring nothing: likewise."""

    def bring(self, key: str) -> None:
        """Bring nothing: who reads a manifest knows the digests."""


def stored_dataset(store: Store, name: str, *, below: str, cache: NodeCache) -> Path:
    """Return the folder of a dataset in the node's cache, with its manifests and no shard yet.

    Args:
        store: where its run lies, or where the dataset lies if it is no run's.
        name: of the dataset.
        below: the folder of datasets in the run; empty for a dataset that is no run's.
        cache: of this machine.

    Raises:
        ConfigError: no dataset is there.
        Stopped: the store has no answer.
    """
    found = dict(_manifests(store, f"{below}/{name}" if below else ""))
    if not found:
        raise ConfigError(f"{store.place}: no dataset {name!r} there; name RUN/datasets/NAME of a run")
    digest = hashlib.sha256()
    for key, data in sorted(found.items()):
        digest.update(f"{key}\n{len(data)}\n".encode())
        digest.update(data)
    root = cache.folder.resolve() / _DATASETS / digest.hexdigest()[:32]
    for key, data in found.items():
        _write(root / (key if below else f"{name}/{key}"), data)
    tree = root if below else root / name
    mount(tree, MountedDataset(tree, store, cache))
    return root / below / name if below else tree


def _manifests(store: Store, dataset: str) -> Iterator[tuple[str, bytes]]:
    """Yield what tells of a dataset, of each generation: its manifests and the tables beside them."""
    yield from _of_one(store, dataset, "")
    if not dataset:
        return
    plan = store.get(_PLAN)
    if plan is not None:
        yield _PLAN, plan.data
    number = absent = 0
    while absent < 2:  # noqa: PLR2004  # one that is missing between others is named by who opens them
        number += 1
        own = dict(_of_one(store, dataset, f"{GENERATIONS}/{generation_name(number)}/"))
        absent = 0 if own else absent + 1
        yield from own.items()


def _of_one(store: Store, dataset: str, begin: str) -> Iterator[tuple[str, bytes]]:
    for split in _SPLITS:
        folder = f"{begin}{dataset}/{split}" if dataset else split
        for name in (MANIFEST_NAME, DRAWN_NAME):
            found = store.get(f"{folder}/{name}")
            if found is not None:
                yield f"{folder}/{name}", found.data


def tables_of(folder: Path, tables: Mapping[str, FileDigest]) -> Mapping[str, FileDigest]:
    """Return the tables of a split that are not there yet."""
    return {name: digest for name, digest in tables.items() if not (folder / name).exists()}


def _write(place: Path, data: bytes) -> None:
    """Write a file whole; another process may do the same."""
    if place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
    beside.write_bytes(data)
    os.replace(beside, place)  # noqa: PTH105  # rename(2), said plainly
