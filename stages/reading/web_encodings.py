r"""The encodings of the web: all labels of the WHATWG Encoding Standard, with its tables.

Python has codecs for most of them, whose tables differ in some hundred characters: windows-1252 without
five controls, Big5 without the characters of ETEN, EUC-JP without row 13. `web_encodings.json` has the
labels and these differences; `release/web_encodings.py` makes it.

    web_encoding("Windows-31J")                  -> "shift_jis"
    decoded_web(b"\x1b$B@n\x1b(B", "iso-2022-jp") -> "川"

Source: WHATWG, Encoding Standard, sections 4.2 (names and labels), 5 (indexes), 9 to 14 (decoders).
"""

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

DATA = Path(__file__).with_name("web_encodings.json")
UTF_8, UTF_16_LE, UTF_16_BE = "utf-8", "utf-16le", "utf-16be"
REPLACEMENT = "replacement"
"""What labels mean that no text is read by, since scripts were hidden in it."""
USER_DEFINED = "x-user-defined"
ISO_2022_JP = "iso-2022-jp"
_WHITE = "\t\n\f\r "
CODECS = {
    "big5": "big5hkscs",
    "euc-jp": "euc_jp",
    "euc-kr": "cp949",
    "gb18030": "gb18030",
    "gbk": "gb18030",
    "ibm866": "cp866",
    **{f"iso-8859-{n}": f"iso8859-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    "iso-8859-8-i": "iso8859-8",
    "koi8-r": "koi8-r",
    "koi8-u": "koi8-u",
    "macintosh": "mac-roman",
    "shift_jis": "cp932",
    "windows-874": "cp874",
    **{f"windows-{n}": f"cp{n}" for n in range(1250, 1259)},
    "x-mac-cyrillic": "mac-cyrillic",
}
"""Python's codec of each encoding that has one."""
_DOUBLE = rb"[\x81-\xfe][\x40-\x7e\x80-\xfe]"
_FOUR = rb"[\x81-\xfe][\x30-\x39][\x81-\xfe][\x30-\x39]"
_CHARACTERS = {
    "big5": _DOUBLE,
    "euc-jp": rb"\x8f[\xa1-\xfe]{2}|\x8e[\xa1-\xdf]|[\xa1-\xfe]{2}",
    "euc-kr": _DOUBLE,
    "gb18030": rb"%s|%s|\x80" % (_FOUR, _DOUBLE),
    "gbk": rb"%s|%s|\x80" % (_FOUR, _DOUBLE),
    "shift_jis": rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]|[\xa1-\xdf]|\x80",
}
"""The bytes of one character; of all other encodings each is one byte."""
_STATES = re.compile(rb"\x1b(?:\(B|\(J|\(I|\$@|\$B)")
_ASCII, _ROMAN, _KATAKANA = b"\x1b(B", b"\x1b(J", b"\x1b(I"
_PLAIN = re.compile(rb"[\x00-\x0d\x10-\x1a\x1c-\x7f]*")
_HALF_WIDTH = re.compile(rb"[\x21-\x5f]*")
_PAIRS = re.compile(rb"(?:[\x21-\x7e]{2})*")
_HIGH = bytes(byte | 0x80 for byte in range(0x80))
"""Turns the bytes of ISO-2022-JP into those of EUC-JP, which has the same index."""


def web_encoding(label: str) -> str | None:
    """Return the encoding that a label means, in lower case; None if the standard has no such label."""
    found: str | None = _data()["labels"].get(label.strip(_WHITE).lower())
    return found


def decoded_web(data: bytes, name: str) -> str:
    """Return text in an encoding of the web.

    Args:
        data: the bytes, without a byte order mark.
        name: of the encoding, as `web_encoding` gives it; not `REPLACEMENT`.

    Raises:
        UnicodeDecodeError: some bytes are no character of the encoding.
    """
    if name == ISO_2022_JP:
        return _decoded_states(data)
    if name == USER_DEFINED:
        return data.decode("latin-1").translate(_user_defined())
    if name in (UTF_8, UTF_16_LE, UTF_16_BE):
        return data.decode(name)
    if name not in _data()["differences"]:
        return data.decode(CODECS[name])
    return _decoded_by_table(data, name)


@functools.cache
def _data() -> dict[str, dict]:  # type: ignore[type-arg]  # JSON of two levels
    content: dict[str, dict] = json.loads(DATA.read_text("utf-8"))  # type: ignore[type-arg]
    return content


@functools.cache
def _differences(name: str) -> dict[bytes, str | None]:
    return {bytes.fromhex(digits): text for digits, text in _data()["differences"][name].items()}


@functools.cache
def _tokens(name: str) -> re.Pattern[bytes]:
    """Return what finds runs of ASCII, and single characters that are none."""
    return re.compile(rb"[\x00-\x7f]+|%s" % _CHARACTERS.get(name, rb"[\x80-\xff]"), re.DOTALL)


@functools.cache
def _different(name: str) -> re.Pattern[bytes]:
    """Return what finds bytes that may be a character that Python's codec reads otherwise."""
    found = sorted(_differences(name), key=len, reverse=True)
    return re.compile(b"|".join(map(re.escape, found)))


