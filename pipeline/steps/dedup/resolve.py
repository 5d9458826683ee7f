"""Resolve: who goes, and for whom, decided once and in rank order; keep masks and evidence come later.

    repeats, edges  ->  resolve  ->  decided parts  ->  masks, names, counts of each part
                                                    ->  row groups of the evidence  ->  tables

What is needed of every document (31 bytes, and 8 of ranks) lies in mapped files, so that the system
holds of it what memory it has to spare; edges pass by group of units. Whatever is not a matter of
ranks is left to the parts: of one task's time it was nine tenths.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.dedup.decided_parts import DecidedPart, decided_parts, write_decided
from pipeline.steps.dedup.earlier_decisions import take_decisions
from pipeline.steps.dedup.edges import FoundEdges, OpenedEdges, ranks_of
from pipeline.steps.dedup.equal import EXACT, equal_texts
from pipeline.steps.dedup.minhash import NEAR
from pipeline.steps.dedup.unit_groups import UnitGroup, unit_groups
from pipeline.steps.earlier_runs import EarlierRun, earlier_documents, numbered
from pipeline.steps.names import READ_ROWS
from pipeline.steps.records import UnitRecord
from pipeline.steps.units import Unit
from stages.dedup.survivors import (
    KEPT,
    Decisions,
    decide,
    final_clusters,
    join_clusters,
    link_repeats,
    undecided,
)
from stages.store.arrays import open_array, write_array
from stages.store.mapped import mapped_zeros


@dataclass(frozen=True)
class Resolution:
    """What resolve works on."""

    units: tuple[Unit, ...]
    partitions: int
    """That digests are cut into."""
    found: tuple[FoundEdges, ...]
    """What methods found, in the order of preference; none without deduplication."""
    ranked: bool = False
    """Whether ranks are an array, and not the numbers of documents."""
    kept: bool = False
    """Whether every document stays, and the masks are written."""
    alike: bool = False
    """Whether equal texts may stay: they belong to one side of the split."""
    earlier: tuple[EarlierRun, ...] = ()
    """Runs whose documents are numbered before those of the units, and outrank them."""

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods by number; those of earlier runs too, since a repeat goes as its text went."""
        names = [one.method for one in self.found]
        before = [method for run in self.earlier for method in run.methods]
        return tuple(dict.fromkeys([*names, EXACT, NEAR, *before]))

    @property
    def every(self) -> list[UnitGroup]:
        """Groups of the units of earlier runs and of this one."""
        return unit_groups((*numbered(self.earlier), *self.units))

    @property
    def groups(self) -> list[UnitGroup]:
        """Groups of the units of this run."""
        return [group for group in self.every if group.first >= earlier_documents(self.earlier)]

    @property
    def parts(self) -> tuple[DecidedPart, ...]:
        """All documents, as what is decided of them is cut."""
        return decided_parts(self.units, self.earlier)

    @property
    def unmeasured(self) -> tuple[int, ...]:
        """Numbers of the methods that compare other values than texts, and so measure nothing."""
        return tuple(
            number for number, one in enumerate(self.found) if one.equal and one.method != EXACT
        )


class ResolveRecord(UnitRecord):
    """How many documents of each part have a duplicate, and how many of these go."""

    members: tuple[int, ...]
    removed: tuple[int, ...]


def resolve(workspace: Workspace, work: Resolution) -> ResolveRecord:
    """Decide about every document, and write what is decided of those that have a duplicate."""
    members, removed = [], []
    with workspace.scratch() as scratch:
        decisions = _decided(workspace, work, work.units[-1].last if work.units else 0, scratch)
        clustered = _clustered(work, final_clusters(decisions), scratch)
        for part in work.parts:
            rows = write_decided(workspace, part, decisions, clustered)
            members.append(len(rows.number))
            removed.append(int(np.count_nonzero(rows.witness != KEPT)))
    return ResolveRecord(members=tuple(members), removed=tuple(removed))


def keep_all(workspace: Workspace, unit: Unit) -> UnitRecord:
    """Keep every document of a unit, before what resolve finds of equal texts is known."""
    write_array(workspace.create(unit.keep_mask), np.ones(unit.documents, np.bool_))
    return UnitRecord()


def _decided(workspace: Workspace, work: Resolution, total: int, scratch: Path) -> Decisions:
    """Decide about all documents, range after range of ranks."""
    ranks = ranks_of(workspace, work.ranked)
    equal = [number for number, found in enumerate(work.found) if found.equal]
    decisions = undecided(total, scratch, equal=equal or [0])
    for sort, number in enumerate(equal):
        for partition in range(work.partitions):
            _link(workspace, decisions, sort, f"{work.found[number].folder}/{partition:05d}.npy")
    take_decisions(workspace, work.earlier, decisions, methods=work.methods, ranks=ranks)
    opened = OpenedEdges(workspace, work.found, groups=len(work.every))
    for group in work.groups:
        edges = opened.read(group.number, ranks)
        decide(decisions, group.first, group.last, edges=edges, ranks=ranks)
    every = (*numbered(work.earlier), *work.units)
    for pairs in equal_texts(workspace, every, partitions=work.partitions) if work.alike else ():
        join_clusters(decisions, pairs, ranks=ranks)
    return decisions


def _link(workspace: Workspace, decisions: Decisions, sort: int, key: str) -> None:
    """Link the repeats of a partition to the best-ranked of their values."""
    repeats: Any = open_array(workspace.path(key), dtype="<i8")
    for start in range(0, len(repeats), READ_ROWS):
        link_repeats(decisions, sort, repeats[start : start + READ_ROWS])


def _clustered(work: Resolution, roots: NDArray[np.integer], scratch: Path) -> NDArray[np.bool_]:
    """Return of each document whether it has a duplicate: (N,) bool, in a mapped file."""
    clustered = mapped_zeros(scratch / "clustered", np.bool_, (len(roots),))
    for group in work.every:
        own = roots[group.first : group.last]
        others = own != np.arange(group.first, group.last)
        clustered[group.first : group.last] |= others
        clustered[own[others]] = True
    return clustered
