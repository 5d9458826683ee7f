"""What reading WARC promises: the pages of a crawl with their URLs; what is cut or no page is a drop."""

import gzip

import pytest

from stages.columns import Drop, DropReason
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.faults import ContentError
from stages.reading.records import FieldMapping, RawDocument, Record
from stages.reading.warc import NOT_A_PAGE, WARC

FIELDS = FieldMapping(language="en")


def chunked(data: bytes, size: int) -> list[bytes]:
    """Cut bytes into chunks."""
    return [data[start : start + size] for start in range(0, len(data), size)]


class Writer:
    """Writes a WARC file."""

    def __init__(self) -> None:
        self.data = b""
        self.begins: list[int] = []
        self.record("", "warcinfo", b"software: x\r\n")

    def page(self, body: bytes, status: str = "200 OK", **headers: str) -> "Writer":
        """Write a request and its response."""
        url = f"http://example.org/{len(self.begins)}"
        named = {"Content-Type": "text/html; charset=utf-8", **headers}
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in named.items()), "", ""]
        self.record(url, "request", b"GET / HTTP/1.1\r\n\r\n")
        self.begins.append(len(self.data))
        return self.record(url, "response", "\r\n".join(lines).encode() + body)

    def record(self, url: str, kind: str, body: bytes) -> "Writer":
        """Write one record."""
        lines = ["WARC/1.0", f"WARC-Type: {kind}", f"WARC-Target-URI: {url}"]
        if kind in ("request", "response"):
            lines.append(f"Content-Type: application/http; msgtype={kind}")
        head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])
        self.data += head.encode() + body + b"\r\n\r\n"
        return self


def read(data: bytes, *, size: int = 1 << 20, max_bytes: int = 1 << 20) -> list[Record]:
    """Return what a WARC file gives."""
    stream, columns = WARC.open(FIELDS, max_bytes), ColumnsSeen(FIELDS)
    pieces = stream.pieces(chunked(data, size))
    return [stream.parse(piece, columns) for piece in pieces if piece.noticed is None]


@pytest.mark.parametrize("size", [1, 100, 1 << 20])
def test_pages_are_documents_with_their_urls_where_their_records_begin(size: int) -> None:
    writer = Writer().page("<p>déjà <b>vu</b></p>".encode()).page(b"<p>two")
    first, second = read(writer.data, size=size)
    assert first == RawDocument(3, writer.begins[0], "déjà vu", "http://example.org/0", "en")
    assert second == RawDocument(5, writer.begins[1], "two", "http://example.org/1", "en")


def test_transfer_and_content_encodings_are_undone() -> None:
    packed = gzip.compress(b"<p>packed", mtime=0)
    writer = Writer().page(packed, **{"Content-Encoding": "gzip"})
    writer.page(b"4\r\n<p>c\r\n6\r\nhunked\r\n0\r\n\r\n", **{"Transfer-Encoding": "chunked"})
    writer.page("<p>déjà".encode("cp1252"), **{"Content-Type": "text/html;charset=ISO-8859-1"})
    found = read(writer.data)
    assert [one.text for one in found if isinstance(one, RawDocument)] == ["packed", "chunked", "déjà"]


def test_what_is_no_page_is_a_drop_that_is_no_fault() -> None:
    writer = Writer().page(b"\x89PNG", **{"Content-Type": "image/png"})
    writer.page(b"<p>moved", "301 Moved").page(b"<p>a page", **{"Content-Type": "text/HTML"})
    picture, moved, page = read(writer.data)
    assert isinstance(picture, Drop)
    assert (picture.reason, picture.detail) == (NOT_A_PAGE, "an answer 200 of the type image/png")
    assert isinstance(moved, Drop)
    assert moved.detail == "an answer 301 of the type text/html"
    assert isinstance(page, RawDocument)
    assert NOT_A_PAGE not in set(DropReason)


def test_texts_of_wet_files_are_read_as_they_are() -> None:
    (found,) = read(Writer().record("http://a.org", "conversion", b"a <b> of text").data)
    assert isinstance(found, RawDocument)
    assert (found.text, found.own_id) == ("a <b> of text", "http://a.org")


def test_a_file_that_is_cut_anywhere_gives_its_whole_records_and_says_so() -> None:
    writer = Writer().page(b"<p>one").page(b"<p>two")
    data = writer.data
    whole = [one.position for one in read(data)]
    ends = [place for place in range(len(data)) if data.startswith(b"WARC/1.0\r\n", place)]
    cuts = 0
    for length in range(1, len(data) - len(b"\r\n\r\n")):
        if data[:length].rstrip(b"\r\n") == b"" or any(end - 4 <= length <= end for end in ends):
            continue  # between two records
        found = read(data[:length])
        last = found[-1]
        assert isinstance(last, Drop), length
        assert (last.reason, last.detail[:30]) == (
            DropReason.BAD_RECORD,
            "the file ends in the middle of",
        )
        assert [one.position for one in found[:-1]] == whole[: len(found) - 1]
        cuts += 1
    assert cuts > 700


LENGTHS = (b"-5", b"1_0", b"9" * 5000, b"")


@pytest.mark.parametrize(
    "data",
    [
        b"<html>no WARC",
        b"junk " * 50_000,
        b"WARC/1.0\r\nWARC-Type: response\r\n\r\n",
        *(b"WARC/1.0\r\nContent-Length: " + said + b"\r\n\r\nabc\r\n\r\n" for said in LENGTHS),
    ],
)
def test_what_is_no_warc_is_refused(data: bytes) -> None:
    with pytest.raises(ContentError, match="holds no WARC record at byte 0"):
        read(data)


def test_damage_is_refused_with_its_place_or_costs_its_record() -> None:
    data = Writer().page(b"<p>one").page(b"<p>two").data
    refused = 0
    for place in range(0, len(data), 3):
        damaged = bytearray(data)
        damaged[place] ^= 0xFF
        try:
            found = read(bytes(damaged))
        except ContentError as error:
            assert "holds no WARC record at byte" in str(error)  # noqa: PT017  # each of hundreds
            refused += 1
        else:
            missed = [one for one in found if "without WARC-Type" in getattr(one, "detail", "")]
            assert len(found) - len(missed) <= 2
            assert len(missed) <= 1
    assert refused > 30


def test_a_record_over_the_bound_is_a_drop_however_it_is_packed() -> None:
    writer = Writer().page(b"<p>" + b"a" * 2_000).page(b"<p>two")
    writer.page(gzip.compress(b"<p>" + b"a" * 50_000, mtime=0), **{"Content-Encoding": "gzip"})
    long, short, bomb = read(writer.data, max_bytes=1_000)
    for one in (long, bomb):
        assert isinstance(one, Drop)
        assert one.reason is DropReason.TOO_LARGE
    assert isinstance(short, RawDocument)
