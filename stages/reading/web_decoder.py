r"""Decoding by the tables of the web: whole texts, and streams that are cut anywhere.

    decoded_web(b"\x1b$B@n\x1b(B", "iso-2022-jp") -> "川"

A text with bytes that are no character raises an error. In a stream each such byte becomes a lone
surrogate, so that it costs the record that it is in. Line ends are kept, so it costs no other one.

ISO-2022-JP has states, which escape sequences change. A state lasts over line ends, as in the standard.
A line end is no character of the states of two bytes and of katakana, so such a line is bad.

Source: WHATWG, Encoding Standard, sections 9 to 14 (decoders).
"""

import re
from collections.abc import Iterator

from stages.reading.web_encodings import (
    ISO_2022_JP,
    characters,
    decoded_by_name,
    longest_character,
    next_character,
)

_ESCAPE = re.compile(rb"\x1b(?:\([BIJ]|\$[@B])")
_ESCAPE_BYTES, _BEGIN = 3, 0x1B
_ASCII, _ROMAN, _KATAKANA = b"\x1b(B", b"\x1b(J", b"\x1b(I"
_PLAIN = re.compile(rb"[\x00-\x0d\x10-\x1a\x1c-\x7f]*+")
_HALF_WIDTH = re.compile(rb"[\x21-\x5f]*+")
_PAIRS = re.compile(rb"(?:[\x21-\x7e]{2})*+")
_PATTERNS = {_ASCII: _PLAIN, _ROMAN: _PLAIN, _KATAKANA: _HALF_WIDTH}
"""What the bytes of a state are; in all other states, two are a character."""
_HIGH = bytes(byte | 0x80 for byte in range(0x80)) + bytes(range(0x80, 0x100))
"""Turns the bytes of ISO-2022-JP into those of EUC-JP, which has the same index."""
_SPACE, _FIRST_HIGH = 0x20, 0x80
_Part = tuple[int, int, str | None]
"""Begin and end of some bytes, and their text; None if they are no character."""


def decoded_web(data: bytes, name: str) -> str:
    """Return text in an encoding of the web.

    Args:
        data: the bytes, without a byte order mark.
        name: of the encoding, as `web_encoding` gives it; not `replacement`.

    Raises:
        UnicodeDecodeError: some bytes are no character of the encoding.
    """
    if name != ISO_2022_JP:
        return decoded_by_name(data, name)
    parts = []
    for begin, end, text in States().parts(data, final=True):
        if text is None:
            raise UnicodeDecodeError(name, data, begin, end, "no character of its state")
        parts.append(text)
    return "".join(parts)


class WebDecoder:
    """Decodes a stream in an encoding of the web, cut anywhere; a byte that is none is a lone surrogate.

    Args:
        name: of the encoding; neither UTF-8 nor UTF-16.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._begun = b""
        """Bytes of a character, or of an escape sequence, that is not whole."""
        self._states = States()

    def decode(self, data: bytes, *, final: bool = False) -> str:
        """Return the text of the next bytes, as far as its characters are whole."""
        data, end, parts = self._begun + data, 0, []
        decode_parts = self._states.parts if self._name == ISO_2022_JP else self._parts
        for begin, end, text in decode_parts(data, final=final):
            parts.append(_surrogates(data[begin:end]) if text is None else text)
        self._begun = data[end:]
        return "".join(parts)

    def _parts(self, data: bytes, *, final: bool) -> Iterator[_Part]:
        at, whole, longest = 0, characters(self._name), longest_character(self._name)
        while at < len(data):
            found = whole.match(data, at)
            assert found is not None, "it matches nothing"
            yield from self._decoded(data, at, found.end())
            at = found.end()
            if at == len(data) or (not final and len(data) - at < longest):
                return
            yield at, at + 1, None
            at += 1

    def _decoded(self, data: bytes, begin: int, end: int) -> Iterator[_Part]:
        """Yield the text of bytes that may be characters, or each of them, if some are none."""
        try:
            yield begin, end, decoded_by_name(data[begin:end], self._name)
        except UnicodeDecodeError:
            for found in next_character(self._name).finditer(data, begin, end):
                begin, end = found.span()
                try:
                    yield begin, end, decoded_by_name(found[0], self._name)
                except UnicodeDecodeError:
                    is_ascii_last = data[end - 1] < _FIRST_HIGH  # such a byte is a character again
                    yield begin, end - is_ascii_last, None
                    yield end - is_ascii_last, end, chr(data[end - 1]) if is_ascii_last else ""


class States:
    """The states of ISO-2022-JP in a stream."""

    def __init__(self) -> None:
        self._state = _ASCII
        self._has_switched = False
        """Whether an escape sequence is all since the last character."""

    def parts(self, data: bytes, *, final: bool) -> Iterator[_Part]:
        """Yield the parts of bytes; without `final`, as far as their characters are whole."""
        at = 0
        while at < len(data):
            end = at
            for part in self._decoded(data, at):
                self._has_switched = False
                yield part
                end = part[1]
            if end > at:
                at = end
                continue
            if escape := _ESCAPE.match(data, at):
                end = escape.end()
                yield at, end, None if self._has_switched else ""
                self._state, self._has_switched, at = escape[0], True, end
                continue
            if not final and len(data) - at < (_ESCAPE_BYTES if data[at] == _BEGIN else self._width):
                return
            self._has_switched = False
            yield at, at + 1, None
            at += 1

    @property
    def _width(self) -> int:
        """How many bytes a character of the state has."""
        return 1 if self._state in _PATTERNS else 2

    def _decoded(self, data: bytes, begin: int) -> Iterator[_Part]:
        """Yield the text of the bytes that fit the state, before the next escape sequence."""
        found = _PATTERNS.get(self._state, _PAIRS).match(data, begin)
        assert found is not None, "it matches nothing"
        if not found[0]:
            return
        if self._state in (_ASCII, _ROMAN):
            text = found[0].decode("ascii")
            roman = self._state == _ROMAN
            yield begin, found.end(), text.replace("\\", "¥").replace("~", "‾") if roman else text
        elif self._state == _KATAKANA:
            yield begin, found.end(), "".join(chr(0xFF61 - 0x21 + byte) for byte in found[0])
        else:
            yield from _of_pairs(data, begin, found.end())


def _of_pairs(data: bytes, begin: int, end: int) -> Iterator[_Part]:
    try:
        yield begin, end, decoded_by_name(data[begin:end].translate(_HIGH), "euc-jp")
    except UnicodeDecodeError:
        for at in range(begin, end, 2):
            try:
                text = decoded_by_name(data[at : at + 2].translate(_HIGH), "euc-jp")
            except UnicodeDecodeError:
                yield at, at + 2, None
            else:
                yield at, at + 2, text


def _surrogates(data: bytes) -> str:
    """Return lone surrogates for bytes that are no character, and white space and controls behind."""
    return "".join(chr(0xDC00 + byte) + (chr(byte) if byte <= _SPACE else "") for byte in data)
