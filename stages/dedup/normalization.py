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

A long text is compared a part at a time, because what is compared of it may be 19 times as long: U+FDFA,
3 bytes, is 18 characters in NFKC. Parts begin where what is before changes nothing behind, nor the other
way round: at white space, at a character of an unspaced script, or at a letter.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from stages.config import Config
from stages.dedup.shingles import KINDS

NormalForm = Literal["quotes", "unicode", "case", "punctuation", "digits"]
_QUOTES = re.compile(r"^[ \t]*(?:[>|][ \t]*)+", re.MULTILINE)
_DIGITS = re.compile(r"\d+")
_LONG = re.compile("[\U00010000-\U0010ffff]+")
"""Characters of more than 16 bits."""
_SPACES = re.compile(r"\s+")
_SPACE = "\u2423"
_SPACE_UNIT = f"{_SPACE} ".encode()
_SPACE_UNITS = re.compile(b"(?:%b){2,}" % _SPACE_UNIT)
"""What a text with such a character of its own has."""
CHARACTERS = 20
"""Of a shingle of characters; strings of 5 words have some 25."""
_CHUNK = 1 << 16
"""Bytes of a text that are a Python string at once, unless no part can begin in it. Python may hold 80
bytes for each character that it writes apart, and U+FDFA becomes 18: 30 MiB."""
_LINE, _BLANK = 0x0A, 0x20
_NO_QUOTE = tuple(b" \t>|")
"""What no blank stands before at which a text is cut: it would begin a line of a quote."""
_LOOK = 1 << 12
"""Bytes in which a letter is looked for at a time."""
_JAMO = frozenset([*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)])
"""Vowels and final consonants of Hangul, which join what is before them."""
CUTS = re.compile(
    rb"\n| (?![ \t>|])|[\xe5-\xe8]|\xe3\x81[\x81-\xbf]|\xe3\x82[\xa1-\xbf]|\xe0\xb8[\x81-\xae]"
)
"""In UTF-8: white space (a blank if no mark of a quote may follow), Han (U+5000 to U+8FFF), some Kana,
Thai consonants. What is before them changes none of these, and they change nothing before them."""


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
        b"".join(compared_parts(data[offsets[text] : offsets[text + 1]], config))
        for text in range(len(offsets) - 1)
    ]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return np.frombuffer(b"".join(texts), np.uint8), ends


def compared_parts(text: NDArray[np.uint8], config: ShingleConfig) -> Iterator[bytes]:
    """Yield what of a text is compared, a part at a time; no word is in two parts.

    Args:
        text: (B,) valid UTF-8.
        config: what makes no difference.
    """
    if config.shingle == "char":
        yield from _characters(text, config)
        return
    buffer: list[bytes] = []
    """The beginning of a word that goes on."""
    for part in chunks(text, config):
        compared = compared_text(part.tobytes().decode(), config)
        if buffer and compared and KINDS[ord(compared[0])]:
            yield b"".join(buffer)
            buffer = []
        encoded = compared.encode()
        end = max(encoded.rfind(b" "), encoded.rfind(b"\n")) + 1
        if end:
            yield b"".join([*buffer, encoded[:end]])
            buffer = []
        buffer.append(encoded[end:])
    yield b"".join(buffer)


def _characters(text: NDArray[np.uint8], config: ShingleConfig) -> Iterator[bytes]:
    """Yield the characters of a text with spaces between; of "␣", none at its ends or beside another."""
    space = b""
    """Stands between what was yielded and what comes next."""
    begun = False
    for part in chunks(text, config):
        found = compared_text(part.tobytes().decode(), config).encode()
        found = _SPACE_UNITS.sub(_SPACE_UNIT, found)
        inner = found.removeprefix(_SPACE_UNIT)
        if begun and len(inner) < len(found):
            space = _SPACE_UNIT
        if not inner:
            continue
        whole = inner.removesuffix(_SPACE_UNIT)
        yield space + whole
        begun, space = True, _SPACE_UNIT if len(whole) < len(inner) else b""


def compared_text(text: str, config: ShingleConfig) -> str:
    """Return what of a text is compared: words that are the units of its shingles."""
    for name in config.normalize:
        text = _FUNCTIONS[name](text)
    if config.shingle == "char" and text:
        text = " ".join(_SPACES.sub(_SPACE, text)) + " "
    return text


def unicode_version() -> str:
    """Return the version of the character tables that normalisation rests on."""
    return unicodedata.unidata_version


def chunks(text: NDArray[np.uint8], config: ShingleConfig) -> Iterator[NDArray[np.uint8]]:
    """Cut a long text before line ends, or else before spaces, letters of unspaced scripts, or letters.

    Most texts are one chunk.
    """
    start = 0
    while len(text) - start > _CHUNK:
        place = start + _CHUNK
        found = _last_space(text, start + 1, place)
        if found is None:
            ahead = CUTS.search(text.data, place)
            last = len(text) if ahead is None else ahead.start()
            letter = _first_letter(text, place, last, config)
            found = last if letter is None else letter
            if found == len(text):
                break
        yield text[start:found]
        start = found
    yield text[start:]


def _last_space(text: NDArray[np.uint8], first: int, last: int) -> int | None:
    """Return the last line end in a range, or else the last blank that no mark of a quote follows."""
    lines = np.flatnonzero(text[first:last] == _LINE)
    if len(lines):
        return first + int(lines[-1])
    blanks = np.flatnonzero(text[first:last] == _BLANK)
    blanks = blanks[~np.isin(text[first + blanks + 1], _NO_QUOTE)]
    return first + int(blanks[-1]) if len(blanks) else None


def _first_letter(text: NDArray[np.uint8], first: int, last: int, config: ShingleConfig) -> int | None:
    """Return the first place in a range at which a letter begins that joins nothing before it."""
    for start in range(first, last, _LOOK):
        part = text[start : min(start + _LOOK, last)]
        places = np.flatnonzero((part & 0xC0) != 0x80)  # noqa: PLR2004  # first bytes of characters
        if not len(places):
            continue
        characters = part[places[0] :].tobytes().decode(errors="ignore")  # the last may be cut off
        letters = {one for one in set(characters) if begins_anew(one, config)}
        if letters:
            number = next(n for n, one in enumerate(characters) if one in letters)
            return start + int(places[number])
    return None


def begins_anew(letter: str, config: ShingleConfig) -> bool:
    """Say whether a character is a letter, and joins nothing before it (Unicode Annex 15, section 9)."""
    first = unicodedata.normalize("NFKD", letter)[0]
    joins = unicodedata.combining(first) or ord(first) in _JAMO or first in _joining()
    return not joins and compared_text(letter, config)[:1].isalpha()


@cache
def _joining() -> frozenset[str]:
    """Return the second characters of all that are made of two: what is before them may join them."""
    pairs = (unicodedata.decomposition(chr(code)).split() for code in range(0x30000))
    return frozenset(chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and pair[0][0] != "<")  # noqa: PLR2004


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
