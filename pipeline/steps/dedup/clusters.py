"""Clusters: the largest clusters of duplicates, with counts and a few documents of each to look at.

Reads the tables of the decision, `dedup/clusters.parquet` and `dedup/removed.parquet`, row group by row
group, and the marks of clusters beside them: 8 bytes of each document that has a duplicate, which lie in
a mapped file while clusters are counted.
Clusters of which all stay, such as equal texts of a source with `dedup = false`, are passed over, so
that they cannot hide one that loses documents.

What is shown of a cluster: its first document, and the removed documents that are the least like the
document they went for, each after that document. If these are duplicates, the others are.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.dedup.removals import GONE
from pipeline.steps.records import UnitRecord
from pipeline.steps.units import Unit, named_table
from stages.config import Config
from stages.dedup.excerpt import excerpt_of
from stages.reading.reader import TableReader, TextSplit
from stages.reading.table import reader_of
from stages.store.arrays import open_array
from stages.store.mapped import mapped_zeros

LARGEST = 10
"""Clusters that are described."""
_LEAST_ALIKE = 3
"""Removed documents of each that are shown."""
_CANDIDATES = 4 * LARGEST
"""Clusters that are counted again by their whole names: 8 bytes of two names may be the same."""
_BLOCK = 1 << 20
"""Documents that are looked at together."""
_BUFFER_CHARACTERS = 1 << 24
"""Characters of texts that are held while clusters are described: 64 MiB at the most."""
_PLACED = ["path", "position", "text"]
_PLACE = 300
"""Characters of a place, the last ones."""
_CLUSTERS, _REMOVED = "dedup/clusters.parquet", "dedup/removed.parquet"


class ClusterDocument(Config):
    """A document of a cluster."""

    id: str
    """32 hex digits."""
    place: str
    """Where it stands: source, file, and row or byte."""
    kept: bool
    kept_id: str | None = None
    """The document that is kept in its place."""
    similarity: float | None = None
    """With that document."""
    method: str | None = None
    excerpt: str
    """The beginning of its text, or where it first differs: from the document kept in its place, or of a
    kept document from the first one that went for it."""


class LargeCluster(Config):
    """A cluster of duplicates."""

    id: str
    """That of its first document."""
    documents: int
    kept: int
    removed: dict[str, int]
    """By method."""
    shown: tuple[ClusterDocument, ...]


class LargestRecord(UnitRecord):
    """The largest clusters, the largest first."""

    clusters: tuple[LargeCluster, ...]


@dataclass(frozen=True)
class _Removal:
    """A removed document, and why."""

    similarity: float | None
    id: str
    kept_id: str
    method: str


@dataclass
class _Cluster:
    """What is known of a cluster so far."""

    id: str
    documents: int = 0
    kept: int = 0
    first: int = 1 << 62
    """The least number of its documents."""
    removed: Counter[str] = field(default_factory=Counter)
    least_alike: list[_Removal] = field(default_factory=list)


@dataclass(frozen=True)
class LargestWork:
    """Where the clusters are."""

    units: tuple[Unit, ...]
    """All units with samples."""
    marks: tuple[str, ...]
    """The keys of the marks of the rows of clusters.parquet, in order."""


def describe_largest(workspace: Workspace, work: LargestWork) -> LargestRecord:
    """Return the largest clusters of all units with samples, from the tables of the decision."""
    marks: list[Any] = [open_array(workspace.path(key), dtype="<u8") for key in work.marks]
    with workspace.scratch() as scratch:
        names = _largest_names(marks, scratch)
    found = _counted(workspace.path(_CLUSTERS), marks, names)
    _add_removals(workspace.path(_REMOVED), {one.id: one for one in found})
    wanted = {one.id for one in found}
    wanted |= {name for one in found for gone in one.least_alike for name in (gone.id, gone.kept_id)}
    texts = _Texts(workspace, work.units, _numbers(workspace.path(_CLUSTERS), wanted))
    return LargestRecord(clusters=tuple(_description_of(one, texts) for one in found))


def _largest_names(marks: Sequence[NDArray[np.uint64]], scratch: Path) -> NDArray[np.uint64]:
    """Return the first halves, with their last bit set, of the names of the largest clusters."""
    keys = mapped_zeros(scratch / "clusters", np.uint64, (sum(map(len, marks)),))
    start = 0
    for part in marks:
        keys[start : start + len(part)] = part
        start += len(part)
    keys.sort()
    return _most_frequent(keys, _CANDIDATES)


def _most_frequent(keys: NDArray[np.uint64], most: int) -> NDArray[np.uint64]:
    """Return the most frequent names of sorted keys; of equally frequent ones the least.

    Names whose last key says that its document is kept have no other documents.
    """
    names, counts, begin = np.empty(0, np.uint64), np.empty(0, np.int64), 0
    for first in range(0, len(keys), _BLOCK):
        block = np.asarray(keys[first : first + _BLOCK + 1])
        names_of = block | GONE
        ends = first + 1 + np.flatnonzero(names_of[1:] != names_of[:-1])
        if first + _BLOCK >= len(keys):
            ends = np.append(ends, len(keys))
        if not len(ends):
            continue
        loses = keys[ends - 1] & GONE > 0
        counts = np.concatenate([counts, np.diff(np.concatenate([[begin], ends]))[loses]])
        names = np.concatenate([names, keys[ends - 1][loses]])
        begin = int(ends[-1])
        chosen = np.lexsort((names, -counts))[:most]
        names, counts = names[chosen], counts[chosen]
    return names


def _counted(
    path: Path, marks: Sequence[NDArray[np.uint64]], names: NDArray[np.uint64]
) -> list[_Cluster]:
    """Return the largest clusters that lose documents among some, by the first halves of their names."""
    rows, start = [np.empty(0, np.int64)], 0
    for part in marks:
        rows.append(start + np.flatnonzero(np.isin(part | GONE, names)))
        start += len(part)
    found: dict[str, _Cluster] = {}
    with named_table(path), pq.ParquetFile(path) as file:
        for own in _taken(file, np.concatenate(rows), ["number", "cluster", "kept"]):
            grouped = own.set_column(2, "kept", own.column("kept").cast(pa.int64()))
            grouped = grouped.group_by("cluster").aggregate(
                [("number", "min"), ("number", "count"), ("kept", "sum")]
            )
            for row in grouped.to_pylist():
                cluster = found.setdefault(row["cluster"], _Cluster(row["cluster"]))
                cluster.documents += row["number_count"]
                cluster.kept += row["kept_sum"]
                cluster.first = min(cluster.first, row["number_min"])
    losing = [one for one in found.values() if one.kept < one.documents]
    return sorted(losing, key=lambda one: (-one.documents, one.first))[:LARGEST]


def _add_removals(path: Path, clusters: Mapping[str, _Cluster]) -> None:
    """Count removals by method, and find the least alike: the first of those that are as alike."""
    columns = ["id", "kept_id", "similarity", "method", "cluster"]
    names = pa.array(list(clusters), pa.string())
    with named_table(path), pq.ParquetFile(path) as file:
        for table in _tables(file, columns) if clusters else ():
            own = table.filter(pc.is_in(table.column("cluster"), names))
            for row in own.group_by(["cluster", "method"]).aggregate([([], "count_all")]).to_pylist():
                clusters[row["cluster"]].removed[row["method"]] += row["count_all"]
            alike = np.argsort(own.column("similarity").to_numpy(), kind="stable")
            ordered = own.take(pa.array(alike))
            for name in pc.unique(own.column("cluster")).to_pylist():
                least = ordered.filter(pc.equal(ordered.column("cluster"), name)).slice(0, _LEAST_ALIKE)
                least_alike = clusters[name].least_alike
                least_alike += [
                    _Removal(row["similarity"], row["id"], row["kept_id"], row["method"])
                    for row in least.to_pylist()
                ]
                least_alike.sort(key=_alike)  # stable: earlier blocks first
                del least_alike[_LEAST_ALIKE:]


def _alike(removal: _Removal) -> float:
    """Return how alike two documents are; those of one URL or key come last."""
    return float("inf") if removal.similarity is None else removal.similarity


def _numbers(path: Path, names: set[str]) -> dict[str, int]:
    """Return the numbers of some documents by their ids; of those of other runs there are none."""
    found: dict[str, int] = {}
    wanted = pa.array(sorted(names), pa.string())
    with named_table(path), pq.ParquetFile(path) as file:
        for table in _tables(file, ["number", "id"]) if names else ():
            own = table.filter(pc.is_in(table.column("id"), wanted))
            ids, numbers = (own.column(name).to_pylist() for name in ("id", "number"))
            found.update(zip(ids, numbers, strict=True))
    return found


class _Texts:
    """Places and texts of a few documents.

    Each row group is read once, in order, and texts are held up to `_BUFFER_CHARACTERS` characters
    together. What is not held is read when it is asked for.

    Args:
        workspace: where the units are.
        units: all units.
        numbers: of the documents, by id.
    """

    def __init__(self, workspace: Workspace, units: Sequence[Unit], numbers: Mapping[str, int]) -> None:
        self._workspace, self._units, self._numbers = workspace, units, numbers
        self._firsts = np.array([unit.first for unit in units])
        self._texts: dict[str, tuple[str, str]] = {}
        left = _BUFFER_CHARACTERS
        for name, found in self._read(sorted(numbers, key=lambda name: numbers[name])):
            left -= len(found[1])
            if left >= 0:
                self._texts[name] = found

    def find(self, name: str) -> tuple[str, str] | None:
        """Return the place and the text of a document of this run."""
        if name not in self._numbers:
            return None
        if name in self._texts:
            return self._texts[name]
        return next((found for _, found in self._read([name])), None)

    def _read(self, names: Iterable[str]) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yield the place and the text of some documents, in the order of their numbers."""
        for place, own in groupby(names, self._unit_of):
            unit = self._units[place]
            rows = {self._numbers[name] - unit.first: name for name in own}
            path, first = self._workspace.path(unit.table), 0
            with named_table(path), pq.ParquetFile(path) as file:
                for group in range(file.num_row_groups):
                    last = first + file.metadata.row_group(group).num_rows
                    inside = [row for row in rows if first <= row < last]
                    if inside:
                        table = file.read_row_group(group, columns=_PLACED, use_threads=False)
                        for row in inside:
                            (found,) = table.slice(row - first, 1).to_pylist()
                            where = _place(unit.source, found["path"], found["position"])
                            yield rows[row], (where, found["text"])
                    first = last

    def _unit_of(self, name: str) -> int:
        """Return which unit a document is in."""
        return int(np.searchsorted(self._firsts, self._numbers[name], side="right")) - 1


