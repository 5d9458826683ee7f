"""Intervals: what a mix takes of each class, as its table says it, held against documents.

mix/NAME.parquet   a row for each class: source, language, level, begin, end, documents and tokens

Weights of documents: numbers in a field of their records, as the token store has it, to levels.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.units import read_table
from stages.columns import kept_names
from stages.errors import FormatError
from stages.mixing.classes import MixClass, bins_of, copies_of, intervals, levels_of

_NUMBER = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
"""A number as JSON has it; anything else is no weight, whatever a library would make of it."""


def weight_columns(column: str | None) -> tuple[str, ...]:
    """Return the columns of the token store that hold the weights of a source's documents."""
    return () if column is None else kept_names((column,))


def levels_in(table: pa.Table, column: str | None) -> tuple[NDArray[np.int64], int]:
    """Return the level of each document's weight, (N,), and how many have no number there.

    Args:
        table: rows of documents.parquet of the token store.
        column: the field of their records; None if the source has no weights, and all levels are 0.
    """
    if column is None:
        return np.zeros(table.num_rows, np.int64), 0
    texts = table.column(weight_columns(column)[0])
    numbers = pc.if_else(pc.match_substring_regex(texts, _NUMBER), texts, pa.scalar(None, pa.string()))
    values = pc.cast(numbers, pa.float64()).to_numpy(zero_copy_only=False)
    known = np.isfinite(values)
    return levels_of(np.where(known, values, 1.0)), int(np.count_nonzero(~known))


_CLASSES = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("language", pa.string(), nullable=False),
        *(
            pa.field(name, pa.int64(), nullable=False)
            for name in (
                "level",
                "begin",
                "end",
                "available_documents",
                "available_tokens",
                "documents",
                "tokens",
            )
        ),
    ]
)
INTERVAL_COLUMNS = ("language", "order")
"""Of the token store: what says, with its weight, which copies of a document there are."""


def mix_key(dataset: str) -> str:
    """Return the key of the table of a dataset's mix."""
    return f"mix/{dataset}.parquet"


def write_classes(path: Path, classes: Iterable[MixClass]) -> None:
    """Write what a mix takes of each class."""
    table = pa.Table.from_pylist([one.model_dump() for one in classes], schema=_CLASSES)
    pq.write_table(table, path, compression="zstd")


def read_classes(workspace: Workspace, dataset: str) -> tuple[MixClass, ...]:
    """Return what a dataset's mix takes of each class.

    Raises:
        FormatError: the table is missing or damaged.
    """
    table = read_table(workspace, mix_key(dataset))
    if not table.schema.equals(_CLASSES):
        raise FormatError(f"{workspace.path(mix_key(dataset))}: has other columns than a mix has")
    return tuple(MixClass.model_validate(row) for row in table.to_pylist())


@dataclass(frozen=True)
class Intervals:
    """The intervals of a dataset's mix."""

    by_class: Mapping[tuple[str, str, int], tuple[int, int]]
    weights: Mapping[str, str]
    """By source, the field of its records that holds their weight; of those that have one."""
    file: Path
    """For messages."""

    @classmethod
    def read(cls, workspace: Workspace, dataset: str, weights: Mapping[str, str]) -> "Intervals":
        """Return the intervals of a dataset.

        Raises:
            FormatError: the table is missing or damaged.
        """
        found = intervals(read_classes(workspace, dataset))
        return cls(found, weights, workspace.path(mix_key(dataset)))

    def columns(self, source: str) -> tuple[str, ...]:
        """Return the columns that `copies` reads of the documents of a source."""
        return (*INTERVAL_COLUMNS, *weight_columns(self.weights.get(source)))

    def copies(self, table: pa.Table, source: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the number of the first copy of each document, and how many there are, both (N,).

        Args:
            table: rows of documents.parquet of the token store, with `columns`.
            source: theirs.

        Raises:
            FormatError: the table has no such class.
        """
        levels, _ = levels_in(table, self.weights.get(source))
        coded = table.column("language").combine_chunks().dictionary_encode()
        languages, codes = coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)
        begins, ends = np.zeros((2, table.num_rows), np.int64)
        values, rows = np.unique(np.stack([codes, levels]), axis=1, return_inverse=True)
        for number, (code, level) in enumerate(values.T.tolist()):
            key = source, languages[code], level
            if key not in self.by_class:
                raise FormatError(
                    f"{self.file}: names no documents of source {source!r}, language {key[1]!r} and"
                    f" level {level}, which the token store holds; it is damaged, or of another run"
                )
            own = rows.reshape(-1) == number
            begins[own], ends[own] = self.by_class[key]
        return copies_of(bins_of(table.column("order").to_numpy()), begins, ends)
