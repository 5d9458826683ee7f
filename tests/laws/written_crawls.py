"""Crawls written by hand: records, headers and codings of bodies; no encoder is the product's."""

import gzip
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import brotli
import zstandard


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, 1, mtime=0)


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(1, wbits=-15)
    return packer.compress(data) + packer.flush()


def _brotli(data: bytes) -> bytes:
    return bytes(brotli.compress(data, quality=4))


def _zstd(data: bytes) -> bytes:
    return bytes(zstandard.ZstdCompressor(1).compress(data))


CODINGS: Mapping[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", _gzip),
    "x-gzip": ("x-gzip", _gzip),
    "two members": ("gzip", lambda data: _gzip(data[:9]) + _gzip(data[9:])),
    "zlib": ("deflate", zlib.compress),
    "raw deflate": ("deflate", _raw_deflate),
    "br": ("br", _brotli),
    "zstd": ("zstd", _zstd),
    "two frames": ("zstd", lambda data: _zstd(data[:9]) + _zstd(data[9:])),
    "identity": ("identity", bytes),
}
"""What is said and what is done, by name."""


def in_any_case(random: Random, word: str) -> str:
    """Return a word in some case of its letters."""
    return "".join(random.choice((letter.lower(), letter.upper())) for letter in word)


def chunked(random: Random, data: bytes) -> bytes:
    """Cut a body into chunks: sizes padded, with extensions, trailers, and line ends of either kind."""
    end = random.choice((b"\r\n", b"\r\n", b"\n"))
    parts, place = [], 0
    while place < len(data):
        part = data[place : place + random.choice((1, 7, 16, 100, 5_000))]
        place += len(part)
        parts += [_size(random, len(part)), end, part, end]
    trailers = random.choice((b"", b"", b"Expires: never" + end, b"A: 1" + end + b"B: 2" + end))
    return b"".join([*parts, _size(random, 0), end, trailers, end])


def _size(random: Random, size: int) -> bytes:
    written = random.choice((f"{size:x}", f"{size:X}", f"{size:08x}", f"{size:x}  ")).encode()
    return written + random.choice((b"", b"", b";a=b", b' ; name="x, y"', b";flag"))


@dataclass(frozen=True)
class Sent:
    """A body as a server sent it."""

    fields: Sequence[str]
    """Of its header, that say how it is coded."""
    body: bytes


def fields_of(random: Random, name: str, codings: Sequence[str]) -> list[str]:
    """Return fields that say a list of codings: one, or one each, with what a list may have."""
    said = [in_any_case(random, coding) for coding in codings]
    said = [f"{one};q=1" if one.lower() == "chunked" and random.random() < 0.2 else one for one in said]
    if not said:
        return []
    shown = in_any_case(random, name)
    if random.random() < 0.5:
        return [f"{shown}: {one}" for one in said]
    return [f"{shown}:{random.choice(('', ' ', ' , '))}{random.choice((',', ', ', ' ,, ')).join(said)}"]


def sent(random: Random, page: bytes, names: Sequence[str], *, is_chunked: bool) -> Sent:
    """Code a page as the named codings, in their order, and cut it into chunks."""
    body = page
    for name in names:
        body = CODINGS[name][1](body)
    said = [CODINGS[name][0] for name in names]
    fields = fields_of(random, "Content-Encoding", said)
    if is_chunked:
        body = chunked(random, body)
        transfers = random.choice((["chunked"], ["identity", "chunked"], ["chunked", "chunked"]))
        fields += fields_of(random, "Transfer-Encoding", transfers)
    else:
        fields.append(f"Content-Length: {len(body)}")
    return Sent(fields, body)


STATUS_LINES = (
    "HTTP/1.0 200 OK",
    "HTTP/1.1 200",
    "HTTP/2 200",
    "HTTP/2.0 200 OK",
    "HTTP/3 200 ",
    "http/1.1 200 OK",
)


def response(random: Random, one: Sent, number: int) -> bytes:
    """Return the record of a response."""
    end = random.choice(("\r\n", "\r\n", "\n"))
    header = [random.choice(STATUS_LINES), "Content-Type: text/html; charset=utf-8", *one.fields, "", ""]
    block = random.choice(("\r\n", end)).join(header).encode() + one.body
    return record(random, "response", block, number=number, kind="application/http; msgtype=response")


def record(random: Random, name: str, block: bytes, *, number: int, kind: str) -> bytes:
    """Return a record: any version, names in any case, folded values, LF or CRLF, and padding."""
    end = random.choice(("\r\n", "\r\n", "\n"))
    fields = [
        f"{in_any_case(random, 'WARC-Type')}: {name}",
        f"WARC-Target-URI: http://example.org/{number}",
        f"Content-Type: {kind}".replace("; ", random.choice(("; ", f";{end} "))),
        f"{in_any_case(random, 'Content-Length')}:{random.choice(('', ' ', '  00'))}{len(block)}",
    ]
    random.shuffle(fields)
    version = random.choice(("WARC/0.17", "WARC/0.18", "WARC/1.0", "WARC/1.1"))
    padding = random.choice((2 * end, 2 * end, end, 4 * end, f"{end} {end}"))
    return (end.join([version, *fields]) + 2 * end).encode() + block + padding.encode()


PACKINGS: Mapping[str, Callable[[Sequence[bytes]], bytes]] = {
    ".warc": b"".join,
    ".warc.gz": lambda records: b"".join(map(_gzip, records)),
    ".warc.zst": lambda records: b"".join(map(_zstd, records)),
}
"""How a file packs its records, by the ending of its name."""
