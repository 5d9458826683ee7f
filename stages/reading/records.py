"""Records: what every reader gives, and which fields of a source it takes.

In the flow: bytes -> lines, paragraphs or table rows -> **raw documents** -> cleaned text. A record
that gives no document gives a drop with its reason; nothing raises and nothing disappears.
"""

from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field, field_validator, model_validator

from stages.chat.config import ChatConfig
from stages.chat.dialogue import ChatTurn
from stages.columns import Drop, DropReason
from stages.config import Config
from stages.reading.delimiters import Quoting, possible_delimiter
from stages.reading.encodings import foreign_encoding
from stages.reading.kept_values import NOTHING_KEPT, KeptValues

_TEXT = "text"
UNDETERMINED = "und"
"""The language of a document whose record names none (ISO 639-2)."""


class HtmlText(StrEnum):
    """What of an HTML page is its text."""

    MAIN = "main"
    ALL = "all"


class LanguageColumn(Config):
    """The field of a record that names its language."""

    column: str = Field(min_length=1)
    """Name of the field."""


class FieldMapping(Config):
    """Which fields of a record hold what."""

    text_column: str = Field(_TEXT, min_length=1)
    """The field that holds the text."""
    section_columns: tuple[str, ...] = Field((), max_length=7)
    """Fields whose texts follow the first one, each as its own section: for example the answer to a
    prompt. Sections follow each other as they are, with nothing between."""
    chat: ChatConfig | None = None
    """Dialogues instead of texts: `{ template = "chatml" }`. Then there is no `text_column`."""
    id_column: str | None = None
    """The field that holds the user's own id, kept beside ours; none by default. A field that a source
    names may be inside of another: `meta.id`. If a field at the top level has this name with its dots,
    it is taken. `id_column` is refused if no record of the source has it. A document whose id is over
    4,096 bytes is dropped and counted."""
    keep_columns: tuple[str, ...] = Field((), max_length=16)
    """Fields whose values are kept beside the document in the documents.parquet of its shard, one column
    each: `url` as `record.url`, `meta.quality` as `record.meta.quality`. A string is itself, any other
    value its JSON text; absent and null are null. A value over 4,096 bytes, or nested over 64 deep, is
    null too, and counted. A field is refused if no record of the source has it."""
    language: str | LanguageColumn = UNDETERMINED
    """One language for the whole source, or the field that names it. A document whose language is over
    256 bytes is dropped and counted."""

    delimiter: str | None = None
    """The character between two fields of CSV and TSV files, such as ";". By default it is a comma in
    .csv files, and a tab in .tsv files."""
    quoting: Quoting | None = None
    """What a quote means in CSV and TSV files. With `csv`, a field that begins with a quote ends at the
    next quote that is not doubled. It may hold delimiters and line ends. With `none`, a quote is a
    character like any other, and each line is a record. By default it is `csv` in .csv files, and `none`
    in .tsv files."""
    html_text: HtmlText = HtmlText.ALL
    """What of an HTML page is read: `all` that a reader sees, or its `main` text. Heuristics then leave
    out menus, heads and feet of pages. Sometimes they also leave out a list that belongs to the text."""

    _possible_delimiter = field_validator("delimiter")(possible_delimiter)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The fields that a document's text or dialogue is made of, in their order."""
        if self.chat is not None:
            return tuple(self.chat.columns.values())
        return (self.text_column, *self.section_columns)

    @property
    def beside(self) -> tuple[str, ...]:
        """The fields that are read for filters and deduplication alone."""
        return ()

    @property
    def needed(self) -> tuple[str, ...]:
        """Those of them that a table must have: the ones that filters ask for."""
        return ()

    @model_validator(mode="after")
    def _each_once(self) -> "FieldMapping":
        twice = {name for name in self.text_columns if self.text_columns.count(name) > 1}
        if twice:
            raise ValueError(f"section_columns: {min(twice)!r} is a section of the text already")
        if self.chat is not None and (self.text_column, self.section_columns) != (_TEXT, ()):
            raise ValueError(
                "chat and text_column or section_columns are both given: a source has texts or dialogues"
            )
        for key, names in (
            ("section_columns", self.section_columns),
            ("keep_columns", self.keep_columns),
        ):
            if "" in names:
                raise ValueError(f"{key}: '' names no field")
        twice = {name for name in self.keep_columns if self.keep_columns.count(name) > 1}
        if twice:
            raise ValueError(f"keep_columns: {min(twice)!r} stands twice")
        texts = sorted(set(self.keep_columns) & set(self.text_columns))
        if texts:
            raise ValueError(f"keep_columns: {texts[0]!r} is a text of the document already")
        return self


class FieldsForFilters(FieldMapping):
    """Which fields of a record hold what, and those that filters and deduplication ask for."""

    asked: tuple[str, ...] = ()
    """Fields that filters read, of whatever type."""
    compared: tuple[str, ...] = ()
    """Fields that documents are compared or ranked by, which a source need not have."""

    @property
    def beside(self) -> tuple[str, ...]:
        """The fields that are read for filters and deduplication alone."""
        return tuple(dict.fromkeys((*self.asked, *self.compared)))

    @property
    def needed(self) -> tuple[str, ...]:
        """Those of them that a table must have: the ones that filters ask for."""
        return self.asked


@dataclass(frozen=True)
class RawDocument:
    """A document as its file has it."""

    line: int
    """Number of its line, or of its row, from 1."""
    position: int
    """Byte offset of its first byte in the decompressed file; in a table, its row from 0."""
    text: str
    own_id: str | None
    language: str
    sections: tuple[str, ...] = ()
    """What continues the text, section by section."""
    values: tuple[object, ...] = ()
    """Of the fields that are read for filters and deduplication; None is absent or null."""
    turns: tuple[ChatTurn, ...] = ()
    """Of a dialogue, whose text is still to be written."""
    unread: tuple[str, ...] = ()
    """Fields beside the messages of a dialogue that belong to it, and that nothing reads."""
    flags: tuple[int, ...] = ()
    """Of a dialogue that is written: what each of its sections is."""
    kept: KeptValues = NOTHING_KEPT
    """Of the fields that go along."""


Record = RawDocument | Drop


def own_id_of(value: object) -> str | None:
    """Return the user's own id as a string: 7 -> "7"; what is neither string nor integer is none."""
    usable = isinstance(value, str | int) and not isinstance(value, bool)
    return str(value) if usable else None


def language_of(value: object) -> str:
    """Return the language that a record names, or the undetermined one."""
    return value if isinstance(value, str) and value else UNDETERMINED


def too_large(line: int, position: int, size: int) -> Drop:
    """Return the drop of a record that is longer than `max_document_bytes`."""
    return Drop(line, position, DropReason.TOO_LARGE, f"{size:,} bytes, over ingest.max_document_bytes")


def bad_utf8(line: int, position: int, error: UnicodeDecodeError) -> Drop:
    """Return the drop of a record whose bytes are no UTF-8."""
    detail = f"byte {error.start:,} of the record, 0x{error.object[error.start]:02x}: {error.reason}"
    foreign = foreign_detail(position, error.object)
    return Drop(line, position, DropReason.BAD_UTF8, foreign or detail)


def foreign_detail(position: int, data: bytes) -> str | None:
    """Return what to say of a record at the beginning of a file that looks like UTF-16 or UTF-32."""
    encoding = None if position else foreign_encoding(data)
    if encoding is None:
        return None
    kind = encoding.upper().removesuffix("-LE").removesuffix("-BE")
    return (
        f"the file looks like {kind}; set encoding = {encoding!r} of its source, or convert it to UTF-8"
    )
