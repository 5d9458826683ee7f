"""Counting: the training documents of a unit of the token store, by class and bin."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.engine.tasks import Workspace
from pipeline.steps.mix.intervals import INTERVAL_COLUMNS
from pipeline.steps.mix.weights import levels_in, weight_columns
from pipeline.steps.records import UnitRecord
from pipeline.steps.units import Unit, named_table, read_table
from stages.mixing.classes import BINS, ClassCounts, ClassKey, bins_of
from stages.store.token_store import TokenUnit

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


def count_unit(workspace: Workspace, work: MixUnit) -> MixUnitRecord:
    """Count the training documents of a unit and write the counts."""
    counts, record = _counted(workspace, work)
    pq.write_table(counts.table(), workspace.create(work.key), compression="zstd")
    return record


def _counted(workspace: Workspace, work: MixUnit) -> "tuple[_Counts, MixUnitRecord]":
    counts, documents, unweighted = _Counts(), 0, 0
    for table in _training_documents(workspace, work):
        documents += table.num_rows
        unweighted += counts.add(table, work.weights)
    return counts, MixUnitRecord(documents=documents, unweighted=unweighted)


def _training_documents(workspace: Workspace, work: MixUnit) -> Iterator[pa.Table]:
    """Yield the rows of the documents that are trained on; they stand before those held out."""
    store = TokenUnit.open(workspace.path(work.unit.tokens), groups=work.train_shards)
    left = int(store.group_ptr[work.train_shards])
    path = store.folder / "documents.parquet"
    columns = [*INTERVAL_COLUMNS, "tokens", *weight_columns(work.weights)]
    with named_table(path), pq.ParquetFile(path, read_dictionary=["language"]) as file:
        for batch in file.iter_batches(_ROWS, columns=columns, use_threads=False):
            if left <= 0:
                return
            yield pa.Table.from_batches([batch.slice(0, left)])
            left -= batch.num_rows


class _Counts:
    """Documents and tokens by language, level and bin."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int], int] = {}
        self._amounts = np.zeros((0, 2, BINS), np.int64)

    def add(self, table: pa.Table, weights: str | None) -> int:
        """Count some documents; return how many have no weight though they should."""
        levels, unweighted = levels_in(table, weights)
        coded = table.column("language").combine_chunks()
        codes = coded.indices.to_numpy().astype(np.int64)
        bins, tokens = bins_of(table.column("order").to_numpy()), table.column("tokens").to_numpy()
        least = int(levels.min(initial=0))
        span = int(levels.max(initial=0)) - least + 1
        values, rows = np.unique(codes * span + levels - least, return_inverse=True)
        names = coded.dictionary.to_pylist()
        of_class = np.array(
            [self._number((names[v // span], v % span + least)) for v in values.tolist()], np.int64
        )
        places = of_class[rows] * BINS + bins
        size = len(self._amounts) * BINS
        for row, amounts in enumerate((None, tokens)):
            sums = np.bincount(places, weights=amounts, minlength=size)  # exact below 2**53
            self._amounts[:, row] += sums.astype(np.int64).reshape(-1, BINS)
        return unweighted

    def _number(self, key: tuple[str, int]) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            self._amounts = np.concatenate([self._amounts, np.zeros((1, 2, BINS), np.int64)])
        return self._numbers[key]

    def table(self) -> pa.Table:
        """Return the counts, in the order of language, level and bin."""
        parts = [_COUNTS.empty_table()]
        for (language, level), number in sorted(self._numbers.items()):
            documents, tokens = self._amounts[number]
            bins = np.flatnonzero(documents)
            columns = [
                pa.array([language] * len(bins), pa.string()),
                np.full(len(bins), level),
                bins,
                documents[bins],
                tokens[bins],
            ]
            parts.append(pa.table(columns, schema=_COUNTS))
        return pa.concat_tables(parts)


def read_counts(workspace: Workspace, units: Iterable[MixUnit]) -> list[ClassCounts]:
    """Return the sums over units that were counted, a value for each class."""
    return _sums((unit.unit.source, read_table(workspace, unit.key)) for unit in units)


def count_again(workspace: Workspace, units: Iterable[MixUnit]) -> list[ClassCounts]:
    """Return the same from the token store itself."""
    return _sums((unit.unit.source, _counted(workspace, unit)[0].table()) for unit in units)


def _sums(tables: Iterable[tuple[str, pa.Table]]) -> list[ClassCounts]:
    sums: dict[tuple[str, str, int], ClassCounts] = {}
    for source, table in tables:
        coded = table.column("language").combine_chunks().dictionary_encode()
        languages, codes = coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)
        levels, bins, documents, tokens = (
            table.column(name).to_numpy() for name in ("level", "bin", "documents", "tokens")
        )
        changes = np.flatnonzero((np.diff(codes) != 0) | (np.diff(levels) != 0)) + 1
        for rows in np.split(np.arange(table.num_rows), changes) if table.num_rows else ():
            key = ClassKey(source=source, language=languages[codes[rows[0]]], level=int(levels[rows[0]]))
            zeros = ClassCounts(key, np.zeros(BINS, np.int64), np.zeros(BINS, np.int64))
            own = sums.setdefault(key.order, zeros)
            own.documents[bins[rows]] += documents[rows]
            own.tokens[bins[rows]] += tokens[rows]
    return [sums[key] for key in sorted(sums)]
