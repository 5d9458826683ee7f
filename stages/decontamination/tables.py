"""The tables of decontamination: what was found in documents, and what became of each item."""

from enum import StrEnum

import pyarrow as pa


class Verdict(StrEnum):
    """What becomes of a document that has words in common with an item."""

    DROPPED = "dropped"
    REPORTED = "reported"
    COMMON = "common"
    """It stays: what they have in common stands in too many documents."""


class ItemVerdict(StrEnum):
    """What became of an item."""

    FOUND = "found"
    COMMON = "common"
    """Documents have words in common with it, and none is evidence."""
    CLEAR = "clear"
    UNUSED = "unused"
    """Nothing of it is looked for: its texts are too short, or stand in many items of the set."""


CONTAMINATED = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("own_id", pa.string()),
        pa.field("source", pa.string(), nullable=False),
        pa.field("set", pa.string(), nullable=False),
        pa.field("item", pa.int64(), nullable=False),
        pa.field("item_id", pa.string()),
        pa.field("file", pa.string(), nullable=False),
        pa.field("record", pa.int64(), nullable=False),
        pa.field("matched", pa.string(), nullable=False),
        pa.field("begin", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        pa.field("words", pa.int64(), nullable=False),
        pa.field("share", pa.float64(), nullable=False),
        pa.field("ngrams", pa.int64(), nullable=False),
        pa.field("documents", pa.int64(), nullable=False),
        pa.field("verdict", pa.string(), nullable=False),
    ]
)
"""A document and an item with words in common, in canonical order of documents."""

ITEMS = pa.schema(
    [
        pa.field("set", pa.string(), nullable=False),
        pa.field("item", pa.int64(), nullable=False),
        pa.field("item_id", pa.string()),
        pa.field("file", pa.string(), nullable=False),
        pa.field("record", pa.int64(), nullable=False),
        pa.field("words", pa.int64(), nullable=False),
        pa.field("searched", pa.int64(), nullable=False),
    ]
)
"""The items of all sets: their words, and how many of these stand in n-grams that are looked for."""

JUDGED_ITEMS = (
    ITEMS.append(pa.field("found", pa.int64(), nullable=False))
    .append(pa.field("common", pa.int64(), nullable=False))
    .append(pa.field("verdict", pa.string(), nullable=False))
)
"""The items with the documents that hold them, and those that have common phrases of them."""
