"""Member names: ids, own ids and sources of the documents that have a duplicate, part by part.

    dedup/names/PART/id.npy         (M, 16) uint8: of each row of the part's decided ones
    dedup/names/PART/cluster.npy    (M, 16) uint8: of an earlier run, the cluster of each in that run
    dedup/names/PART/own_id.npy     (S,) uint8: strings end to end
    dedup/names/PART/own_id-ends.npy   (M,) int64: where each ends
    dedup/names/PART/own_id-nulls.npy  (M,) bool
    dedup/names/PART/source.npy     likewise, as are their ends and nulls
    dedup/names/PART/run.npy        likewise, of an earlier run: the run of each

Of a document that an earlier run removed, own id, source and run are those of the document that it went
for, and so is its id. Evidence names documents of any part, so rows are read where they lie.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.dedup.decided_parts import read_decided
from pipeline.steps.names import string_parts
from pipeline.steps.units import hex_strings
from stages.identity import ID_BYTES
from stages.store.arrays import array_writer, open_array
from stages.store.ranges import copy_ranges

RUN = "run"
STRINGS = ("own_id", "source", RUN)
"""Of documents of this run there is no `RUN`."""
OPEN_PARTS = 128
"""Parts whose files stay mapped while evidence is written."""


class ClusterNaming(Protocol):
    """Whoever knows what clusters are called."""

    def clusters(self, numbers: NDArray[np.integer]) -> NDArray[np.uint8]:
        """Return the names of the clusters of which some documents are the roots: (M, 16)."""


class NamedRows(NamedTuple):
    """Names of some documents of a part, ascending."""

    ids: NDArray[np.uint8]
    """(M, 16)."""
    strings: dict[str, Any]
    """Of each column, an array of M strings."""
    clusters: NDArray[np.uint8] | None = None
    """(M, 16), of documents of an earlier run."""


def write_names(workspace: Workspace, part: int, tables: Iterator[NamedRows], *, earlier: bool) -> None:
    """Write the names of the documents of a part that have a duplicate.

    Args:
        workspace: where to.
        part: its number.
        tables: all of them, some at a time.
        earlier: whether they are of an earlier run.
    """
    folder = workspace.create(names_folder(part))
    with ExitStack() as stack:

        def writer(name: str, dtype: str, shape: tuple[int, ...] = ()) -> Any:
            return stack.enter_context(array_writer(folder / f"{name}.npy", dtype=dtype, shape=shape))

        ids = writer("id", "|u1", (ID_BYTES,))
        clusters = writer("cluster", "|u1", (ID_BYTES,)) if earlier else None
        columns = {
            name: (writer(name, "|u1"), writer(f"{name}-ends", "<i8"), writer(f"{name}-nulls", "|b1"))
            for name in STRINGS
            if earlier or name != RUN
        }
        ends = dict.fromkeys(columns, 0)
        for rows in tables:
            ids(rows.ids)
            if clusters is not None:
                clusters(rows.clusters)
            for name, (data, of_each, nulls) in columns.items():
                for content, lengths, absent in string_parts(rows.strings[name]):
                    data(content)
                    of_each(ends[name] + np.cumsum(lengths))
                    nulls(absent)
                    ends[name] += len(content)


def names_folder(part: int) -> str:
    """Return the key of the names of a part."""
    return f"dedup/names/{part:05d}"


class _StringColumn:
    """One column of strings, mapped."""

    def __init__(self, folder: Path, name: str) -> None:
        self._data: Any = open_array(folder / f"{name}.npy", dtype="|u1")
        self._ends: Any = open_array(folder / f"{name}-ends.npy", dtype="<i8")
        self._nulls: Any = open_array(folder / f"{name}-nulls.npy", dtype="|b1")

    def take(self, rows: NDArray[np.int64]) -> pa.Array:
        """Return some rows, in the order given."""
        begins = np.where(rows > 0, self._ends[rows - 1], 0)
        lengths = self._ends[rows] - begins
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        found = np.empty(offsets[-1], np.uint8)
        copy_ranges(self._data, found, begins, offsets[:-1], lengths)
        nulls = self._nulls[rows]
        present = pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None
        return pa.StringArray.from_buffers(
            len(rows), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(found), present
        )


class _PartNames:
    """The names of one part, mapped."""

    def __init__(self, workspace: Workspace, part: int, *, earlier: bool) -> None:
        folder = workspace.path(names_folder(part))
        self.number = read_decided(workspace, part).number
        self.ids: Any = open_array(folder / "id.npy", dtype="|u1", shape=(len(self.number), ID_BYTES))
        clusters: Any = open_array(folder / "cluster.npy", dtype="|u1") if earlier else self.ids
        self.clusters = clusters
        self._strings = {name: _StringColumn(folder, name) for name in STRINGS if earlier or name != RUN}

    def take(self, name: str, rows: NDArray[np.int64]) -> pa.Array:
        """Return some rows of a column of strings."""
        found = self._strings.get(name)
        return pa.nulls(len(rows), pa.string()) if found is None else found.take(rows)


class MemberNames:
    """Names of documents that have a duplicate, by number.

    Args:
        workspace: where the parts are.
        firsts: the number of the first document of each part.
        earlier: how many of the parts are of earlier runs; these come first.
    """

    def __init__(self, workspace: Workspace, firsts: Sequence[int], *, earlier: int) -> None:
        self._firsts = np.array(firsts, np.int64)

        def opened(part: int) -> _PartNames:
            return _PartNames(workspace, part, earlier=part < earlier)

        self._opened = lru_cache(OPEN_PARTS)(opened)

    def ids(self, numbers: NDArray[np.int64]) -> pa.Array:
        """Return the ids of some of the documents."""
        found = np.empty((len(numbers), ID_BYTES), np.uint8)
        for places, part, rows in self._places(numbers):
            found[places] = part.ids[rows]
        return hex_strings(found)

    def clusters(self, numbers: NDArray[np.integer]) -> NDArray[np.uint8]:
        """Return the names of the clusters of which some of the documents are the roots: (M, 16)."""
        found = np.empty((len(numbers), ID_BYTES), np.uint8)
        for places, part, rows in self._places(numbers):
            found[places] = part.clusters[rows]
        return found

    def strings(self, name: str, numbers: NDArray[np.int64]) -> pa.Array:
        """Return own ids, sources or runs of some of the documents; the run of this run's is null."""
        every, parts = [np.empty(0, np.int64)], [pa.array([], pa.string())]
        for places, part, rows in self._places(numbers):
            every.append(places)
            parts.append(part.take(name, rows))
        joined = pa.concat_arrays(parts)
        return joined if len(parts) <= 2 else joined.take(pa.array(np.argsort(np.concatenate(every))))  # noqa: PLR2004

    def _places(
        self, numbers: NDArray[np.integer]
    ) -> Iterator[tuple[NDArray[np.int64], _PartNames, NDArray[np.int64]]]:
        """Yield which of some documents a part has, the part, and their rows in it."""
        part_of = np.searchsorted(self._firsts, numbers, side="right") - 1
        for number in np.unique(part_of).tolist():
            places, part = np.flatnonzero(part_of == number), self._opened(number)
            rows = np.searchsorted(part.number, numbers[places])
            assert (part.number[rows] == numbers[places]).all(), (
                "a document without a duplicate is named"
            )
            yield places, part, rows
