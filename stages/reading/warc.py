"""WARC files to raw documents: the pages of a crawl, and the texts that were made of such.

    response    an answer 200 of HTML, with its header of HTTP; codings of its body are undone
    resource    a page of HTML or a plain text as it is, without such a header
    conversion  a text made of a page, as in .wet files; HTML too, if its type says so

Each of them is a document or a drop. One of another type or answer (a picture, a redirect) is dropped
as `not_a_page`, which is no fault of the input. A body that cannot be undone whole is dropped as
`bad_body`. Records of all other types are counted by type and are no drops. The text of a page is taken
as that of an HTML file. A document stands at its record's first byte, and its own id is its URL.

Source: The WARC Format 1.1, IIPC, 2017.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from stages.columns import Drop, DropReason
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.content_codings import undone
from stages.reading.faults import BodyError, BodyTooLargeError
from stages.reading.html import RESILIPARSE, parse_page
from stages.reading.http_message import Message, content_type, message_of, value_of
from stages.reading.lines import Line
from stages.reading.notices import WARC_TRUNCATED
from stages.reading.page_charset import CharsetError, decoded_text
from stages.reading.reader import Library, StreamReader
from stages.reading.records import FieldMapping, RawDocument, Record, too_large
from stages.reading.text import parse_text
from stages.reading.warc_records import WarcRecord, warc_records

NOT_A_PAGE = "not_a_page"
"""Why a record gives no document that is neither HTML nor the answer 200."""
_PAGES = ("text/html", "application/xhtml+xml")
_TEXT = "text/plain"
_ANSWER = "200"
_HTTP = "application/http"
_ADDRESSES = ("http:", "https:")
_TRUNCATED = "warc-truncated"
_WHY_TRUNCATED = ("length", "time", "disconnect")
_UNSPECIFIED = "unspecified"


@dataclass(frozen=True)
class _Content:
    """What a record holds."""

    data: bytes
    kind: str
    """Its type, in lower case."""
    charset: str
    """What its header says, in lower case; empty if it says none."""


@dataclass(frozen=True)
class Warc:
    """A stream of records."""

    fields: FieldMapping
    max_bytes: int

    def lines(self, chunks: Iterable[bytes]) -> Iterator[Line]:
        """Return all records, also those that are only counted.

        Raises:
            ContentError: there is no record where one must begin.
        """
        return warc_records(chunks, self.max_bytes)

    def parse(self, line: Line, columns: ColumnsSeen) -> Record:
        """Return the document of a record, or the reason why it is none."""
        assert isinstance(line, WarcRecord), "a piece of another reader"
        try:
            found = _unparsable(line) or self._document(line)
        except BodyError as fault:
            detail = f"{fault}{_said_cut(line)}"
            return Drop(line.number, line.position, DropReason.BAD_BODY, detail)
        except BodyTooLargeError:
            return too_large(line.number, line.position, self.max_bytes + 1)
        except Exception:  # noqa: BLE001  # whatever one page makes a library raise, it is counted
            return _bad_record(line, "a record that cannot be parsed")
        if isinstance(found, RawDocument) and (why := _why_cut(line)):
            columns.noticed[f"{WARC_TRUNCATED}{why}"] += 1
        return found

    def _document(self, record: WarcRecord) -> Record:
        content = self._content(record)
        if isinstance(content, Drop):
            return content
        line = Line(record.number, record.position, content.data, len(content.data))
        if content.kind in _PAGES:
            found = parse_page(line, self.fields, charset=content.charset)
        elif content.charset:
            found = self._text(line, content.charset)
        else:
            found = parse_text(line, self.fields)
        if not isinstance(found, RawDocument):
            return found
        return replace(found, own_id=_address(record))

    def _text(self, line: Line, charset: str) -> Record:
        """Return the document of a plain text in a charset that its record names."""
        try:
            data = decoded_text(line.data, charset).encode()
        except CharsetError as error:
            return Drop(line.number, line.position, DropReason.BAD_CHARSET, f"a text that {error}")
        except ValueError as error:
            return Drop(line.number, line.position, DropReason.BAD_UTF8, f"a text that {error}")
        return parse_text(replace(line, data=data, size=len(data)), self.fields)

    def _content(self, record: WarcRecord) -> _Content | Drop:
        """Return what a record holds, its codings undone; a drop if it is neither a page nor a text.

        Raises:
            BodyError: its codings cannot be undone.
            BodyTooLargeError: it is over the bound.
        """
        if value_of(record.fields, "warc-segment-number") is not None:
            raise BodyError("the record is one segment of several, which are not joined")
        kind, charset = content_type(value_of(record.fields, "content-type"))
        if record.kind == "response":
            message = message_of(record.block)
            if message is not None:
                return self._answer(record, message)
            if kind == _HTTP or (not kind and (_address(record) or "").startswith(_ADDRESSES)):
                return _bad_record(record, "a response that begins with no status line of HTTP")
        is_page = kind in _PAGES
        is_text = record.kind == "conversion" and (not kind or kind.startswith("text/"))
        if not (is_page or is_text or (record.kind == "resource" and kind == _TEXT)):
            detail = f"a {record.kind} of the type {kind or 'unknown'}"
            return Drop(record.number, record.position, NOT_A_PAGE, detail)
        return _Content(undone(record.block, (), self.max_bytes), kind, charset)

    def _answer(self, record: WarcRecord, message: Message) -> _Content | Drop:
        """Return what a server sent."""
        kind, charset = content_type(value_of(message.fields, "content-type"))
        if message.status != _ANSWER or kind not in _PAGES:
            detail = f"an answer {message.status} of the type {kind or 'unknown'}"
            return Drop(record.number, record.position, NOT_A_PAGE, detail)
        data = message.content(self.max_bytes, cut=bool(_why_cut(record)))
        return _Content(data, kind, charset)


def _unparsable(record: WarcRecord) -> Drop | None:
    """Return the drop of a record that is not there to be parsed."""
    if not record.whole:
        return _bad_record(record, "the file ends in the middle of the record; it was cut short")
    if not record.kind:
        return _bad_record(record, "a record without WARC-Type")
    if record.size > len(record.data):
        return too_large(record.number, record.position, record.size)
    return None


def _bad_record(record: WarcRecord, detail: str) -> Drop:
    return Drop(record.number, record.position, DropReason.BAD_RECORD, detail)


def _why_cut(record: WarcRecord) -> str:
    """Return why the crawler cut a record, as it says; empty if it did not."""
    said = value_of(record.fields, _TRUNCATED)
    if not said:
        return ""
    return said.lower() if said.lower() in _WHY_TRUNCATED else _UNSPECIFIED


def _said_cut(record: WarcRecord) -> str:
    """Return what the crawler says of a cut, for the end of a message."""
    why = _why_cut(record)
    return f"; the crawler cut it (WARC-Truncated: {why})" if why else ""


def _address(record: WarcRecord) -> str | None:
    """Return the URL of a record; some programs put it in brackets, and leave spaces as they are."""
    said = value_of(record.fields, "warc-target-uri")
    if said is None:
        return None
    if said.startswith("<") and said.endswith(">"):
        said = said[1:-1]
    return said.replace(" ", "%20")


WARC = StreamReader(
    "WARC",
    (".warc", ".wet"),
    Warc,
    has_columns=False,
    is_text=False,
    drops=((NOT_A_PAGE, "no page"),),
    libraries=(replace(RESILIPARSE, extra="warc"), Library("brotli", "warc")),
    version=2,
)
