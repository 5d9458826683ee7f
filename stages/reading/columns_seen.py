"""Columns seen: in how many JSON records a column is absent, or holds no id and no language.

A table says at once which columns it has, and of which types. JSON lines say it record by record, so a
misspelt name and an id that is an object are known only by counting.
"""

from collections import Counter
from collections.abc import Mapping

from stages.reading.cells import wanted_columns
from stages.reading.nested import column_names, find_column
from stages.reading.records import FieldMapping

ID, LANGUAGE = "id_column", "language.column"
"""Settings that name a column whose values need not be there."""
NOTHING = "nothing"
"""What a column holds that is absent, null or an empty string."""
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
        self.path = ""
        """Of the file whose records come."""
        self.records = 0
        """JSON objects looked at."""
        self.absent = dict.fromkeys(wanted_columns(fields), 0)
        """For each column, the records without it; null is not absent."""
        self.first: dict[str, str] = {}
        """For each column that some record lacks, the file of the first."""
        self.there: list[str] = []
        """Columns of the first records that lack one, for messages."""
        self.textless = 0
        """Records that lack a text; of these the id and the language are not looked at."""
        self.untaken: dict[str, Counter[str]] = {}
        """For `ID` and `LANGUAGE`, the records of which none was taken, by what their column holds."""
        self.first_wrong: dict[str, str] = {}
        """For `ID` and `LANGUAGE`, the file of the first record whose column holds another type."""
        self.further_lines = 0
        """Lines that records take beyond one each."""
        self.noticed = Counter[str]()
        """What is no drop and people should know, by name: see `stages.reading.notices`."""
        self._sampled = 0

    def add(self, record: Mapping[str, object]) -> None:
        """Count one record."""
        self.records += 1
        lacks = False
        for name in self.absent:
            if not find_column(record, name)[0]:
                self.absent[name] += 1
                self.first.setdefault(name, self.path)
                lacks = True
        if lacks and self._sampled < SAMPLED:
            self._sampled += 1
            names = (name[:NAME_LENGTH] for name in column_names(record))
            self.there = list(dict.fromkeys([*self.there, *names]))[:NAMED]

    def add_untaken(self, key: str, value: object) -> None:
        """Count a record whose column gave no id or no language.

        Args:
            key: `ID` or `LANGUAGE`.
            value: what the column holds.
        """
        kind = _kind(value)
        self.untaken.setdefault(key, Counter())[kind] += 1
        if kind != NOTHING:
            self.first_wrong.setdefault(key, self.path)


def _kind(value: object) -> str:
    """Return what a value of JSON is called that is no id or no language."""
    if value is None or value == "":
        return NOTHING
    kinds = {bool: "true or false", dict: "an object", list: "a list", float: "a float"}
    return kinds.get(type(value), "an integer")
