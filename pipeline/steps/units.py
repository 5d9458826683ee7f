"""Units: what ingest left of each file or bundle, in canonical order, and what is in their tables.

The documents of all units are numbered through in canonical order (source, path, position); that
number is a document's rank, and it does not depend on how files are cut into units.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from typing_extensions import TypedDict

from pipeline.engine.tasks import Workspace
from pipeline.steps.cut_texts import read_cuts
from stages.columns import SECTION_ENDS, SECTION_FLAGS
from stages.config import Config
from stages.errors import FormatError, is_of_the_system
from stages.identity import ID_BYTES
from stages.ledger import IdSum, Tally, tally_of
from stages.store.arrays import open_array
from stages.store.token_store import TokenUnit
from stages.stores.mounts import here
from stages.tokenizer.texts import JoinedTexts, joined_texts, texts_of

SECTIONED_TEXT = ("text", SECTION_ENDS.name, SECTION_FLAGS.name)
"""The columns that `sections_of` reads; the second is there for sources with sections alone, the third
for dialogues."""
RAGGED = 0
"""In place of how many sections a document has: that of dialogues, each as many as it has."""
NAME = f"S{ID_BYTES}"
"""An id as numpy sorts it: as bytes, and equal only if all sixteen are."""
_SLICE = 1 << 20
"""Bytes of text, about, that are Python strings at once; a longer document is alone in its slice."""


@dataclass(frozen=True)
class Unit:
    """One committed unit of ingest."""

    name: str
    """Folder of its files in each step: SOURCE/FILE-PART."""
    source: str
    label: str
    """What people call the file that it is a part of, or the files."""
    first: int
    """Number of its first document."""
    documents: int
    text_bytes: int
    sections: int = 1
    """Of each of its documents; `RAGGED` of dialogues."""
    keep_columns: tuple[str, ...] = ()
    """Fields of its records whose values go along."""
    kept_by: str = "dedup"
    """Name of the step whose mask says which of its documents are kept."""
    cut: bool = False
    """Whether some of their text is cut."""
    folder: str = ""
    """Absolute folder of the earlier run that it is of; empty for a unit of this run."""
    lender: str = ""
    """Absolute folder of the unit of an earlier run's token store that its ids lie in; empty for a unit
    that has its own."""

    @property
    def dialogues(self) -> bool:
        """Whether its documents are dialogues, whose sections say what they are."""
        return self.sections == RAGGED

    @property
    def last(self) -> int:
        """Number after its last document."""
        return self.first + self.documents

    @property
    def commit_name(self) -> str:
        """Its name as a unit of a step."""
        return self.name.replace("/", ".")

    @property
    def table(self) -> str:
        """Key of its documents."""
        return f"{self._run}ingest/{self.name}/documents.parquet"

    @property
    def signatures(self) -> str:
        """Key of its MinHash signatures, (num_perm, documents) uint32."""
        return f"{self._run}ingest/{self.name}/signatures.npy"

    @property
    def keys(self) -> str:
        """Key of the digests of what else its documents are compared by, (documents, K, 2) uint64."""
        return f"{self._run}ingest/{self.name}/keys.npy"

    @property
    def ranking(self) -> str:
        """Key of what its documents are ranked by, (documents,) float64."""
        return f"{self._run}ingest/{self.name}/ranking.npy"

    @property
    def keep_mask(self) -> str:
        """Key of its keep mask, (documents,) bool."""
        return f"{self._run}{self.kept_by}/keep/{self.name}.npy"

    @property
    def clusters(self) -> str:
        """Key of the clusters of its run."""
        return f"{self._run}dedup/clusters.parquet"

    @property
    def _run(self) -> str:
        """What stands before the keys of its files: an absolute path stays so below any folder."""
        return f"{self.folder}/" if self.folder else ""

    @property
    def cuts(self) -> str:
        """Key of what is cut from its documents."""
        return f"cut/ranges/{self.name}.parquet"

    @property
    def tokens(self) -> str:
        """Folder of its token store."""
        return f"replay/{self.name}" if self.lender else f"{self._run}tokens/{self.name}"

    @property
    def sentences(self) -> str:
        """Folder of its sentence ends."""
        return f"sentences/{self.name}"


class LanguageSize(TypedDict):
    """What is kept of a language; of which there may be hundreds of thousands, so it is a plain dict."""

    documents: int
    bytes: int
    """Of text."""


class UnitSize(Config):
    """What ingest's record says of a unit."""

    name: str
    source: str
    label: str
    documents: int
    text_bytes: int
    sections: int
    keep_columns: tuple[str, ...] = ()

    @classmethod
    def taken(cls) -> set[str]:
        """Return what the record of the unit itself says in the same words."""
        return set(cls.model_fields) - {"name"}


