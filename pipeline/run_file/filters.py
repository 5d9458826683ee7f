"""Filters of a run: resolved when it is planned, and what of them decides which documents stay."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.run_file.config import RunFile
from pipeline.run_file.fingerprints import Some
from stages.filtering.filter import FilterConfig
from stages.filtering.table import filter_of


def resolve_filters(file: RunFile, base: Path) -> RunFile:
    """Return a run whose filters know the digest of all that they rest on besides their settings.

    Args:
        file: the run.
        base: folder that its paths are relative to.

    Raises:
        ConfigError: a file, a module or a model is not there, or is not what it must be.
    """
    if not file.filters:
        return file
    resolved = tuple(
        filter_of(one).resolve(one, base, f"filters.{number} (kind = {one.kind!r})")
        for number, one in enumerate(file.filters)
    )
    return file.model_copy(update={"filters": resolved})


def filter_warnings(filters: Sequence[FilterConfig]) -> list[str]:
    """Return what of resolved filters has no effect, as lines for people."""
    found = [(number, filter_of(one).warning(one)) for number, one in enumerate(filters)]
    return [
        f"filters.{number} (kind = {filters[number].kind!r}): {text}" for number, text in found if text
    ]


def decisive_filters(filters: Sequence[FilterConfig], source: str | None = None) -> dict[str, Any]:
    """Return what of filters decides which documents stay, by number; nothing of none.

    Args:
        filters: of the run, resolved.
        source: leaves out those that do not look at the documents of one source.
    """
    return {
        str(number): {"version": filter_of(one).version, "settings": Some(one, _decisive(one, source))}
        for number, one in enumerate(filters)
        if source is None or one.sources is None or source in one.sources
    }


def _decisive(config: FilterConfig, source: str | None) -> set[str]:
    left_out = {*filter_of(config).undecided, *(() if source is None else ("sources",))}
    return set(type(config).model_fields) - left_out
