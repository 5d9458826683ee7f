r"""Codings of HTTP: what a server did to a body before it sent it, undone in the opposite order.

    Content-Encoding: gzip, Transfer-Encoding: chunked  ->  the chunks are joined, then decompressed

Each coding is whole or a fault: its data must reach its end, and nothing may stand behind it. Many
archives hold bodies that are decoded already below the fields that came with the coded ones. So a body
that begins as a page does is one, whatever codings are still to be undone.

gzip and deflate are of the standard library, zstd of zstandard, br of brotli. warcio undoes no list, and
keeps what it cannot undo as text.

Source: RFC 9110, 2022, section 8.4; RFC 9112, 2022, section 7; RFC 1950 to 1952; RFC 7932; RFC 8878.

Chunked bodies: the transfer coding of HTTP/1.1 that cuts a body into chunks with their sizes.

    b"4;a=b\r\nWiki\r\n3\r\nnow\r\n0\r\nExpires: never\r\n\r\n"  ->  b"Wikinow"

A body is whole when its last chunk, which has the size 0, is there. Line ends may be LF alone.
Extensions and trailers say nothing of the content.

Ours, because no kept library does it right: warcio takes a body whose end is missing, and http.client
and urllib3 read from a connection and ignore what stands behind the last chunk.

Source: RFC 9112, 2022, sections 2.2 and 7.1.
"""

import re
import zlib
from collections.abc import Callable, Mapping, Sequence

from stages.reading.encodings import known_encoding
from stages.reading.faults import BodyError, BodyTooLargeError
from stages.reading.zstd_frames import FRAME, ZstdCutError, ZstdDataError, decompressed_frames

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


CHUNKED = "chunked"
_NO_CODINGS = ("identity", "none", "7bit", "8bit", "binary")
"""Names that servers give where nothing was done; names of charsets are others."""
_GZIP = b"\x1f\x8b\x08"
_WITH_HEADER, _RAW, _OF_GZIP = 15, -15, 31
"""What zlib calls its three formats."""
_PADDING = b"\0\r\n"
"""What may fill up gzip data."""
_STEP = 1 << 16
_PAGE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype|!--|\?xml|[a-z][a-z0-9]*[\s/>])[^\0-\x08\x0e-\x1a\x1c-\x1f]*+\Z"
    rb"|\xff\xfe\s?\0?<\0|\xfe\xff\0?\s?\0<",
    re.IGNORECASE,
)
_HEAD = 256
"""Bytes of a body that say whether it is a page."""


def undone(body: bytes, codings: Sequence[str], max_bytes: int) -> bytes:
    """Return a body as it was before it was coded.

    Args:
        body: as it was sent.
        codings: in the order in which they were applied, in lower case.
        max_bytes: the longest content that is held.

    Raises:
        BodyError: it cannot be undone whole.
        BodyTooLargeError: it is longer.
    """
    content = _undone(body, applied(codings), max_bytes)
    if content.startswith((_GZIP, FRAME)):
        kind = "gzip" if content.startswith(_GZIP) else "zstd"
        raise BodyError(f"the body is {kind} data, of which its header says nothing")
    return content


def applied(codings: Sequence[str]) -> list[str]:
    """Return the codings that change a body."""
    return [name for name in codings if not _is_none(name)]


def _undone(body: bytes, codings: Sequence[str], max_bytes: int) -> bytes:
    if not codings or not body:
        return body
    *before, last = codings
    if last not in _CODINGS:
        raise BodyError(f"the coding {last[:40]!r} is not known; known are {', '.join(_CODINGS)}")
    try:
        if last == CHUNKED:
            return _undone_chunks(body, before, max_bytes)
        return _undone(_CODINGS[last](body, max_bytes), before, max_bytes)
    except BodyError:
        if _is_page(body) and not (last == CHUNKED and ends_chunked(body)):
            return body
        raise


