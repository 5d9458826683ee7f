"""Encodings: text in other encodings than UTF-8, as its source declares it, is read as UTF-8.

Readers see UTF-8 alone. A byte that the encoding does not know becomes one that is no UTF-8, so it
costs the record that it stands in and no other. Positions are those in the text as UTF-8. Undeclared
UTF-16 and UTF-32 is told by its byte order mark, or by the zeros of its first characters.

In the flow: decompressed bytes -> **UTF-8** -> lines, records.
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from stages.reading.faults import ContentError
from stages.reading.web_decoder import WebDecoder
from stages.reading.web_encodings import REPLACEMENT, UTF_16_BE, UTF_16_LE, web_encoding

UTF_8 = "utf-8"
_KNOWN = re.compile(
    r"utf-(8|16|32)(-[lb]e)?|ascii|iso8859-\d+|cp\d+|mac-\w+|koi8-\w|kz1048|ptcp154|tis-620|hp-roman8"
    r"|gb2312|gbk|gb18030|big5(hkscs)?|euc_\w+|shift_jis\w*|johab"
)
"""As Python's codecs name them. None has states, which a bad byte would change for all that follows."""
_LATER_NAMES = {"windows-31j": "cp932"}
"""What Python knows from 3.13 on, so that a name means the same for every version."""
_WEB = "whatwg-"
"""Begins the names of encodings that Python's codecs do not know, with the tables of browsers."""
_UNICODE = {UTF_8: UTF_8, UTF_16_LE: "utf-16-le", UTF_16_BE: "utf-16-be"}
"""Of the web too, and read by Python's codecs."""
_MARKS = {
    b"\xff\xfe\0\0": ("utf-32", "utf-32-le"),
    b"\0\0\xfe\xff": ("utf-32", "utf-32-be"),
    b"\xff\xfe": ("utf-16", "utf-16-le"),
    b"\xfe\xff": ("utf-16", "utf-16-be"),
}
"""Byte order marks: the encoding that each means, and with its order. UTF-32's begins as UTF-16's."""
_LONGEST_MARK = 4
_HEAD, _LEAST = 64, 8
"""Bytes that are looked at, and of which at least so many, where there is no mark."""
_BAD = b"\xff"
"""What is no UTF-8, in place of bytes that are no text."""


def known_encoding(name: str) -> str:
    """Return the one name of an encoding: "UTF8", "utf-8-sig" -> "utf-8", "latin-1" -> "iso8859-1".

    Raises:
        ValueError: it is none that is read.
    """
    name = _LATER_NAMES.get(name.lower().replace("_", "-"), name)
    try:
        found = codecs.lookup(name).name.removesuffix("-sig")
    except (LookupError, ValueError):
        found = ""
    if not _KNOWN.fullmatch(found) and (web := _web_encoding(name)) is not None:
        return web
    if not _KNOWN.fullmatch(found):
        raise ValueError(
            "is no encoding that is read; known are utf-8, utf-16, utf-32, cp1252, latin-1, koi8-r,"
            " shift_jis, gb18030, other ones of Python's codecs without states, and all labels of the"
            " WHATWG Encoding Standard, such as iso-2022-jp"
        )
    return found


def _web_encoding(name: str) -> str | None:
    """Return "whatwg-" and the encoding that a label of the web means; None if it means none."""
    found = web_encoding(name.removeprefix(_WEB))
    if found is None or found == REPLACEMENT:
        return None
    return _UNICODE.get(found, f"{_WEB}{found}")


def transcoded(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    r"""Yield a stream of bytes in UTF-8.

    [b"\xff\xfea\0", b"\xe9\0"] in utf-16 -> b"a", b"\xc3\xa9"; [b"a\x81"] in cp1252 -> b"a\xed\xb2\x81"

    Args:
        chunks: the bytes.
        encoding: what they are in, by its one name.

    Raises:
        ContentError: they are in another one.
    """
    if encoding == UTF_8:
        yield from chunks
        return
    if encoding.startswith(_WEB):
        decoder = WebDecoder(encoding.removeprefix(_WEB))
        for chunk in chunks:
            yield decoder.decode(chunk).encode(UTF_8, "surrogatepass")
        yield decoder.decode(b"", final=True).encode(UTF_8, "surrogatepass")
        return
    rest, head = iter(chunks), b""
    while len(head) < _LONGEST_MARK and (chunk := next(rest, b"")):
        head += chunk
    if not head:
        return
    exact = _with_order(encoding, head)
    passing = "surrogatepass" if exact.startswith("utf-") else "surrogateescape"
    incremental = codecs.getincrementaldecoder(exact)(passing)
    read = 0
    for chunk in chain([head], rest):
        try:
            yield incremental.decode(chunk).encode(UTF_8, "surrogatepass")
        except UnicodeDecodeError as error:
            raise ContentError(
                f"is no {encoding}, after {read:,} bytes ({error.reason})", "encoding"
            ) from error
        read += len(chunk)
    try:
        yield incremental.decode(b"", final=True).encode(UTF_8, "surrogatepass")
    except UnicodeDecodeError:  # it ends in the middle of a character
        yield _BAD


def foreign_encoding(head: bytes) -> str | None:
    r"""Return the encoding that the first bytes of a file look like if it is UTF-16 or UTF-32.

    b"\xff\xfea\0" -> "utf-16", b"\xff\xfe\0\0" -> "utf-32", b"t\0e\0x\0t\0" -> "utf-16-le"
    """
    for mark, (name, _) in _MARKS.items():
        if head.startswith(mark):
            return name
    head = head[: min(_HEAD, len(head) // 4 * 4)]
    if len(head) < _LEAST or 0 not in head:
        return None
    zeros = [not any(head[n::4]) for n in range(4)]
    inked = [all(head[n::4]) for n in range(4)]
    if zeros[2] and zeros[3] and inked[0]:
        return "utf-32-le"
    if zeros[0] and zeros[1] and inked[3]:
        return "utf-32-be"
    if zeros[1] and zeros[3] and inked[0] and inked[2]:
        return "utf-16-le"
    return "utf-16-be" if zeros[0] and zeros[2] and inked[1] and inked[3] else None


def _with_order(encoding: str, head: bytes) -> str:
    """Return an encoding with the order of its bytes, which a mark at the head of a file gives."""
    if encoding not in ("utf-16", "utf-32"):
        return encoding
    name, exact = next((found for mark, found in _MARKS.items() if head.startswith(mark)), ("", ""))
    if name == encoding:
        return exact
    raise ContentError(
        f"has no byte order mark of {encoding}; name {encoding}-le or {encoding}-be", "encoding"
    )
