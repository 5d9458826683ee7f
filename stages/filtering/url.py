"""URL: documents from addresses that stand in block lists of yours.

    domain      the host is in a list of domains, or below one: a.b.example.org of example.org
    substring   the address holds a text of a list
    missing     the record names no address; kept unless `missing = "drop"`

Lists are read by the forms in which they are published, and hosts are compared in one spelling
(`stages.filtering.url_lists`). The digest of what lists hold, not their paths, is part of the run's
fingerprint.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import xxhash
from pydantic import Field, model_validator

from stages.errors import ConfigError, DataError
from stages.filtering.column import Missing, is_missing
from stages.filtering.filter import Document, Filter, FilterConfig, Judge, Removal
from stages.filtering.url_lists import host_of, lowered, read_domains, read_parts
from stages.stores.given import given_path

_SHOWN = 60
"""Characters of a line that are shown."""
_RULES = ("domain", "substring", "missing")


class UrlLists(FilterConfig):
    """Block lists of domains and parts of addresses."""

    kind: Literal["url"] = "url"
    """Names the filter."""
    column: str = Field("url", min_length=1)
    """The field that holds the address; it may be inside of others, as `meta.url`."""
    domains: tuple[str, ...] = ()
    """Files of domains, relative to the run file; what is below a domain goes, too."""
    substrings: tuple[str, ...] = ()
    """Files of texts that no address may hold. Each is looked for in each address: some thousands are
    many."""
    missing: Missing = "keep"
    """What becomes of a document whose record names no address."""
    digest: str | None = None
    """XXH3-128 of the lists; found when the run is planned. If it is set, other lists are refused."""

    @model_validator(mode="after")
    def _some_list(self) -> "UrlLists":
        if not self.domains and not self.substrings:
            raise ValueError("has no list; name files in domains, substrings or both")
        return self


def _open(config: UrlLists) -> Judge:
    (domains, _), substrings = read_domains(_here(config.domains)), read_parts(_here(config.substrings))
    if _digest(domains, substrings) != config.digest:
        raise DataError(f"{_named(config)}: changed since the run was planned; run again")
    blocked = frozenset(domains)

    def judge(document: Document) -> Removal | None:
        value = document.values.get(config.column)
        if is_missing(value) or not isinstance(value, str):
            shown = f"column {config.column!r} names no address"
            return Removal("missing", shown) if config.missing == "drop" else None
        host = host_of(value)
        while host:
            if host in blocked:
                return Removal("domain", f"{host} is in domains")
            host = host.partition(".")[2]
        address = lowered(value)
        found = next((text for text in substrings if text in address), None)
        return None if found is None else Removal("substring", f"holds {found!r} of substrings")

    return judge


def _here(places: Sequence[str]) -> list[str]:
    return [str(given_path(Path(place))) for place in places]


def _files(config: UrlLists) -> tuple[str, ...]:
    return (*config.domains, *config.substrings)


def _resolve(config: UrlLists, base: Path, key: str) -> UrlLists:
    domains = tuple(str((base / name).resolve()) for name in config.domains)
    substrings = tuple(str((base / name).resolve()) for name in config.substrings)
    for place in (*domains, *substrings):
        if not Path(place).is_file():
            raise ConfigError(f"{key}: {place}: no such file; name a regular file, one entry a line")
    try:
        digest = _digest(read_domains(domains)[0], read_parts(substrings))
    except DataError as error:
        raise ConfigError(f"{key}: {error}") from error
    if config.digest not in (None, digest):
        raise ConfigError(
            f"{key}.digest = {config.digest!r}: the lists have {digest!r}; set the one meant"
        )
    return config.model_copy(update={"domains": domains, "substrings": substrings, "digest": digest})


def _warning(config: UrlLists) -> str | None:
    """Say which lines of the lists name no host, or None if each does."""
    try:
        _, unread = read_domains(config.domains)
    except DataError:  # said where the run is planned or the lists are read
        return None
    if not unread:
        return None
    shown = "; ".join(
        f"{Path(one.place).name} line {one.line}: {one.text[:_SHOWN]!r}" for one in unread[:3]
    )
    lines, names, blocks = (
        ("line", "names", "blocks") if len(unread) == 1 else ("lines", "name", "block")
    )
    return (
        f"{len(unread):,} {lines} of the lists of domains {names} no host and {blocks} nothing, such as"
        f" {shown}; see docs/filters.md for the forms"
    )


def _digest(domains: Sequence[str], substrings: Sequence[str]) -> str:
    content = "\n".join(["domains", *sorted(domains), "\0substrings", *substrings])
    return xxhash.xxh3_128_hexdigest(content.encode())


def _named(config: UrlLists) -> str:
    return ", ".join(_files(config))


def _columns(config: UrlLists) -> tuple[str, ...]:
    return (config.column,)


URL = Filter(
    UrlLists,
    _RULES,
    _open,
    version=2,
    columns=_columns,
    resolve=_resolve,
    files=_files,
    warning=_warning,
    undecided=("domains", "substrings"),
)