def _place(source: str, path: str, position: int) -> str:
    """Return what people call the place of a document."""
    is_table = isinstance(reader_of(path, TextSplit.FILE), TableReader)
    where = f"row {position:,}" if is_table else f"byte {position:,}"
    return f"{source}: {path}, {where}"[-_PLACE:]


def _description_of(cluster: _Cluster, texts: _Texts) -> LargeCluster:
    return LargeCluster(
        id=cluster.id,
        documents=cluster.documents,
        kept=cluster.kept,
        removed=dict(sorted(cluster.removed.items())),
        shown=tuple(_shown(cluster, texts)),
    )


def _shown(cluster: _Cluster, texts: _Texts) -> Iterator[ClusterDocument]:
    """Yield the first document of a cluster, and the least alike ones after those kept for them."""
    listed = set[str]()
    for name in (cluster.id, *(gone.kept_id for gone in cluster.least_alike)):
        if (found := texts.find(name)) is not None and name not in listed:
            listed.add(name)
            excerpt = excerpt_of(found[1], _least_like(cluster, name, texts))
            yield ClusterDocument(id=name, place=found[0], kept=True, excerpt=excerpt)
        for gone in cluster.least_alike:
            own = texts.find(gone.id) if gone.kept_id == name and gone.id not in listed else None
            if own is None:
                continue
            listed.add(gone.id)
            yield ClusterDocument(
                id=gone.id,
                place=own[0],
                kept=False,
                kept_id=gone.kept_id,
                similarity=gone.similarity,
                method=gone.method,
                excerpt=excerpt_of(own[1], None if found is None else found[1]),
            )


def _least_like(cluster: _Cluster, kept: str, texts: _Texts) -> str | None:
    """Return the text of the least alike document that went for a kept one, if any went."""
    for gone in cluster.least_alike:
        if gone.kept_id == kept and (own := texts.find(gone.id)) is not None:
            return own[1]
    return None


def _tables(file: pq.ParquetFile, columns: list[str]) -> Iterator[pa.Table]:
    """Yield the row groups of a table."""
    for group in range(file.num_row_groups):
        yield file.read_row_group(group, columns=columns, use_threads=False)


def _taken(file: pq.ParquetFile, rows: NDArray[np.int64], columns: list[str]) -> Iterator[pa.Table]:
    """Yield some rows of a table, ascending, row group by row group."""
    first = 0
    for group in range(file.num_row_groups):
        last = first + file.metadata.row_group(group).num_rows
        low, high = np.searchsorted(rows, (first, last))
        if low < high:
            table = file.read_row_group(group, columns=columns, use_threads=False)
            yield table.take(pa.array(rows[low:high] - first))
        first = last
