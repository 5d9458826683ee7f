"""Partitions: arrays that each group's task writes, and of which each partition's task reads a part.

    ptr.npy   (..., P + 1) int64, beside A arrays: where each partition begins; its writer says of what
    sums.npy  (..., P, A) uint64: the XXH3-64 of the rows of each partition in each array

A partition needs some rows of every group. The sums are there so that they can be read without the rest
of the file, and are what was committed still.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from stages.store.arrays import open_array, rows_digest, write_array
from stages.store.token_store import SUMS
from stages.stores.mounts import mounted_at
from stages.stores.ranges import ArrayRows, RowsReader, rows_here

_POINTERS = "ptr.npy"


class RowKind(NamedTuple):
    """What the rows of an array are."""

    dtype: str
    shape: tuple[int, ...] = ()
    """Of a row."""


def write_partitions(
    folder: Path, arrays: Mapping[str, RowKind], ptr: NDArray[np.int64], *, apart: int = 0
) -> None:
    """Write where partitions begin in arrays of a folder, which are whole, and the sums of their rows.

    Args:
        folder: of the arrays.
        arrays: their names, as files without an ending, and rows.
        ptr: (..., P + 1) the row at which each partition begins, and after the last one ends.
        apart: rows from the beginning of one entry of the first axis to the next, if `ptr` counts from
            there; 0 if it counts from the beginning of the array.
    """
    write_array(folder / _POINTERS, ptr)
    begins = ptr + apart * np.arange(len(ptr))[:, None] if apart else ptr
    sums = np.zeros((*ptr.shape[:-1], ptr.shape[-1] - 1, len(arrays)), np.uint64)
    for column, (name, kind) in enumerate(arrays.items()):
        rows = open_array(folder / f"{name}.npy", dtype=kind.dtype).reshape(-1, *kind.shape)
        for at in np.ndindex(sums.shape[:-1]):
            sums[(*at, column)] = rows_digest(rows[begins[at] : begins[(*at[:-1], at[-1] + 1)]])
    write_array(folder / SUMS, sums)


def open_pointers(workspace: Workspace, folder: str) -> NDArray[np.int64]:
    """Return where partitions begin in the arrays of a folder: (..., P + 1), mapped."""
    ptr: NDArray[np.int64] = open_array(workspace.path(f"{folder}/{_POINTERS}"), dtype="<i8")  # type: ignore[assignment]
    return ptr


class FolderRows(NamedTuple):
    """The rows of a partition in the arrays of a folder."""

    folder: str
    first: int
    last: int
    """After the last row."""


def partition_bounds(workspace: Workspace, folders: Sequence[str], number: int) -> list[FolderRows]:
    """Return the rows of a partition in each of some folders, whose pointers have one axis."""
    bounds = [open_pointers(workspace, folder)[number : number + 2].tolist() for folder in folders]
    return [FolderRows(folder, *own) for folder, own in zip(folders, bounds, strict=True)]


def read_partition(
    workspace: Workspace,
    parts: Sequence[FolderRows],
    arrays: Mapping[str, RowKind],
    at: tuple[int, ...],
) -> list[list[RowsReader]]:
    """Return the rows of one partition in each array of some folders.

    Args:
        workspace: where they are.
        parts: the rows in each folder.
        arrays: as they were written.
        at: the partition: its number, and before it the entries of the axes before it.

    Returns:
        Of each folder, of each array, what maps its rows.
    """
    wanted = []
    for part in parts:
        sums = sums_at(workspace, part.folder, at, arrays=len(arrays))
        for (name, kind), xxh3 in zip(arrays.items(), sums, strict=True):
            key = f"{part.folder}/{name}.npy"
            wanted.append(ArrayRows(key, kind.dtype, kind.shape, part.first, part.last, xxh3))
    found = iter(rows_here(workspace.root, wanted))
    return [[next(found) for _ in arrays] for _ in parts]


def sums_at(
    workspace: Workspace, folder: str, at: tuple[int, ...], *, arrays: int
) -> Sequence[int | None]:
    """Return the sums of one partition in arrays of a folder; of a run in a folder nobody needs them.

    Args:
        workspace: where they are.
        folder: the key.
        at: the partition, as in `read_partition`.
        arrays: how many.
    """
    if mounted_at(workspace.root) is None:
        return [None] * arrays
    path = workspace.path(f"{folder}/{SUMS}")
    if not path.exists():  # an earlier version made it, or a check names it
        return [None] * arrays
    found = open_array(path, dtype="<u8")[at]
    return [int(one) for one in found.reshape(-1)]
