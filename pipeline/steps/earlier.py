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
from pipeline.steps.names import read_rows
from pipeline.steps.units import NAME, Unit, fixed_bytes, from_hex, read_table, rows_of_bytes
from stages.errors import ConfigError
from stages.identity import ID_BYTES
from stages.mixing.placement import ValidationConfig, is_candidate
from stages.store.arrays import open_array

KEPT_RUN = "kept_run"
"""The column of removed.parquet that names the earlier run of the kept document."""
RANKS, ORDER = "dedup/ranks.npy", "dedup/order.npy"
"""Of all documents of a run, if the survivor is not simply the first."""
URL, BY_KEY = "url", "key:"
"""Methods by which a document goes for another value than its text; the second begins their names."""
_VALIDATION = "split/validation.parquet"


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

    @property
    def identity(self) -> dict[str, str | None]:
        """What enters fingerprints: never where it is."""
        return {"ingest": self.ingest, "dedup": self.dedup, "split": self.split}

    @property
    def documents(self) -> int:
        """Documents of all its units."""
        return self.units[-1].last if self.units else 0

    @classmethod
    def recorded(cls, content: Iterable[Mapping[str, str | None]]) -> "tuple[EarlierRun, ...]":
        """Return the runs that run.json names, without their folders."""
        return tuple(cls("", str(one["ingest"]), str(one["dedup"]), one.get("split")) for one in content)


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
    unit: Unit,
    columns: Sequence[str],
    *,
    mask: NDArray[np.bool_],
    before: int,
) -> Iterator[tuple[NDArray[np.int64], pa.Table]]:
    """Yield what an earlier run says of the documents that it removed of a unit, some at a time.

    Args:
        workspace: of this run.
        unit: of the earlier run.
        columns: of its removed.parquet; one that it lacks is left out.
        mask: (N,) which documents of the unit it kept.
        before: documents that it removed of the units before; removed.parquet is in canonical order.

    Returns:
        Which documents of the unit, (R,) ascending, and their rows.
    """
    gone, place = np.flatnonzero(~mask), 0
    if not len(gone):
        return
    path = workspace.path(f"{unit.folder}/dedup/removed.parquet")
    there = pq.read_schema(path).names
    wanted = [name for name in columns if name in there]
    for table in read_rows(path, wanted, before, before + len(gone)):
        yield gone[place : place + table.num_rows], table
        place += table.num_rows


def removed_for_values(workspace: Workspace, unit: Unit) -> NDArray[np.bool_]:
    """Return which documents of an earlier run's unit went for a URL or a key, and not a text: (N,)."""
    key = f"removed for values {unit.folder}"
    if key not in workspace.cache:
        table = read_table(workspace, f"{unit.folder}/dedup/removed.parquet", columns=["id", "method"])
        methods = table.column("method")
        chosen = pc.or_(pc.equal(methods, URL), pc.starts_with(methods, BY_KEY))
        workspace.cache[key] = from_hex(table.filter(chosen).column("id")).view(NAME).reshape(-1)
    names: NDArray[np.bytes_] = workspace.cache[key]
    if not len(names):
        return np.zeros(unit.documents, np.bool_)
    ids = fixed_bytes(read_table(workspace, unit.table, columns=["id"]).column("id"), ID_BYTES)
    return np.isin(ids.view(NAME).reshape(-1), names)


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
        found = np.ascontiguousarray(names).view(NAME).reshape(-1)
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
        wanted = np.ascontiguousarray(names).view(NAME).reshape(-1)
        known, held_out = np.zeros(len(wanted), np.bool_), np.zeros(len(wanted), np.bool_)
        if len(self._names):
            places = np.minimum(np.searchsorted(self._names, wanted), len(self._names) - 1)
            known = self._names[places] == wanted
            held_out = known & self._held_out[places]
        return known, held_out


def may_be_held_out(
    clusters: NDArray[np.uint8], seed: int, *, config: ValidationConfig, sides: Sides
) -> list[bool]:
    """Say of each cluster, (N, 16) uint8, whether it may be held out, or is, as in an earlier run."""
    settled, held_out = (side.tolist() for side in sides.of(clusters))
    return [
        held_out[row] if settled[row] else is_candidate(name, seed, config=config)
        for row, name in enumerate(rows_of_bytes(clusters))
    ]


def held_out_before(run: EarlierRun) -> NDArray[np.bytes_]:
    """Return the names of the clusters that an earlier run held out, ascending: (N,) S16."""
    if run.split is None or run.folder is None:
        return np.empty(0, NAME)
    table = pq.read_table(run.folder / _VALIDATION, columns=["cluster"], use_threads=False)
    return np.sort(fixed_bytes(table.column("cluster"), ID_BYTES).view(NAME).reshape(-1))
