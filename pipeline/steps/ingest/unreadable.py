"""Unreadable records: how many an input may hold before the run stops.

The exact check is over all records, at the end. Before that the units that are done are looked at in
canonical order, as far as they have no gap, so that a terabyte of broken input is not read to its end.
Since the order is canonical, whether and where a run stops does not depend on who was done first.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from pipeline.inputs.bundles import Bundle
from pipeline.run_file.source import Source
from pipeline.steps.ingest.columns import SourceColumns
from pipeline.steps.ingest.record import PartRecord
from stages.columns import UNREADABLE, DropReason
from stages.errors import DataError
from stages.filtering.filter import FilterConfig

MIN_RECORDS = 1_000
"""Records before anything is stopped early: at the default bound, 51 bad ones. Of fewer, a short run of
bad lines at the head of a good file would do."""
NAMED = 3


class UnreadableCounter:
    """Counts unreadable records while units come in.

    Args:
        bundles: the inputs in canonical order.
        max_bad_fraction: the bound.
        sources: whose columns must be in some record each.
        filters: whose columns must be, too.
    """

    def __init__(
        self,
        bundles: Sequence[Bundle],
        max_bad_fraction: float,
        sources: Sequence[Source] = (),
        filters: Sequence[FilterConfig] = (),
    ) -> None:
        self._bundles = bundles
        self._bound = max_bad_fraction
        self._columns = SourceColumns(sources, filters)
        self._waiting: dict[tuple[str, int], PartRecord | None] = {}
        self._bundle = 0
        self._part = 0
        self._read = self._further_lines = self._further_unreadable = 0
        self._drops: Counter[str] = Counter()
        self._named: list[str] = []

    def add(self, key: str, number: int, record: PartRecord) -> None:
        """Take a unit's record, in any order and any number of times.

        Raises:
            ConfigError: of the units before and including some unit, no record has a column.
            DataError: of these, too many records are unreadable.
        """
        self._waiting[key, number] = record
        while self._bundle < len(self._bundles):
            found = self._waiting.get((self._bundles[self._bundle].key, self._part))
            if found is None:
                return
            self._step(found)
            self._columns.require_any(least=MIN_RECORDS)
            if self._read >= MIN_RECORDS:
                check_readable(
                    self._read,
                    self._drops,
                    self._named,
                    self._bound,
                    further=(self._further_lines, self._further_unreadable),
                    early=True,
                )

    def _step(self, record: PartRecord) -> None:
        """Count the next unit, and look to the one after."""
        self._waiting[self._bundles[self._bundle].key, self._part] = None
        self._columns.add(record)
        self._read += record.read
        self._further_lines += record.further_lines
        self._further_unreadable += record.further_unreadable
        self._drops.update(record.drops)
        self._named += record.unreadable[: NAMED - len(self._named)]
        slices = self._bundles[self._bundle].slices
        after = record.next
        if slices is not None:
            after = self._part + 1 if self._part + 1 < len(slices) else None
        if after is None:
            self._bundle, self._part = self._bundle + 1, 0
        else:
            self._part = after


def check_readable(
    read: int,
    drops: Mapping[str, int],
    named: Sequence[str],
    bound: float,
    *,
    further: tuple[int, int] = (0, 0),
    early: bool = False,
) -> None:
    """Refuse an input of which too much is unreadable.

    A record counts as the lines that it takes: a quote that is left open may take most of a file.

    Args:
        read: records.
        drops: by reason.
        named: the first of them, for people.
        bound: most of the lines that may be unreadable.
        further: lines that records take beyond one each, and those that unreadable ones take.
        early: whether not all is read yet.

    Raises:
        DataError: more than `bound` of the lines are.
    """
    bad = sum(drops.get(reason, 0) for reason in UNREADABLE) + further[1]
    read += further[0]
    if bad > bound * read:
        of = "the first " if early else ""
        what = "lines" if further[0] else "records"
        way = "repair the file"
        if 2 * drops.get(DropReason.MISSING_TEXT, 0) > bad:
            way = (
                "set the source's text_column to the field of the text, or chat if it holds lists of"
                " messages (docs/chat.md)"
            )
        raise DataError(
            f"ingest.max_bad_fraction = {bound}: {bad:,} of {of}{read:,} {what} are unreadable"
            f" ({', '.join(named[:NAMED])}); {way}, or set ingest.max_bad_fraction higher"
        )
