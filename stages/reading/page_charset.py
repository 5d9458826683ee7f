"""The charset of a page: what its byte order mark, its server or the page itself says.

    a byte order mark                   UTF-8, UTF-16 or UTF-32, whatever a label says
    UTF-8 with other bytes than ASCII   UTF-8, whatever a label says
    7-bit text                          ASCII; ISO-2022-JP if a label says so and it has escape sequences
    all else                            as the server's label says, or else the page's

Labels that browsers read as nothing (ISO-2022-KR, HZ), and those that nobody knows, give no text.

Source: WHATWG, Encoding Standard, section 4.2; HTML, section 13.2.3, determining the character encoding.
"""

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from stages.reading.encodings import UTF_8, foreign_encoding
from stages.reading.meta_labels import label_of_xml, labels_before_parsing, labels_while_parsing
from stages.reading.web_decoder import decoded_web
from stages.reading.web_encodings import (
    ISO_2022_JP,
    REPLACEMENT,
    USER_DEFINED,
    UTF_16_BE,
    UTF_16_LE,
    web_encoding,
)

_IN_PAGES = {UTF_16_LE: UTF_8, UTF_16_BE: UTF_8, USER_DEFINED: "windows-1252"}
"""What a page means that names these: its head was read, so it is in no UTF-16."""
_SEVEN_BITS = re.compile(r"utf-?7|unicode-[12]-[01]-utf-7|csutf7|hz|iso-?646-(?!us)", re.IGNORECASE)
"""Begins labels of 7 bits that no browser reads, in which ASCII bytes mean other characters too."""
_STATES = re.compile(rb"[\x0e\x0f\x1b]|~\{")
"""What begins other characters in texts of 7 bits."""
_SHOWN = 40
"""Characters of a label that a message shows."""
_Label = tuple[str, str | None]
"""A label, and the encoding that it means; None if nobody knows it."""


class CharsetError(ValueError):
    """A text names a charset that no browser reads."""


def decoded_page(data: bytes, charset: str = "") -> str:
    """Return a page as text, as its byte order mark, its server or the page itself says.

    UTF-8 that is not of 7 bits alone is read as such, whatever a label says. Text of 7 bits is read by a
    label only if that means other characters. Labels are those of the Encoding Standard (WHATWG).

    Raises:
        CharsetError: it needs a label, and none that it names is read.
        ValueError: it is in no charset that it names.
    """
    return _decoded(data, charset, is_page=True)


def decoded_text(data: bytes, charset: str) -> str:
    """Return a plain text in the charset that its server says, in the same way.

    Raises:
        CharsetError: it needs that label, which is not read.
        ValueError: it is not in that charset.
    """
    return _decoded(data, charset, is_page=False)


def _decoded(data: bytes, charset: str, *, is_page: bool) -> str:
    marked = foreign_encoding(data)
    if marked is not None:
        return _decoded_as_marked(data, marked)
    if data.startswith(codecs.BOM_UTF8):
        return _decoded_as_marked(data, UTF_8)
    if data.isascii():
        needs_one = bool(_STATES.search(data))
        return _of_seven_bits(data, list(_labels(data, charset, is_page=is_page, needs_one=needs_one)))
    try:
        return data.decode(UTF_8)
    except UnicodeDecodeError as error:
        if _is_of_a_source(data):
            raise ValueError("has bytes that are no characters of its encoding") from error
        labels = _labels(data, charset, is_page=is_page, needs_one=True)
        return _decoded_as_named(data, labels, f"byte {error.start:,}, 0x{data[error.start]:02x}")


def _decoded_as_marked(data: bytes, name: str) -> str:
    """Return a text whose first bytes say in which UTF it is."""
    try:
        return data.decode(name).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        place = f"byte {error.start:,}, 0x{data[error.start]:02x}"
        raise ValueError(f"is not in {name.upper()} ({place}), as its first bytes say") from error


def _is_of_a_source(data: bytes) -> bool:
    """Say whether a text was in the declared encoding of its source, but for some bytes.

    Each of them is a lone surrogate by now, or a byte at the end. No label says anything of such a text.
    """
    rest = data.removesuffix(b"\xff")
    try:
        return not rest.isascii() and bool(rest.decode(UTF_8, "surrogatepass"))
    except UnicodeDecodeError:
        return False


def _labels(data: bytes, charset: str, *, is_page: bool, needs_one: bool) -> Iterator[_Label]:
    """Yield the labels of a text, the server's first.

    Of those that a page itself says, browsers take the first that is known, so it is the last here.

    Args:
        data: the text.
        charset: what its server says; empty if it says nothing.
        is_page: whether it is HTML.
        needs_one: whether it has bytes that need a label, for which all of a page is looked at.
    """
    if charset.strip():
        yield charset.strip(), web_encoding(charset)
    if not is_page:
        return
    places: list[Iterator[str]] = [labels_while_parsing(data)] if needs_one else []
    for label in chain.from_iterable([*places, labels_before_parsing(data)]):
        found = web_encoding(label)
        yield label.strip(), _IN_PAGES.get(found, found) if found else None
        if found:
            return
    if declared := label_of_xml(data):
        found = web_encoding(declared)
        yield declared, UTF_8 if found in (UTF_16_LE, UTF_16_BE) else found


def _decoded_as_named(data: bytes, labels: Iterable[_Label], place: str) -> str:
    """Return a text that is no UTF-8 in the first encoding that it names and fits.

    Args:
        data: the text.
        labels: what it names.
        place: the byte that is no UTF-8, for people.
    """
    met = []
    for label, name in labels:
        met.append((label, name))
        if name == REPLACEMENT:
            break
        if name is not None:
            try:
                return decoded_web(data, name)
            except UnicodeDecodeError:
                continue
    if unread := _first_unread(met):
        raise CharsetError(f"is not in UTF-8 ({place}) and names {unread}")
    raise ValueError(f"is not in UTF-8 ({place}) nor in a charset that it names")


def _of_seven_bits(data: bytes, labels: Sequence[_Label]) -> str:
    """Return a text whose bytes are all of 7 bits: ASCII, unless its label means other characters.

    A page in ISO-2022-JP is read so although its server may say something else: its escape sequences
    are no text in any other encoding.
    """
    names = [name for _, name in labels if name is not None]
    has_states = bool(_STATES.search(data))
    if ISO_2022_JP in names and has_states:
        try:
            return decoded_web(data, ISO_2022_JP)
        except UnicodeDecodeError as error:
            if names[0] == ISO_2022_JP:
                raise ValueError(
                    f"is not in the charset iso-2022-jp that it names (byte {error.start:,},"
                    f" 0x{data[error.start]:02x}: {error.reason})"
                ) from error
    needs_label = has_states or any(_SEVEN_BITS.match(label) for label, _ in labels)
    if names[:1] == [REPLACEMENT] or (not names and needs_label and labels):
        raise CharsetError(f"names {_first_unread(labels)}")
    return data.decode("ascii")


def _first_unread(labels: Sequence[_Label]) -> str:
    """Return, for people, the label because of which a text is not read; empty if there is none."""
    unread = [label for label, name in labels if name == REPLACEMENT]
    unread += [label for label, name in labels if name is None]
    return f"{unread[0][:_SHOWN]!r}, which no browser reads" if unread else ""
