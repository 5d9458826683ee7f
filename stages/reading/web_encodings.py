r"""The encodings of the web: all labels of the WHATWG Encoding Standard, with its tables.

Python has codecs for most of them, whose tables differ in some hundred characters: windows-1252 without
five controls, Big5 without the characters of ETEN, EUC-JP without row 13. `web_encodings.json` has the
labels and these differences; `release/web_encodings.py` makes it.

    web_encoding("Windows-31J")                  -> "shift_jis"
    decoded_by_name(b"\x90\xec", "shift_jis")     -> "川"

Source: WHATWG, Encoding Standard, sections 4.2 (names and labels), 5 (indexes), 9 to 14 (decoders).
"""

import codecs
import functools
import json
import re
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
_NONE = "\ufffe"
"""What codecs take for no character."""
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


def web_encoding(label: str) -> str | None:
    """Return the encoding that a label means, in lower case; None if the standard has no such label."""
    if not label.isascii():
        return None
    found: str | None = _data()["labels"].get(label.strip(_WHITE).lower())
    return found


def decoded_by_name(data: bytes, name: str) -> str:
    """Return text in an encoding of the web.

    Args:
        data: the bytes, without a byte order mark.
        name: of the encoding, as `web_encoding` gives it; neither `REPLACEMENT` nor `ISO_2022_JP`.

    Raises:
        UnicodeDecodeError: some bytes are no character of the encoding.
    """
    if name in (UTF_8, UTF_16_LE, UTF_16_BE):
        return data.decode(name)
    if name not in _CHARACTERS:
        return codecs.charmap_decode(data, "strict", _single_bytes(name))[0]
    if name not in _data()["differences"]:
        return data.decode(CODECS[name])
    return _decoded_by_table(data, name)


def next_character(name: str) -> re.Pattern[bytes]:
    """Return what matches the bytes that may be one character of an encoding with a table."""
    return _pattern(rb"[\x00-\x7f]|%s" % _high(name))


def characters(name: str) -> re.Pattern[bytes]:
    """Return what matches as many of them as follow each other."""
    return _pattern(rb"(?:[\x00-\x7f]|%s)*+" % _high(name))


def longest_character(name: str) -> int:
    """Return how many bytes a character has at most."""
    return 1 if name not in _CHARACTERS else 4 if name.startswith("gb") else 3


@functools.cache
def _data() -> dict[str, dict]:  # type: ignore[type-arg]  # JSON of two levels
    content: dict[str, dict] = json.loads(DATA.read_text("utf-8"))  # type: ignore[type-arg]
    return content


@functools.cache
def _differences(name: str) -> dict[bytes, str | None]:
    return {bytes.fromhex(digits): text for digits, text in _data()["differences"].get(name, {}).items()}


def _high(name: str) -> bytes:
    return _CHARACTERS.get(name, rb"[\x80-\xff]")


@functools.cache
def _pattern(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern, re.DOTALL)


@functools.cache
def _different(name: str) -> bytes:
    """Return a pattern of the characters that Python's codec reads otherwise."""
    last: dict[bytes, bytes] = {}
    for found in _differences(name):
        last[found[:-1]] = last.get(found[:-1], b"") + re.escape(found[-1:])
    longest_first = sorted(last, key=lambda begin: (-len(begin), begin))
    return b"|".join(b"%s[%s]" % (re.escape(begin), last[begin]) for begin in longest_first)


def _decoded_by_table(data: bytes, name: str) -> str:
    """Return text by Python's codec, and by the differences where it has such."""
    codec, differences, different = CODECS[name], _differences(name), _different(name)
    if not _pattern(different).search(data):
        return data.decode(codec)
    alike = _pattern(rb"(?:[\x00-\x7f]|(?!%s)(?:%s))*+" % (different, _high(name)))
    other = _pattern(different)
    parts, at = [], 0
    while at < len(data):
        decoded = alike.match(data, at)
        assert decoded is not None, "it matches nothing"
        parts.append(decoded[0].decode(codec))
        at = decoded.end()
        found = other.match(data, at)
        if found is not None and (text := differences[found[0]]) is not None:
            parts.append(text)
            at = found.end()
        elif at < len(data):
            raise UnicodeDecodeError(name, data, at, at + 1, "no character of the encoding")
    return "".join(parts)


@functools.cache
def _single_bytes(name: str) -> str:
    r"""Return the characters of an encoding of single bytes, "\ufffe" of bytes that are none."""
    low = bytes(range(0x80)).decode("ascii")
    if name == USER_DEFINED:
        return low + "".join(chr(0xF780 + place) for place in range(0x80))
    high = (bytes([byte]) for byte in range(0x80, 0x100))
    differences = _differences(name)
    return low + "".join(
        differences.get(byte, byte.decode(CODECS[name], "ignore")) or _NONE for byte in high
    )
