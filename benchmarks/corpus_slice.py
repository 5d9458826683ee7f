"""The first documents of a corpus, written anew: whole, with a text, an id and a language each.

    FOLDER/00000.jsonl.zst ...    some 16 MB of texts in each file, or as many as is asked for

So every program of a benchmark reads the same documents from the same files.
"""

import io
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import zstandard

from stages.reading.decompress import stream_chunks
from stages.reading.jsonl import parse_line
from stages.reading.lines import split_lines
from stages.reading.records import FieldMapping, LanguageColumn, RawDocument

FILE_BYTES = 16_000_000
"""Of texts, after which a new file begins."""
_FIELDS = FieldMapping(id_column="id", language=LanguageColumn(column="lang"))
_MAX_LINE_BYTES = 1 << 26


@dataclass(frozen=True)
class CorpusSlice:
    """What was written."""

    folder: Path
    documents: int
    text_bytes: int
    unread: int
    """Lines that hold no document."""


def write_slice(
    paths: Iterable[Path],
    folder: Path,
    *,
    max_bytes: int | None = None,
    max_documents: int | None = None,
) -> CorpusSlice:
    """Write the first documents of some files into a new folder, as `write_documents` does.

    Args:
        paths: files of JSON lines, plain, .gz or .zst.
        folder: replaced if it is there.
        max_bytes: of texts.
        max_documents: the most.
    """
    return write_documents(
        read_documents(paths), folder, max_bytes=max_bytes, max_documents=max_documents
    )


def write_documents(
    records: Iterable[RawDocument | None],
    folder: Path,
    *,
    max_bytes: int | None = None,
    max_documents: int | None = None,
    file_bytes: int | None = None,
) -> CorpusSlice:
    """Write documents into a new folder, up to a bound.

    Args:
        records: None stands for a line that holds no document.
        folder: replaced if it is there.
        max_bytes: of texts; the document that reaches it is the last one, and whole.
        max_documents: the most.
        file_bytes: of texts, after which a new file begins [default: 16 MB].
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    documents = text_bytes = unread = held = 0
    lines = io.BytesIO()
    for record in records:
        if record is None:
            unread += 1
            continue
        own_id = record.own_id or str(documents)
        lines.write(orjson.dumps({"id": own_id, "text": record.text, "lang": record.language}) + b"\n")
        size = len(record.text.encode())
        documents, text_bytes, held = documents + 1, text_bytes + size, held + size
        if held >= (file_bytes or FILE_BYTES):
            _write(folder, lines)
            lines, held = io.BytesIO(), 0
        if text_bytes >= (max_bytes or text_bytes + 1) or documents == max_documents:
            break
    if lines.tell():
        _write(folder, lines)
    return CorpusSlice(folder, documents, text_bytes, unread)


def read_documents(paths: Iterable[Path]) -> Iterator[RawDocument | None]:
    """Yield the documents of the files, and nothing for each line that holds none."""
    for path in paths:
        for line in split_lines(stream_chunks(path), max_bytes=_MAX_LINE_BYTES):
            record = parse_line(line, _FIELDS)
            yield record if isinstance(record, RawDocument) else None


def _write(folder: Path, lines: io.BytesIO) -> None:
    path = folder / f"{len(list(folder.iterdir())):05d}.jsonl.zst"
    path.write_bytes(zstandard.compress(lines.getvalue()))
