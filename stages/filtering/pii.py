"""Personal data: addresses, numbers and keys in texts, replaced and counted, or the documents dropped.

    email    name@host.tld, in any script
    ip       public addresses, IPv4 and IPv6: no private, local or documentation ones
    phone    + and 8 to 15 digits, or ten digits as North America writes them: (212) 555-0123
    key      keys by their published forms, JSON web tokens, and private keys in PEM

They have no names, postal addresses, or numbers in other forms, and they take some things for personal
data that are none, such as a version 8.8.8.8. The modules `pii_*` say how each kind is found.

A replacement is a word in brackets that says what was there, such as [EMAIL]. Samples of dropped
documents show the texts so replaced.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from stages.errors import ConfigError, DataError
from stages.filtering.filter import Change, Document, Filter, FilterConfig, Judge, Removal
from stages.filtering.pii_addresses import find_addresses, find_keys
from stages.filtering.pii_emails import find_emails, list_digest
from stages.filtering.pii_phones import find_phones, library_here

DataKind = Literal["email", "ip", "phone", "key"]


class PersonalData(FilterConfig):
    """E-mail addresses, IP addresses, phone numbers and keys."""

    kind: Literal["pii"] = "pii"
    """Names the filter."""
    find: tuple[DataKind, ...] = Field(("email", "ip", "phone", "key"), min_length=1)
    """What is looked for: "email", "ip", "phone", "key"."""
    action: Literal["replace", "drop"] = "replace"
    """Whether what is found is replaced, or its document dropped."""
    judge: str | None = None
    """Name and version of what judges: the library of phone numbers, and the list of top-level domains
    by its digest. Found when the run is planned. If it is set, others are refused."""

    @field_validator("find")
    @classmethod
    def _each_once(cls, find: tuple[DataKind, ...]) -> tuple[DataKind, ...]:
        if len(set(find)) != len(find):
            raise ValueError("names one twice")
        return find


FINDERS: dict[DataKind, Callable[[str], Iterator[tuple[int, int]]]] = {
    "key": find_keys,
    "email": find_emails,
    "ip": find_addresses,
    "phone": find_phones,
}
"""In the order in which they look at a text: a key may hold what the others would find."""


def replaced(text: str, find: tuple[DataKind, ...]) -> tuple[str, Counter[str]]:
    """Return a text with what was found replaced, and how much of each kind that was.

    "write to me@example.org" -> "write to [EMAIL]", {"email": 1}
    """
    counts: Counter[str] = Counter()
    for kind, finder in FINDERS.items():
        if kind not in find:
            continue
        parts, end = [], 0
        for start, stop in finder(text):
            parts += [text[end:start], f"[{kind.upper()}]"]
            end = stop
            counts[kind] += 1
        if parts:
            text = "".join([*parts, text[end:]])
    return text, counts


def _judge_here(config: PersonalData) -> str:
    """Return what judges the kinds that are looked for; raises ConfigError if it is not installed."""
    phones = [library_here()] if "phone" in config.find else []
    domains = [f"top-level domains {list_digest()}"] if "email" in config.find else []
    return ", ".join([*phones, *domains])


def _resolve(config: PersonalData, _: Path, key: str) -> PersonalData:
    try:
        here = _judge_here(config)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error
    if config.judge not in (None, here):
        raise ConfigError(f"{key}.judge = {config.judge!r}: {here!r} is installed; install that one")
    return config.model_copy(update={"judge": here})


def _open(config: PersonalData) -> Judge:
    if config.judge is not None and (here := _judge_here(config)) != config.judge:
        raise DataError(
            f"filters: kind = 'pii': {here} is installed here, and the run was planned with"
            f" {config.judge}; install the same on every node"
        )

    def judge(document: Document) -> Removal | Change | None:
        text, counts = replaced(document.text.decode(), config.find)
        if not counts:
            return None
        if config.action == "replace":
            return Change(text.encode(), counts=counts)
        first = next(kind for kind in FINDERS if counts[kind])
        found = ", ".join(f"{kind}: {counts[kind]:,}" for kind in FINDERS if counts[kind])
        return Removal(first, f"{found}; none may be found", excerpt=text.encode())

    return judge


def _rewrites(config: PersonalData) -> bool:
    return config.action == "replace"


PII = Filter(
    PersonalData,
    tuple(FINDERS),
    _open,
    version=3,
    rewrites=_rewrites,
    resolve=_resolve,
    memory_factor=36,
)
