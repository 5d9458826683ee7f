"""Record: what a unit of ingest reports, to the record of the step and to checks of all units."""

from collections.abc import Mapping

from pydantic import Field

from pipeline.steps.records import UnitRecord
from stages.config import Config
from stages.reading.columns_seen import ColumnsSeen


class LongValues(Config):
    """Values of one field that are too long to go along."""

    documents: int
    """That have none."""
    first: str
    """Where the first of them stands, for people."""


class ColumnCounts(Config):
    """Of the JSON records of a unit; see `stages.reading.columns_seen.ColumnsSeen`."""

    records: int
    absent: dict[str, int]
    first: dict[str, str]
    there: tuple[str, ...]
    textless: int
    untaken: dict[str, dict[str, int]]
    first_wrong: dict[str, str]


class Sample(Config):
    """A document that a filter dropped."""

    reason: str
    id: str
    """32 hex digits; the least come first."""
    place: str
    """Where it stands, for people."""
    detail: str
    excerpt: str
    """The beginning of its text."""


class PartRecord(UnitRecord):
    """What was read of a part, and what is left of it."""

    source: str
    label: str
    """What people call its file or bundle."""
    part: int
    next: int | None
    """The part that comes after, of what is read from front to back; None after the last."""
    covered: dict[str, tuple[int, int]]
    """Of each file that it read of, by path, where its first record begins and its last one ends."""
    columns: ColumnCounts
    read: int
    """Records."""
    documents: int
    """That are left."""
    text_bytes: int
    sections: int
    """Of each document; `RAGGED` if each has as many as it has."""
    keep_columns: tuple[str, ...] = ()
    """Fields of the records whose values go along."""
    too_long: dict[str, LongValues] = Field(default_factory=dict)
    """By field, values that are too long to."""
    cleaned: int
    """Documents whose text was changed."""
    drops: dict[str, int]
    """By reason."""
    named: tuple[str, ...]
    """The first of them."""
    unreadable: tuple[str, ...] = ()
    """The first of them that no filter made."""
    changes: dict[str, int] = Field(default_factory=dict)
    """What filters changed of the documents that are left, by name."""
    samples: tuple[Sample, ...] = ()
    """Of what each filter dropped."""
    roles: dict[str, int] = Field(default_factory=dict)
    """Turns of dialogues by role."""
    compared: dict[str, int] = Field(default_factory=dict)
    """Documents that have a value to compare or to rank by, by field."""
    further_lines: int = 0
    """Lines that records take beyond one each."""
    further_unreadable: int = 0
    """Likewise those of drops that no filter made."""
    noticed: dict[str, int] = Field(default_factory=dict)
    """What is no drop and people should know, by name: see `stages.reading.notices`."""


def column_counts(columns: ColumnsSeen) -> ColumnCounts:
    """Return what a unit's record says of its JSON records."""
    return ColumnCounts(
        records=columns.records,
        absent=columns.absent,
        first=columns.first,
        there=tuple(columns.there),
        textless=columns.textless,
        untaken={key: dict(kinds) for key, kinds in columns.untaken.items()},
        first_wrong=columns.first_wrong,
    )


def add_long(totals: dict[str, LongValues], more: Mapping[str, LongValues]) -> None:
    """Add values that are too long to those of documents before."""
    for column, values in more.items():
        before = totals.get(column)
        documents = values.documents + (before.documents if before else 0)
        first = before.first if before else values.first
        totals[column] = LongValues(documents=documents, first=first)
