r"""Chunked bodies: the transfer coding of HTTP/1.1 that cuts a body into chunks with their sizes.

    b"4;a=b\r\nWiki\r\n3\r\nnow\r\n0\r\nExpires: never\r\n\r\n"  ->  b"Wikinow"

A body is whole when its last chunk, which has the size 0, is there. Line ends may be LF alone.
Extensions and trailers say nothing of the content.

Ours, because no kept library does it right: warcio takes a body whose end is missing, and http.client
and urllib3 read from a connection and ignore what stands behind the last chunk.

Source: RFC 9112, 2022, sections 2.2 and 7.1.
"""

import re

from stages.reading.body_faults import BodyError

_SIZE = re.compile(rb"[ \t]*([0-9a-fA-F]+)[ \t]*(?:;[^\n]*)?\r?\n")
_LINE_END = re.compile(rb"\r?\n")
_TRAILERS = re.compile(rb"(?:[^\s:]+[ \t]*:[^\n]*\n(?:[ \t][^\n]*\n)*)*(?:[^\s:]+[ \t]*:[^\n]*)?")
"""Fields behind the last chunk; the end of the last one may be missing."""
_END = re.compile(rb"\n[ \t]*0+[ \t]*\r?\n[\r\n]*\Z")
_LOOKED_AT = 256
"""Bytes at the end of a body in which its last chunk is looked for."""


def unchunked(body: bytes) -> bytes:
    """Return the content of a chunked body.

    Raises:
        BodyError: it is not chunked, damaged, or ends in the middle.
    """
    view, parts, place = memoryview(body), [], 0
    while True:
        line = _SIZE.match(body, place)
        if line is None:
            cut = b"\n" not in body[place : place + _LOOKED_AT] and len(body) - place < _LOOKED_AT
            raise BodyError(_CUT if cut and place else f"no size of a chunk stands at byte {place:,}")
        size, start = int(line[1], 16), line.end()
        if size == 0:
            break
        if start + size > len(body):
            raise BodyError(_CUT)
        end = _LINE_END.match(body, start + size)
        if end is None:
            cut = len(body) - start - size < len(b"\r\n")
            raise BodyError(
                _CUT if cut else f"no line end stands behind a chunk, at byte {start + size:,}"
            )
        if end[0] == b"\n" and body[end.start() - 1 : end.end()] == line[0][-2:] == b"\r\n":
            raise BodyError(f"a chunk is shorter than its size, at byte {place:,}")
        parts.append(view[start : start + size])
        place = end.end()
    trailers = _TRAILERS.match(body, start)
    behind = start if trailers is None else trailers.end()
    if body[behind:].strip(b"\r\n"):
        raise BodyError(f"data stands behind the last chunk, at byte {behind:,}")
    return b"".join(parts)


_CUT = "the chunked body ends before its last chunk"


def begins_chunked(body: bytes) -> bool:
    """Say whether a body begins with the size of a chunk."""
    return _SIZE.match(body) is not None


def ends_chunked(body: bytes) -> bool:
    """Say whether a body ends with a last chunk."""
    return _END.search(body, max(0, len(body) - _LOOKED_AT)) is not None