def open_unit(root: Path, unit: Unit, *, groups: int = 0) -> TokenUnit:
    """Return a unit of the token store, its ids where they are.

    Args:
        root: the run's folder.
        unit: of it.
        groups: that it must have, at the least.

    Raises:
        FormatError: a file is missing, or the arrays contradict each other.
    """
    lender = Path(unit.lender) if unit.lender else None
    return TokenUnit.open(here(root / unit.tokens), groups=groups, lender=lender)


def only_unit(size: UnitSize) -> Unit:
    """Return a unit as if there were no other: for work that looks at none, before all are known."""
    return Unit(first=0, **size.model_dump())


def units_of(sizes: Iterable[UnitSize]) -> tuple[Unit, ...]:
    """Return ingest's units with the numbers of their documents."""
    units: list[Unit] = []
    first = 0
    for size in sizes:
        units.append(Unit(first=first, **size.model_dump()))
        first += size.documents
    return tuple(units)


def kept_of_all(units: Iterable[Unit]) -> tuple[str, ...]:
    """Return the fields of the records whose values go along, of any unit, each once."""
    return tuple(dict.fromkeys(column for unit in units for column in unit.keep_columns))


def fixed_bytes(column: pa.ChunkedArray, width: int) -> NDArray[np.uint8]:
    """Return a column of fixed-size binary as (N, width) uint8.

    Raises:
        FormatError: the column is of another type.
    """
    if column.type != pa.binary(width):
        raise FormatError(f"a column of {column.type}, where each value has {width} bytes")
    parts = [
        np.frombuffer(chunk.buffers()[1], np.uint8)[
            chunk.offset * width : (chunk.offset + len(chunk)) * width
        ]
        for chunk in column.chunks
        if len(chunk)
    ]
    return np.concatenate([np.empty(0, np.uint8), *parts]).reshape(-1, width)


_DIGITS = np.frombuffer(bytes(range(256)).hex().encode(), np.uint16)
"""Of each byte, its two hexadecimal digits, as they lie in memory."""


def hex_strings(values: NDArray[np.uint8]) -> pa.Array:
    """Return rows of bytes, (N, W) uint8, as hexadecimal strings."""
    offsets = np.arange(len(values) + 1, dtype=np.int32) * np.int32(2 * values.shape[1])
    digits = pa.py_buffer(np.ascontiguousarray(_DIGITS[values]))
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(offsets), digits)


def digest_halves(workspace: Workspace, unit: Unit) -> NDArray[np.uint64]:
    """Return the digests of a unit's documents as (N, 2) uint64."""
    with pq.ParquetFile(workspace.path(unit.table)) as file:  # a quarter of the time of pq.read_table
        column = file.read(columns=["digest"], use_threads=False).column("digest")
    return np.ascontiguousarray(fixed_bytes(column, 16)).view("<u8")


def row_groups(
    workspace: Workspace, unit: Unit, columns: Sequence[str]
) -> Iterator[tuple[int, pa.Table]]:
    """Yield a unit's documents row group by row group, each with the number of its first document."""
    number = unit.first
    with pq.ParquetFile(workspace.path(unit.table)) as file:
        absent = {SECTION_ENDS.name, SECTION_FLAGS.name} - set(file.schema_arrow.names)
        for group in range(file.num_row_groups):
            table = file.read_row_group(
                group, columns=[c for c in columns if c not in absent], use_threads=False
            )
            yield number, table
            number += table.num_rows


def kept_mask(workspace: Workspace, unit: Unit) -> NDArray[np.bool_]:
    """Return which documents of a unit are kept."""
    return open_array(workspace.path(unit.keep_mask), dtype="|b1").astype(np.bool_)


def kept_groups(workspace: Workspace, unit: Unit, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield a unit's kept documents row group by row group, their texts after the cuts."""
    mask = kept_mask(workspace, unit)
    cuts = read_cuts(workspace.path(unit.cuts)) if unit.cut else None
    for first, table in row_groups(workspace, unit, columns):
        start = first - unit.first
        if cuts is not None:
            table = cuts.apply(table, start)  # noqa: PLW2901 - of this row group nothing else is needed
        kept = table.filter(pa.array(mask[start : start + table.num_rows]))
        if kept.num_rows:
            yield kept


def tally_of_texts(table: pa.Table) -> Tally:
    """Return the tally of documents by their columns `id` and `text_bytes`."""
    size = int(table.column("text_bytes").to_numpy().sum())
    return tally_of(fixed_bytes(table.column("id"), ID_BYTES), bytes=size)


def stored_tally(path: Path) -> Tally:
    """Return the tally of a unit's documents in the token store, by their table."""
    listed, tokens = IdSum(), 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=["id", "tokens"], use_threads=False):
            table = pa.Table.from_batches([batch])
            listed.add_all(fixed_bytes(table.column("id"), ID_BYTES))
            tokens += int(table.column("tokens").to_numpy().sum())
    return listed.tally(tokens=tokens)


