"""Search: which n-grams of the evaluation sets stand in which documents, and in how many.

decontaminate/hits/GROUP.npy  (H, 5) int64, of a group: by document, see `stages.decontamination`
decontaminate/documents.npy   (G,) int64: in how many kept documents each n-gram stands

Documents of earlier runs are searched too, because a phrase that is common in them is common. Hits in
them are counted and nothing else: `hits/earlier-GROUP.npy`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.decontaminate.index import open_index
from pipeline.steps.dedup.unit_groups import UnitGroup
from pipeline.steps.records import UnitRecord
from pipeline.steps.units import kept_mask, row_groups
from stages.columns import utf8_of
from stages.decontamination.search import DOCUMENT, GRAM, Searcher
from stages.store.arrays import array_writer, open_array, write_array

DOCUMENTS = "decontaminate/documents.npy"
_BLOCK = 1 << 20
"""Hits that are read at a time."""


class SearchRecord(UnitRecord):
    """What was found in a group of units."""

    hits: int


@dataclass(frozen=True)
class SearchedGroup:
    """A group of units whose documents are searched."""

    group: UnitGroup
    earlier: bool = False
    """Whether it is of an earlier run."""

    @property
    def name(self) -> str:
        """Name of its hits and commits."""
        return f"earlier-{self.group.name}" if self.earlier else self.group.name


def hits_key(group: str) -> str:
    """Return the key of the hits of a group of units."""
    return f"decontaminate/hits/{group}.npy"


def search_group(workspace: Workspace, work: SearchedGroup) -> SearchRecord:
    """Search the kept documents of a group of units."""
    opened = open_index(workspace)
    searcher = Searcher(opened.folding, opened.index)
    count = 0
    with array_writer(workspace.create(hits_key(work.name)), dtype="<i8", shape=(5,)) as append:
        for unit in work.group.units:
            mask = kept_mask(workspace, unit)
            for first, table in row_groups(workspace, unit, ["text"]):
                rows = np.flatnonzero(mask[first - unit.first :][: table.num_rows])
                data, ptr = utf8_of(table.column("text"))
                del table
                for found in searcher.search(data, ptr, rows):
                    found[:, DOCUMENT] += first
                    append(found)
                    count += len(found)
    return SearchRecord(hits=count)


def count_documents(workspace: Workspace, groups: tuple[str, ...]) -> UnitRecord:
    """Count in how many documents of some runs each n-gram stands: once in the hits of a document."""
    counts = np.zeros(len(open_index(workspace).index.grams.at), np.int64)
    for name in groups:
        hits = open_hits(workspace, name)
        for start in range(0, len(hits), _BLOCK):
            np.add.at(counts, hits[start : start + _BLOCK, GRAM], 1)
    write_array(workspace.create(DOCUMENTS), counts)
    return UnitRecord()


def open_hits(workspace: Workspace, group: str) -> NDArray[np.int64]:
    """Return the hits of a group of units, mapped."""
    hits: NDArray[np.int64] = open_array(workspace.path(hits_key(group)), dtype="<i8")  # type: ignore[assignment]
    return hits
