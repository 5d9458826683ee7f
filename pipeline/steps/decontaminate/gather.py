"""Gather: the evidence of all groups in one table, and what became of each item.

decontaminate/contaminated.parquet    documents that have words in common with items
decontaminate/items.parquet           the items
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.engine.tasks import Workspace
from pipeline.steps.decontaminate.decide import found_key
from pipeline.steps.decontaminate.index import open_items
from pipeline.steps.evidence import write_tables
from pipeline.steps.records import UnitRecord
from stages.config import Config
from stages.decontamination.config import Decontamination
from stages.decontamination.tables import CONTAMINATED, JUDGED_ITEMS, ItemVerdict, Verdict

EVIDENCE = "decontaminate/contaminated.parquet"
JUDGED = "decontaminate/items.parquet"
SAMPLES = 3
"""Rows of evidence that the report shows of each set."""
_SHOWN = 200
_ROWS = 1 << 14


@dataclass(frozen=True)
class GatherWork:
    """What the groups found, to be put together."""

    groups: tuple[str, ...]
    config: Decontamination


class ContaminationSample(Config):
    """A document that holds an item, for people."""

    set: str
    item: str
    """Its file and record."""
    id: str
    """Of the document."""
    own_id: str | None = None
    """That its record has, if the source names an `id_column`."""
    source: str
    words: int
    share: float
    matched: str
    """As it stands in the document; a part, if it is long."""


class SetCounts(Config):
    """What was found of a set."""

    items: int
    unused: int
    """Too short to be looked for, or in the form of many others."""
    found: int
    """Items that stand in documents."""
    common: int
    """Items of which only common phrases stand in documents."""
    dropped: int
    """Documents."""
    reported: int
    samples: tuple[ContaminationSample, ...] = ()


class GatheredRecord(UnitRecord):
    """What was found of each set, by name."""

    sets: dict[str, SetCounts]


def gather(workspace: Workspace, work: GatherWork) -> GatheredRecord:
    """Put the evidence of all groups together, and judge each item."""
    items = open_items(workspace)
    found = np.zeros((items.num_rows, 2), np.int64)
    for group in work.groups:
        own = np.load(workspace.path(found_key(group, "npy")))
        np.add.at(found, own[:, 0], own[:, 1:])
    searched = items.column("searched").to_numpy()
    kinds = [ItemVerdict.FOUND, ItemVerdict.COMMON, ItemVerdict.UNUSED, ItemVerdict.CLEAR]
    numbers = np.select([found[:, 0] > 0, found[:, 1] > 0, searched == 0], [0, 1, 2], 3)
    judged = items.append_column("found", [found[:, 0]]).append_column("common", [found[:, 1]])
    verdicts = pa.DictionaryArray.from_arrays(pa.array(numbers), [str(kind) for kind in kinds])
    judged = judged.append_column("verdict", verdicts.cast(pa.string())).cast(JUDGED_ITEMS)
    pq.write_table(judged, workspace.create(JUDGED), compression="zstd", row_group_size=_ROWS)
    counts = {one.name: _SetEvidence() for one in work.config.sets}
    evidence = _evidence(workspace, work, counts)
    write_tables(workspace.create(EVIDENCE), CONTAMINATED, evidence, rows=_ROWS, size=math.inf)
    names = np.array(items.column("set").to_pylist(), object)
    return GatheredRecord(
        sets={name: counted.record(numbers[names == name]) for name, counted in counts.items()}
    )


@dataclass
class _SetEvidence:
    """What the evidence says of a set."""

    documents: Counter[str] = field(default_factory=Counter)
    """By verdict, each once."""
    samples: list[ContaminationSample] = field(default_factory=list)
    _last: dict[str, int] = field(default_factory=dict)
    _shown: set[int] = field(default_factory=set)

    def add(self, table: pa.Table) -> None:
        """Count some rows of the set."""
        for verdict in (Verdict.DROPPED, Verdict.REPORTED):
            rows = table.filter(pa.compute.equal(table.column("verdict"), str(verdict)))
            numbers = np.unique(rows.column("number").to_numpy())
            if not len(numbers):
                continue
            again = self._last.get(verdict) == numbers[0]  # its rows began in the part before
            self.documents[verdict] += len(numbers) - again
            self._last[verdict] = int(numbers[-1])
            for row in rows.slice(0, _ROWS).to_pylist() if len(self.samples) < SAMPLES else ():
                if len(self.samples) < SAMPLES and row["item"] not in self._shown:
                    self._shown.add(row["item"])
                    self.samples.append(_sample(row))

    def record(self, verdicts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> SetCounts:
        """Return the counts, with those of the items by their verdicts."""
        found, common, unused = (int(np.count_nonzero(verdicts == number)) for number in range(3))
        return SetCounts(
            items=len(verdicts),
            unused=unused,
            found=found,
            common=common,
            dropped=self.documents[Verdict.DROPPED],
            reported=self.documents[Verdict.REPORTED],
            samples=tuple(self.samples),
        )


def _sample(row: dict[str, Any]) -> ContaminationSample:
    matched = " ".join(str(row["matched"]).split())
    return ContaminationSample(
        set=str(row["set"]),
        item=f"{row['file']}, record {row['record']}",
        id=str(row["id"]),
        own_id=None if row["own_id"] is None else str(row["own_id"]),
        source=str(row["source"]),
        words=int(row["words"]),
        share=float(row["share"]),
        matched=matched if len(matched) <= _SHOWN else f"{matched[:_SHOWN]}...",
    )


def _evidence(
    workspace: Workspace, work: GatherWork, counts: Mapping[str, _SetEvidence]
) -> Iterator[pa.Table]:
    """Yield the evidence of each group, some rows at a time, and count it by set."""
    for group in work.groups:
        with pq.ParquetFile(workspace.path(found_key(group, "parquet"))) as file:
            for batch in file.iter_batches(_ROWS, use_threads=False):
                table = pa.Table.from_batches([batch])
                for name, counted in counts.items():
                    counted.add(table.filter(pa.compute.equal(table.column("set"), name)))
                yield table
