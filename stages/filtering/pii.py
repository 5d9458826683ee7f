"""Personal data: addresses, numbers and keys in texts, replaced and counted, or the documents dropped.

    email    name@host.tld
    ip       public addresses, IPv4 and IPv6: no private, local or documentation ones
    phone    + and 8 to 15 digits, or ten digits as North America writes them: (212) 555-0123
    key      keys of AWS, GitHub, GitLab, Google, Hugging Face, npm, OpenAI, Slack and Stripe by their
             published forms, JSON web tokens, and private keys in PEM

Patterns find what has a form of its own. They do not find names, postal addresses, or numbers in other
forms, and they take some things for personal data that are none, such as a version 8.8.8.8.

Most patterns begin with the characters that may stand first and look behind afterwards, because `re`
then passes over all others several times as fast.

A replacement is a word in brackets that says what stood there, such as [EMAIL]. Samples of dropped
documents show the texts so replaced.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

from pydantic import Field, field_validator

from stages.filtering.filter import Changed, Document, Filter, FilterConfig, Gone, Judge

DataKind = Literal["email", "ip", "phone", "key"]
Span = tuple[int, int]
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_AT_HOST = re.compile(rf"@(?:{_LABEL}\.){{1,8}}[A-Za-z]{{2,24}}(?![\w-])")
_LOCAL_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._%+'-]{0,63}\Z")
_LOCAL_CHARACTERS = 64
_IPV4 = re.compile(r"[0-9](?<![\w.].)[0-9]{0,2}(?:\.[0-9]{1,3}){3}(?!\w|\.\d)", re.ASCII)
_IPV6 = re.compile(
    r"[23](?<![\w:.].)[0-9A-Fa-f]{3}:[0-9A-Fa-f:]{2,34}(?<!:)(?![\w:])",
    re.ASCII,
)
_ADDRESSES = (
    (re.compile(r"\.[0-9]{1,3}\."), _IPV4),
    (re.compile(r":[0-9A-Fa-f:]"), _IPV6),
)
"""Each with what stands in every one, and in few texts."""
_PHONE = re.compile(
    r"[+(1-9](?:"
    r"(?<=\+)(?<![\w+].)\d(?:[ ().-]{0,2}\d){7,14}(?!\d)"
    r"|(?<![\w+.-].)(?:(?<=1)[-. ](?:\([2-9]\d\d\) ?|[2-9]\d\d[-. ])"
    r"|(?<=\()[2-9]\d\d\) ?|(?<=[2-9])\d\d[-. ])[2-9]\d\d[-. ]\d{4}(?![\w-]|\.\d)"
    r")",
    re.ASCII,
)
_KEY_PARTS = (
    *("PRIVATE KEY", "AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
    *("AIza", "hf_", "npm_", "sk-", "xox", "k_live_", "k_test_", "eyJ"),
)
"""Each key has one of them; most texts have none."""
_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----[^-]{1,20000}-----END [A-Z ]{0,20}PRIVATE KEY-----"
    r"|(?<!\w)(?:"
    r"(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|gh[pousr]_[A-Za-z0-9]{36,251}|github_pat_[A-Za-z0-9_]{60,100}|glpat-[A-Za-z0-9_-]{20,64}"
    r"|AIza[0-9A-Za-z_-]{35}|hf_[A-Za-z0-9]{30,64}|npm_[A-Za-z0-9]{36}"
    r"|sk-[A-Za-z0-9_-]{20,200}|xox[abeoprs]-[A-Za-z0-9-]{10,250}|[rs]k_(?:live|test)_[0-9A-Za-z]{16,250}"
    r"|eyJ[A-Za-z0-9_-]{10,4000}\.eyJ[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{10,1000}"
    r")(?![\w-])",
    re.ASCII,
)


class PersonalData(FilterConfig):
    """E-mail addresses, IP addresses, phone numbers and keys."""

    kind: Literal["pii"] = "pii"
    """Names the filter."""
    find: tuple[DataKind, ...] = Field(("email", "ip", "phone", "key"), min_length=1)
    """What is looked for: "email", "ip", "phone", "key"."""
    action: Literal["replace", "drop"] = "replace"
    """Whether what is found is replaced, or its document dropped."""

    @field_validator("find")
    @classmethod
    def _each_once(cls, find: tuple[DataKind, ...]) -> tuple[DataKind, ...]:
        if len(set(find)) != len(find):
            raise ValueError("names one twice")
        return find


def find_emails(text: str) -> Iterator[Span]:
    """Yield where e-mail addresses stand."""
    end = 0
    for host in _AT_HOST.finditer(text) if "@" in text else ():
        start = max(end, host.start() - _LOCAL_CHARACTERS)
        local = _LOCAL_PART.search(text, start, host.start())
        if local is not None:
            yield local.start(), host.end()
            end = host.end()


def find_addresses(text: str) -> Iterator[Span]:
    """Yield where public IP addresses stand."""
    patterns = [pattern for sign, pattern in _ADDRESSES if sign.search(text)]
    spans = [found.span() for pattern in patterns for found in pattern.finditer(text)]
    return (span for span in sorted(spans) if _is_public(text[slice(*span)]))


def find_phones(text: str) -> Iterator[Span]:
    """Yield where phone numbers stand."""
    return (found.span() for found in _PHONE.finditer(text))


def find_keys(text: str) -> Iterator[Span]:
    """Yield where keys stand."""
    if not any(part in text for part in _KEY_PARTS):
        return iter(())
    return (found.span() for found in _KEY.finditer(text))


FINDERS: dict[DataKind, Callable[[str], Iterator[Span]]] = {
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


def _is_public(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_global
    except ValueError:  # a leading zero, too many groups
        return False


def _open(config: PersonalData) -> Judge:
    def judge(document: Document) -> Gone | Changed | None:
        text, counts = replaced(document.text.decode(), config.find)
        if not counts:
            return None
        if config.action == "replace":
            return Changed(text.encode(), counts=counts)
        first = next(kind for kind in FINDERS if counts[kind])
        found = ", ".join(f"{kind}: {counts[kind]:,}" for kind in FINDERS if counts[kind])
        return Gone(first, f"{found}; none may be found", excerpt=text.encode())

    return judge


def _rewrites(config: PersonalData) -> bool:
    return config.action == "replace"


PII = Filter(
    PersonalData,
    tuple(FINDERS),
    _open,
    changes=tuple(FINDERS),
    rewrites=_rewrites,
    memory_factor=36,
)
