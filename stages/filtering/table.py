"""The filters, in the order in which they look at a document; the first that drops it says why."""

from stages.filtering.filter import Dropped, Filter
from stages.filtering.length import LENGTH, LengthFilter


class FilterSettings(LengthFilter):
    """The settings of all filters: each filter's own are a base."""


FILTERS: tuple[Filter[FilterSettings], ...] = (LENGTH,)


def verdict_of(data: bytes, settings: FilterSettings) -> Dropped:
    """Return why a cleaned text goes, given in UTF-8, or None if it stays."""
    for one in FILTERS:
        verdict = one.verdict(data, settings)
        if verdict is not None:
            return verdict
    return None
