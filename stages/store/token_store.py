"""The token store: documents as ids, free of any objective, grouped by the shard they go to.

    tokens/UNIT/ids.npy            (T,) all documents of the unit end to end, each closed by its EOS
    tokens/UNIT/offsets.npy        (D + 1,) <i8, document d is ids[offsets[d] : offsets[d + 1]]
    tokens/UNIT/group_ptr.npy      (G + 1,) <i8, group g holds documents group_ptr[g] .. [g + 1]
    tokens/UNIT/sums.npy           (G,) <u8, the XXH3-64 of the ids of each group's documents
    tokens/UNIT/documents.parquet  one row a document (columns.STORED_DOCUMENTS, values of its record)
    tokens/UNIT/sections/ptr.npy   (D + 1,) <i8, and
    tokens/UNIT/sections/ends.npy  (S,) <i8: after how many of a document's tokens each section ends, the
                                   EOS with the last; for sources with sections alone
    tokens/UNIT/sections/learned.npy  (S,) |b1: whether a section is learned; for dialogues alone

Groups are the training shards, then the validation shards. Within a group documents stand in the
order of their hash, so a shard reads one contiguous range of every unit and merges.

A unit of replayed documents has the same files, but borrows its ids from the store of another run:

    replay/UNIT/places.npy         (D, 2) <i8, document d is ids[places[d, 0] : places[d, 1]] of the
                                   other run's ids.npy; in place of ids.npy and offsets.npy

Tables on disk: Parquet files that are written a table at a time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.columns import STORED_DOCUMENTS, with_kept
from stages.errors import FormatError
from stages.ragged import Ragged
from stages.store.arrays import array_writer, as_integers, open_array, rows_digest, write_array
from stages.store.ranges import copy_ranges

SUMS = "sums.npy"
"""Beside arrays that are read in parts: the digests of the parts. Runs of earlier versions have none."""


def write_tables(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Write tables one behind the other, each as row groups of its own.

    The file of one table is the one that `pyarrow.parquet.write_table` makes of it; so is that of none.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    empty = True
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)
            empty = False
            del table  # two are not held at once
        if empty:
            writer.write_table(schema.empty_table())


@dataclass(frozen=True)
class TokenUnit:
    """One unit of the store, memory-mapped."""

    folder: Path
    ids: NDArray[np.integer]
    places: NDArray[np.int64]
    """(D, 2) where the ids of each document begin and end."""
    group_ptr: NDArray[np.int64]
    begin: int = 0
    """Which of the unit's ids `ids` begins with, where only those of one group are here."""

    @classmethod
    def open(cls, folder: Path, *, groups: int = 0, lender: Path | None = None) -> "TokenUnit":
        """Return a unit of the store.

        Args:
            folder: the unit's.
            groups: that it must have, at the least.
            lender: folder of the unit of another run that its ids lie in; None if it has its own.

        Raises:
            FormatError: a file is missing, or the arrays contradict each other.
        """
        place = (lender or folder) / "ids.npy"
        ids = as_integers(open_array(place), place)
        if lender is None:
            return cls(folder, ids, *_pointers(folder, groups=groups, ids=len(ids)))
        places = open_array(folder / "places.npy", dtype="<i8").astype(np.int64)
        if places.ndim != 2 or places.shape[1] != 2 or not _inside(places, len(ids)):  # noqa: PLR2004
            raise _leads_elsewhere(folder, ids=len(ids), documents=len(places))
        return cls(folder, ids, places, _groups(folder, places, groups=groups, ids=len(ids)))

    @classmethod
    def open_without_ids(cls, folder: Path, *, groups: int, dtype: np.dtype[np.generic]) -> "TokenUnit":
        """Return a unit of the store whose ids nobody has looked for yet.

        Args:
            folder: the unit's.
            groups: that it must have, at the least.
            dtype: of its ids.

        Raises:
            FormatError: as `open`.
        """
        none = as_integers(np.empty(0, dtype), folder)
        return cls(folder, none, *_pointers(folder, groups=groups, ids=None))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each document, EOS included: (D,)."""
        return self.places[:, 1] - self.places[:, 0]

    def id_range(self, number: int) -> tuple[int, int]:
        """Return which of the unit's ids are those of a group: they follow each other."""
        first, last = self.group_ptr[number : number + 2].tolist()
        return (int(self.places[first, 0]), int(self.places[last - 1, 1])) if first < last else (0, 0)

    def group(self, number: int) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
        """Return the ids of a group's documents end to end, and each document's length."""
        places = self.places[slice(*self.group_ptr[number : number + 2])]
        lengths = places[:, 1] - places[:, 0]
        ids: NDArray[np.integer] = np.empty(int(lengths.sum()), self.ids.dtype)
        ends = np.cumsum(lengths)
        copy_ranges(np.asarray(self.ids), ids, places[:, 0], ends - lengths, lengths)
        return ids, lengths

    def documents(self, number: int) -> pa.Table:
        """Return the rows of `documents.parquet` for a group."""
        first, last = self.group_ptr[number : number + 2]
        return pq.read_table(self.folder / "documents.parquet", memory_map=True).slice(
            first, last - first
        )

    def sections(self, number: int, *, count: int) -> Ragged:
        """Return after how many of its tokens each section of a group's documents ends.

        Args:
            number: of the group.
            count: sections of a document; 0 of dialogues, which have as many as they have. Those of one
                alone are not looked for: what lies on disk may be of another run.

        Raises:
            FormatError: a file is missing, or an end that is none of the documents'.
        """
        first, last = self.group_ptr[number : number + 2]
        lengths = self.lengths[first:last]
        if count == 1 or first == last:
            return Ragged(np.arange(len(lengths) + 1), lengths)
        found = read_ends(self.folder / "sections", first, last)
        counts = np.diff(found.ptr)
        if not ((counts == count) if count else (counts > 0)).all() or not _rise(found, lengths):
            raise FormatError(
                f"{self.folder / 'sections'}: must hold {count or 'some'} rising ends of each document,"
                " the last one its length; the store is damaged"
            )
        return found

    def learned(self, number: int) -> NDArray[np.bool_]:
        """Return which sections of a group's dialogues are learned: (S,), as `sections` lists them.

        Raises:
            FormatError: the file is missing, or of other sections.
        """
        first, last = self.group_ptr[number : number + 2]
        if first == last:
            return np.zeros(0, np.bool_)
        ptr = open_array(self.folder / "sections" / "ptr.npy", dtype="<i8")
        count = int(ptr[-1]) if len(ptr) else 0
        learned = open_array(self.folder / "sections" / "learned.npy", dtype="|b1", shape=(count,))
        return learned[ptr[first] : ptr[last]].astype(np.bool_)


