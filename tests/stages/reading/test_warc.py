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
    pieces = stream.lines(chunked(data, size))
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


def one_of(body: bytes, status: str = "200 OK", **headers: str) -> Record:
    """Return what one response gives."""
    (found,) = read(Writer().page(body, status, **headers).data)
    return found


def text_of(record: Record) -> str:
    """Return the text of a document."""
    assert isinstance(record, RawDocument), record
    return record.text


def refused(record: Record, reason: str = DropReason.BAD_BODY) -> str:
    """Return why a record was dropped."""
    assert isinstance(record, Drop), record
    assert record.reason == reason, record
    return record.detail


CHUNKS = b"5\r\n<p>ab\r\n1\r\nc\r\n0\r\n"


@pytest.mark.parametrize(
    "body",
    [
        CHUNKS + b"\r\n",
        CHUNKS,  # the last chunk is there
        CHUNKS + b"Expires: never\r\n folded\r\nA: b\r\n\r\n",
        CHUNKS + b"Expires: nev",
        CHUNKS.replace(b"\r\n", b"\n") + b"\n",
        CHUNKS.replace(b"5\r", b'0005 ;a="1;2"\r') + b"\r\n\r\n",
        b"<p>abc",  # of an archive that keeps decoded bodies
    ],
)
def test_chunks_are_joined_whatever_form_they_have(body: bytes) -> None:
    for said in (
        "chunked",
        "Chunked",
        "identity , CHUNKED",
        "chunked;q=1",
        '"chunked"',
        "chunked, chunked",
    ):
        assert text_of(one_of(body, **{"Transfer-Encoding": said})) == "abc", said
        assert text_of(
            one_of(body, "200 OK\r\nTransfer-Encoding: chunked", **{"TRANSFER-encoding": said})
        )


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"5\r\n<p>ab\r\n", "the chunked body ends before its last chunk"),
        (b"5\r\n<p>ab\r\n0", "the chunked body ends before its last chunk"),
        (b"9\r\n<p>ab", "the chunked body ends before its last chunk"),
        (b"4\r\n<p>ab\r\n0\r\n\r\n", "no line end stands behind a chunk, at byte 7"),
        (b"6\r\n<p>ab\r\n0\r\n\r\n", "a chunk is shorter than its size, at byte 0"),
        (b"-5\r\n<p>ab\r\n0\r\n\r\n", "no size of a chunk stands at byte 0"),
        (b"0x5\r\n<p>ab\r\n0\r\n\r\n", "no size of a chunk stands at byte 0"),
        (b"<p>ab\r\n0\r\n\r\n", "no size of a chunk stands at byte 0"),
        (CHUNKS + b"\r\n<p>more", "data stands behind the last chunk, at byte 19"),
    ],
)
def test_chunks_that_are_not_whole_are_a_drop(body: bytes, detail: str) -> None:
    assert refused(one_of(body, **{"Transfer-Encoding": "chunked"})) == detail


PACKED = gzip.compress(b"<p>packed", mtime=0)


def test_codings_that_change_nothing_are_none_and_a_decoded_body_is_a_page() -> None:
    for said in (
        "identity",
        "",
        " , ",
        "none",
        "UTF-8",
        "ISO-8859-1",
        "gzip",
        "br",
        "deflate, zstd",
        "x-gzip;q=1",
    ):
        assert text_of(one_of(b"<p>plain", **{"Content-Encoding": said})) == "plain", said


def test_a_coding_that_cannot_be_undone_is_a_drop_that_names_it() -> None:
    known = "known are gzip, x-gzip, deflate, br, zstd, chunked"
    detail = refused(one_of(b"\x1f\x9d\x90<", **{"Content-Encoding": "Compress"}))
    assert detail == f"the coding 'compress' is not known; {known}"
    assert "'dcb' is not known" in refused(one_of(b"<p>a", **{"Content-Encoding": "gzip, dcb"}))
    assert (
        refused(one_of(PACKED[:-4], **{"Content-Encoding": "x-gzip"}))
        == "its gzip data ends in the middle"
    )
    assert refused(one_of(b"junk", **{"Content-Encoding": "gzip"})) == "its gzip data is damaged"
    assert (
        refused(one_of(PACKED + b"junk", **{"Content-Encoding": "gzip"})) == "its gzip data is damaged"
    )
    assert refused(one_of(b"\xff\xff\xff", **{"Content-Encoding": "br"})) == "its br data is damaged"
    assert refused(one_of(PACKED)) == "the body is gzip data, of which its header says nothing"
    double = gzip.compress(PACKED, mtime=0)
    assert "is gzip data" in refused(one_of(double, **{"Content-Encoding": "gzip"}))
    assert text_of(one_of(double, **{"Content-Encoding": "gzip, gzip"})) == "packed"
    assert text_of(one_of(PACKED, **{"Content-Encoding": "gzip, gzip"})) == "packed"
    assert text_of(one_of(PACKED + bytes(9), **{"Content-Encoding": "gzip"})) == "packed"
    assert (
        text_of(one_of(PACKED, **{"Content-Encoding": "gzip", "Transfer-Encoding": "chunked"}))
        == "packed"
    )


def test_a_body_shorter_than_its_length_is_a_drop_and_a_longer_one_is_read() -> None:
    detail = "the body has 5 bytes, and its header says 7"
    assert refused(one_of(b"<p>ab", **{"Content-Length": "7"})) == detail
    assert (
        refused(one_of(b"<p>ab", "200 OK\r\ncontent-length: 7", **{"Content-Length": "007"})) == detail
    )
    for said in ("5", "3", "x", "5, 7", "-7"):
        assert text_of(one_of(b"<p>ab", **{"Content-Length": said})) == "ab", said
    assert text_of(one_of(b"<p>ab", **{"Content-Length": "99", "Content-Encoding": "gzip"})) == "ab"


