"""Counting: the training documents of a unit of the token store, by class and bin."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.mix.intervals import INTERVAL_COLUMNS, levels_in, weight_columns
from pipeline.steps.records import UnitRecord
from pipeline.steps.units import Unit, named_table, open_unit, read_table
from stages.mixing.classes import BINS, ClassCounts, ClassKey, bins_of

_COUNTS = pa.schema(
    [
        pa.field("language", pa.string(), nullable=False),
        pa.field("level", pa.int64(), nullable=False),
        pa.field("bin", pa.int64(), nullable=False),
        pa.field("documents", pa.int64(), nullable=False),
        pa.field("tokens", pa.int64(), nullable=False),
    ]
)
"""Of a unit; bins without documents have no row."""
_ROWS = 1 << 18
"""Documents that are counted together."""
_DENSE = 1 << 20
"""Cells that are summed up in an array of all; classes of weights have many more, few of them filled."""


@dataclass(frozen=True)
class MixUnit:
    """One unit of the token store, to be counted for one dataset."""

    unit: Unit
    dataset: str
    train_shards: int
    weights: str | None
    """The field of its records that holds their weight."""

    @property
    def key(self) -> str:
        """Key of its counts."""
        return f"work/mix/{self.dataset}/{self.unit.name}.parquet"


class MixUnitRecord(UnitRecord):
    """What was counted of a unit."""

    documents: int
    """That are trained on."""
    unweighted: int = 0
    """Of them, those without a number where their weight should be."""
    largest: int | None = None
    """Tokens of the largest of them; earlier versions did not count it."""


def count_unit(workspace: Workspace, work: MixUnit) -> MixUnitRecord:
    """Count the training documents of a unit and write the counts."""
    counts = _BinCounts()
    record = _count(workspace, work, counts)
    pq.write_table(counts.table(), workspace.create(work.key), compression="zstd")
    return record


def _count(workspace: Workspace, work: MixUnit, counts: "_BinCounts") -> MixUnitRecord:
    documents, unweighted, largest = 0, 0, 0
    for table in _training_documents(workspace, work):
        levels, without = levels_in(table, work.weights)
        counts.add(work.unit.source, table, levels, bins_of(table.column("order").to_numpy()))
        documents, unweighted = documents + table.num_rows, unweighted + without
        largest = max(largest, int(table.column("tokens").to_numpy().max(initial=0)))
    return MixUnitRecord(documents=documents, unweighted=unweighted, largest=largest)


def _training_documents(workspace: Workspace, work: MixUnit) -> Iterator[pa.Table]:
    """Yield the rows of the documents that are trained on; they stand before those held out."""
    store = open_unit(workspace.root, work.unit, groups=work.train_shards)
    left = int(store.group_ptr[work.train_shards])
    path = store.folder / "documents.parquet"
    columns = [*INTERVAL_COLUMNS, "tokens", *weight_columns(work.weights)]
    with named_table(path), pq.ParquetFile(path, pre_buffer=False) as file:  # in half of the time
        batches = list[pa.RecordBatch]()
        for batch in file.iter_batches(_ROWS, columns=columns, use_threads=False):
            batches.append(batch.slice(0, left))  # a row group has a few hundred rows
            left -= batches[-1].num_rows
            if left == 0 or sum(one.num_rows for one in batches) >= _ROWS:
                yield pa.Table.from_batches(batches)
                batches.clear()
            if left == 0:
                return
        if batches:
            yield pa.Table.from_batches(batches)


@dataclass
class _Cells:
    """Documents and tokens by class and bin; C cells have documents, in the order of their keys."""

    keys: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """(C,): number of the class * BINS + bin."""
    amounts: NDArray[np.int64] = field(default_factory=lambda: np.zeros((2, 0), np.int64))
    """(2, C): documents and tokens."""
    _waiting: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=list)

    def add(
        self, keys: NDArray[np.int64], documents: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> None:
        """Add amounts to some cells; a key may stand there many times."""
        self._waiting.append((keys, np.stack([documents, tokens])))
        if sum(len(waiting) for waiting, _ in self._waiting) > max(_ROWS, len(self.keys)):
            self.sum_up()

    def sum_up(self) -> "_Cells":
        """Sum up what was added."""
        keys = np.concatenate([self.keys, *(keys for keys, _ in self._waiting)])
        amounts = np.concatenate([self.amounts, *(amounts for _, amounts in self._waiting)], axis=1)
        self._waiting.clear()
        size = int(keys.max(initial=-1)) + 1
        if size <= _DENSE:
            self.keys = np.flatnonzero(np.bincount(keys, minlength=size))
            sums = [np.bincount(keys, part, minlength=size) for part in amounts]  # exact below 2 ** 53
            self.amounts = np.stack(sums)[:, self.keys].astype(np.int64)
            return self
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        self.keys = keys[starts]
        self.amounts = np.add.reduceat(amounts[:, order], starts, axis=1)
        return self


class _BinCounts:
    """Documents and tokens by source, language, level and bin."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str, int], int] = {}
        self._cells = _Cells()

    def add(
        self, source: str, table: pa.Table, levels: NDArray[np.int64], bins: NDArray[np.int64]
    ) -> None:
        """Count the rows of a table: documents, or counts if it has a column `documents`."""
        coded = table.column("language").combine_chunks().dictionary_encode()
        codes, names = coded.indices.to_numpy().astype(np.int64), coded.dictionary.to_pylist()
        least = int(levels.min(initial=0))
        span = int(levels.max(initial=0)) - least + 1
        values, rows = np.unique(codes * span + levels - least, return_inverse=True)
        classes = [(source, names[value // span], value % span + least) for value in values.tolist()]
        numbers = [self._numbers.setdefault(one, len(self._numbers)) for one in classes]
        keys = np.array(numbers, np.int64)[rows] * BINS + bins
        tokens = table.column("tokens").to_numpy().astype(np.int64)
        counted = "documents" in table.column_names
        documents = table.column("documents").to_numpy() if counted else np.ones_like(tokens)
        self._cells.add(keys, documents, tokens)

    def classes(self) -> list[ClassCounts]:
        """Return the counts in the order of source, language and level."""
        cells = self._cells.sum_up()
        borders = np.searchsorted(cells.keys, BINS * np.arange(len(self._numbers) + 1)).tolist()
        columns = np.vstack([cells.keys % BINS, cells.amounts])
        found = []
        for (source, language, level), number in sorted(self._numbers.items()):
            own = columns[:, borders[number] : borders[number + 1]]
            found.append(ClassCounts(ClassKey(source=source, language=language, level=level), *own))
        return found

    def table(self) -> pa.Table:
        """Return the counts of one source, in the order of language, level and bin."""
        cells, names = self._cells.sum_up(), list(self._numbers)
        ranks = np.zeros(len(names), np.int64)
        ranks[[number for _, number in sorted(self._numbers.items())]] = np.arange(len(names))
        order = np.argsort(ranks[cells.keys // BINS], kind="stable")
        numbers = cells.keys[order] // BINS
        languages = pa.array([language for _, language, _ in names], pa.string())
        levels = np.array([level for _, _, level in names], np.int64)
        columns = [languages.take(pa.array(numbers)), levels[numbers], cells.keys[order] % BINS]
        return pa.table([*columns, *cells.amounts[:, order]], schema=_COUNTS)


def read_counts(workspace: Workspace, units: Iterable[MixUnit]) -> list[ClassCounts]:
    """Return the sums over units that were counted, a value for each class."""
    counts = _BinCounts()
    for unit in units:
        table = read_table(workspace, unit.key)
        levels, bins = (table.column(name).to_numpy() for name in ("level", "bin"))
        counts.add(unit.unit.source, table, levels, bins)
    return counts.classes()


def count_again(workspace: Workspace, units: Iterable[MixUnit]) -> tuple[list[ClassCounts], int | None]:
    """Return the same from the token store itself, and the tokens of the largest document."""
    counts = _BinCounts()
    records = [_count(workspace, unit, counts) for unit in units]
    return counts.classes(), largest_of(records)


def largest_of(records: Iterable[MixUnitRecord]) -> int | None:
    """Return the tokens of the largest document of all units; None if one did not count it."""
    found = [one.largest for one in records]
    known = [one for one in found if one is not None]
    return max(known, default=0) if len(known) == len(found) else None
