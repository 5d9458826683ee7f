"""Small files of every reader for the tests of whole runs, and what is known of each record in them.

A format is one value of a table. A reader without a format is found by the test of the table.
"""

import csv
import gzip
import html
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from stages.reading.arrow import ARROW
from stages.reading.delimited import CSV, TSV
from stages.reading.html import HTML
from stages.reading.jsonl import JSON, JSON_LINES
from stages.reading.parquet import PARQUET
from stages.reading.reader import Reader, StreamReader
from stages.reading.text import PARAGRAPHS, WHOLE_TEXT
from stages.reading.warc import WARC
from tests.laws.given_records import (
    COLUMNS,
    INNER,
    KEPT,
    MESSAGES,
    META,
    Fault,
    Given,
    Row,
    Written,
    kept_text,
    value_at,
)
from tests.laws.written_dialogues import FIELDS, in_one_type

Write = Callable[[Sequence[Row | bytes]], tuple[bytes, list[int]]]
"""Returns a file of records, and where each begins."""
_HEAD = (*COLUMNS, *(f"{META}.{name}" for name in INNER))
"""Columns of a file that has no columns in columns."""
_INNER = {
    "url": pa.string(),
    "tags": pa.list_(pa.string()),
    "note": pa.large_string(),
    "number": pa.decimal128(38),
}
_TALKS, _BYTES = (
    pa.list_(pa.struct([pa.field(name, kind) for name in FIELDS])) for kind in (pa.string(), pa.binary())
)


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Format:
    """How a reader's files are written."""

    reader: Reader
    write: Write
    faults: tuple[Fault, ...]
    cut: tuple[int, str] | None = None
    """Bytes that are missing at the end of a file whose last record is cut, and the reason of its drop;
    None if such a file is refused."""
    single: bool = False
    """Whether a file is one record."""
    shown: Callable[[str], str] = _as_it_is
    """Returns what of a text the format can hold."""
    value: Callable[[Any], Any] = _as_it_is
    """Returns a value of a column as a record gives it."""
    kept: Callable[[Any], str | None] = kept_text
    """Returns what of a value goes along."""
    own_id: Callable[[Row], str | None] = lambda row: row["id"]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of a source of such files, where its default does not fit."""

    @property
    def has_columns(self) -> bool:
        """Whether records have fields of their own."""
        return not isinstance(self.reader, StreamReader) or self.reader.has_columns

    @property
    def has_lists(self) -> bool:
        """Whether a field may hold the messages of a dialogue."""
        return not isinstance(self.reader, StreamReader) or self.reader in (JSON_LINES, JSON)


def stream(
    piece: Callable[[Row], bytes], *, head: bytes = b"", between: bytes = b"\n", tail: bytes = b"\n"
) -> Write:
    """Return what writes records one after the other."""

    def write(rows: Sequence[Row | bytes]) -> tuple[bytes, list[int]]:
        data, places = head, []
        for number, row in enumerate(rows):
            data += between if number else b""
            places.append(len(data))
            data += row if isinstance(row, bytes) else piece(row)
        return data + tail, places

    return write


def table(save: Callable[[pa.Table, io.BytesIO], None]) -> Write:
    """Return what writes records as rows; texts that are no UTF-8 are written as they are."""

    def write(rows: Sequence[Row | bytes]) -> tuple[bytes, list[int]]:
        named = [row for row in rows if not isinstance(row, bytes)]
        assert len(named) == len(rows), "a row has columns"
        columns = {}
        for name in COLUMNS:
            values = [row[name] for row in named]
            if name == "score":
                columns[name] = pa.array(values, pa.float64())
            else:
                columns[name] = pa.array(_encoded(values), pa.binary()).view(pa.string())
        inner = {name: _inner(name, [row[META][name] for row in named]) for name in named[0][META]}
        columns[META] = pa.StructArray.from_arrays(list(inner.values()), list(inner))
        if MESSAGES in named[0]:
            columns[MESSAGES] = _talks([row[MESSAGES] for row in named])
        file = io.BytesIO()
        save(pa.table(columns), file)
        return file.getvalue(), list(range(len(named)))

    return write


def _encoded(value: Any) -> Any:
    """Return a value with its strings in bytes."""
    if isinstance(value, list):
        return [_encoded(one) for one in value]
    if isinstance(value, dict):
        return {name: _encoded(one) for name, one in value.items()}
    return value.encode() if isinstance(value, str) else value


def _talks(cells: Sequence[Any]) -> pa.Array:
    return pa.array(_encoded(list(map(in_one_type, cells))), _BYTES).view(_TALKS)


def _inner(name: str, values: list[Any]) -> pa.Array:
    """Return a column within `META`."""
    if name not in _INNER:
        return _talks(values)
    found = [Decimal(value) if isinstance(value, int) else value for value in values]
    return pa.array(found, _INNER[name])


def json_line(row: Row) -> bytes:
    """Return a record as a line of JSON, without the end of the line."""
    return json.dumps(row, ensure_ascii=False).encode()


def _cell(value: Any) -> str:
    """Return what a field of CSV holds of a value."""
    if isinstance(value, list):
        return json.dumps(value)
    return "" if value is None else str(value)


def _delimited(row: Row, delimiter: str) -> bytes:
    file = io.StringIO()
    values = [_cell(value_at(row, name)) for name in _HEAD]
    csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="").writerow(values)
    return file.getvalue().encode()


def _page(row: Row) -> bytes:
    return f"<!DOCTYPE html><html><body><p>{html.escape(row['text'])}</p></body></html>".encode()


def _crawled(body: bytes, url: str, *, answer: str = "200 OK", kind: str = "text/html") -> bytes:
    body = f"HTTP/1.1 {answer}\r\nContent-Type: {kind}\r\n\r\n".encode() + body
    head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _address(row: Row) -> str:
    return f"http://a.org/{row['id']}"


def _plain(row: Row) -> bytes:
    return bytes(row["text"].encode())


def _one_line(text: str) -> str:
    return " ".join(text.replace("\ufeff", "").split())


def _without_blank_lines(text: str) -> str:
    lines = [line for line in text.split("\n") if line.encode().strip()]
    return "\n".join(lines).removesuffix("\r") or "x"


_ROW = Given(0, ("a text",)).row
_NULL, _NO_TEXT = {**_ROW, "text": None}, {**_ROW, "text": 7}
BAD_BYTES = b"caf\xe9 and more of it"
_OF_JSON = (
    Fault(json_line(_NULL), "missing_text"),
    Fault(json_line(_NO_TEXT), "missing_text"),
    Fault(json_line(_ROW).replace(b"a text", BAD_BYTES), "bad_utf8"),
    Fault(b'{"text": "a quote is missing}', "bad_json"),
    Fault(b"[7]", "bad_json"),
)
_OF_LISTS = tuple(
    fault for fault in _OF_JSON if isinstance(fault.content, bytes) and fault.content[:1] == b"{"
)
"""Behind a record that is broken, a list must go on with an object."""
_OF_TABLES = (Fault(_NULL, "missing_text"), Fault({**_ROW, "text": BAD_BYTES}, "bad_utf8"))


def _of_delimited(delimiter: str) -> tuple[Fault, ...]:
    whole = _delimited(_ROW, delimiter)
    return (
        Fault(f'"a"{delimiter}"b"'.encode(), "bad_record"),
        Fault(delimiter.encode() * (len(_HEAD) - 1), "empty"),
        Fault(whole.replace(b"a text", BAD_BYTES), "bad_utf8"),
        Fault(whole.replace(b'a text"', b'a" text"'), "bad_record"),
    )


def _separated(reader: Reader, delimiter: str) -> Format:
    head = delimiter.join(_HEAD).encode() + b"\n"
    return Format(
        reader,
        stream(partial(_delimited, delimiter=delimiter), head=head),
        _of_delimited(delimiter),
        cut=(2, "bad_record"),
        value=_cell,
        kept=lambda value: kept_text(_cell(value)),
        settings={"quoting": "csv"},
    )


def _save_arrow_file(found: pa.Table, file: io.BytesIO) -> None:
    with pa.ipc.new_file(file, found.schema) as writer:
        writer.write_table(found, max_chunksize=2)


def _save_arrow_stream(found: pa.Table, file: io.BytesIO) -> None:
    with pa.ipc.new_stream(file, found.schema) as writer:
        writer.write_table(found, max_chunksize=2)


def _save_parquet(found: pa.Table, file: io.BytesIO) -> None:
    pq.write_table(found, file, row_group_size=2)


def _nothing(_: Row) -> None:
    return None


_ON_A_LINE, _PAGES = b"\r\n\r\n", "http://a.org/fault"
FORMATS: dict[str, Format] = {
    "JSON lines": Format(JSON_LINES, stream(json_line), _OF_JSON, cut=(4, "bad_json")),
    "JSON list": Format(JSON, stream(json_line, head=b"[", between=b",\n", tail=b"\n]\n"), _OF_LISTS),
    "JSON as lines": Format(
        JSON, stream(json_line, head=json_line(_NULL) + b"\n"), _OF_JSON, cut=(4, "bad_json")
    ),
    "HTML": Format(
        HTML,
        stream(_page, tail=b""),
        (Fault(b"<html><body><p>" + BAD_BYTES, "bad_utf8"),),
        single=True,
        shown=_one_line,
        own_id=_nothing,
    ),
    "WARC": Format(
        WARC,
        stream(lambda row: _crawled(_page(row), _address(row)), between=_ON_A_LINE, tail=_ON_A_LINE),
        (
            Fault(_crawled(b"<p>gone</p>", _PAGES, answer="404 Not Found"), "not_a_page"),
            Fault(_crawled(b"\x89PNG", _PAGES, kind="image/png"), "not_a_page"),
            Fault(_crawled(BAD_BYTES, _PAGES), "bad_utf8"),
        ),
        cut=(len(_ON_A_LINE) + 9, "bad_record"),
        shown=_one_line,
        own_id=_address,
    ),
    "Parquet": Format(PARQUET, table(_save_parquet), _OF_TABLES),
    "Arrow file": Format(ARROW, table(_save_arrow_file), _OF_TABLES),
    "Arrow stream": Format(ARROW, table(_save_arrow_stream), _OF_TABLES),
    "CSV": _separated(CSV, ","),
    "TSV": _separated(TSV, "\t"),
    "text": Format(
        WHOLE_TEXT,
        stream(_plain, tail=b""),
        (Fault(BAD_BYTES, "bad_utf8"),),
        single=True,
        own_id=_nothing,
    ),
    "paragraphs": Format(
        PARAGRAPHS,
        stream(_plain, between=b"\n\n"),
        (Fault(BAD_BYTES, "bad_utf8"),),
        shown=_without_blank_lines,
        own_id=_nothing,
    ),
}
"""Every reader in one way or more."""
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": partial(gzip.compress, mtime=0),
    ".zst": zstandard.compress,
}
"""By the end of a file's name."""


