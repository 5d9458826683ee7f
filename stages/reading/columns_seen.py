"""Columns seen: in how many JSON records each column that a source takes is absent.

A table says at once which columns it has. JSON lines say it record by record, so a misspelt name is
known only by counting: a column that no record has is no column.
"""

from stages.reading.cells import wanted_columns
from stages.reading.records import FieldMapping

SAMPLED = 20
"""Records without a column of which the columns are named."""
NAMED = 20
"""Columns that are named."""
NAME_LENGTH = 60


class ColumnsSeen:
    """Counts over the JSON records of a part.

    Args:
        fields: the columns that the source takes.
    """

    def __init__(self, fields: FieldMapping) -> None:
        self.records = 0
        """JSON objects looked at."""
        self.absent = dict.fromkeys(wanted_columns(fields), 0)
        """For each column, the records without it; null is not absent."""
        self.there: list[str] = []
        """Columns of the first records that lack one, for messages."""
        self._sampled = 0

    def add(self, record: dict[str, object]) -> None:
        """Count one record."""
        self.records += 1
        lacks = False
        for name in self.absent:
            if name not in record:
                self.absent[name] += 1
                lacks = True
        if lacks and self._sampled < SAMPLED:
            self._sampled += 1
            known = set(self.there)
            names = (name[:NAME_LENGTH] for name in record)
            self.there = [*self.there, *(name for name in names if name not in known)][:NAMED]
