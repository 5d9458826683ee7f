r"""Printable text: what a terminal would obey, and what would turn a line around, is written out.

    a file named "\x1b[2J.jsonl"       the four characters \x1b stand in the line instead
    a language "en\nverify: PASS"      \n stands there, so one line stays one line

Names of files, ids, languages and texts are other people's, and so are the messages that quote them.
"""

import json
import re
from pathlib import Path

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL and C1
    "\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"  # ends of lines, order of letters
    "\ufeff\ufff9-\ufffb\ud800-\udfff]"  # invisible marks; halves of characters, which no stream takes
)
_NAMES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


_MOST_NAMED = 16
_NAMED: dict[str, str] = {}
"""Folders that people know by another name: the tree of a run in a store by its URL."""


def name_folder(folder: Path, name: str) -> None:
    """Show a folder by another name from now on; of very many, the last ones."""
    _NAMED[str(folder)] = name
    while len(_NAMED) > _MOST_NAMED:
        del _NAMED[next(iter(_NAMED))]


def as_known(text: str) -> str:
    """Return a text in which folders have the names by which people know them."""
    for folder, name in _NAMED.items():
        text = text.replace(folder, name)
    return text


def printable(text: str) -> str:
    r"""Return a text as one line that a terminal shows and does not obey.

    "a\x1b[31mb\n" -> "a\\x1b[31mb\\n"
    """
    return _UNSAFE.sub(_escape, as_known(text))


def printable_json(value: object, *, ascii_only: bool = False) -> str:
    """Return JSON for machines that a terminal shows and does not obey; it reads back as the value."""
    text = as_known(json.dumps(value, indent=1, ensure_ascii=ascii_only))
    return _UNSAFE.sub(lambda found: found[0] if found[0] == "\n" else _escape_json(found), text)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    if character in _NAMES:
        return _NAMES[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"  # noqa: PLR2004  # two digits


def _escape_json(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def show_bytes(size: float) -> str:
    """Return a size as people read it.

    1610612736 -> "1.5 GiB"
    """
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:  # noqa: PLR2004  # the step between units
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"