def _pointers(
    folder: Path, *, groups: int, ids: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the ids of a unit's documents begin and end, and where its groups begin.

    Args:
        folder: of the unit.
        groups: that it must have, at the least.
        ids: that it has; None if that is not known.
    """
    offsets = open_array(folder / "offsets.npy", dtype="<i8").astype(np.int64)
    last = int(offsets[-1]) if ids is None and len(offsets) else ids or 0
    if not _leads(offsets, last):
        raise _leads_elsewhere(folder, ids=last, documents=max(len(offsets) - 1, 0))
    places = np.column_stack([offsets[:-1], offsets[1:]])
    return places, _groups(folder, places, groups=groups, ids=last)


def _groups(folder: Path, places: NDArray[np.int64], *, groups: int, ids: int) -> NDArray[np.int64]:
    """Return where the groups of a unit begin."""
    group_ptr = open_array(folder / "group_ptr.npy", dtype="<i8").astype(np.int64)
    if not _leads(group_ptr, len(places)):
        raise _leads_elsewhere(folder, ids=ids, documents=len(places))
    if len(group_ptr) <= groups:
        groups_said = f"{len(group_ptr) - 1:,} groups, but there are {groups:,} shards or more"
        raise FormatError(f"{folder}: {groups_said}; the store is damaged, or of another run")
    return group_ptr


def _leads_elsewhere(folder: Path, *, ids: int, documents: int) -> FormatError:
    return FormatError(
        f"{folder}: {ids:,} ids and {documents:,} documents, but the offsets and groups do not lead"
        " from 0 to these numbers; the store is damaged"
    )


def read_ends(folder: Path, first: int, last: int) -> Ragged:
    """Return the ends of what documents [first, last) are cut into, sections or sentences.

    Raises:
        FormatError: a file is missing, or pointers that do not rise.
    """
    if first == last:
        return Ragged(np.zeros(1, np.int64), np.zeros(0, np.int64))
    ptr = open_array(folder / "ptr.npy", dtype="<i8")[first : last + 1].astype(np.int64)
    ends = open_array(folder / "ends.npy", dtype="<i8")
    if len(ptr) != last - first + 1 or (np.diff(ptr) < 0).any() or ptr[0] < 0 or ptr[-1] > len(ends):
        raise FormatError(f"{folder}: the pointers lead elsewhere than to its ends; it is damaged")
    return Ragged(ptr - ptr[0], ends[ptr[0] : ptr[-1]].astype(np.int64))


def _rise(ends: Ragged, lengths: NDArray[np.int64]) -> bool:
    """Say whether the ends of each document rise to its length; each has one at the least."""
    steps = np.diff(ends.values, prepend=0)
    steps[ends.ptr[:-1]] = ends.values[ends.ptr[:-1]]
    return bool((steps >= 0).all() and (ends.values[ends.ptr[1:] - 1] == lengths).all())


def _inside(places: NDArray[np.int64], last: int) -> bool:
    """Say whether each document begins and ends between 0 and `last`, and has a token."""
    begins, ends = places.T
    return bool((begins >= 0).all() and (begins < ends).all() and (ends <= last).all())


def _leads(pointers: NDArray[np.int64], last: int) -> bool:
    """Say whether pointers rise from 0 to `last`."""
    return (
        len(pointers) > 0
        and pointers[0] == 0
        and pointers[-1] == last
        and bool((np.diff(pointers) >= 0).all())
    )


def write_unit(
    folder: Path,
    documents: Iterable[pa.Table],
    *,
    ids: Iterable[NDArray[np.integer]],
    dtype: np.dtype[np.generic],
    group_ptr: NDArray[np.int64],
    keep_columns: Sequence[str] = (),
) -> None:
    """Write one unit, its documents and the ids of each in the order of the store.

    Each table of documents becomes a row group: what is read of them at a time. It has the values of
    `keep_columns` behind the columns of every unit.
    """
    tokens = _write_documents(folder, documents, keep_columns)
    with array_writer(folder / "ids.npy", dtype=dtype.str) as append:
        for document in ids:
            append(document)
    offsets = np.concatenate([[0], np.cumsum(tokens)]).astype("<i8")
    write_array(folder / "offsets.npy", offsets)
    write_array(folder / "group_ptr.npy", group_ptr.astype("<i8"))
    written, bounds = open_array(folder / "ids.npy", dtype=dtype.str), offsets[group_ptr].tolist()
    sums = [rows_digest(written[begin:end]) for begin, end in pairwise(bounds)]
    write_array(folder / SUMS, np.array(sums, "<u8"))


def write_borrowing_unit(
    folder: Path,
    documents: Iterable[pa.Table],
    *,
    places: NDArray[np.int64],
    group_ptr: NDArray[np.int64],
    keep_columns: Sequence[str] = (),
) -> None:
    """Write one unit whose ids lie in the store of another run.

    Args:
        folder: the unit's.
        documents: in the order of the store, as of `write_unit`.
        places: (D, 2) where the ids of each begin and end in the other run's array.
        group_ptr: (G + 1,).
        keep_columns: as of `write_unit`.
    """
    _write_documents(folder, documents, keep_columns)
    write_array(folder / "places.npy", places.astype("<i8"))
    write_array(folder / "group_ptr.npy", group_ptr.astype("<i8"))


def _write_documents(
    folder: Path, documents: Iterable[pa.Table], keep_columns: Sequence[str]
) -> NDArray[np.int64]:
    """Write the documents of a unit; return the tokens of each."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [np.empty(0, np.int64)]

    def counted() -> Iterator[pa.Table]:
        for table in documents:
            parts.append(table.column("tokens").to_numpy().copy())
            waiting = [table]
            del table  # whoever writes it lets go of it
            yield waiting.pop()

    schema = with_kept(STORED_DOCUMENTS, keep_columns)
    write_tables(folder / "documents.parquet", schema, counted())
    return np.concatenate(parts)


def write_sections(folder: Path, ends: Ragged, *, learned: NDArray[np.bool_] | None = None) -> None:
    """Write after how many of its tokens each section of a unit's documents ends.

    Args:
        folder: the unit's.
        ends: of each document, in the order of the store.
        learned: (S,) which sections are learned; of dialogues alone.
    """
    write_array(folder / "sections" / "ptr.npy", ends.ptr.astype("<i8"))
    write_array(folder / "sections" / "ends.npy", ends.values.astype("<i8"))
    if learned is not None:
        write_array(folder / "sections" / "learned.npy", learned.astype("|b1"))