def sections_of(table: pa.Table) -> list[list[str]]:
    """Return each document's text section by section; most have one."""
    texts = table.column("text").to_pylist()
    if SECTION_ENDS.name not in table.column_names:
        return [[text] for text in texts]
    ends = table.column(SECTION_ENDS.name).to_pylist()
    return [
        [text[first:last] for first, last in pairwise([0, *own])]
        for text, own in zip(texts, ends, strict=True)
    ]


def joined_sections(table: pa.Table) -> JoinedTexts:
    """Return the sections of all documents end to end; most documents are one."""
    if SECTION_ENDS.name not in table.column_names:
        return texts_of(table.column("text"))
    return joined_texts([part.encode() for sections in sections_of(table) for part in sections])


def section_ptr(table: pa.Table) -> NDArray[np.int64]:
    """Return where the sections of each document begin among those of all: (N + 1,)."""
    if SECTION_ENDS.name not in table.column_names:
        return np.arange(table.num_rows + 1)
    counts = pc.list_value_length(table.column(SECTION_ENDS.name)).to_numpy().astype(np.int64)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def section_flags(table: pa.Table) -> NDArray[np.uint8]:
    """Return the flags of all sections of dialogues: (S,)."""
    chunks = [chunk.flatten().to_numpy() for chunk in table.column(SECTION_FLAGS.name).chunks]
    return np.concatenate([np.empty(0, np.uint8), *chunks])


def text_slices(table: pa.Table) -> list[pa.Table]:
    """Cut documents into slices of about `_SLICE` bytes of text, none of them copied."""
    numbers = np.cumsum(table.column("text_bytes").to_numpy()) // _SLICE
    cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), table.num_rows]
    return [table.slice(start, end - start) for start, end in pairwise(cuts) if start < end]


@contextmanager
def named_table(path: Path) -> Iterator[None]:
    """Name the file of a table that is missing or damaged, which Arrow's message does not.

    Raises:
        FormatError: it is.
    """
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if is_of_the_system(error):
            raise
        raise FormatError(f"{path}: cannot be read: {error}") from error


def read_table(workspace: Workspace, key: str, *, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a committed table, or some of its columns.

    Raises:
        FormatError: it is missing or damaged.
    """
    path = workspace.path(key)
    with named_table(path):
        return pq.read_table(path, columns=columns, use_threads=False)


def from_hex(column: pa.ChunkedArray) -> NDArray[np.uint8]:
    """Return hexadecimal strings of ids as (N, 16) uint8: what `hex_strings` was given."""
    digits = fixed_bytes(column.cast(pa.binary()).cast(pa.binary(2 * ID_BYTES)), 2 * ID_BYTES)
    values = np.where(digits >= ord("a"), digits - (ord("a") - 10), digits - ord("0"))
    found: NDArray[np.uint8] = (values[:, 0::2] << 4 | values[:, 1::2]).astype(np.uint8)
    return found


def fixed_array(values: NDArray[np.uint8]) -> pa.Array:
    """Return rows of bytes, (N, W) uint8, as a column of fixed-size binary."""
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(values.shape[1]), len(values), [None, data])


def as_names(ids: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    """Return ids, (N, 16) uint8, as numpy sorts them: (N,)."""
    found: NDArray[np.bytes_] = np.ascontiguousarray(ids).view(NAME).reshape(-1)
    return found


def places_of_names(
    names: NDArray[np.bytes_], wanted: NDArray[np.bytes_]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return where some ids stand among others that ascend, and whether each is there: (N,) both."""
    places = np.searchsorted(names, wanted)
    there = places < len(names)
    there[there] = names[places[there]] == wanted[there]
    return places, there


def rows_of_bytes(values: NDArray[np.uint8]) -> Iterator[bytes]:
    """Return each row of (N, W) uint8 as bytes: of millions, never all at once."""
    return (row.tobytes() for row in np.ascontiguousarray(values))