def compressed(name: str, data: bytes) -> bytes:
    """Return a file's bytes as the end of its name says."""
    return next((pack(data) for end, pack in COMPRESS.items() if name.endswith(end)), data)


def write_source(
    folder: Path,
    format_name: str,
    ending: str,
    records: Sequence[Given | Fault],
    *,
    cut: bool,
    begin: int = 0,
) -> list[Written]:
    """Write the files of a source, two if it has records enough; return what stands in them.

    Args:
        folder: of the source, whose name it has.
        format_name: one of `FORMATS`.
        ending: of the files' names.
        records: that are written.
        cut: whether the last record is cut where the format allows it.
        begin: number of the first file.
    """
    form, half = FORMATS[format_name], (len(records) + 1) // 2
    size = 1 if form.single else max(1, half)
    parts = [records[first : first + size] for first in range(0, len(records), size)]
    folder.mkdir(exist_ok=begin > 0)
    found = []
    for number, part in enumerate(parts):
        name = f"{begin + number:02}{ending}"
        shown = [_fitting(record, form) for record in part]
        data, places = form.write([one.row if isinstance(one, Given) else one.content for one in shown])
        ends = [*places[1:], len(data) if isinstance(form.reader, StreamReader) else len(places)]
        if format_name == "JSON as lines":
            found.append(Written(folder.name, name, 0, places[0], "missing_text"))
        listed = [
            _written(folder.name, name, form, one, place=place, end=end)
            for one, place, end in zip(shown, places, ends, strict=True)
        ]
        last = shown[-1]
        if cut and number == len(parts) - 1 and form.cut and isinstance(last, Given):
            missing, reason = form.cut
            data = data[:-missing]
            listed[-1] = Written(folder.name, name, places[-1], len(data), reason)
        (folder / name).write_bytes(compressed(name, data))
        found += listed
    return found


def _fitting(record: Given | Fault, form: Format) -> Given | Fault:
    if isinstance(record, Fault):
        return record
    return replace(record, texts=tuple(map(form.shown, record.texts)))


def _written(
    source: str, path: str, form: Format, record: Given | Fault, *, place: int, end: int
) -> Written:
    if isinstance(record, Fault):
        return Written(source, path, place, end, record.reason)
    row = record.row
    return Written(
        source,
        path,
        place,
        end,
        None,
        texts=record.texts,
        flags=record.flags,
        own_id=form.own_id(row),
        language=(row["lang"] or "und") if form.has_columns else "und",
        values={name: form.value(row[name]) for name in COLUMNS} if form.has_columns else {},
        kept={name: form.kept(value_at(row, name)) for name in KEPT} if form.has_columns else {},
    )
