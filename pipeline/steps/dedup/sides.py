"""Sides: which clusters are held out because earlier runs held out a document of theirs.

    cluster    name of a cluster, in this run or in an earlier one
    joined     name of the cluster of this run that holds documents of it
    held_out   whether it is on the validation side

A removed document is on the side of its cluster. The table of a run says this of all earlier documents
that a document of the run is like, removed ones too, so a later run learns it from this run alone.
`joined` says which clusters became one: a later run follows it through the tables of all earlier runs.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.dedup.member_names import ClusterNaming
from pipeline.steps.earlier_runs import EarlierRun
from pipeline.steps.step import LaterRule, Records, Scope
from pipeline.steps.units import (
    NAME,
    as_names,
    fixed_array,
    fixed_bytes,
    from_hex,
    named_table,
    places_of_names,
)
from stages.identity import ID_BYTES
from stages.stores.mounts import here

SIDES = "dedup/sides.parquet"
_NAME = "held-out clusters"
_VALIDATION, _CLUSTERS = "split/validation.parquet", "dedup/clusters.parquet"
_SCHEMA = pa.schema(
    [
        pa.field("cluster", pa.binary(ID_BYTES), nullable=False),
        pa.field("joined", pa.binary(ID_BYTES), nullable=False),
        pa.field("held_out", pa.bool_(), nullable=False),
    ]
)
ClusterNames = NDArray[np.bytes_]
"""Names of clusters, S16."""


class KnownSides:
    """What is known of clusters: which of them are one, and which are held out.

    Args:
        first: (N,) names.
        second: (N,) of each, a name of the same cluster.
        held_out: (H,) names of clusters that are held out.
    """

    def __init__(self, first: ClusterNames, second: ClusterNames, held_out: ClusterNames) -> None:
        apart = first != second
        held_out = np.unique(held_out)
        joined = np.concatenate([first[apart], second[apart]])
        self._names, places = np.unique(np.concatenate([joined, held_out]), return_inverse=True)
        count = len(joined) // 2
        group = _groups(len(self._names), places[:count], places[count : 2 * count])
        in_validation = np.zeros(len(self._names), np.bool_)
        in_validation[group[places[2 * count :]]] = True
        self._held_out = in_validation[group]

    def holds_out(self, names: ClusterNames) -> NDArray[np.bool_]:
        """Say of each cluster whether it is held out, or is one with a cluster that is: (N,)."""
        places, found = places_of_names(self._names, names)
        found[found] = self._held_out[places[found]]
        return found


def _groups(count: int, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the least of the numbers that each is joined with, through others too: (count,)."""
    group = np.arange(count)
    while True:
        before = group.copy()
        least = np.minimum(group[first], group[second])
        for numbers in (group[first], group[second], first, second):
            np.minimum.at(group, numbers, least)
        group = group[group]
        if np.array_equal(group, before):
            return group


def write_sides(
    workspace: Workspace,
    runs: Sequence[EarlierRun],
    *,
    clustered: NDArray[np.bool_],
    roots: NDArray[np.integer],
    names: ClusterNaming,
) -> None:
    """Write the clusters that an earlier run put on one side; the validation side outranks the other."""
    own, joined = [np.empty(0, NAME)], [np.empty(0, NAME)]
    first, with_split = 0, [np.empty(0, NAME)]
    for run in runs:
        members = np.flatnonzero(clustered[first : first + run.documents]) + first
        first += run.documents
        if not len(members):
            continue
        own.append(as_names(names.clusters(members)))
        joined.append(as_names(names.clusters(roots[members])))
        if run.split is not None:
            with_split.append(joined[-1])
    pairs = np.unique(np.stack([np.concatenate(own), np.concatenate(joined)], axis=1), axis=0)
    known = known_sides(runs, pairs)
    held_out = known.holds_out(pairs[:, 1])
    decided = held_out | np.isin(pairs[:, 1], np.concatenate(with_split))
    every = np.concatenate([pairs, pairs[:, [1, 1]]])  # the cluster of this run by its own name too
    rows, places = np.unique(every[np.tile(decided, 2)], axis=0, return_index=True)
    sides = np.tile(held_out, 2)[np.tile(decided, 2)][places]
    columns = [fixed_array(_bytes(rows[:, 0])), fixed_array(_bytes(rows[:, 1])), sides]
    pq.write_table(pa.table(columns, schema=_SCHEMA), workspace.create(SIDES))


def known_sides(runs: Sequence[EarlierRun], pairs: NDArray[np.bytes_] | None = None) -> KnownSides:
    """Return what earlier runs say of clusters.

    Args:
        runs: whose folders are known; others say nothing.
        pairs: (N, 2) names that are of one cluster, beside those in the tables of the runs.
    """
    found = [] if pairs is None else [(pairs[:, 0], pairs[:, 1])]
    held_out = [np.empty(0, NAME)]
    for run in runs:
        if run.folder is None:
            continue
        if run.split is not None:
            table = pq.read_table(here(run.folder / _VALIDATION), columns=["cluster"], use_threads=False)
            held_out.append(_column(table, "cluster"))
        if (path := here(run.folder / SIDES)).exists():  # of a run with earlier ones
            table = pq.read_table(path, use_threads=False)
            clusters, sides = _column(table, "cluster"), table.column("held_out").to_numpy()
            held_out.append(clusters[sides])
            if "joined" in table.column_names:  # not in runs of older versions
                found.append((clusters, _column(table, "joined")))
    return KnownSides(*_columns(found), np.concatenate(held_out))


def _columns(found: Sequence[tuple[ClusterNames, ClusterNames]]) -> tuple[ClusterNames, ClusterNames]:
    empty = np.empty(0, NAME)
    return (
        np.concatenate([empty, *(one for one, _ in found)]),
        np.concatenate([empty, *(other for _, other in found)]),
    )


def _column(table: pa.Table, name: str) -> ClusterNames:
    return as_names(fixed_bytes(table.column(name), ID_BYTES))


def _bytes(names: ClusterNames) -> NDArray[np.uint8]:
    return np.ascontiguousarray(names).view(np.uint8).reshape(-1, ID_BYTES)


def _in_training(root: Path, _: Records, scope: Scope) -> str | None:
    """Say how many documents of clusters that earlier runs held out are in training."""
    if not here(root / _VALIDATION).exists():
        return None
    count = sum(_kept_in_training(root, known_sides(scope.earlier)))
    if not count:
        return None
    return (
        f"rule {_NAME!r}: {count:,} documents are in training though their cluster is held out in an"
        " earlier generation or run: an earlier version did not follow clusters through removed"
        " documents. The rows stay as they are. To make them anew, run with --replace, or into a new"
        " folder"
    )


def _kept_in_training(root: Path, known: KnownSides) -> Iterator[int]:
    """Yield how many kept documents have a cluster that is known as held out, and train on it."""
    own = _column(
        pq.read_table(here(root / _VALIDATION), columns=["cluster"], use_threads=False), "cluster"
    )
    clusters = here(root / _CLUSTERS)
    with named_table(clusters), pq.ParquetFile(clusters) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=["cluster", "kept"], use_threads=False)
            names = as_names(from_hex(table.column("cluster")))
            kept = table.column("kept").to_numpy()
            yield int(np.count_nonzero(kept & known.holds_out(names) & ~np.isin(names, own)))


HELD_OUT_CLUSTERS = LaterRule(_NAME, lambda scope: bool(scope.earlier), _in_training)
