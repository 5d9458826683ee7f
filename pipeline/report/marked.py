"""Marked: two texts side by side, with the words marked in which one differs from the other."""

import re
from difflib import SequenceMatcher

from markupsafe import Markup, escape

from pipeline.system.printable import printable

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


def marked(text: str, other: str | None) -> Markup:
    """Return a text as HTML; words that another text does not have at that place stand in <mark>."""
    if other is None or other == text:
        return escape(printable(text))
    words, others = _WORDS.findall(text), _WORDS.findall(other)
    parts = []
    for kind, first, last, _, _ in SequenceMatcher(None, words, others, autojunk=False).get_opcodes():
        part = escape(printable("".join(words[first:last])))
        parts.append(
            part if kind == "equal" or not part.strip() else Markup("<mark>{}</mark>").format(part)
        )
    return Markup("").join(parts)
