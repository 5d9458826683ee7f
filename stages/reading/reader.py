"""A reader as one value: all that the program knows of one format of input files.

`stages.reading.table` lists them. A file of a table format is cut by rows, which have numbers. Any other
is a stream of bytes, compressed or not: its lines are records, known by where they begin.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, Protocol

from stages.reading.columns_seen import ColumnsSeen
from stages.reading.delimiters import Quoting
from stages.reading.lines import Line
from stages.reading.records import FieldMapping, Record
from stages.reading.slices import Slice


class TextSplit(StrEnum):
    """What a document of a plain text file is."""

    FILE = "file"
    BLANK_LINE = "blank_line"


class CheckTable(Protocol):
    """Checks a file's columns from its footer.

    Raises:
        ConfigError: a column that the source takes is absent or of another type.
        DataError: the file is cut or damaged.
    """

    def __call__(self, file: BinaryIO, fields: FieldMapping, *, name: str, key: str) -> None:
        """Check the file that is called `name` of the source whose setting is `key`."""


class CutTable(Protocol):
    """Checks a file's columns and cuts its rows into slices; raises as `CheckTable`."""

    def __call__(
        self, file: BinaryIO, fields: FieldMapping, *, unit: int, name: str, key: str
    ) -> tuple[list[Slice], int]:
        """Return the slices, of about `unit` bytes of text, and the rows of all."""


class ReadTable(Protocol):
    """Reads the rows of a slice in order.

    Raises:
        DataError: the file is cut or damaged.
    """

    def __call__(
        self, file: BinaryIO, part: Slice, fields: FieldMapping, *, max_bytes: int, name: str
    ) -> Iterator[Record]:
        """Return what each row gives."""


class ReadSlice(Protocol):
    """Reads the lines that begin in a slice of a plain file."""

    def __call__(
        self, file: BinaryIO, part: Slice, *, max_bytes: int
    ) -> Generator[Line, None, int | None]:
        """Return the lines; at the end, where the first of the next slice begins, if it was found."""


class LineReader(Protocol):
    """One open stream: its lines, and what makes a record of each."""

    def lines(self, chunks: Iterable[bytes]) -> Iterator[Line]:
        """Return the lines of the decompressed bytes in order; blank ones are passed over."""

    def parse(self, line: Line, columns: ColumnsSeen) -> Record:
        """Return the document of a line, or the reason why it is none; `columns` counts its fields."""


@dataclass(frozen=True)
class Library:
    """What a reader leaves to another library that not every installation has."""

    name: str
    """Of its package; its version decides the documents."""
    extra: str
    """Of ours, that installs it."""


@dataclass(frozen=True)
class TableReader:
    """A format of rows in columns of known types."""

    name: str
    endings: tuple[str, ...]
    check: CheckTable
    slices: CutTable
    records: ReadTable
    slices_from_footer: bool
    """Whether `slices` reads no row."""
    libraries: tuple[Library, ...] = ()
    """What else must be installed."""
    version: int = 1
    """Raised when it reads the same files otherwise; in the fingerprints of such files alone."""


@dataclass(frozen=True)
class StreamReader:
    """A format of records that follow each other in a stream of bytes."""

    name: str
    endings: tuple[str, ...]
    """Of a plain file; behind each may stand that of a compression."""
    open: Callable[[FieldMapping, int], LineReader]
    """Begins a stream, given the fields and the longest line that is held, in bytes."""
    read_slice: ReadSlice | None = None
    """None if a line can be told only from the file's beginning: it is read from front to back. Plain
    files in UTF-8 that are larger than a unit are read so; all others go through `open` alone."""
    without_gaps: bool = True
    """Whether each line of a slice, blank ones too, begins where the one before it ends, and the first
    of a file at byte 0. Then a run checks that no byte was left out."""
    has_columns: bool = True
    """Whether a record has fields of its own: an id, a language, sections."""
    libraries: tuple[Library, ...] = ()
    """What else must be installed."""
    version: int = 1
    """Raised when it reads the same files otherwise; in the fingerprints of such files alone."""
    is_text: bool = True
    """Whether it is text in one encoding, which a source may declare."""
    is_whole: bool = False
    """Whether a file is one document, of which a line says nothing."""
    quoting: Quoting | None = None
    """What a quote means unless its source says it; None of what is no delimited text."""
    drops: tuple[tuple[str, str], ...] = ()
    """Reasons of its own for which a record gives no document, with what the report calls them. They
    mean a poor record: only those of `DropReason` count for `ingest.max_bad_fraction`."""
    split: TextSplit | None = None
    """The `text_split` of a source for which it is the reader; None for any."""

    @property
    def has_delimiter(self) -> bool:
        """Whether fields are delimited by a character that a source may declare."""
        return self.quoting is not None


Reader = TableReader | StreamReader
