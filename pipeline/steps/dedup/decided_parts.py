"""Decided parts: what dedup decided of the documents that have a duplicate, cut by ranges of documents.

    dedup/decided/PART/number.npy      (M,) int64: the documents that have a duplicate, ascending
    dedup/decided/PART/witness.npy     (M,) int64: the kept document for which each goes; -1 where kept
    dedup/decided/PART/root.npy        (M,) int64: the best-ranked document of its cluster
    dedup/decided/PART/similarity.npy  (M,) float64: with the witness
    dedup/decided/PART/method.npy      (M,) uint8: by its number in `Resolution.methods`

Resolve writes them once, and masks, counts, names and evidence are made of each part on its own. All
documents of an earlier run are one part.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.dedup.unit_groups import cut_units
from pipeline.steps.earlier_runs import EarlierRun, earlier_documents, numbered
from pipeline.steps.units import Unit
from stages.dedup.survivors import Decisions
from stages.store.arrays import open_array, write_array

PART_BYTES = 512 << 20
"""Text of the units of a part, at least."""
MAX_PARTS = 512
"""Of a larger corpus the parts are larger: the evidence of a part may name documents of each other."""


@dataclass(frozen=True)
class DecidedPart:
    """A range of documents: some units of this run, or all of an earlier one."""

    number: int
    units: tuple[Unit, ...]
    """With the numbers that their documents have among all."""
    earlier: EarlierRun | None = None

    @property
    def first(self) -> int:
        """Number of its first document."""
        return self.units[0].first

    @property
    def last(self) -> int:
        """Number after its last document."""
        return self.units[-1].last


@dataclass(frozen=True)
class DecidedRows:
    """What is decided of documents that have a duplicate, as in the files."""

    number: NDArray[np.int64]
    witness: NDArray[np.int64]
    root: NDArray[np.int64]
    similarity: NDArray[np.float64]
    method: NDArray[np.uint8]

    def take(self, rows: NDArray[np.int64] | slice) -> "DecidedRows":
        """Return some rows."""
        return DecidedRows(
            self.number[rows],
            self.witness[rows],
            self.root[rows],
            self.similarity[rows],
            self.method[rows],
        )


def decided_parts(units: Sequence[Unit], earlier: Sequence[EarlierRun]) -> tuple[DecidedPart, ...]:
    """Cut all documents into parts, those of earlier runs first: a function of the corpora alone.

    Args:
        units: of this run, their documents numbered behind those of earlier runs.
        earlier: runs; each that has documents is a part.
    """
    before = numbered(earlier)
    found: list[tuple[tuple[Unit, ...], EarlierRun | None]] = []
    for number, run in enumerate(earlier):
        if run.units:
            start = sum(len(one.units) for one in earlier[:number])
            found.append((before[start : start + len(run.units)], run))
    most = max(PART_BYTES, sum(unit.text_bytes for unit in units) // MAX_PARTS)
    found += [(own, None) for own in cut_units(units, most)]
    parts = tuple(DecidedPart(number, own, run) for number, (own, run) in enumerate(found))
    assert not parts or parts[0].first == 0, "the first part does not begin with the first document"
    assert earlier_documents(earlier) == sum(part.last - part.first for part in parts if part.earlier)
    return parts


def write_decided(
    workspace: Workspace, part: DecidedPart, decisions: Decisions, clustered: NDArray[np.bool_]
) -> DecidedRows:
    """Write what is decided of the documents of a part that have a duplicate, and return it.

    Args:
        workspace: where to.
        part: the part.
        decisions: about all documents, clusters final.
        clustered: (N,) whether a document has a duplicate.
    """
    number = np.flatnonzero(clustered[part.first : part.last]) + part.first
    rows = DecidedRows(
        number,
        decisions.witness[number].astype(np.int64),
        decisions.cluster[number].astype(np.int64),
        decisions.similarity[number],
        decisions.method[number],
    )
    folder = workspace.create(_folder(part.number))
    for name, values in vars(rows).items():
        write_array(folder / f"{name}.npy", values)
    return rows


def read_decided(workspace: Workspace, part: int) -> DecidedRows:
    """Return what is decided of a part, mapped."""
    folder = workspace.path(_folder(part))
    number: Any = open_array(folder / "number.npy", dtype="<i8")
    witness: Any = open_array(folder / "witness.npy", dtype="<i8")
    root: Any = open_array(folder / "root.npy", dtype="<i8")
    similarity: Any = open_array(folder / "similarity.npy", dtype="<f8")
    method: Any = open_array(folder / "method.npy", dtype="|u1")
    return DecidedRows(number, witness, root, similarity, method)


def _folder(part: int) -> str:
    return f"dedup/decided/{part:05d}"
