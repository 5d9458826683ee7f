"""E-mail addresses in texts of any script.

    me@example.org        jörg@bücher.example.de        иван@пример.рф        kim@example.com으로

The host ends with a top-level domain of IANA's list, in ASCII, in Unicode or as xn--. What follows is
text if it is `_`, `-` or of another script than the domain; a letter or digit of the same one makes it
no address. The name takes ASCII, and letters of Latin, Greek or Cyrillic if they are of one script with
the letter nearest to the @; Han, Kana, Hangul, Thai and others before it are text, since these scripts
have no spaces there.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

import xxhash

LIST = Path(__file__).with_name("top_level_domains.txt")
_AT = re.compile(r"@(?=[^\W_][^\s@.]{0,250}\.[^\W_])")
_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._%+'-")
_NAME_SCRIPTS = frozenset(("LATIN", "GREEK", "CYRILLIC"))
_NAME_CHARACTERS, _LABEL_CHARACTERS, _HOST_CHARACTERS, _LABELS = 64, 63, 253, 127
_LATIN_ORDINALS = "ªº"


@cache
def top_level_domains() -> frozenset[str]:
    """Return the top-level domains in small letters, each as ASCII and in Unicode."""
    lines = LIST.read_text(encoding="ascii").splitlines()
    listed = [line for line in lines if not line.startswith("#")]
    own = [name[4:].encode().decode("punycode") for name in listed if name.startswith("xn--")]
    return frozenset((*listed, *own))


@cache
def list_digest() -> str:
    """Return the XXH3-64 of the list."""
    return xxhash.xxh3_64_hexdigest(LIST.read_bytes())


@lru_cache(1 << 14)
def script_of(letter: str) -> str:
    """Return the script of a letter, by its name in Unicode: "é" -> "LATIN", "の" -> "HIRAGANA"."""
    words = unicodedata.name(letter, "").split()
    for script in _NAME_SCRIPTS:
        if script in words or (script == "LATIN" and letter in _LATIN_ORDINALS):
            return script
    return next((word for word in words if word not in ("HALFWIDTH", "FULLWIDTH")), "")


def find_emails(text: str) -> Iterator[tuple[int, int]]:
    """Yield where e-mail addresses begin and end."""
    end = 0
    for found in _AT.finditer(text) if "@" in text else ():
        at = found.start()
        begin = _name_begin(text, at, max(end, at - _NAME_CHARACTERS))
        stop = _host_end(text, at + 1) if begin < at else 0
        if stop:
            yield begin, stop
            end = stop


def _name_begin(text: str, at: int, first: int) -> int:
    """Return where the name before an @ begins; `at` if there is none."""
    begin, script = at, None
    while begin > first:
        letter = text[begin - 1]
        if letter not in _NAME and not _is_mark(letter) and not _joins(letter, script):
            break
        if letter.isalpha() and script is None:
            script = script_of(letter)
        begin -= 1
    while begin < at and not (text[begin].isalnum() or text[begin] == "_"):
        begin += 1
    return begin


def _joins(letter: str, script: str | None) -> bool:
    """Say whether a letter that is not ASCII is part of a name whose nearest letter has a script."""
    own = script_of(letter) if letter.isalpha() else ""
    return own in _NAME_SCRIPTS and script in (None, own)


def _host_end(text: str, first: int) -> int:
    """Return where the longest host that begins at a place ends; 0 if there is none."""
    ends = _label_ends(text, first)
    for number in range(len(ends) - 1, 0, -1):
        begin = ends[number - 1] + 1
        stop = _domain_end(text, begin, ends[number])
        if stop and stop - first <= _HOST_CHARACTERS:
            return stop
    return 0


def _label_ends(text: str, first: int) -> list[int]:
    """Return where the parts between dots end, as far as all before the last are labels of a host."""
    ends: list[int] = []
    place = first
    while len(ends) < _LABELS:
        begin = place
        while place < len(text) and (_in_label(text[place])) and place - begin <= _LABEL_CHARACTERS:
            place += 1
        ends.append(place)
        if not _is_label(text[begin:place]) or text[place : place + 1] != ".":
            break
        place += 1
    return ends


def _in_label(letter: str) -> bool:
    return letter.isalnum() or letter == "-" or _is_mark(letter)


def _is_label(label: str) -> bool:
    """Say whether a part of a host is a label: no hyphen at its ends, ASCII letters or others."""
    if not label or len(label) > _LABEL_CHARACTERS or "-" in (label[0], label[-1]):
        return False
    others = [letter for letter in label if not letter.isascii() and letter.isalpha()]
    ascii_letters = any(letter.isascii() and letter.isalpha() for letter in label)
    return not others or not ascii_letters or all(script_of(letter) == "LATIN" for letter in others)


def _domain_end(text: str, begin: int, end: int) -> int:
    """Return where the longest top-level domain at a place ends that text may follow, or 0."""
    known = top_level_domains()
    for stop in range(min(end, begin + _LABEL_CHARACTERS), begin + 1, -1):
        if text[begin:stop].lower() in known and _may_follow(text[stop - 1], text[stop : stop + 1]):
            return stop
    return 0


def _may_follow(last: str, after: str) -> bool:
    """Say whether a character ends a host whose last one is given."""
    if after.isalpha() or _is_mark(after):
        return script_of(after) != script_of(last)
    return not (after.isascii() and after.isalnum())


def _is_mark(letter: str) -> bool:
    return bool(letter) and unicodedata.category(letter)[0] == "M"
