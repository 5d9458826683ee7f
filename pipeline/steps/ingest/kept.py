"""Kept: the values of records that go along with a unit's documents, and those that are too long to."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from pipeline.steps.ingest.reading import InputPart
from stages.config import Config
from stages.reading.records import RawDocument

_VALUE = 64
"""Bytes of a string beside its characters, of which a row group may hold a million."""


class LongValues(Config):
    """Values of one field that are too long to go along."""

    documents: int
    """That have none."""
    first: str
    """Where the first of them stands, for people."""


@dataclass
class KeptRows:
    """The values that go along with the documents of a row group."""

    bytes: int = 0
    """Of all of them, about."""
    too_long: dict[str, LongValues] = field(default_factory=dict)
    """By field."""
    _rows: list[tuple[str | None, ...]] = field(default_factory=list)
    """Of each document, in the order of the source's `keep_columns`."""

    def add(self, document: RawDocument, path: str, part: InputPart) -> None:
        """Take the values of the next document.

        Args:
            document: as its file has it.
            path: of the file.
            part: that it is of.
        """
        texts = document.kept.texts
        self._rows.append(texts)
        self.bytes += sum(_VALUE + len(text) for text in texts if text is not None)
        for number in document.kept.too_long:
            place = part.place_of(path, document.line, document.position)
            column = part.fields.keep_columns[number]
            add_long(self.too_long, {column: LongValues(documents=1, first=place)})

    def column(self, number: int) -> pa.Array:
        """Return the values of one field."""
        return pa.array([row[number] for row in self._rows], pa.string())


def add_long(totals: dict[str, LongValues], more: Mapping[str, LongValues]) -> None:
    """Add values that are too long to those of documents before."""
    for column, values in more.items():
        before = totals.get(column)
        documents = values.documents + (before.documents if before else 0)
        first = before.first if before else values.first
        totals[column] = LongValues(documents=documents, first=first)
