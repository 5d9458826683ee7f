"""Texts: the documents that a run kept, for trainers and tools that tokenize themselves.

    text-parquet   SOURCE/NNNNN.parquet   a row a document
    text-jsonl     SOURCE/NNNNN.jsonl     a JSON object a document, a line each

    text           the document, cleaned and cut as the run says
    id             32 hexadecimal digits, the run's name of it
    own_id         the id that its source gives, or null
    source         of the run file
    language       as the source or the run says
    path           of the file that it comes from
    position       where it begins in that file: a byte offset, or a row
    section_ends   of documents with sections: where each ends, in characters
    ...            the fields of `keep_columns`, each by its own name

Files are those of one source, each of about 256 MiB of text, in the order of the input.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from stages.columns import SECTION_ENDS, SECTION_FLAGS, keep_columns_of, kept_names
from stages.export.files import ExportFiles
from stages.export.format import quoted

FILE_BYTES = 1 << 28
"""Bytes of text in a file, about: those of whole units."""
_OWN = ("text", "id", "own_id", "source", "language", "path", "position")
_SLICE = 1 << 12
"""Documents that are written together."""


@dataclass(frozen=True)
class TextFormat:
    """A format of texts."""

    name: str
    """As `--format` takes it."""
    client: str
    """What reads it."""
    suffix: str
    """Of its files."""
    write: Callable[[str, Iterator[pa.Table], ExportFiles], None]
    """Writes a file, given its name and its documents."""
    read: Callable[[str], str]
    """Returns the Python that reads all files, given the folder."""

    @property
    def files(self) -> tuple[str, ...]:
        """Names of its files."""
        return (f"SOURCE/NNNNN{self.suffix}",)


def text_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return which columns of ingest's table are read.

    Args:
        names: of all its columns.
    """
    present = set(names)
    kept = kept_names(keep_columns_of(names))
    sections = (SECTION_ENDS.name, SECTION_FLAGS.name)
    return tuple(name for name in (*_OWN, *sections, *kept) if name in present)


def as_texts(table: pa.Table, *, source: str, ids: pa.Array) -> pa.Table:
    """Return documents as they are exported.

    Args:
        table: columns of ingest's table, as `text_columns` names them.
        source: the documents' source.
        ids: their ids in hexadecimal digits.
    """
    columns = {name: table.column(name) for name in table.column_names}
    columns["id"] = ids
    columns["source"] = pa.array([source] * table.num_rows, pa.string())
    columns["path"] = columns["path"].cast(pa.string())
    kept = keep_columns_of(table.column_names)
    taken = set(_OWN)
    for name, column in zip(kept_names(kept), kept, strict=True):
        value = columns.pop(name)
        columns[column if column not in taken else name] = value
    first = [name for name in _OWN if name in columns]
    return pa.table({name: columns[name] for name in (*first, *(n for n in columns if n not in first))})


def _write_parquet(name: str, tables: Iterator[pa.Table], files: ExportFiles) -> None:
    first = next(tables)
    with (
        files.append(name) as file,
        pq.ParquetWriter(file, first.schema, compression="zstd", use_dictionary=["source"]) as writer,
    ):
        for table in chain([first], tables):
            writer.write_table(table)


def _write_jsonl(name: str, tables: Iterator[pa.Table], files: ExportFiles) -> None:
    with files.append(name) as file:
        for table in tables:
            for start in range(0, table.num_rows, _SLICE):
                rows = table.slice(start, _SLICE).to_pylist()
                file.write(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows))


def _reader(kind: str, suffix: str) -> Callable[[str], str]:
    def read(folder: str) -> str:
        place = quoted(f"{folder}/*/*{suffix}")
        return "\n".join(
            (
                "from datasets import load_dataset",
                "",
                f'texts = load_dataset("{kind}", data_files={place}, split="train")',
            )
        )

    return read


_PARQUET = TextFormat(
    name="text-parquet",
    client="datasets, nanochat, anything that tokenizes itself",
    suffix=".parquet",
    write=_write_parquet,
    read=_reader("parquet", ".parquet"),
)
_JSONL = TextFormat(
    name="text-jsonl",
    client="datasets, torchtitan, anything that tokenizes itself",
    suffix=".jsonl",
    write=_write_jsonl,
    read=_reader("json", ".jsonl"),
)

TEXT_FORMATS = {known.name: known for known in (_PARQUET, _JSONL)}
"""All formats of texts, by name."""
