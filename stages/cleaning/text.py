"""Cleaning: what is done to every text before any step looks at it.

Line ends become line feeds, control characters go, and the rest is brought to Unicode's NFC. No
visible character is changed, no white space folded: code keeps its indentation.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f]")
_SUSPECT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_BYTE_ORDER_MARK = "\ufeff"
_STRETCH = 1 << 16
"""Characters of a long text that are cleaned together."""
_FIRST = re.compile(
    "[!-~\u00c0-\u02ff\u0391-\u03a1\u0410-\u044f\u0620-\u064a\u0904-\u0939\u0e01-\u0e30"
    "\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]"
)
"""Characters before which a text may be cut. None is a line end, a control or a mark; in NFC none joins
what stands before it. They are letters of most scripts; where there is none, a stretch is longer."""


def clean_text(text: str) -> str:
    r"""Return the text in NFC with line feeds as its only line ends and without control characters.

    "\ufeffe\u0301\r\n\x00b\tc" -> "é\nb\tc"

    Cleaning what is clean changes nothing.
    """
    if _SUSPECT.search(text):  # rare, and one search costs less than two substitutions
        text = _CONTROLS.sub("", _LINE_ENDS.sub("\n", text))
    return unicodedata.normalize("NFC", text.lstrip(_BYTE_ORDER_MARK))


@dataclass(frozen=True)
class CleanedText:
    """A cleaned text, in UTF-8: a Python string of it may be four times as long."""

    data: bytes
    characters: int
    changed: bool
    """Whether cleaning changed it."""


def cleaned(text: str) -> CleanedText:
    """Return what `clean_text` makes of a text; a long one is cleaned a stretch at a time.

    32 MiB with one character past U+FFFF are a string of 128 MiB, and each step of cleaning copies it.
    """
    parts, characters, changed = [], 0, False
    for stretch in _stretches(text):
        clean = clean_text(stretch)
        parts.append(clean.encode())
        characters += len(clean)
        changed |= clean != stretch
    return CleanedText(parts[0] if len(parts) == 1 else b"".join(parts), characters, changed)


def _stretches(text: str) -> Iterator[str]:
    """Cut a text where cleaning the parts is cleaning the whole; nothing is one stretch."""
    start = 0
    while len(text) - start > _STRETCH and (cut := _FIRST.search(text, start + _STRETCH)):
        yield text[start : cut.start()]
        start = cut.start()
    yield text[start:]
