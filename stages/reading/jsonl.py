"""JSON lines to raw documents: one object a line, its fields named by the source's config.

A line that gives no document gives a drop instead, with the reason; nothing raises and nothing
disappears. In the flow: bytes -> lines -> **raw documents** -> cleaned text.
"""

import orjson

from stages.columns import Drop, DropReason
from stages.reading.columns_seen import ID, LANGUAGE, ColumnsSeen
from stages.reading.lines import Line
from stages.reading.records import (
    FieldMapping,
    RawDocument,
    Record,
    bad_utf8,
    language_of,
    own_id_of,
    too_large,
)


def parse_line(line: Line, fields: FieldMapping, columns: ColumnsSeen | None = None) -> Record:
    """Return the document that a line holds, or the reason why it holds none.

    Args:
        line: the line.
        fields: which fields of its object hold what.
        columns: counts the fields that are there.
    """
    if line.size > len(line.data):
        return too_large(line.number, line.position, line.size)
    try:
        record = orjson.loads(line.content)
    except orjson.JSONDecodeError as error:
        return _bad_line(line, str(error))
    if not isinstance(record, dict):
        kind = type(record).__name__
        return Drop(line.number, line.position, DropReason.BAD_JSON, f"of type {kind}, not an object")
    if columns is not None:
        columns.add(record)
    texts = []
    for name in fields.text_columns:
        text = record.get(name)
        if not isinstance(text, str):
            found = "absent" if text is None else f"of type {type(text).__name__}"
            detail = f"field {name!r} is {found}"
            if columns is not None:
                columns.textless += 1
            return Drop(line.number, line.position, DropReason.MISSING_TEXT, detail)
        texts.append(text)
    own_id = _own_id(record, fields, columns)
    language = _language(record, fields, columns)
    return RawDocument(line.number, line.position, texts[0], own_id, language, tuple(texts[1:]))


def _bad_line(line: Line, why: str) -> Drop:
    """Tell bytes that are no UTF-8 from text that is no JSON."""
    try:
        line.data.decode()
    except UnicodeDecodeError as error:
        return bad_utf8(line.number, line.position, error)
    return Drop(line.number, line.position, DropReason.BAD_JSON, why)


def _own_id(record: dict[str, object], fields: FieldMapping, columns: ColumnsSeen | None) -> str | None:
    if not fields.id_column:
        return None
    value = record.get(fields.id_column)
    own_id = own_id_of(value)
    if own_id is None and columns is not None:
        columns.add_untaken(ID, value)
    return own_id


def _language(record: dict[str, object], fields: FieldMapping, columns: ColumnsSeen | None) -> str:
    if isinstance(fields.language, str):
        return fields.language
    value = record.get(fields.language.column)
    language = language_of(value)
    if language != value and columns is not None:
        columns.add_untaken(LANGUAGE, value)
    return language
