"""JSON lines to raw documents: one object a line, its fields named by the source's config.

A line that gives no document gives a drop instead, with the reason; nothing raises and nothing
disappears. In the flow: bytes -> lines -> **raw documents** -> cleaned text.
"""

from dataclasses import dataclass

import orjson
from pydantic import Field

from stages.columns import Drop, DropReason
from stages.config import Config
from stages.reading.lines import Line

UNDETERMINED = "und"
"""The language of a document whose record names none (ISO 639-2)."""


class LanguageColumn(Config):
    """The field of a record that names its language."""

    column: str = Field(min_length=1)
    """Name of the field."""


class FieldMapping(Config):
    """Which fields of a record hold what."""

    text_column: str = Field("text", min_length=1)
    """The field that holds the text."""
    id_column: str | None = None
    """The field that holds the user's own id, kept beside ours; none by default."""
    language: str | LanguageColumn = UNDETERMINED
    """One language for the whole source, or the field that names it."""


@dataclass(frozen=True)
class RawDocument:
    """A document as its file has it."""

    position: int
    text: str
    own_id: str | None
    language: str


def parse_line(line: Line, fields: FieldMapping) -> RawDocument | Drop:
    """Give the document that a line holds, or the reason why it holds none."""
    if line.size > len(line.data):
        return Drop(line.number, line.position, DropReason.TOO_LARGE, f"{line.size:,} bytes")
    try:
        record = orjson.loads(line.data)
    except orjson.JSONDecodeError as error:
        return Drop(line.number, line.position, DropReason.BAD_JSON, str(error))
    if not isinstance(record, dict):
        kind = type(record).__name__
        return Drop(line.number, line.position, DropReason.BAD_JSON, f"a {kind}, not an object")
    text = record.get(fields.text_column)
    if not isinstance(text, str):
        found = "absent" if text is None else f"a {type(text).__name__}"
        return Drop(
            line.number,
            line.position,
            DropReason.MISSING_TEXT,
            f"field {fields.text_column!r} is {found}",
        )
    return RawDocument(line.position, text, _own_id(record, fields), _language(record, fields))


def _own_id(record: dict[str, object], fields: FieldMapping) -> str | None:
    value = record.get(fields.id_column) if fields.id_column else None
    usable = isinstance(value, str | int) and not isinstance(value, bool)
    return str(value) if usable else None


def _language(record: dict[str, object], fields: FieldMapping) -> str:
    if isinstance(fields.language, str):
        return fields.language
    value = record.get(fields.language.column)
    return value if isinstance(value, str) and value else UNDETERMINED
