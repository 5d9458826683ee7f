"""Phone numbers in texts: patterns find what may be one, the library `phonenumbers` judges it.

    + and 8 to 15 digits, with a country's code: +49 30 901820, +1.2125550123
    ten digits as North America writes them: (212) 555-0123, 212-555-0123 x45, 1/800/555/0199

Digits may be parted by spaces, hyphens, dashes, slashes, dots and parentheses, but not by a full stop
and a space, which end a sentence. Of a candidate that is no number the last groups of digits are left
out one by one, and so is a bracket that does not end. An extension belongs to its number. Dates, times
and places after a plus are none (+2015-01-04 00:47, +4906-11631 of ISO 6709), nor are pages and a year
(212-220 1970). In 938.272 0813 and +4.9574718 the full stop is that of a decimal number: nothing parts
the code of a country, and behind one it is the form of registries, +1.2125550123.

The library is Google's libphonenumber in Python, with the numbering plans of all countries. Its version
is part of the fingerprint of ingest.
"""

import importlib
import re
from collections.abc import Iterator
from functools import cache
from typing import Protocol, cast

from stages.filtering.filter import installed

PACKAGE, EXTRA = "phonenumbers", "pii"
SPACES = " \u00a0\u2007\u2009\u202f"
_PARTED = rf"(?:(?!\.[{SPACES}])[{SPACES}().\-/\u2010-\u2015]){{0,3}}"
MARK = rf"[{SPACES}.\-/\u2010-\u2015]"
EXTENSION = rf"(?:;ext=|,?[{SPACES}]?(?i:x|ext\.?|extension|#)[{SPACES}]?)[0-9]{{1,6}}(?!\w)"
_NO_NUMBER = (
    r"(?!(?:19|20)\d\d(?:(?P<date>[-/.])(?:0[1-9]|1[0-2])(?P=date)(?:0[1-9]|[12]\d|3[01])(?!\d)"
    r"|(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])[0-5]\d(?:[0-5]\d)?(?!\d))"
    r"|(?:0?[1-9]|[12]\d|3[01])(?P<day>[-/.])(?:0?[1-9]|[12]\d|3[01])(?P=day)(?:19|20)\d\d(?!\d)"
    r"|\d{4}-\d{5}(?!\d)|\d{6}-\d{7}(?!\d))"
)
"""Dates, also with a time, and places by latitude and longitude."""
INTERNATIONAL = re.compile(
    rf"\+(?<![\w+].)(?<![0-9]\..){_NO_NUMBER}[1-9](?:{_PARTED}[0-9]){{7,14}}"
    rf"(?:(?P<extension>{EXTENSION})|(?![0-9A-Za-z]))",
    re.ASCII,
)
_NATIONAL = re.compile(
    r"[(1-9](?<![\w+].)(?:(?<!-.)|(?<=[^\0-\x7f]-.))(?<![0-9]\..)(?:"
    rf"(?<=1)(?P<code>{MARK})(?:\([2-9]\d\d\)[{SPACES}]?|[2-9]\d\d(?P<first>{MARK}))"
    rf"|(?<=\()[2-9]\d\d\)[{SPACES}]?|(?<=[2-9])\d\d(?P<second>{MARK})"
    rf")[2-9]\d\d(?P<last>{MARK})\d{{4}}(?:{EXTENSION}|(?!\w|-[\w-]|\.\d))",
    re.ASCII,
)
_GROUP_END = re.compile(r"[0-9](?![0-9])")
_VOLUME = re.compile(rf"[0-9],[{SPACES}]?\Z")
_GROUPED = re.compile(rf"[0-9][{SPACES}]\Z")
_YEAR = re.compile(rf"[{SPACES}](?:1[5-9]|20)[0-9]{{2}}\Z")
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
        ends = ((one.start(), _international_end(text, one)) for one in candidates)
        spans += [(_bracket_begin(text, start, end), end) for start, end in ends if end]
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
        number = text[start:place]
        if sum(map(str.isdecimal, number)) < _LEAST:
            return 0
        if number.count("(") <= number.count(")") and _is_valid(number, None):
            return end if place == stop else place
    return 0


def _bracket_begin(text: str, start: int, end: int) -> int:
    """Return where a number begins, with the bracket that it closes: (+49) 30 901820."""
    closes = ")" in text[start:end] and "(" not in text[start:end]
    return start - 1 if closes and text[:start].endswith("(") else start


def _is_national(text: str, found: re.Match[str]) -> bool:
    marks = {found[name] for name in ("code", "first", "second", "last")} - {None}
    if "." in marks and len(marks) > 1:  # 938.272 0813
        return False
    if " " in marks and _GROUPED.search(text, max(0, found.start() - 2), found.start()):
        return False  # 2.002 319 304 3622
    number = re.split("[,;xX#eE]", found[0], maxsplit=1)[0].rstrip(SPACES)
    if len(marks) > 1 and _YEAR.search(number):
        return False  # 212-220 1970
    if (
        " " in marks
        and len(marks) > 1
        and _VOLUME.search(text, max(0, found.start() - 3), found.start())
    ):
        return False  # 7, 259-264 1234
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
