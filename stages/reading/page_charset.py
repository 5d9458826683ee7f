"""The charset of a page: what its byte order mark, its server or the page itself says.

    UTF-8 with other bytes than ASCII   UTF-8, whatever a label says
    7-bit text                          ASCII; ISO-2022-JP if a label says so and it has escape sequences
    all else                            as the server's label says, or else the page's

Labels that browsers read as nothing (ISO-2022-KR, HZ), and those that nobody knows, give no text.

Source: WHATWG, Encoding Standard, section 4.2; HTML, section 13.2.3, determining the character encoding.
"""

import codecs
import re

from stages.reading.encodings import UTF_8, foreign_encoding
from stages.reading.web_encodings import (
    ISO_2022_JP,
    REPLACEMENT,
    USER_DEFINED,
    UTF_16_BE,
    UTF_16_LE,
    decoded_web,
    web_encoding,
)

_HEAD = 1024
"""Bytes of a page in which its charset is, by the standard of HTML."""
_COMMENT = re.compile(rb"<!--.*?(?:-->|$)", re.DOTALL)
_META = re.compile(rb"<meta[\s/][^>]*", re.IGNORECASE)
_CHARSET = re.compile(rb"charset\s*=\s*[\"']?\s*([^\s\"'>;/]+)", re.IGNORECASE)
_XML = re.compile(rb"<\?xml\s[^>]*?encoding\s*=\s*[\"']([^\"'>]+)", re.IGNORECASE)
_UTF_7 = ("utf-7", "unicode-1-1-utf-7", "csutf7", "utf7")
"""Labels of an encoding of 7 bits that no browser reads any more: scripts were hidden in it."""
_STATES = re.compile(rb"[\x0e\x0f\x1b]")
"""What begins other characters in texts of 7 bits."""
_SHOWN = 40
"""Characters of a label that a message shows."""


class CharsetError(ValueError):
    """A page names a charset that no browser reads."""


def decoded_page(data: bytes, charset: str = "") -> str:
    """Return a page as text, as its byte order mark, its server or the page itself says.

    UTF-8 that is not of 7 bits alone is read as such, whatever a label says. Text of 7 bits is read by a
    label only if that means other characters. Labels are those of the Encoding Standard (WHATWG).

    Raises:
        CharsetError: it needs a label, and none that it names is read.
        ValueError: it is in no charset that it names.
    """
    marked = foreign_encoding(data)
    if marked is not None:
        return data.decode(marked).removeprefix("\ufeff")
    labels = list(dict.fromkeys(filter(None, (charset.strip(), _label_of(data)))))
    names = [name for label in labels if (name := _encoding_of(label, charset)) is not None]
    try:
        page = data.removeprefix(codecs.BOM_UTF8).decode(UTF_8)
    except UnicodeDecodeError as error:
        return _decoded_as_named(data, labels, names, error)
    if not data.isascii() or data.startswith(codecs.BOM_UTF8):
        return page
    return _of_seven_bits(data, page, labels, names)


def _decoded_as_named(
    data: bytes, labels: list[str], names: list[str], error: UnicodeDecodeError
) -> str:
    """Return a page that is no UTF-8 in the first encoding that it names and fits."""
    for name in names:
        if name == REPLACEMENT:
            break
        try:
            return decoded_web(data, name)
        except UnicodeDecodeError:
            continue
    place = f"byte {error.start:,}, 0x{data[error.start]:02x}"
    unread = [label for label in labels if web_encoding(label) in (None, REPLACEMENT)]
    if unread:
        raise CharsetError(
            f"is not in UTF-8 ({place}) and names {unread[0][:40]!r}, which no browser reads"
        )
    raise ValueError(f"is not in UTF-8 ({place}) nor in a charset that it names")


def _of_seven_bits(data: bytes, page: str, labels: list[str], names: list[str]) -> str:
    """Return a page whose bytes are all of 7 bits: ASCII, unless its label means other characters."""
    for name in names:
        if name == ISO_2022_JP and _STATES.search(data):
            try:
                return decoded_web(data, name)
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"is not in the charset iso-2022-jp that it names ({error.reason})"
                ) from error
        if name == REPLACEMENT:
            raise CharsetError(f"names {_unread(labels[0])}")
        return page
    if labels and (_STATES.search(data) or labels[0].lower() in _UTF_7):
        raise CharsetError(f"names {_unread(labels[0])}")
    return page


def _label_of(data: bytes) -> str:
    """Return the charset that a page says in its head. Source: WHATWG, HTML, 13.2.3.2, prescan."""
    head = _COMMENT.sub(b"", data[:_HEAD])
    for tag in _META.finditer(head):
        if found := _CHARSET.search(tag[0]):
            return found[1].decode("latin-1")
    found = _XML.match(head)
    return "" if found is None else found[1].decode("latin-1")


def _encoding_of(label: str, charset: str) -> str | None:
    """Return the encoding that a label means; in a page UTF-16 is UTF-8, since its head was read."""
    found = web_encoding(label)
    if label != charset.strip():
        if found in (UTF_16_LE, UTF_16_BE):
            return UTF_8
        if found == USER_DEFINED:
            return "windows-1252"
    return found


def _unread(label: str) -> str:
    return f"{label[:_SHOWN]!r}, which no browser reads"
