r"""Delimited text (CSV, TSV) to raw documents: a header, then records of one line, or more if quoted.

With `quoting = "csv"`, as RFC 4180 has it and Python's csv module reads it, strictly: a field that
begins with a quote goes on to the next quote that is not doubled, over delimiters and line ends. So
where a record begins can be told only from the file's beginning, and files are read from front to back.
With `quoting = "none"`, as IANA registered text/tab-separated-values, each line is a record and a quote
is a character like any other.

A document stands at the first byte of its record. A header without the columns of the text is refused:
it may be no header, or have swallowed the records behind a quote that is left open. So is one that has a
column of its source twice.

    id,text\n1,"a ""b""\nc"\n      csv   -> {"id": "1", "text": 'a "b"\nc'}
    id\ttext\n1\t"a" b\n           none  -> {"id": "1", "text": '"a" b'}
"""

import csv
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial

from stages.columns import Drop, DropReason
from stages.reading.cells import wanted_columns
from stages.reading.columns_seen import NAME_LENGTH, NAMED, ColumnsSeen
from stages.reading.delimiters import USUAL_DELIMITERS, Quoting, csv_rule, looks_quoted
from stages.reading.faults import ContentError
from stages.reading.fields import document_of
from stages.reading.lines import Line, joined, split_lines
from stages.reading.notices import LONG_FIELD, LOOKS_QUOTED
from stages.reading.reader import StreamReader
from stages.reading.records import FieldMapping, Record, bad_utf8, foreign_detail, too_large

csv.field_size_limit(sys.maxsize >> 33)  # a C long everywhere; `max_document_bytes` is the bound
_QUOTE = b'"'


class HeaderError(ContentError):
    """A file of delimited text has no header, or one without the columns of the text."""

    def __init__(self, message: str, setting: str = "text_column") -> None:
        super().__init__(message, setting)


@dataclass
class DelimitedRecords:
    """A stream of records below a header."""

    fields: FieldMapping
    max_bytes: int
    delimiter: bytes
    quoting: Quoting
    _names: list[str] = field(default_factory=list)
    """Of the columns, from the header."""

    def __post_init__(self) -> None:
        """Take the delimiter and the quoting that the source declares."""
        if self.fields.delimiter is not None:
            self.delimiter = self.fields.delimiter.encode()
        self.quoting = self.fields.quoting or self.quoting

    def lines(self, chunks: Iterable[bytes]) -> Iterator[Line]:
        """Return the records below the header that are not blank; a long one keeps its size alone.

        A line of delimiters is a record of empty fields, even if they are tabs.

        Raises:
            HeaderError: the header lacks a column of the text, or has one twice that is taken.
        """
        if self.quoting is Quoting.NONE:
            records = whole_lines(chunks, max_bytes=self.max_bytes)
        else:
            records = delimited_records(chunks, delimiter=self.delimiter, max_bytes=self.max_bytes)
        for record in records:
            if self._names:
                if not record.blank or self.delimiter in record.data:
                    yield record
            elif not record.blank:
                self._names = self._header(record)

    def parse(self, line: Line, columns: ColumnsSeen) -> Record:
        """Return the document of a record; a drop says how many lines it takes."""
        record = self._parse(line, columns)
        columns.further_lines += line.lines - 1
        if line.lines == 1 or not isinstance(record, Drop):
            return record
        detail = f"{record.detail}; it takes {line.lines:,} lines"
        return replace(record, detail=detail, lines=line.lines)

    def _parse(self, line: Line, columns: ColumnsSeen) -> Record:
        if line.size > len(line.data):
            return too_large(line.number, line.position, line.size)
        try:
            values = self._values(line.content.decode())
        except UnicodeDecodeError as error:
            return bad_utf8(line.number, line.position, error)
        except csv.Error as error:
            return Drop(line.number, line.position, DropReason.BAD_RECORD, _fault(error))
        self._notice(values, columns)
        if len(values) != len(self._names):
            detail = f"{len(values):,} fields, and the header has {len(self._names):,}"
            return Drop(line.number, line.position, DropReason.BAD_RECORD, detail)
        return document_of(dict(zip(self._names, values, strict=True)), line, self.fields, columns)

    def _notice(self, values: list[str], columns: ColumnsSeen) -> None:
        """Count the fields that people should know of."""
        if self.quoting is Quoting.NONE:
            if number := sum(map(looks_quoted, values)):
                columns.noticed[LOOKS_QUOTED.name] += number
        elif long := sum("\n" in value for value in values):
            columns.noticed[LONG_FIELD.name] += long

    def _header(self, record: Line) -> list[str]:
        """Return the names of the columns."""
        if record.size > len(record.data):
            raise HeaderError(f"its header has {record.size:,} bytes, over ingest.max_document_bytes")
        if foreign := foreign_detail(record.position, record.data):
            raise ContentError(foreign, "encoding")
        try:
            names = self._values(record.content.decode())
        except (UnicodeDecodeError, csv.Error) as error:
            lines = f"; it takes {record.lines:,} lines" if record.lines > 1 else ""
            raise HeaderError(f"its first line is no header ({_fault(error)}{lines})") from error
        for column in self.fields.text_columns:
            if column not in names:
                self._refuse_other_delimiter(record.content.decode())
                self._refuse_other_quoting(record.content.decode())
                there = ", ".join(name[:NAME_LENGTH] for name in names[:NAMED])
                raise HeaderError(f"its header has no column {column!r}; columns there: {there}")
        for column in wanted_columns(self.fields):
            if (count := names.count(column)) > 1:
                raise ContentError(
                    f"its header has column {column!r} {count:,} times; rename all but one", None
                )
        return names

    def _refuse_other_delimiter(self, header: str) -> None:
        """Refuse a header that has the columns of the text if another delimiter is taken."""
        for other in USUAL_DELIMITERS:
            try:
                names = _cells(header, other, self.quoting)
            except csv.Error:
                continue
            if set(self.fields.text_columns) <= set(names):
                raise HeaderError(
                    f"its header has the columns delimited by {json.dumps(other)}, not by"
                    f" {json.dumps(self.delimiter.decode())}; set delimiter = {json.dumps(other)} beside"
                    " its paths",
                    "delimiter",
                )

    def _refuse_other_quoting(self, header: str) -> None:
        """Refuse a header that has the columns of the text if its quotes are taken away."""
        if self.quoting is not Quoting.NONE:
            return
        try:
            names = _cells(header, self.delimiter.decode(), Quoting.CSV)
        except csv.Error:
            return
        if set(self.fields.text_columns) <= set(names):
            raise HeaderError(
                'the names of its columns are quoted; set quoting = "csv" beside its paths', "quoting"
            )

    def _values(self, record: str) -> list[str]:
        return _cells(record, self.delimiter.decode(), self.quoting)


