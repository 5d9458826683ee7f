"""A filter as one value: which documents it drops, for which reasons, and the settings that decide.

`stages.filtering.table` lists them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from stages.config import Config

Dropped = tuple[str, str] | None
"""The reason why a document goes and what was found, or None if it stays."""
Settings_contra = TypeVar("Settings_contra", bound=Config, contravariant=True)


@dataclass(frozen=True)
class Filter(Generic[Settings_contra]):
    """One filter."""

    name: str
    reasons: tuple[str, ...]
    """All that it drops documents for, as the drops and the report have them."""
    verdict: Callable[[bytes, Settings_contra], Dropped]
    """Says why a cleaned text goes, given in UTF-8."""
