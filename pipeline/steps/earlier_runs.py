"""Earlier runs: finished runs whose documents outrank those of this one, and what they decided.

    documents   0 .. E-1   of earlier runs, run after run, each in canonical order
                E .. N-1   of this run

Their texts, signatures and decisions are read where they are. Nothing of an earlier run is ever written,
and none of its decisions is made again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.names import READ_ROWS
from pipeline.steps.units import (
    Unit,
    as_names,
    fixed_bytes,
    from_hex,
    kept_mask,
    named_table,
    places_of_names,
    read_table,
    rows_of_bytes,
)
from stages.errors import ConfigError
from stages.identity import ID_BYTES
from stages.mixing.placement import ValidationConfig, is_candidate
from stages.store.arrays import open_array

KEPT_RUN = "kept_run"
"""The column of removed.parquet that names the earlier run of the kept document."""
RANKS, ORDER = "dedup/ranks.npy", "dedup/order.npy"
"""Of all documents of a run, if the survivor is not simply the first."""
RANKS_UNIT = "ranks"
"""The unit of deduplication that commits them."""
URL, BY_KEY = "url", "key:"
"""Methods by which a document goes for another value than its text; the second begins their names."""
NumberedRows = tuple[NDArray[np.int64], pa.Table]
"""Numbers of documents, (R,), and a row of each."""


@dataclass(frozen=True)
class EarlierRun:
    """A finished run that another one is deduplicated against."""

    label: str
    """As the run file names its folder, or the folder of a generation: for people."""
    ingest: str
    """Fingerprint of this step, as of the next two."""
    dedup: str
    split: str | None
    """None if it has no split yet: then no side of it is known."""
    folder: Path | None = None
    """Where it is, absolute; None where only its name is known."""
    units: tuple[Unit, ...] = ()
    """With the numbers that their documents have in their run."""
    methods: tuple[str, ...] = ()
    """Of its deduplication."""
    ranked: bool = False
    """Whether it has ranks that are not numbers."""
    selecting: tuple[str, ...] = ("dedup",)
    """Names of its steps that decide what is kept, in the order of the flow."""
    selected: str | None = None
    """Fingerprint of the last of these; None if it is not known, or not done."""

    @property
    def identity(self) -> dict[str, str | None]:
        """What enters fingerprints: never where it is."""
        return {"ingest": self.ingest, "dedup": self.dedup, "split": self.split}

    @property
    def documents(self) -> int:
        """Documents of all its units."""
        return self.units[-1].last if self.units else 0

    @classmethod
    def recorded(
        cls, content: Sequence[Mapping[str, str | None]], selected: Sequence[str | None] = ()
    ) -> "tuple[EarlierRun, ...]":
        """Return the runs that run.json names, without their folders.

        Args:
            content: what dedup was made against.
            selected: what the cuts were made against, one for each run.
        """
        known = selected if len(selected) == len(content) else [None] * len(content)
        return tuple(
            cls("", str(one["ingest"]), str(one["dedup"]), one.get("split"), selected=last)
            for one, last in zip(content, known, strict=True)
        )


def earlier_documents(runs: Iterable[EarlierRun]) -> int:
    """Return how many documents the runs have together."""
    return sum(run.documents for run in runs)


def require_found(runs: Iterable[EarlierRun]) -> None:
    """Refuse to work with an earlier run of which only the name is known.

    Raises:
        ConfigError: its folder is gone.
    """
    for run in runs:
        if run.folder is None:
            raise ConfigError(
                "dedup.against: the documents of an earlier run are needed (its dedup has the"
                f" fingerprint {run.dedup}), but its folder is gone, or its settings do not fit this run"
                " file; put the folder back, or run into a new folder, which says what does not fit"
            )


def numbered(runs: Iterable[EarlierRun]) -> tuple[Unit, ...]:
    """Return the units of all runs, their documents numbered before those of this run."""
    units: list[Unit] = []
    first = 0
    for run in runs:
        units += [replace(unit, first=first + unit.first) for unit in run.units]
        first += run.documents
    return tuple(units)


def behind(units: Iterable[Unit], earlier: int) -> tuple[Unit, ...]:
    """Return this run's units with the numbers of their documents behind those of earlier runs."""
    return tuple(replace(unit, first=unit.first + earlier) for unit in units)


def removed_before(
    workspace: Workspace,
    run: EarlierRun,
    columns: Sequence[str],
    *,
    wanted: NDArray[np.bool_] | None = None,
) -> Iterator[NumberedRows]:
    """Yield what an earlier run says of the documents that it removed, some at a time.

    Args:
        workspace: of this run.
        run: the earlier one.
        columns: of its removed.parquet; one that it lacks is left out.
        wanted: (N,) of which documents of the run; by default of all.

    Returns:
        Numbers of documents in their run, (R,) ascending, and their rows.
    """

    def gone() -> Iterator[NDArray[np.int64]]:
        for unit in run.units:
            yield np.flatnonzero(~kept_mask(workspace, unit)) + unit.first

    path = workspace.path(f"{run.folder}/dedup/removed.parquet")
    with named_table(path), pq.ParquetFile(path) as file:
        there = [name for name in columns if name in file.schema_arrow.names]
        units, buffer = gone(), np.empty(0, np.int64)
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            parts = [buffer]
            while sum(map(len, parts)) < count:
                parts.append(next(units))
            buffer = np.concatenate(parts)
            yield from _wanted_rows(file, group, there, numbers=buffer[:count], wanted=wanted)
            buffer = buffer[count:]


