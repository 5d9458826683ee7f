"""The formats of input files; whatever is asked of all of them loops over this list."""

import functools

from stages.reading.arrow import ARROW
from stages.reading.decompress import COMPRESSIONS
from stages.reading.delimited import CSV, TSV
from stages.reading.html import HTML
from stages.reading.jsonl import JSON, JSON_LINES
from stages.reading.parquet import PARQUET
from stages.reading.reader import Reader, TableReader, TextSplit
from stages.reading.source_code import ALL_CODE_ENDINGS
from stages.reading.text import PARAGRAPHS, WHOLE_TEXT
from stages.reading.warc import WARC

READERS: tuple[Reader, ...] = (
    JSON_LINES,
    JSON,
    HTML,
    WARC,
    PARQUET,
    ARROW,
    CSV,
    TSV,
    WHOLE_TEXT,
    PARAGRAPHS,
)


@functools.cache  # asked of every file of a folder
def endings_of(reader: Reader) -> tuple[str, ...]:
    """Return how the names of a format's files end: JSON lines -> .jsonl, .jsonl.gz, .jsonl.zst."""
    if isinstance(reader, TableReader):
        return reader.endings
    return tuple(f"{ending}{packed}" for ending in reader.endings for packed in ("", *COMPRESSIONS))


ENDINGS = tuple(dict.fromkeys(ending for reader in READERS for ending in endings_of(reader)))
"""All that is read, by the ending of the name, in lower case."""


def endings_said() -> str:
    """Return all that is read: ".jsonl, .txt, source code such as .py (also with .gz or .zst), ..."."""
    packed: dict[str, None] = {}
    whole: dict[str, None] = {}
    for reader in READERS:
        (whole if isinstance(reader, TableReader) else packed).update(dict.fromkeys(reader.endings))
    data = [ending for ending in packed if ending not in ALL_CODE_ENDINGS]
    streams = f"{', '.join(data)}, source code such as .py and .java"
    return f"{streams} (also with {' or '.join(COMPRESSIONS)}), {', '.join(whole)}"


def reader_of(name: str, split: TextSplit) -> Reader | None:
    """Return what reads a file, by its name: "a/b.jsonl.gz" -> JSON_LINES, "b.doc" -> None.

    Args:
        name: of the file.
        split: what a document is, in a source of plain text.
    """
    fitting = (reader for reader in READERS if name.endswith(endings_of(reader)))
    return next((r for r in fitting if isinstance(r, TableReader) or r.split in (None, split)), None)


def is_named_like_file(name: str) -> bool:
    """Say whether a name is that of a file of data; folders may have such names too, but not of code."""
    return name.endswith(ENDINGS) and not name.endswith(ALL_CODE_ENDINGS)
