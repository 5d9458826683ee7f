"""The filters that exist, by kind, and what the program asks about those of a run."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Never, cast

from stages.config import one_of
from stages.filtering.c4 import C4_RULES
from stages.filtering.column import COLUMN
from stages.filtering.filter import Filter, FilterConfig
from stages.filtering.fineweb import FINEWEB
from stages.filtering.function import FUNCTION
from stages.filtering.gopher_quality import GOPHER_QUALITY
from stages.filtering.gopher_repetition import GOPHER_REPETITION
from stages.filtering.language import LANGUAGE
from stages.filtering.length import LENGTH
from stages.filtering.pii import PII
from stages.filtering.url import URL

_ALL: tuple[Filter[Never], ...] = (
    LENGTH,
    GOPHER_QUALITY,
    GOPHER_REPETITION,
    C4_RULES,
    FINEWEB,
    COLUMN,
    URL,
    FUNCTION,
    LANGUAGE,
    PII,
)
FILTERS: dict[str, Filter[Never]] = {one.name: one for one in _ALL}
"""Every filter by its kind."""
AnyFilter = Annotated[FilterConfig, one_of(one.config for one in _ALL)]
"""The settings of any filter, as a field of another config; `kind` says which."""


def filter_of(config: FilterConfig) -> Filter[FilterConfig]:
    """Return what is known of the filter that settings are of."""
    return cast("Filter[FilterConfig]", FILTERS[config.kind])


def labels_of(configs: Sequence[FilterConfig]) -> list[str]:
    """Return the name of each filter of a run: its kind, with its number where one stands twice.

    url, column, column -> "url", "column", "column-2"
    """
    kinds = [config.kind for config in configs]
    numbers = [kinds[: place + 1].count(kind) for place, kind in enumerate(kinds)]
    return [
        kind if number == 1 else f"{kind}-{number}" for kind, number in zip(kinds, numbers, strict=True)
    ]


def filters_for(configs: Sequence[FilterConfig], source: str) -> list[tuple[str, FilterConfig]]:
    """Return the filters that look at the documents of a source, each with its name, in their order."""
    named = zip(labels_of(configs), configs, strict=True)
    return [(label, one) for label, one in named if one.sources is None or source in one.sources]


def require_sources(configs: Sequence[FilterConfig], sections: Mapping[str, int]) -> None:
    """Refuse filters of sources that the run does not have, or whose texts they cannot change.

    Args:
        configs: the filters of a run.
        sections: how many columns the text of each source is made of, by its name; 0 for dialogues.

    Raises:
        ValueError: there is one.
    """
    for number, one in enumerate(configs):
        key = f"filters.{number} (kind = {one.kind!r})"
        strangers = sorted(set(one.sources or ()) - set(sections))
        if strangers:
            known = ", ".join(sections)
            raise ValueError(
                f"{key}: sources: no source is called {strangers[0]!r}; the run has {known}"
            )
        for name in one.sources or sections:
            if sections[name] != 1 and filter_of(one).rewrites(one):
                made = f"made of {sections[name]} columns" if sections[name] else "dialogues of turns"
                raise ValueError(
                    f"{key}: changes texts, and those of source {name!r} are {made}, whose ends would"
                    " move; set its sources to the others"
                )


def columns_for(configs: Sequence[FilterConfig], source: str) -> tuple[str, ...]:
    """Return the columns of its records that the filters of a source read, each once."""
    read = (filter_of(one).columns(one) for _, one in filters_for(configs, source))
    return tuple(dict.fromkeys(column for columns in read for column in columns))