def test_what_the_crawler_cut_stays_and_is_counted() -> None:
    columns = ColumnsSeen(FIELDS)
    data = Writer().page(b"<p>ab", **{"Content-Length": "7"}).data
    data = data.replace(b"WARC-Type: response", b"WARC-Type: response\r\nWARC-Truncated: length")
    stream = WARC.open(FIELDS, 1 << 20)
    found = [stream.parse(one, columns) for one in stream.lines([data]) if one.noticed is None]
    assert text_of(found[0]) == "ab"
    assert columns.noticed == {"warc truncated:length": 1}
    packed = Writer().page(PACKED[:-4], **{"Content-Encoding": "gzip"}).data
    packed = packed.replace(b"WARC-Type: response", b"WARC-Type: response\r\nWARC-Truncated: TIME")
    assert refused(read(packed)[0]).endswith("in the middle; the crawler cut it (WARC-Truncated: time)")


@pytest.mark.parametrize(
    "line",
    [
        "HTTP/1.0 200 OK",
        "HTTP/1.1 200",
        "HTTP/2 200",
        "HTTP/3  200 OK",
        "http/1.1 200 OK",
        "HTTP 200 OK",
    ],
)
def test_any_version_of_http_is_read(line: str) -> None:
    block = f"{line}\r\nContent-Type: text/html\r\n\r\n<p>a".encode()
    assert text_of(read(record_of("response", block, "Content-Type: application/http"))[0]) == "a"


def record_of(kind: str, block: bytes, *fields: str, end: str = "\r\n") -> bytes:
    """Return one record."""
    lines = ["WARC/1.1", f"WARC-Type: {kind}", "WARC-Target-URI: http://a.org/x y", *fields]
    return (
        (end.join([*lines, f"Content-Length: {len(block)}"]) + 2 * end).encode()
        + block
        + 2 * end.encode()
    )


def test_an_lf_record_before_a_crlf_one_swallows_nothing() -> None:
    records = [
        record_of("conversion", b"text %d" % n, end=end) for n, end in enumerate(("\n", "\r\n", "\n"))
    ]
    for size in (1, 7, 1 << 20):
        found = read(b"".join(records), size=size)
        assert [text_of(one) for one in found] == ["text 0", "text 1", "text 2"]
    assert found[0] == RawDocument(1, 0, "text 0", "http://a.org/x%20y", "en")
    padded = read(b" \r\n\n".join(records))
    assert len(padded) == 3


def test_resources_and_conversions_of_pages_and_texts_are_documents() -> None:
    cases = {
        ("resource", "text/html; charset=windows-1252", "<p>é".encode("cp1252")): "é",
        ("resource", "application/xhtml+xml", "<p>é".encode()): "é",
        ("resource", "Text/Plain", b"a <b>"): "a <b>",
        ("resource", 'text/plain; charset="ISO-8859-1"', "é".encode("latin-1")): "é",
        ("conversion", "text/plain", b"a <b>"): "a <b>",
        ("conversion", "text/markdown", b"# a"): "# a",
        ("conversion", "text/html", b"<p>a"): "a",
        ("Resource", "text/html", b"<p>a"): "a",
        ("response", "text/html", b"<p>a"): "a",
    }
    for (kind, type_, block), text in cases.items():
        assert text_of(read(record_of(kind, block, f"Content-Type: {type_}"))[0]) == text, (kind, type_)
    for kind, type_ in (
        ("resource", "image/png"),
        ("conversion", "image/png"),
        ("response", "text/dns"),
    ):
        (found,) = read(record_of(kind, b"x", f"content-TYPE:{type_}"))
        assert refused(found, NOT_A_PAGE) == f"a {kind} of the type {type_}"
    (found,) = read(record_of("resource", b"x"))
    assert refused(found, NOT_A_PAGE) == "a resource of the type unknown"
    (found,) = read(record_of("response", b"x"))
    assert refused(found, DropReason.BAD_RECORD) == "a response that begins with no status line of HTTP"
    (found,) = read(record_of("resource", PACKED, "Content-Type: text/html"))
    assert "is gzip data" in refused(found)
    (found,) = read(record_of("response", b"HTTP/1.1 200\r\n\r\n", "WARC-Segment-Number: 1"))
    assert "one segment of several" in refused(found)


def test_other_records_are_counted_by_type() -> None:
    kinds = [
        "warcinfo",
        "Request",
        "request",
        "metadata",
        "revisit",
        "continuation",
        "screenshot",
        "a b",
    ]
    data = b"".join(record_of(kind, b"x") for kind in kinds)
    pieces = list(WARC.open(FIELDS, 1 << 20).lines([data]))
    named = [
        "warcinfo",
        "request",
        "request",
        "metadata",
        "revisit",
        "continuation",
        "screenshot",
        "other",
    ]
    assert [piece.noticed for piece in pieces] == [f"warc record:{kind}" for kind in named]
    many = b"".join(record_of(f"kind{n}", b"x") for n in range(40))
    assert len({piece.noticed for piece in WARC.open(FIELDS, 1 << 20).lines([many])}) == 17
    without = record_of("x", b"<p>").replace(b"WARC-Type: x\r\n", b"")
    assert refused(read(without)[0], DropReason.BAD_RECORD) == "a record without WARC-Type"