def _decoded_by_table(data: bytes, name: str) -> str:
    """Return text by Python's codec, and by the differences where it has such."""
    codec, differences = CODECS[name], _differences(name)
    if not _different(name).search(data):
        return data.decode(codec)
    parts, at = [], 0
    for token in _tokens(name).finditer(data):
        if token.start() != at:
            break
        at, found = token.end(), token[0]
        text = differences[found] if found in differences else found.decode(codec)
        if text is None:
            raise UnicodeDecodeError(name, data, token.start(), at, "no character of the encoding")
        parts.append(text)
    if at != len(data):
        raise UnicodeDecodeError(name, data, at, at + 1, "no character of the encoding")
    return "".join(parts)


@functools.cache
def _user_defined() -> dict[int, int]:
    return {byte: 0xF780 + byte - 0x80 for byte in range(0x80, 0x100)}


class WebDecoder:
    """Decodes a stream in an encoding of the web, cut anywhere; a byte that is none is a lone surrogate.

    Args:
        name: of the encoding; not UTF-8 or UTF-16.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._held = b""
        """Bytes of a character, or of an escape sequence, that is not whole."""
        self._state = _ASCII

    def decode(self, data: bytes, *, final: bool = False) -> str:
        """Return the text of the next bytes, as far as its characters are whole."""
        data = self._held + data
        end = len(data) if final else _whole_until(data, self._name)
        data, self._held = data[:end], data[end:]
        if self._name == ISO_2022_JP:
            return self._of_states(data)
        try:
            return decoded_web(data, self._name)
        except UnicodeDecodeError:
            return "".join(_each_or_surrogate(data, self._name))

    def _of_states(self, data: bytes) -> str:
        parts, at = [], 0
        for escape in (*_STATES.finditer(data), None):
            end = len(data) if escape is None else escape.start()
            try:
                parts.append(_of_state(data, at, end, self._state))
            except UnicodeDecodeError:
                parts += [_surrogate(byte) if byte > _SPACE else chr(byte) for byte in data[at:end]]
            if escape is not None:
                at, self._state = escape.end(), escape[0]
        return "".join(parts)


def _whole_until(data: bytes, name: str) -> int:
    """Return how many bytes hold whole characters; white space is never a part of another one."""
    if name not in _CHARACTERS and name != ISO_2022_JP:
        return len(data)
    for place in range(len(data) - 1, max(-1, len(data) - 1 - _NEAR), -1):
        if data[place] <= _SPACE and data[place] != _ESCAPE:
            return place + 1
    return 0 if len(data) < _LONG else len(data) - len(data) % 2


_NEAR, _LONG = 1 << 16, 1 << 20
"""Bytes in which the last white space is looked for, and that are held without any."""
_SPACE, _ESCAPE = 0x20, 0x1B


def _each_or_surrogate(data: bytes, name: str) -> Iterator[str]:
    """Yield the text of runs of bytes, and a lone surrogate for each byte that is no character."""
    at = 0
    for token in _tokens(name).finditer(data):
        yield from map(_surrogate, data[at : token.start()])
        try:
            yield decoded_web(token[0], name)
        except UnicodeDecodeError:
            yield from (chr(byte) if byte < 0x80 else _surrogate(byte) for byte in token[0])  # noqa: PLR2004
        at = token.end()
    yield from map(_surrogate, data[at:])


def _surrogate(byte: int) -> str:
    return chr(0xDC00 + byte)


def _decoded_states(data: bytes) -> str:
    """Return text in ISO-2022-JP, whose escape sequences say which characters the bytes behind are."""
    parts, state, at = [], _ASCII, 0
    escape: re.Match[bytes] | None = None
    for escape in (*_STATES.finditer(data), None):
        end = len(data) if escape is None else escape.start()
        if escape is not None and at == end and at:
            raise UnicodeDecodeError(ISO_2022_JP, data, at, at + 3, "two escape sequences in a row")
        parts.append(_of_state(data, at, end, state))
        if escape is not None:
            at, state = escape.end(), escape[0]
    return "".join(parts)


def _of_state(data: bytes, begin: int, end: int, state: bytes) -> str:
    """Return the text of the bytes between two escape sequences."""
    run = data[begin:end]
    if state in (_ASCII, _ROMAN):
        fits = _PLAIN.match(run)
    else:
        fits = (_HALF_WIDTH if state == _KATAKANA else _PAIRS).match(run)
    assert fits is not None, "each matches nothing"
    if fits.end() != len(run):
        place = begin + fits.end()
        raise UnicodeDecodeError(ISO_2022_JP, data, place, place + 1, "no character of its state")
    if state == _ASCII:
        return run.decode("ascii")
    if state == _ROMAN:
        return run.decode("ascii").replace("\\", "¥").replace("~", "‾")
    if state == _KATAKANA:
        return "".join(chr(0xFF61 - 0x21 + byte) for byte in run)
    return _decoded_by_table(run.translate(_HIGH + bytes(range(0x80, 0x100))), "euc-jp")
