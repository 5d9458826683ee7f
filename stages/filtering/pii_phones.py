"""Phone numbers in texts: patterns find what may be one, the library `phonenumbers` judges it.

    + and 8 to 15 digits, with a country's code: +49 30 901820, +1.2125550123
    ten digits as North America writes them: (212) 555-0123, 212-555-0123 x45, 1/800/555/0199

Digits may be parted by spaces, hyphens, dashes, slashes, dots and parentheses, but not by a full stop
and a space, which end a sentence. Of a candidate that is no number the last groups of digits are left
out one by one. An extension belongs to its number. In 938.272 0813 and +4.9574718 the full stop is that
of a decimal number: nothing parts the code of a country.

The library is Google's libphonenumber in Python, with the numbering plans of all countries. Its version
is part of the fingerprint of ingest.
"""

import importlib
import re
from collections.abc import Iterator
from functools import cache
from typing import Protocol, cast

from stages.filtering.libraries import installed

PACKAGE, EXTRA = "phonenumbers", "pii"
SPACES = " \u00a0\u2007\u2009\u202f"
_PARTED = rf"(?:(?!\.[{SPACES}])[{SPACES}().\-/\u2010-\u2015]){{0,3}}"
MARK = rf"[{SPACES}.\-/\u2010-\u2015]"
EXTENSION = rf"[{SPACES}]?(?:x|ext\.?|extension|#)[{SPACES}]?[0-9]{{1,6}}(?!\w)"
INTERNATIONAL = re.compile(
    rf"\+(?<![\w+].)(?<![0-9]\..)[1-9](?:{_PARTED}[0-9]){{7,14}}(?![0-9])(?P<extension>{EXTENSION})?",
    re.ASCII,
)
_NATIONAL = re.compile(
    r"[(1-9](?<![\w+-].)(?<![0-9]\..)(?:"
    rf"(?<=1)(?P<code>{MARK})(?:\([2-9]\d\d\)[{SPACES}]?|[2-9]\d\d(?P<first>{MARK}))"
    rf"|(?<=\()[2-9]\d\d\)[{SPACES}]?|(?<=[2-9])\d\d(?P<second>{MARK})"
    rf")[2-9]\d\d(?P<last>{MARK})\d{{4}}(?:{EXTENSION}|(?![\w-]|\.\d))",
    re.ASCII,
)
_GROUP_END = re.compile(r"[0-9](?![0-9])")
_VOLUME = re.compile(rf"[0-9],[{SPACES}]?\Z")
_GROUPED = re.compile(rf"[0-9][{SPACES}]\Z")
_LEAST = 8
"""Digits of an international number."""


class _Number(Protocol):
    """A number as the library reads it."""

    country_code: int


class _Library(Protocol):
    """What is used of `phonenumbers`."""

    NumberParseException: type[Exception]

    def parse(self, number: str, region: str | None = None) -> _Number:
        """Return a number as it is written."""

    def is_valid_number(self, numobj: _Number) -> bool:
        """Say whether a numbering plan has it."""


def library_here() -> str:
    """Return the name and version of the library that is installed.

    Raises:
        ConfigError: there is none.
    """
    return installed(PACKAGE, EXTRA, what="phone numbers", otherwise=', or leave "phone" out of find')


@cache
def _library() -> _Library:
    return cast("_Library", importlib.import_module(PACKAGE))


def find_phones(text: str) -> Iterator[tuple[int, int]]:
    """Yield where phone numbers begin and end."""
    spans = []
    if "+" in text:
        candidates = INTERNATIONAL.finditer(text)
        spans += [(one.start(), end) for one in candidates if (end := _international_end(text, one))]
    spans += [found.span() for found in _NATIONAL.finditer(text) if _is_national(text, found)]
    last = 0
    for start, end in sorted(spans):
        if start >= last:
            yield start, end
            last = end


def _international_end(text: str, found: re.Match[str]) -> int:
    """Return where the longest number ends that a candidate begins with; 0 if there is none."""
    start, end = found.start(), found.end()
    stop = found.start("extension") if found["extension"] else end
    ends = [one.end() for one in _GROUP_END.finditer(text, start, stop)]
    for place in reversed(ends):
        if sum(map(str.isdecimal, text[start:place])) < _LEAST:
            return 0
        if _is_valid(text[start:place], None):
            return end if place == stop else place
    return 0


def _is_national(text: str, found: re.Match[str]) -> bool:
    marks = {found[name] for name in ("code", "first", "second", "last")} - {None}
    if "." in marks and len(marks) > 1:  # 938.272 0813
        return False
    if " " in marks and _GROUPED.search(text, max(0, found.start() - 2), found.start()):
        return False  # 2.002 319 304 3622
    if (
        " " in marks
        and len(marks) > 1
        and _VOLUME.search(text, max(0, found.start() - 3), found.start())
    ):
        return False  # 7, 259-264 1970
    number = re.split("[x#e]", found[0], maxsplit=1)[0]
    return _is_valid(number, "US")


def _is_valid(number: str, region: str | None) -> bool:
    library = _library()
    digits = "".join(one for one in number if one.isdecimal() or one in "+()")
    try:
        found = library.parse(digits, region)
    except library.NumberParseException:
        return False
    whole = region is not None or number.startswith(f"+{found.country_code}")
    return whole and library.is_valid_number(found)
