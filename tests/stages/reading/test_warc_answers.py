"""Which answers in a WARC file are pages, and how they are counted."""

import gzip

import pytest

from stages.columns import Drop, DropReason
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.records import RawDocument
from stages.reading.warc import NOT_A_PAGE, WARC
from tests.stages.reading.test_warc import FIELDS, Writer, read


@pytest.mark.parametrize(
    "status", ["201 Created", "204 No Content", "206 Partial Content", "304 Not Modified"]
)
def test_only_an_answer_200_is_a_page(status: str) -> None:
    (found,) = read(Writer().page(b"<p>a part of a page", status).data)
    assert isinstance(found, Drop)
    assert (found.reason, found.detail.split()[2]) == (NOT_A_PAGE, status[:3])


def test_a_field_that_goes_on_in_the_next_line_is_one_field() -> None:
    writer = Writer().page(gzip.compress(b"<p>packed", mtime=0), **{"Content-Encoding": "\r\n\tgzip"})
    writer.page("<p>слово".encode("koi8-r"), **{"Content-Type": "text/html;\r\n charset=koi8-r"})
    assert [one.text for one in read(writer.data) if isinstance(one, RawDocument)] == ["packed", "слово"]


def test_only_documents_count_as_cut_by_the_crawler() -> None:
    writer = Writer().page(b"<p>one").page(b"<p>gone", "404 Not Found")
    data = writer.data.replace(b"WARC-Type: response", b"WARC-Type: response\r\nWARC-Truncated: length")
    stream, columns = WARC.open(FIELDS, 1 << 20), ColumnsSeen(FIELDS)
    found = [stream.parse(piece, columns) for piece in stream.lines([data]) if piece.noticed is None]
    assert [isinstance(one, RawDocument) for one in found] == [True, False]
    assert dict(columns.noticed) == {"warc truncated:length": 1}


def test_the_bound_is_on_a_record_with_its_header() -> None:
    writer = Writer().page(b"<p>" + b"a" * 500)
    size = len(writer.data) - writer.begins[0] - len(b"\r\n\r\n")
    for most, kept in ((size, True), (size - 1, False)):
        (found,) = read(writer.data, max_bytes=most)
        assert isinstance(found, RawDocument) == kept
        assert kept or (isinstance(found, Drop) and found.reason == DropReason.TOO_LARGE)
