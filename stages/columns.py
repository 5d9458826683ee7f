"""The tables that pass between steps: their columns and types, and how their texts lie in memory."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stages.identity import DIGEST_BYTES, ID_BYTES


class DropReason(StrEnum):
    """Why a record of the input gives no document; filters have reasons of their own."""

    BAD_JSON = "bad_json"
    BAD_RECORD = "bad_record"
    BAD_BODY = "bad_body"
    BAD_CHARSET = "bad_charset"
    BAD_UTF8 = "bad_utf8"
    TOO_LARGE = "too_large"
    MISSING_TEXT = "missing_text"
    BAD_DIALOGUE = "bad_dialogue"


UNREADABLE = frozenset(map(str, DropReason))
"""Reasons that mean a broken input; those of filters mean a poor document."""


@dataclass(frozen=True)
class Drop:
    """One record that was dropped: where it stands and why."""

    line: int
    """Number of its line, or of its row, from 1."""
    position: int
    """Byte offset of its first byte in the decompressed file; in a table, its row from 0."""
    reason: str
    """A `DropReason`, or a filter's."""
    detail: str
    lines: int = 1
    """Lines of its file that it takes."""


PATH = pa.dictionary(pa.int32(), pa.string())
"""Path of the file that a document stands in: a unit has few of them."""

DOCUMENTS = pa.schema(
    [
        pa.field("id", pa.binary(ID_BYTES), nullable=False),
        pa.field("own_id", pa.string()),
        pa.field("language", pa.string(), nullable=False),
        pa.field("path", PATH, nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("text_bytes", pa.int64(), nullable=False),
        pa.field("digest", pa.binary(DIGEST_BYTES), nullable=False),
        pa.field("text", pa.large_string(), nullable=False),
    ]
)
"""What ingest writes for a unit; its source is one per unit and stands in its commit."""

SECTION_ENDS = pa.field("section_ends", pa.list_(pa.field("end", pa.int64(), nullable=False)))
"""One more column of `DOCUMENTS` for sources with sections: where each ends, in characters."""

SECTION_FLAGS = pa.field("section_flags", pa.list_(pa.field("flags", pa.uint8(), nullable=False)))
"""And one more for dialogues: what each section is, as the bits of `stages.chat.template`."""

DROPS = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("line", pa.int64(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
        pa.field("own_id", pa.string()),
    ]
)
"""What ingest dropped, record by record."""

REMOVED = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("own_id", pa.string()),
        pa.field("source", pa.string(), nullable=False),
        pa.field("kept_id", pa.string(), nullable=False),
        pa.field("kept_own_id", pa.string()),
        pa.field("kept_source", pa.string(), nullable=False),
        pa.field("similarity", pa.float64(), nullable=False),
        pa.field("method", pa.string(), nullable=False),
        pa.field("cluster", pa.string(), nullable=False),
    ]
)
"""Why each duplicate went: the document kept in its place, and how alike the two are."""


def removed_schema(*, measured: bool) -> pa.Schema:
    """Return the columns of `REMOVED`; documents of one URL or key alone have no similarity."""
    place = REMOVED.get_field_index("similarity")
    return REMOVED if measured else REMOVED.set(place, REMOVED.field(place).with_nullable(not measured))


CLUSTERS = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("kept", pa.bool_(), nullable=False),
    ]
)
"""Every document that has a duplicate: its number in canonical order and its cluster's name, which
is the id of the cluster's best-ranked document."""

CUT_EVIDENCE = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("own_id", pa.string()),
        pa.field("source", pa.string(), nullable=False),
        pa.field("method", pa.string(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        pa.field("cut_bytes", pa.int64(), nullable=False),
        pa.field("emptied", pa.bool_(), nullable=False),
        pa.field("first_id", pa.string(), nullable=False),
        pa.field("first_own_id", pa.string()),
        pa.field("first_source", pa.string(), nullable=False),
        pa.field("first_at", pa.int64(), nullable=False),
        pa.field("excerpt", pa.string(), nullable=False),
    ]
)
"""What was cut from documents because it stands elsewhere too."""

_PLACES = pa.list_(pa.field("byte", pa.int64(), nullable=False))
CUT_RANGES = pa.schema(
    [
        pa.field("row", pa.int64(), nullable=False),
        pa.field("starts", _PLACES, nullable=False),
        pa.field("ends", _PLACES, nullable=False),
        pa.field("text_bytes", pa.int64(), nullable=False),
        pa.field("digest", pa.binary(DIGEST_BYTES), nullable=False),
    ]
)
"""What later steps take out of the texts of a unit."""

STORED_DOCUMENTS = pa.schema(
    [
        pa.field("id", pa.binary(ID_BYTES), nullable=False),
        pa.field("own_id", pa.string()),
        pa.field("language", pa.string(), nullable=False),
        pa.field("path", PATH, nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("digest", pa.binary(DIGEST_BYTES), nullable=False),
        pa.field("order", pa.uint64(), nullable=False),
        pa.field("tokens", pa.int64(), nullable=False),
    ]
)
"""The documents of a unit in the token store, in the store's order; tokens count the EOS."""

SHARD_DOCUMENTS = pa.schema(
    [
        pa.field("doc", pa.int32(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("own_id", pa.string()),
        pa.field("source", pa.string(), nullable=False),
        pa.field("language", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("copy", pa.int32(), nullable=False),
        pa.field("tokens", pa.int64(), nullable=False),
    ]
)
"""The documents of a row shard; `doc` is what segments refer to."""

_KEPT = "record."
"""Before the name of a field of the records, in a table of documents; no column of ours begins so."""


def kept_names(keep_columns: Sequence[str]) -> tuple[str, ...]:
    """Return what fields of the records that go along are called in tables: url -> record.url."""
    return tuple(f"{_KEPT}{column}" for column in keep_columns)


def keep_columns_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return the fields of the records that are among the columns of a table of documents."""
    return tuple(name.removeprefix(_KEPT) for name in names if name.startswith(_KEPT))


def with_kept(schema: pa.Schema, keep_columns: Sequence[str]) -> pa.Schema:
    """Return the columns of a table of documents with those of the values that go along behind."""
    for name in kept_names(keep_columns):
        schema = schema.append(pa.field(name, pa.string()))
    return schema


def ingested_schema(*, sections: bool, flags: bool, keep_columns: Sequence[str] = ()) -> pa.Schema:
    """Return the columns of what ingest writes for a unit."""
    schema = DOCUMENTS.append(SECTION_ENDS) if sections else DOCUMENTS
    schema = schema.append(SECTION_FLAGS) if flags else schema
    return with_kept(schema, keep_columns)


def utf8_of(column: pa.ChunkedArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the texts of a column of large strings without nulls, as they lie in memory.

    Returns:
        (B,) uint8, the texts in UTF-8 end to end, and (D + 1,) int64, where each begins.
    """
    texts = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if not len(texts):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    whole = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return whole[ends[0] : ends[-1]], ends - ends[0]