def clusters_before(
    workspace: Workspace, run: EarlierRun, wanted: NDArray[np.bool_]
) -> Iterator[NumberedRows]:
    """Yield the names of the clusters of some documents of an earlier run, some at a time.

    Args:
        workspace: of this run.
        run: the earlier one.
        wanted: (N,) of which documents of the run; one that has no duplicate has no row.

    Returns:
        Numbers of documents in their run, (R,) ascending, and their rows with the column `cluster`.
    """
    path = workspace.path(f"{run.folder}/dedup/clusters.parquet")
    with named_table(path), pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=["number"], use_threads=False)
            numbers = table.column("number").to_numpy()
            yield from _wanted_rows(file, group, ["cluster"], numbers=numbers, wanted=wanted)


def _wanted_rows(
    file: pq.ParquetFile,
    group: int,
    columns: Sequence[str],
    *,
    numbers: NDArray[np.int64],
    wanted: NDArray[np.bool_] | None,
) -> Iterator[NumberedRows]:
    """Yield the wanted rows of a row group, some at a time; none is read if there are none."""
    chosen = np.ones(len(numbers), np.bool_) if wanted is None else wanted[numbers]
    if not chosen.any():
        return
    place = 0
    for batch in file.iter_batches(READ_ROWS, [group], columns=columns, use_threads=False):
        rows = slice(place, place + batch.num_rows)
        place = rows.stop
        if chosen[rows].any():
            found = pa.Table.from_batches([batch]).filter(pa.array(chosen[rows]))
            yield numbers[rows][chosen[rows]], found


class OrderedRows:
    """Rows of numbered documents, ascending, taken range by range.

    Args:
        rows: (R,) numbers and a table, ascending from one to the next.
    """

    def __init__(self, rows: Iterator[NumberedRows]) -> None:
        self._rows = rows
        self._ahead: NumberedRows | None = None

    def before(self, number: int) -> Iterator[NumberedRows]:
        """Yield the next rows as far as those of a number."""
        while True:
            rows, self._ahead = self._ahead or next(self._rows, None), None
            if rows is None:
                return
            numbers, table = rows
            cut = int(np.searchsorted(numbers, number))
            if cut:
                yield numbers[:cut], table.slice(0, cut)
            if cut < len(numbers):
                self._ahead = numbers[cut:], table.slice(cut)
                return


def removed_for_values(workspace: Workspace, unit: Unit) -> NDArray[np.bool_]:
    """Return which documents of an earlier run's unit went for a URL or a key, and not a text: (N,)."""

    def read() -> NDArray[np.bytes_]:
        table = read_table(workspace, f"{unit.folder}/dedup/removed.parquet", columns=["id", "method"])
        methods = table.column("method")
        chosen = pc.or_(pc.equal(methods, URL), pc.starts_with(methods, BY_KEY))
        return as_names(from_hex(table.filter(chosen).column("id")))

    names = workspace.cached(f"removed for values {unit.folder}", read)
    if not len(names):
        return np.zeros(unit.documents, np.bool_)
    ids = fixed_bytes(read_table(workspace, unit.table, columns=["id"]).column("id"), ID_BYTES)
    return np.isin(as_names(ids), names)


def earlier_order(workspace: Workspace, runs: Sequence[EarlierRun]) -> NDArray[np.int64]:
    """Return the documents of earlier runs, the best-ranked first: (E,)."""
    parts, first = [np.empty(0, np.int64)], 0
    for run in runs:
        own = np.arange(run.documents)
        if run.ranked:
            order = open_array(workspace.path(f"{run.folder}/{ORDER}"), dtype="<u4").astype(np.int64)
            before = len(order) - run.documents  # of the runs before it
            own = order[order >= before] - before
        parts.append(own + first)
        first += run.documents
    return np.concatenate(parts)


class Sides:
    """Which clusters belong to one side of the split, because an earlier run put them there.

    Args:
        names: (N, 16) uint8, names of clusters.
        held_out: (N,) whether each is on the validation side.
    """

    def __init__(self, names: NDArray[np.uint8], held_out: NDArray[np.bool_]) -> None:
        found = as_names(names)
        order = np.argsort(found)
        self._names, self._held_out = found[order], held_out[order]

    @classmethod
    def read(cls, workspace: Workspace, key: str | None) -> "Sides":
        """Return the sides that dedup found; none without earlier runs."""
        if key is None:
            return cls(np.empty((0, ID_BYTES), np.uint8), np.empty(0, np.bool_))
        table = read_table(workspace, key)
        return cls(
            fixed_bytes(table.column("cluster"), ID_BYTES),
            table.column("held_out").to_numpy(zero_copy_only=False),
        )

    def of(self, names: NDArray[np.uint8]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Say of each cluster, (N, 16) uint8, whether its side is known, and whether it is held out."""
        places, known = places_of_names(self._names, as_names(names))
        held_out = np.zeros(len(known), np.bool_)
        held_out[known] = self._held_out[places[known]]
        return known, held_out


def may_be_held_out(
    clusters: NDArray[np.uint8], seed: int, *, config: ValidationConfig, sides: Sides
) -> list[bool]:
    """Say of each cluster, (N, 16) uint8, whether it may be held out, or is, as in an earlier run."""
    known, held_out = (side.tolist() for side in sides.of(clusters))
    return [
        held_out[row] if known[row] else is_candidate(name, seed, config=config)
        for row, name in enumerate(rows_of_bytes(clusters))
    ]
