"""WARC files to raw documents: the HTML pages of a crawl, and the texts that Common Crawl made of such.

A record is found by its header and length, so one is held at a time, and a file that is cut says so. Of
the records, responses and conversions (in .wet files) are looked at; requests and notes of the crawler
are passed over. A response that is no page (a picture, a redirect) is dropped as `not_a_page`, which is
no fault of the input. warcio parses a record and undoes its transfer encodings; the page's text is taken
as that of an HTML file. A document stands at its record's first byte, and its own id is its URL.

Source: The WARC Format 1.1, IIPC, 2017.
"""

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stages.columns import Drop, DropReason
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.faults import ContentError
from stages.reading.html import RESILIPARSE, parse_page
from stages.reading.lines import Line
from stages.reading.reader import Library, StreamReader
from stages.reading.records import FieldMapping, RawDocument, Record, too_large
from stages.reading.text import parse_text

if TYPE_CHECKING:
    from warcio.recordloader import ArcWarcRecord

NOT_A_PAGE = "not_a_page"
"""Why a response gives no document that is neither HTML nor the answer 200."""
_MAX_HEAD = 1 << 16
_MOST_DIGITS = 18
"""Of a length."""
_TAKEN = (b"response", b"conversion")
_PAGES = ("text/html", "application/xhtml+xml")
_ANSWER = "200"


@dataclass(frozen=True)
class WarcRecord(Line):
    """A record as it stands in its file; `number` is its number among all records, from 1."""

    whole: bool = True
    """Whether the file goes on to its end."""


@dataclass(frozen=True)
class Warc:
    """A stream of records."""

    fields: FieldMapping
    max_bytes: int

    def pieces(self, chunks: Iterable[bytes]) -> Iterator[Line]:
        """Return the responses and conversions.

        Raises:
            ContentError: there is no record where one must begin.
        """
        bytes_ = _Bytes(iter(chunks))
        number = 0
        while bytes_.skip_line_ends():
            number, position = number + 1, bytes_.position
            head = bytes_.take_head()
            if head is None:
                yield WarcRecord(number, position, b"", 0, whole=False)
                return
            named = dict(_named_values(head))
            said = named.get(b"content-length", b"")
            if not said.isdigit() or len(said) > _MOST_DIGITS:  # a negative one would be taken for ever
                raise ContentError(f"holds no WARC record at byte {position:,}", "paths")
            length = int(said)
            taken = named.get(b"warc-type") in _TAKEN
            held = bytes_.take(length, keep=taken and len(head) + length <= self.max_bytes)
            end = position + len(head) + length
            if taken or bytes_.position < end:
                data = b"" if held is None else head + held
                yield WarcRecord(number, position, data, end - position, whole=bytes_.position == end)

    def parse(self, piece: Line, columns: ColumnsSeen) -> Record:  # noqa: ARG002  # it has none
        """Return the document of a record, or the reason why it is none."""
        assert isinstance(piece, WarcRecord), "a piece of another reader"
        if not piece.whole:
            detail = "the file ends in the middle of the record; it was cut short"
            return Drop(piece.number, piece.position, DropReason.BAD_RECORD, detail)
        if piece.size > len(piece.data):
            return too_large(piece.number, piece.position, piece.size)
        from warcio.recordloader import ArcWarcRecordLoader  # noqa: PLC0415  # of an extra

        try:
            record = ArcWarcRecordLoader().parse_record_stream(
                io.BytesIO(piece.data), known_format="warc"
            )
            return self._document(record, piece)
        except Exception as error:  # noqa: BLE001  # whatever one record makes a library raise, it is counted
            detail = f"a record that cannot be parsed ({error})"
            return Drop(piece.number, piece.position, DropReason.BAD_RECORD, detail)

    def _document(self, record: "ArcWarcRecord", piece: Line) -> Record:
        kind, charset = _content_type(record)
        page = record.rec_type == "response"
        answer = record.http_headers.get_statuscode() if record.http_headers else "without a status"
        if page and (answer != _ANSWER or kind not in _PAGES):
            detail = f"an answer {answer} of the type {kind or 'unknown'}"
            return Drop(piece.number, piece.position, NOT_A_PAGE, detail)
        data = _read(record, self.max_bytes + 1)
        if len(data) > self.max_bytes:
            return too_large(piece.number, piece.position, len(data))
        content = Line(piece.number, piece.position, data, len(data))
        found = (
            parse_page(content, self.fields, charset=charset)
            if page
            else parse_text(content, self.fields)
        )
        if not isinstance(found, RawDocument):
            return found
        return replace(found, own_id=record.rec_headers.get_header("WARC-Target-URI"))


@dataclass
class _Bytes:
    """A stream of bytes that is taken piece by piece."""

    chunks: Iterator[bytes]
    position: int = 0
    """Of the first byte that is not taken."""
    _left: bytes = b""

    def skip_line_ends(self) -> bool:
        """Pass over the line ends between two records; say whether there is anything behind them."""
        while self._left or self._more():
            rest = self._left.lstrip(b"\r\n")
            self.position += len(self._left) - len(rest)
            self._left = rest
            if rest:
                return True
        return False

    def take_head(self) -> bytes | None:
        """Take the header of a record with the empty line behind it; None at the end of the stream.

        Raises:
            ContentError: it is none.
        """
        while (
            (end := self._left.find(b"\r\n\r\n")) < 0 and len(self._left) <= _MAX_HEAD and self._more()
        ):
            pass
        if not self._left.startswith(b"WARC/"[: len(self._left)]) or (
            end < 0 and len(self._left) > _MAX_HEAD
        ):
            raise ContentError(f"holds no WARC record at byte {self.position:,}", "paths")
        return None if end < 0 else self.take(end + len(b"\r\n\r\n"), keep=True)

    def take(self, size: int, *, keep: bool) -> bytes | None:
        """Take some bytes, fewer only at the end of the stream; return them if they are kept."""
        kept, left = [], size
        while left and (self._left or self._more()):
            part, self._left = self._left[:left], self._left[left:]
            left -= len(part)
            self.position += len(part)
            if keep:
                kept.append(part)
        return b"".join(kept) if keep else None

    def _more(self) -> bool:
        chunk = next(self.chunks, b"")
        self._left += chunk
        return bool(chunk)


def _named_values(head: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the names of a header in lower case, and their values."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        yield name.strip().lower(), value.strip()


def _content_type(record: "ArcWarcRecord") -> tuple[str, str]:
    """Return type and charset that a server said."""
    said = record.http_headers.get_header("Content-Type") if record.http_headers else None
    kind, _, rest = (said or "").partition(";")
    _, _, charset = rest.lower().partition("charset=")
    return kind.strip().lower(), charset.partition(";")[0].strip(" \"'")


def _read(record: "ArcWarcRecord", size: int) -> bytes:
    """Read the content of a record, at most so many bytes: a few may be gigabytes, decompressed."""
    stream, parts, left = record.content_stream(), [], size
    while left and (part := stream.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


WARC = StreamReader(
    "WARC",
    (".warc", ".wet"),
    Warc,
    has_columns=False,
    is_text=False,
    libraries=(replace(RESILIPARSE, extra="warc"), Library("warcio", "warc")),
)
