"""How long the names of a run's objects may become, told before any work is done."""

from collections.abc import Iterable

from stages.errors import ConfigError
from stages.stores.url import MOST_BYTES

KEY_BYTES = 160
"""Of a key, without the names that the run file gives: the longest that we have seen has 81."""


def require_short_keys(place: str, names: Iterable[str]) -> None:
    """Refuse a run whose objects would have longer names than stores allow.

    Args:
        place: URL of the run.
        names: of datasets, sources and columns; two of them may stand in one key.

    Raises:
        ConfigError: the longest name of an object may be too long.
    """
    named = sorted((len(name.encode()) for name in names), reverse=True)[:2]
    longest = KEY_BYTES + sum(named)
    found, most = len(place.encode()), MOST_BYTES - 1 - longest
    if found > most:
        raise ConfigError(
            f"{place}: has {found} bytes, and may have {most}: names of objects may have"
            f" {MOST_BYTES:,} bytes with the URL, and those of this run take up to {longest}; use a"
            " shorter URL, or shorter names of datasets and sources"
        )
