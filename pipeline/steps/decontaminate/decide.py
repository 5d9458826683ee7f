"""Decide: which documents hold items of evaluation sets, and what is left when those are dropped.

decontaminate/keep/UNIT.npy           the keep mask of a unit
decontaminate/found/GROUP.parquet     the evidence of a group of units
decontaminate/found/GROUP.npy         (K, 3) int64: items, documents that hold each, and documents
                                      with common phrases of it
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.decontaminate.index import open_index, open_items
from pipeline.steps.decontaminate.search import DOCUMENTS, open_hits
from pipeline.steps.dedup.unit_groups import UnitGroup
from pipeline.steps.selection import COUNTED, DECONTAMINATE_NAME, KeptCounts, SelectedRecord, as_kept_by
from pipeline.steps.units import Unit, fixed_bytes, hex_strings, kept_mask, row_groups
from stages.decontamination.config import Decontamination
from stages.decontamination.overlaps import Overlaps, overlaps_of
from stages.decontamination.search import DOCUMENT
from stages.decontamination.tables import CONTAMINATED, Verdict
from stages.identity import ID_BYTES
from stages.ragged import batches
from stages.store.arrays import open_array, write_array

REASON = "contaminated"
"""Why documents are gone, in the ledger."""
MATCHED_BYTES = 1_000
"""Of a document that are shown as evidence."""
_HITS = 1 << 18
"""Hits that are weighed at a time, or those of one document."""
_ROWS = 4_096
"""Rows of evidence that are made together."""


@dataclass(frozen=True)
class DecidedGroup:
    """A group of units to be decided about."""

    group: UnitGroup
    """Its units as the step before left them."""
    config: Decontamination


class DecidedRecord(SelectedRecord):
    """What is kept of a group of units."""

    rows: int
    """Of evidence."""


def found_key(group: str, ending: str) -> str:
    """Return the key of what was found in a group of units."""
    return f"decontaminate/found/{group}.{ending}"


def decide_group(workspace: Workspace, work: DecidedGroup) -> DecidedRecord:
    """Write keep masks and evidence of a group of units."""
    unit_group, config = work.group, work.config
    judge = _Judge(workspace, config)
    hits = open_hits(workspace, unit_group.name)
    counts, rows = KeptCounts(unit_group.units, [REASON]), 0
    place = workspace.create(found_key(unit_group.name, "parquet"))
    with pq.ParquetWriter(place, CONTAMINATED, compression="zstd") as writer:
        for unit in unit_group.units:
            before, gone = kept_mask(workspace, unit), np.zeros(unit.documents, np.bool_)
            kept = before.copy()
            for group, (first, table) in enumerate(row_groups(workspace, unit, [*COUNTED, "own_id"])):
                texts = GroupTexts(workspace, unit, group)
                for evidence in judge.evidence(hits, first, table, unit.source, texts):
                    writer.write_table(evidence)
                    rows += evidence.num_rows
                own = slice(first - unit.first, first - unit.first + table.num_rows)
                gone[own] = judge.take_dropped(first, table.num_rows)
                kept[own] &= ~gone[own]
                counts.count(unit, first, table, kept=kept, gone={REASON: gone}, before=before)
            write_array(workspace.create(as_kept_by(unit, DECONTAMINATE_NAME).keep_mask), kept)
    write_array(workspace.create(found_key(unit_group.name, "npy")), judge.items())
    return DecidedRecord(flows=counts.flows, languages=counts.languages, rows=rows)


class GroupTexts:
    """The texts of a row group, read when the first is asked for.

    Args:
        workspace: where the unit is.
        unit: the unit.
        group: the number of the row group.
    """

    def __init__(self, workspace: Workspace, unit: Unit, group: int) -> None:
        self._path, self._group = workspace.path(unit.table), group
        self._texts: pa.ChunkedArray | None = None

    def __getitem__(self, row: int) -> bytes:
        """Return the text of a row, in UTF-8."""
        if self._texts is None:
            with pq.ParquetFile(self._path) as file:
                table = file.read_row_group(self._group, columns=["text"], use_threads=False)
            self._texts = table.column("text").cast(pa.large_binary())
        text: bytes = self._texts[row].as_py()
        return text


class _Judge:
    """What decides about documents, a row group after the other.

    Args:
        workspace: where the index and the counts are.
        config: of the run.
    """

    def __init__(self, workspace: Workspace, config: Decontamination) -> None:
        self._index = open_index(workspace).index
        self._counts: Any = open_array(workspace.path(DOCUMENTS), dtype="<i8")
        self._config = config
        self._names = open_items(workspace)
        sets = {one.name: number for number, one in enumerate(config.sets)}
        of_item = self._names.column("set").to_pylist()
        drops = [config.action_of(sets[name]) == "drop" for name in of_item]
        self._drops = np.array(drops, np.bool_)
        self._found = np.zeros((len(of_item), 2), np.int64)
        self._dropped: list[NDArray[np.int64]] = []

    def evidence(
        self,
        hits: NDArray[np.int64],
        first: int,
        table: pa.Table,
        source: str,
        texts: GroupTexts,
    ) -> Iterator[pa.Table]:
        """Judge the documents of a row group, and yield what is found of them."""
        numbers = hits[:, DOCUMENT]
        low, high = np.searchsorted(numbers, (first, first + table.num_rows))
        own = numbers[low:high]
        begins = np.flatnonzero(np.concatenate([np.ones(min(len(own), 1), np.bool_), np.diff(own) > 0]))
        for start, stop in batches(np.diff(np.append(begins, len(own))), _HITS):
            last = begins[stop] if stop < len(begins) else len(own)
            part = hits[low + begins[start] : low + last]
            yield from self._judged(part, first, table, source, texts)

    def take_dropped(self, first: int, count: int) -> NDArray[np.bool_]:
        """Return which of the documents just judged are dropped: (count,)."""
        mask = np.zeros(count, np.bool_)
        for numbers in self._dropped:
            mask[numbers - first] = True
        self._dropped.clear()
        return mask

    def items(self) -> NDArray[np.int64]:
        """Return the items that were found, with the documents that hold each: (K, 3)."""
        there = np.flatnonzero(self._found.any(axis=1))
        return np.column_stack([there, self._found[there]]).astype(np.int64)

    def _judged(
        self,
        hits: NDArray[np.int64],
        first: int,
        table: pa.Table,
        source: str,
        texts: GroupTexts,
    ) -> Iterator[pa.Table]:
        overlaps = overlaps_of(hits, self._counts, self._index, self._config)
        item = self._index.passages.item[overlaps.passage]
        np.add.at(self._found, (item, np.where(overlaps.contaminated, 0, 1)), 1)
        drops = overlaps.contaminated & self._drops[item]
        self._dropped.append(overlaps.document[drops])
        listed = overlaps.contaminated | (overlaps.documents <= self._config.max_documents)
        verdicts = np.where(drops, 0, np.where(overlaps.contaminated, 1, 2))
        for start in range(0, len(listed), _ROWS):
            rows = start + np.flatnonzero(listed[start : start + _ROWS])
            if len(rows):
                yield self._table(overlaps, rows, verdicts, first, table, source, texts)

    def _table(  # what a row is made of
        self,
        overlaps: Overlaps,
        rows: NDArray[np.int64],
        verdicts: NDArray[np.int64],
        first: int,
        table: pa.Table,
        source: str,
        texts: GroupTexts,
    ) -> pa.Table:
        document, passage = overlaps.document[rows], overlaps.passage[rows]
        taken = table.take(pa.array(document - first))
        items = self._names.take(pa.array(self._index.passages.item[passage]))
        ends = overlaps.end[rows]
        spans = zip(
            (document - first).tolist(), overlaps.begin[rows].tolist(), ends.tolist(), strict=True
        )
        share = overlaps.words[rows] / self._index.passages.usable[passage]
        names = [Verdict.DROPPED, Verdict.REPORTED, Verdict.COMMON]
        columns = {
            "number": document,
            "id": hex_strings(fixed_bytes(taken.column("id"), ID_BYTES)),
            "own_id": taken.column("own_id"),
            "source": [source] * len(rows),
            **{name: items.column(name) for name in ("set", "item", "item_id", "file", "record")},
            "matched": [shown(texts[row][begin:end]) for row, begin, end in spans],
            "begin": overlaps.begin[rows],
            "end": ends,
            "words": overlaps.words[rows],
            "share": share,
            "ngrams": overlaps.grams[rows],
            "documents": overlaps.documents[rows],
            "verdict": [str(names[number]) for number in verdicts[rows]],
        }
        return pa.table(columns, schema=CONTAMINATED)


def shown(text: bytes) -> str:
    """Return the beginning of a part of a text, as much as evidence shows."""
    return text[:MATCHED_BYTES].decode(errors="ignore")
