"""Bodies of crawls: each page comes back as it was before it was coded, or is a counted drop.

Pages are coded by the encoders of `written_crawls`, and what is right is the page itself. What urllib3
reads right is compared too.
"""

import http.client
import io
from itertools import product
from random import Random

import pytest
import urllib3

from stages.columns import Drop, DropReason
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.decompress import decompressed
from stages.reading.notices import WARC_RECORDS
from stages.reading.records import FieldMapping, RawDocument, Record
from stages.reading.warc import WARC
from tests.campaign import examples, some_of
from tests.laws.written_crawls import CODINGS, PACKINGS, Sent, chunked, record, response, sent

FIELDS = FieldMapping(language="en")
LISTS = [(), *((name,) for name in CODINGS), *product(CODINGS, repeat=2)]
CASES = [*product(LISTS, (False, True), PACKINGS)]


def read(data: bytes, name: str) -> tuple[list[Record], ColumnsSeen]:
    """Return what a file gives, and what was noticed."""
    stream, columns, found = WARC.open(FIELDS, 1 << 20), ColumnsSeen(FIELDS), []
    for piece in stream.lines(decompressed(io.BytesIO(data), name)):
        if piece.noticed is None:
            found.append(stream.parse(piece, columns))
        else:
            columns.noticed[piece.noticed] += 1
    return found, columns


def page_of(random: Random) -> tuple[str, bytes]:
    """Return a text and its page."""
    words = [f"word{random.randrange(1000)}é" for _ in range(random.choice((3, 40, 900)))]
    text = " ".join(words)
    return text, f"<html><body><p>{text}</p></body></html>".encode()


def test_every_coding_and_every_list_of_two_is_undone() -> None:
    rounds, pages = examples(192), 0
    for seed in range(rounds):
        for number, (names, is_chunked, ending) in enumerate(some_of(CASES, 30)):
            random = Random(1_000 * seed + number)  # noqa: S311  # of a test
            text, page = page_of(random)
            records = [
                record(random, "warcinfo", b"software: x", number=0, kind="application/warc-fields"),
                response(random, sent(random, page, names, is_chunked=is_chunked), 1),
                record(random, "request", b"GET / HTTP/1.1\r\n\r\n", number=2, kind="application/http"),
                record(random, "resource", b"<p>control", number=3, kind="text/html; charset=utf-8"),
            ]
            found, columns = read(PACKINGS[ending](records), f"a{ending}")
            case = (seed, names, is_chunked, ending, found)
            assert [one.text for one in found if isinstance(one, RawDocument)] == [text, "control"], case
            assert columns.noticed == {WARC_RECORDS + "warcinfo": 1, WARC_RECORDS + "request": 1}
            pages += 1
    assert pages >= 600


_SEVERAL = ("identity", "two members", "two frames")
"""What a cut may leave whole."""


def damaged(random: Random, kind: str) -> Sent:
    """Return a body that is cut or damaged at one of the places that a body has."""
    _, page = page_of(random)
    names = random.choice(LISTS[1:])
    if kind == "coding":
        names = random.choice([one for one in LISTS[1:] if one[-1] not in _SEVERAL])
        whole = sent(random, page, names, is_chunked=False)
        place = random.randrange(1, len(whole.body))
        fields = [field for field in whole.fields if not field.startswith("Content-Length")]
        return Sent(fields, whole.body[:place])
    if kind == "coding and length":
        whole = sent(random, page, names, is_chunked=False)
        return Sent(whole.fields, whole.body[: random.randrange(1, len(whole.body))])
    if kind == "length":
        return Sent([f"Content-Length: {len(page) + random.randrange(1, 99)}"], page)
    body = chunked(Random(0), page)  # noqa: S311  # of a test
    fields = ["Transfer-Encoding: chunked"]
    line = body.index(b"\n")
    end = body[line - 1 : line + 1] if body[line - 1 : line] == b"\r" else b"\n"
    size = int(body[:line].partition(b";")[0], 16)
    first = line + 1
    cuts = {
        "size": body[: random.randrange(1, line)],
        "data": body[: random.randrange(first, first + size)],
        "line end": body[: first + size],
        "last chunk": body[: body.rindex(end + b"0")] if end + b"0" in body else body[:first],
        "longer size": b"%x" % (size + 1) + end + body[first:],
        "shorter size": b"%x" % (size - 1) + end + body[first:]
        if size > 1
        else b"zz" + end + body[first:],
        "behind": body + b"<p>behind",
    }
    return Sent(fields, cuts[kind])


KINDS = (
    "coding",
    "coding and length",
    "length",
    "size",
    "data",
    "line end",
    "last chunk",
    "longer size",
    "shorter size",
    "behind",
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_that_is_cut_or_damaged_is_a_drop_and_costs_no_other(kind: str) -> None:
    for seed in range(examples(1_600)):
        random = Random(seed)  # noqa: S311  # of a test
        ending = random.choice(tuple(PACKINGS))
        records = [
            response(random, damaged(random, kind), 1),
            record(random, "resource", b"<p>control", number=2, kind="text/html"),
        ]
        (bad, good), _ = read(PACKINGS[ending](records), f"a{ending}")
        assert isinstance(bad, Drop), (seed, bad)
        assert bad.reason == DropReason.BAD_BODY, (seed, bad)
        assert isinstance(good, RawDocument)
        assert good.text == "control"


class _Socket:
    """What http.client reads a response from."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _: str) -> io.BytesIO:
        """Return the bytes as a file."""
        return io.BytesIO(self._data)


def by_urllib3(one: Sent) -> bytes:
    """Return a body as urllib3 reads it."""
    lines = ["HTTP/1.1 200 OK", *one.fields, "", ""]
    answer = http.client.HTTPResponse(_Socket("\r\n".join(lines).encode() + one.body))  # type: ignore[arg-type]
    answer.begin()
    headers = urllib3.HTTPHeaderDict(answer.headers.items())
    read = urllib3.HTTPResponse(answer, headers=headers, preload_content=False)
    joined = b"".join(read.stream(decode_content=False))
    return bytes(urllib3.HTTPResponse(io.BytesIO(joined), headers=headers).data)


def test_what_urllib3_reads_is_read_alike() -> None:
    known = {"gzip", "x-gzip", "zlib", "raw deflate", "br"}  # for zstd it needs another library
    lists = [names for names in LISTS if known.issuperset(names)]
    compared = 0
    for seed in range(examples(4_000)):
        random = Random(seed)  # noqa: S311  # of a test
        text, page = page_of(random)
        one = sent(random, page, random.choice(lists), is_chunked=random.random() < 0.5)
        is_chunked = any("chunked" in field.lower() for field in one.fields)
        if is_chunked and b"\r\n" not in one.body[: one.body.index(b"\n") + 1]:
            continue  # urllib3 takes two bytes behind a chunk, whatever they are
        if any("q=" in field or ",," in field or " , " in field for field in one.fields):
            continue  # it takes parameters for a part of the name, and an empty name for deflate
        assert by_urllib3(one) == page, seed
        (found,), _ = read(response(random, one, 1), "a.warc")
        assert isinstance(found, RawDocument)
        assert found.text == text
        compared += 1
    assert compared > 200