def _undone_chunks(body: bytes, before: Sequence[str], max_bytes: int) -> bytes:
    """Join chunks and undo the codings before; the chunks may be joined already, or said twice."""
    try:
        content = unchunked(body)
    except BodyError:
        if before and not begins_chunked(body):
            return _undone(body, before, max_bytes)
        raise
    if before and before[-1] == CHUNKED and not begins_chunked(content):
        before = before[:-1]
    return _undone(content, before, max_bytes)


def _is_none(coding: str) -> bool:
    """Say whether a coding changes nothing: identity, or the name of a charset, which is none."""
    if coding in _NO_CODINGS:
        return True
    try:
        known_encoding(coding)
    except ValueError:
        return False
    return True


def _is_page(body: bytes) -> bool:
    """Say whether a body begins as a page does."""
    return _PAGE.match(body[:_HEAD]) is not None


def _gunzipped(body: bytes, max_bytes: int) -> bytes:
    """Decompress gzip members."""
    return _inflated(body, max_bytes, kind="gzip", form=_OF_GZIP)


def _deflated(body: bytes, max_bytes: int) -> bytes:
    """Decompress what is called deflate: with the header of zlib, or as many servers do without."""
    try:
        return _inflated(body, max_bytes, kind="deflate", form=_WITH_HEADER)
    except BodyError as fault:
        try:
            return _inflated(body, max_bytes, kind="deflate", form=_RAW)
        except BodyError:
            raise fault from None


def _inflated(body: bytes, max_bytes: int, *, kind: str, form: int) -> bytes:
    """Decompress all of a body, member by member."""
    parts, size, rest = [], 0, body
    while True:
        stream = zlib.decompressobj(form)
        try:
            while not stream.eof:
                part = stream.decompress(rest, min(_STEP, max_bytes - size + 1))
                rest = stream.unconsumed_tail
                size += len(part)
                if size > max_bytes:
                    raise BodyTooLargeError
                if not part and not rest:
                    break
                parts.append(part)
        except zlib.error as error:
            raise BodyError(f"its {kind} data is damaged") from error
        if not stream.eof:
            raise BodyError(f"its {kind} data ends in the middle")
        rest = stream.unused_data
        if not rest.strip(_PADDING):
            return b"".join(parts)
        if kind != "gzip":
            raise BodyError(f"data stands behind its {kind} data")


def _unbrotlied(body: bytes, max_bytes: int) -> bytes:
    """Decompress a brotli stream."""
    try:
        import brotli  # noqa: PLC0415  # of an extra
    except ImportError as error:
        raise BodyError(f"its br data needs {_BROTLI}") from error
    stream = brotli.Decompressor()
    if not hasattr(stream, "can_accept_more_data"):  # before 1.2: what it gives has no bound
        raise BodyError(f"its br data needs {_BROTLI}")
    parts, size, rest = [], 0, body
    try:
        while not stream.is_finished():
            part = stream.process(rest, output_buffer_limit=min(_STEP, max_bytes - size + 1))
            rest = b""
            size += len(part)
            if size > max_bytes:
                raise BodyTooLargeError
            parts.append(part)
            if not part and not stream.is_finished() and stream.can_accept_more_data():
                raise BodyError("its br data ends in the middle")
    except brotli.error as error:
        raise BodyError("its br data is damaged") from error
    return b"".join(parts)


_BROTLI = "brotli 1.2 or newer: pip install 'shardmill[warc]'"


def _unzstd(body: bytes, max_bytes: int) -> bytes:
    """Decompress Zstandard frames."""
    parts, size = [], 0
    try:
        for part in decompressed_frames([body]):
            size += len(part)
            if size > max_bytes:
                raise BodyTooLargeError
            parts.append(part)
    except ZstdCutError as error:
        raise BodyError("its zstd data ends in the middle") from error
    except ZstdDataError as error:
        raise BodyError("its zstd data is damaged") from error
    return b"".join(parts)


def _unchunked(body: bytes, max_bytes: int) -> bytes:  # noqa: ARG001  # it is no longer than the body
    return unchunked(body)


_CODINGS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gunzipped,
    "x-gzip": _gunzipped,
    "deflate": _deflated,
    "br": _unbrotlied,
    "zstd": _unzstd,
    CHUNKED: _unchunked,
}