def _cells(record: str, delimiter: str, quoting: Quoting) -> list[str]:
    rule = csv_rule(quoting)
    (values,) = csv.reader([record], delimiter=delimiter, strict=True, quoting=rule)
    return values


def _fault(error: Exception) -> str:
    """Say what is wrong with a record."""
    said = str(error)
    if said.startswith("new-line character"):  # the module goes on to tell how to open files
        return "a carriage return outside of quotes; lines end with LF or CRLF"
    return said


def whole_lines(chunks: Iterable[bytes], *, max_bytes: int) -> Iterator[Line]:
    r"""Return the lines of a stream without their ends, LF or CRLF; a long one keeps its size alone.

    b'a,"b\r\nc"\n' -> Line(1, 0, b'a,"b', 4), Line(2, 6, b'c"', 2)
    """
    for line in split_lines(chunks, max_bytes=max_bytes + 1):
        if line.data.endswith(b"\r"):
            line = replace(line, data=line.data[:-1], size=line.size - 1)  # noqa: PLW2901  # the same line
        if len(line.data) > max_bytes:
            line = replace(line, data=b"")  # noqa: PLW2901
        yield line


def delimited_records(chunks: Iterable[bytes], *, delimiter: bytes, max_bytes: int) -> Iterator[Line]:
    r"""Return the records of a stream in order, the header first.

    b'a,"b\nc"\r\nd,e\n' -> Line(1, 0, b'a,"b\nc"', 8), Line(3, 9, b"d,e", 3)

    Args:
        chunks: the bytes.
        delimiter: between two fields, one byte.
        max_bytes: longest record held; a longer one keeps its size, not its data.
    """
    place, state = _Place(), _Reading.START
    buffer: list[bytes] = []
    size = line_feeds = 0
    ends = False
    for chunk in chunks:
        start = 0
        while start < len(chunk):
            stop = chunk.find(b"\n", start)
            ends = stop >= 0
            part = chunk[start : stop + 1 if ends else len(chunk)]
            start += len(part)
            state = _after(state, part.removesuffix(b"\n"), delimiter)
            size, line_feeds = size + len(part), line_feeds + ends
            if size - ends <= max_bytes:
                buffer.append(part)
            else:
                buffer = []
            if ends and state is not _Reading.QUOTED:
                yield place.record(buffer, size, b"\n", lines=line_feeds)
                place.move(size, line_feeds)
                state, buffer, size, line_feeds = _Reading.START, [], 0, 0
    if size:
        yield place.record(buffer, size, b"", lines=line_feeds + (not ends))


class _Reading(Enum):
    """Where in a record the last byte was."""

    START = 0
    """Before the first byte of a field."""
    PLAIN = 1
    QUOTED = 2
    CLOSING = 3
    """Behind a quote in a quoted field: it ends the field, unless another follows."""


@dataclass
class _Place:
    """Where a record begins."""

    number: int = 1
    position: int = 0

    def record(self, buffer: list[bytes], size: int, end: bytes, *, lines: int) -> Line:
        """Return the record without the line end that `size` has with it; it may not be held."""
        if not buffer:
            return Line(self.number, self.position, b"", size - len(end), lines)
        data = joined(buffer)
        if end:
            data = data.removesuffix(end).removesuffix(b"\r")
        return Line(self.number, self.position, data, len(data), lines)

    def move(self, size: int, line_feeds: int) -> None:
        """Go on to the next record."""
        self.number, self.position = self.number + line_feeds, self.position + size


def _after(state: _Reading, part: bytes, delimiter: bytes) -> _Reading:
    """Return where the end of a part of a record is, given where its beginning is."""
    at = 0
    while at < len(part):
        if state is _Reading.QUOTED:
            at = part.find(_QUOTE, at) + 1
            if not at:
                return state
            state = _Reading.CLOSING
        elif part.startswith(_QUOTE, at) and state in (_Reading.START, _Reading.CLOSING):
            state, at = _Reading.QUOTED, at + 1  # doubled, it stands for itself
        else:
            at = part.find(delimiter + _QUOTE, at) + 1
            if not at:
                return _Reading.START if part.endswith(delimiter) else _Reading.PLAIN
            state = _Reading.START
    return state


def _reader(name: str, ending: str, delimiter: bytes, quoting: Quoting) -> StreamReader:
    opening = partial(DelimitedRecords, delimiter=delimiter, quoting=quoting)
    return StreamReader(name, (ending,), opening, quoting=quoting)


CSV = _reader("CSV", ".csv", b",", Quoting.CSV)
TSV = _reader("TSV", ".tsv", b"\t", Quoting.NONE)
