"""Cleaning: what is done to every text before any step looks at it.

Line ends become line feeds, control characters go, and the rest is brought to Unicode's NFC. No
visible character is changed, no white space folded: code keeps its indentation.
"""

import re
import unicodedata

_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f]")
_SUSPECT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_BYTE_ORDER_MARK = "\ufeff"


def clean_text(text: str) -> str:
    r"""Give the text in NFC with line feeds as its only line ends and without control characters.

    "\ufeffe\u0301\r\n\x00b\tc" -> "é\nb\tc"

    Cleaning what is clean changes nothing.
    """
    if _SUSPECT.search(text):  # rare, and one search costs less than two substitutions
        text = _CONTROLS.sub("", _LINE_ENDS.sub("\n", text))
    return unicodedata.normalize("NFC", text.lstrip(_BYTE_ORDER_MARK))
