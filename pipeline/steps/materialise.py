"""Materialise: epochs of a dataset drawn once and written out, a shard and an epoch at a time."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.commits import Commit
from pipeline.tasks import Workspace
from stages.loading.dataset import ShardDataset
from stages.store.arrays import array_writer
from stages.store.drawn import DRAWN_NAME, DrawnManifest, DrawnShard, write_drawn
from stages.store.manifest import FORMAT_VERSION, Column, read_manifest

_ROW_TOKENS = 1 << 20
"""Tokens drawn together."""


@dataclass(frozen=True)
class DrawWork:
    """One shard in one epoch."""

    dataset: str
    split: str
    number: int
    epoch: int

    @property
    def folder(self) -> str:
        """The split's."""
        return f"datasets/{self.dataset}/{self.split}"

    @property
    def path(self) -> str:
        """Where its columns go, relative to the split's folder."""
        return f"drawn/epoch-{self.epoch:04d}/{self.number:05d}"


@dataclass(frozen=True)
class DrawnWork:
    """One split whose epochs are all drawn."""

    dataset: str
    split: str
    epochs: int
    parts: tuple[tuple[DrawWork, Commit], ...]
    """By epoch, then by shard."""


def draw_shard(workspace: Workspace, work: DrawWork) -> dict[str, Any]:
    """Write what the loader draws of a shard in one epoch."""
    source = workspace.path(work.folder)
    manifest = read_manifest(source)
    dataset = ShardDataset(source, manifest, epoch=work.epoch, shuffle=False, check="size")
    target = workspace.create(f"{work.folder}/{work.path}")
    rows = manifest.shards[work.number].rows
    step = max(1, _ROW_TOKENS // dataset.widths.stored)
    columns: dict[str, Any] = {}
    with ExitStack() as stack:
        writers: dict[str, Any] = {}
        for start in range(0, max(rows, 1), step):
            drawn = dataset.draw(work.number, np.arange(start, min(start + step, rows)))
            for name, column in drawn.items():
                shape, dtype = column.shape[1:], column.dtype.newbyteorder("<").str
                columns[name] = {"dtype": dtype, "shape": list(shape)}
                if name not in writers:
                    writer = array_writer(target / f"{name}.npy", dtype=dtype, shape=shape)
                    writers[name] = stack.enter_context(writer)
                writers[name](column)
    return {"rows": rows, "columns": columns}


def make_drawn(workspace: Workspace, work: DrawnWork) -> dict[str, Any]:
    """Write the manifest of a split's materialised epochs."""
    folder = f"datasets/{work.dataset}/{work.split}"
    shards: list[list[DrawnShard]] = [[] for _ in range(work.epochs)]
    for part, commit in work.parts:
        prefix = f"{part.folder}/{part.path}/"
        files = {key.removeprefix(prefix): digest for key, digest in commit.files.items()}
        shards[part.epoch].append(DrawnShard(path=part.path, files=files))
    columns = work.parts[0][1].record["columns"]
    manifest = DrawnManifest(
        format_version=FORMAT_VERSION,
        dataset=read_manifest(workspace.path(folder)).fingerprint,
        epochs=work.epochs,
        columns={
            name: Column(meaning="as the loader gives it", **column) for name, column in columns.items()
        },
        shards=tuple(map(tuple, shards)),
    ).signed()
    write_drawn(workspace.create(f"{folder}/{DRAWN_NAME}"), manifest)
    return {"fingerprint": manifest.fingerprint, "epochs": work.epochs}
