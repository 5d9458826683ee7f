"""Normalisation: what of a text counts when documents are compared; the texts themselves do not change.

    quotes       "> > as he said"   ->  "as he said"         at the beginning of lines, `>` and `|`
    unicode      "ﬁn Ⅳ"             ->  "fin IV"             NFKC
    case         "Straße"           ->  "strasse"            casefold
    punctuation  "don't (stop)"     ->  "dont stop"          Unicode's categories P and S are dropped
    digits       "12.03.2024"       ->  "0.0.0"              each run of decimal digits

They apply in this order, whatever their order in the run file; with both of the last two, "3.14", "314"
and "1,250" are one number. White space is never compared: words are what stands between it, and shingles
of characters see one space for each run of it.

For shingles of characters a text is written with each character a word of its own, and "␣" for a space:
"ab c" -> "a b ␣ c". So one definition of a shingle serves both. Spaces at the ends of a text are left
out, so a text of which nothing else is left has no shingle.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from stages.config import Config

NormalForm = Literal["quotes", "unicode", "case", "punctuation", "digits"]
_QUOTES = re.compile(r"^[ \t]*(?:[>|][ \t]*)+", re.MULTILINE)
_DIGITS = re.compile(r"\d+")
_LONG = re.compile("[\U00010000-\U0010ffff]+")
"""Characters of more than 16 bits."""
_SPACES = re.compile(r"\s+")
_SPACE = "\u2423"
_SPACE_UNIT = f"{_SPACE} ".encode()
_SPACE_UNITS = re.compile(b"(?:%b){2,}" % _SPACE_UNIT)
"""What the parts of a long text, and a text with such a character of its own, have."""
CHARACTERS = 20
"""Of a shingle of characters; strings of 5 words have some 25."""
_CHUNK = 1 << 20
"""Bytes of a text that are a Python string at once, unless one of its words is longer."""
_ASCII_SPACE = (0x20, 0x0A)
CUTS = re.compile(rb"[\n ]|[\xe5-\xe8]|\xe3\x81[\x81-\xbf]|\xe3\x82[\xa1-\xbf]|\xe0\xb8[\x81-\xae]")
"""In UTF-8: white space, Han (U+5000 to U+8FFF), some Kana, Thai consonants. What is before them changes
none of these, and they change nothing before them. A page without spaces is cut there."""


class ShingleConfig(Config):
    """What the similarity of two documents is measured on."""

    shingle: Literal["word", "char"] = "word"
    """Unit of a shingle. A character of a script without spaces is a word. Shingles of 20 characters are
    about as strict as those of 5 words."""
    size: int = Field(5, ge=1, le=100)
    """Units in a shingle. If it is not given, shingles of characters have 20."""
    normalize: tuple[NormalForm, ...] = ()
    """What makes no difference: `case`, `punctuation`, `digits` (which number it is), `unicode` (forms
    of the same character), `quotes` (marks before lines of quoted mail)."""

    @model_validator(mode="before")
    @classmethod
    def _long_enough(cls, given: object) -> object:
        """Shingles of 5 characters are shared by texts that have nothing else in common."""
        if isinstance(given, Mapping) and given.get("shingle") == "char":
            return {"size": CHARACTERS, **given}
        return given

    @field_validator("normalize")
    @classmethod
    def _in_one_order(cls, names: tuple[NormalForm, ...]) -> tuple[NormalForm, ...]:
        return tuple(name for name in _FUNCTIONS if name in names)

    @property
    def as_they_are(self) -> bool:
        """Whether texts are compared as they are."""
        return self.shingle == "word" and not self.normalize


def compared_texts(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], config: ShingleConfig
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return what of some texts is compared, as texts of which words are the units of shingles.

    Args:
        data: (B,) valid UTF-8, texts end to end.
        offsets: (D + 1,) where each text begins.
        config: what makes no difference.

    Returns:
        The same arrays if nothing is normalised.
    """
    if config.as_they_are:
        return data, offsets
    texts = [
        _joined(chunks(data[offsets[text] : offsets[text + 1]]), config)
        for text in range(len(offsets) - 1)
    ]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return np.frombuffer(b"".join(texts), np.uint8), ends


def compared_text(text: str, config: ShingleConfig) -> str:
    """Return what of a text is compared: words that are the units of its shingles."""
    for name in config.normalize:
        text = _FUNCTIONS[name](text)
    if config.shingle == "char":
        text = " ".join(_SPACES.sub(_SPACE, text)) + " "
    return text


def _joined(parts: Iterable[NDArray[np.uint8]], config: ShingleConfig) -> bytes:
    """Return what of the parts of one text is compared; no space is at its ends or beside another."""
    whole = b"".join(compared_text(part.tobytes().decode(), config).encode() for part in parts)
    if config.shingle == "word":
        return whole
    return _SPACE_UNITS.sub(_SPACE_UNIT, whole).removeprefix(_SPACE_UNIT).removesuffix(_SPACE_UNIT)


def unicode_version() -> str:
    """Return the version of the character tables that normalisation rests on."""
    return unicodedata.unidata_version


def chunks(text: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
    """Cut a long text before line ends, or else before spaces or letters of some unspaced scripts.

    Most texts are one chunk.
    """
    start = 0
    while len(text) - start > _CHUNK:
        place = start + _CHUNK
        found = -1
        for mark in _ASCII_SPACE[::-1]:
            behind = np.flatnonzero(text[start + 1 : place] == mark)
            if len(behind):
                found = start + 1 + int(behind[-1])
                break
        if found < 0:
            ahead = CUTS.search(text.data, place)
            if ahead is None:
                break
            found = ahead.start()
        yield text[start:found]
        start = found
    yield text[start:]


def _without_marks(text: str) -> str:
    """Return the text without characters of the categories P and S.

    A pattern holds those of 16 bits in one table, and looks for others one by one: with all of them in
    one pattern this took 4 seconds a megabyte.
    """
    text = _short_marks().sub("", text)
    return text if text.isascii() else _LONG.sub(_without_long_marks, text)


@cache
def _short_marks() -> re.Pattern[str]:
    marks = [chr(code) for code in range(1 << 16) if unicodedata.category(chr(code))[0] in "PS"]
    return re.compile(f"[{re.escape(''.join(marks))}]+")


def _without_long_marks(found: re.Match[str]) -> str:
    return "".join(one for one in found[0] if unicodedata.category(one)[0] not in "PS")


_FUNCTIONS: dict[NormalForm, Callable[[str], str]] = {
    "quotes": lambda text: _QUOTES.sub("", text),
    "unicode": lambda text: unicodedata.normalize("NFKC", text),
    "case": str.casefold,
    "punctuation": _without_marks,
    "digits": lambda text: _DIGITS.sub("0", text),
}
