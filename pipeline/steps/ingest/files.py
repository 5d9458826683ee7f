"""Files of an ingest unit, which are written as records come.

    ingest/UNIT/documents.parquet    what is left, a row group at a time, so that memory follows these
    ingest/UNIT/signatures.npy       of its texts, if near-duplicates are looked for
    ingest/UNIT/drops.parquet        what is not
    and what `compared` writes

Drops are not held: they go out by the thousand. A signature goes to a raw file beside, one row a
document, which is turned at the end into the array that later steps read, one column a document.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.engine.tasks import Workspace
from pipeline.steps.ingest.compared_fields import (
    ComparedFiles,
    ComparedValues,
    compared_files,
    compared_values,
)
from pipeline.steps.ingest.making import NewDocument
from pipeline.steps.ingest.reading import InputPart
from pipeline.steps.ingest.record import LongValues, add_long
from pipeline.steps.units import fixed_bytes
from stages.columns import (
    DOCUMENTS,
    DROPS,
    SECTION_ENDS,
    SECTION_FLAGS,
    UNREADABLE,
    Drop,
    ingested_schema,
    kept_names,
    utf8_of,
)
from stages.dedup.compared_texts import compared_signatures
from stages.dedup.lsh import MinHashConfig
from stages.identity import ID_BYTES, document_id, utf8_digest
from stages.ledger import IdSum, Tally

NAMED_DROPS = 3
"""Drops that a unit's record names; all of them stand in its drops.parquet."""
_OWN_ID = 4_096
"""Characters of an own id that stand in drops.parquet: one that is too long to be one is a drop."""
BUFFERED_DROPS = 8_192
"""Drops in a row group: some 4 MiB while they are Python objects."""
ROWS_TURNED = 8_192
"""Signatures turned at a time: 4 MiB of 128 minima each."""
BATCH_BYTES = 16 << 20
"""Text in a row group: what later steps hold at a time."""
BATCH_DOCUMENTS = 65_536
"""Documents in a row group, however short: 16 MiB of two-letter texts would be a gigabyte of objects."""
BATCH_NAMES = 16 << 20
"""Own ids, languages and ends of sections in a row group, bytes: they may be longer than their texts."""
REPEATED = ["language", "path"]
"""Columns written with a dictionary. Texts are written without, and are read a fifth faster."""
_VALUE = 64
"""Bytes of a string beside its characters, of which a row group may hold a million."""


class DropsFile:
    """The drops of a unit, on their way to drops.parquet.

    Args:
        path: the file to write.
        part: what the unit reads.
    """

    def __init__(self, path: Path, part: InputPart) -> None:
        self._part = part
        self._buffer: list[tuple[str, Drop, str | None]] = []
        self._writer = pq.ParquetWriter(path, DROPS, compression="zstd")
        self._sums: defaultdict[str, IdSum] = defaultdict(IdSum)
        self.counts: Counter[str] = Counter()
        self.named: list[str] = []
        """The first drops."""
        self.unreadable: list[str] = []
        """The first of them that no filter made."""
        self.further_unreadable = 0
        """Lines that drops take beyond one each that no filter made."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what is held, and the one empty row group of a unit without drops."""
        if kind is None and (self._buffer or not self.counts):
            self._write()
        self._writer.close()

    def add(self, drop: Drop, path: str, own_id: str | None) -> None:
        """Count one drop of a file and take it to drops.parquet.

        Args:
            drop: the drop.
            path: of the file.
            own_id: of its document, if it was read so far.
        """
        self._name(drop, path, self.named)
        if drop.reason in UNREADABLE:
            self._name(drop, path, self.unreadable)
            self.further_unreadable += drop.lines - 1
        self.counts[str(drop.reason)] += 1
        self._sums[str(drop.reason)].add(document_id(self._part.source, path, drop.position))
        self._buffer.append((path, drop, None if own_id is None else own_id[:_OWN_ID]))
        if len(self._buffer) >= BUFFERED_DROPS:
            self._write()

    def tallies(self) -> dict[str, Tally]:
        """Return the tally of what was dropped, by reason."""
        return {reason: total.tally() for reason, total in sorted(self._sums.items())}

    def _name(self, drop: Drop, path: str, named: list[str]) -> None:
        """Add where a drop stands, and why, to the first drops of their sort."""
        if len(named) < NAMED_DROPS:
            place = self._part.place_of(path, drop.line, drop.position)
            named.append(f"{place}: {drop.reason}: {drop.detail}")

    def _write(self) -> None:
        rows = [
            {
                "source": self._part.source,
                "path": path,
                "line": drop.line,
                "position": drop.position,
                "reason": str(drop.reason),
                "detail": drop.detail,
                "own_id": own_id,
            }
            for path, drop, own_id in self._buffer
        ]
        self._writer.write_table(pa.Table.from_pylist(rows, schema=DROPS))
        self._buffer = []


class SignaturesFile:
    """The signatures of a unit, on their way to signatures.npy, (num_perm, documents) uint32.

    Args:
        path: the file to write.
        config: shape of the signatures.
    """

    def __init__(self, path: Path, config: MinHashConfig) -> None:
        self._path = path
        self._beside = path.with_suffix(".rows")
        self._config = config
        self._rows = self._beside.open("w+b")
        self._count = 0

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Turn rows into columns, and leave nothing beside."""
        with self._rows:
            if kind is None:
                self._turn()
        self._beside.unlink()

    def add(self, texts: pa.ChunkedArray) -> None:
        """Sign some texts, a column of large strings."""
        num_perm = self._config.num_perm
        data, offsets = utf8_of(texts)
        for first in range(0, len(texts), ROWS_TURNED):
            part = offsets[first : first + ROWS_TURNED + 1]
            found = compared_signatures(data, part, self._config, num_perm=num_perm)
            self._rows.write(found.astype("<u4", copy=False).data)
        self._count += len(texts)

    def _turn(self) -> None:
        """Write the array block by block: N documents, P minima each."""
        lanes = self._config.num_perm
        shape = {"descr": "<u4", "fortran_order": False, "shape": (lanes, self._count)}
        self._rows.seek(0)
        with self._path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, shape)
            start = file.tell()
            for first in range(0, self._count, ROWS_TURNED):
                rows = np.frombuffer(self._rows.read(ROWS_TURNED * lanes * 4), "<u4").reshape(-1, lanes)
                for lane, column in enumerate(np.ascontiguousarray(rows.T)):
                    file.seek(start + 4 * (lane * self._count + first))
                    file.write(column.tobytes())


@dataclass
class _RowGroup:
    """Documents on their way to a row group."""

    paths: dict[str, int] = field(default_factory=dict)
    """Those of the documents, numbered as they come."""
    files: list[int] = field(default_factory=list)
    """Of each document, the number of its path."""
    positions: list[int] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    """In UTF-8."""
    ends: list[list[int]] = field(default_factory=list)
    """Of the sections of each text, in characters."""
    flags: list[tuple[int, ...]] = field(default_factory=list)
    """Of the sections of each dialogue."""
    own_ids: list[str | None] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    kept: list[tuple[str | None, ...]] = field(default_factory=list)
    """Of each document, the values that go along, in the order of the source's `keep_columns`."""
    compared: list[ComparedValues] = field(default_factory=list)
    bytes: int = 0
    """Of the texts."""
    names: int = 0
    """Bytes of the other columns whose length is the input's."""

    def table(self, part: InputPart) -> pa.Table:
        """Return the documents as they are written."""
        paths = list(self.paths)
        table = pa.table(
            {
                "id": [
                    document_id(part.source, paths[file], position)
                    for file, position in zip(self.files, self.positions, strict=True)
                ],
                "own_id": self.own_ids,
                "language": self.languages,
                "path": pa.DictionaryArray.from_arrays(pa.array(self.files, pa.int32()), paths),
                "position": self.positions,
                "text_bytes": [len(text) for text in self.texts],
                "digest": [utf8_digest(text) for text in self.texts],
                "text": self.texts,
            },
            schema=DOCUMENTS,
        )
        schema = _schema(part)
        if SECTION_ENDS.name in schema.names:
            table = table.append_column(SECTION_ENDS, pa.array(self.ends, SECTION_ENDS.type))
        if SECTION_FLAGS.name in schema.names:
            table = table.append_column(SECTION_FLAGS, pa.array(self.flags, SECTION_FLAGS.type))
        for number, name in enumerate(kept_names(part.fields.keep_columns)):
            table = table.append_column(
                pa.field(name, pa.string()), pa.array([row[number] for row in self.kept], pa.string())
            )
        return table


@dataclass
class PartFiles:
    """All files of a unit, on their way."""

    part: InputPart
    drops: DropsFile
    signatures: SignaturesFile | None
    compared: ComparedFiles
    writer: pq.ParquetWriter
    written: IdSum = field(default_factory=IdSum)
    """The documents that are."""
    text_bytes: int = 0
    """Of these."""
    too_long: dict[str, LongValues] = field(default_factory=dict)
    """By field, values that are too long to go along."""
    _group: _RowGroup = field(default_factory=_RowGroup)

    @property
    def full(self) -> bool:
        """Whether the documents that are held are a row group."""
        group = self._group
        few = group.bytes < BATCH_BYTES and group.names < BATCH_NAMES
        return not few or len(group.texts) >= BATCH_DOCUMENTS

    def add(self, made: NewDocument, path: str) -> None:
        """Take the next document, of a file at a path."""
        group, record, fields = self._group, made.record, self.part.fields
        group.files.append(group.paths.setdefault(path, len(group.paths)))
        group.positions.append(record.position)
        group.texts.append(made.text)
        group.ends.append(made.ends)
        group.flags.append(record.flags)
        group.own_ids.append(record.own_id)
        group.languages.append(made.language)
        group.bytes += len(made.text)
        group.names += len(record.own_id or "") + len(made.language) + 8 * len(made.ends)
        if fields.keep_columns:
            group.kept.append(record.kept.texts)
            group.names += sum(_VALUE + len(text) for text in record.kept.texts if text is not None)
        for number in record.kept.too_long:
            place = self.part.place_of(path, record.line, record.position)
            long = LongValues(documents=1, first=place)
            add_long(self.too_long, {fields.keep_columns[number]: long})
        if self.part.compared is not None:
            group.compared.append(compared_values(self.part.compared, fields.beside, record))

    def write(self) -> None:
        """Write the documents that are held, if there are any."""
        if not self._group.texts:
            return
        group, self._group = self._group, _RowGroup()
        self.text_bytes += group.bytes
        self.compared.add(group.compared)
        table = group.table(self.part)
        del group  # its texts are in the table
        if self.signatures is not None:
            self.signatures.add(table.column("text"))
        self.written.add_all(fixed_bytes(table.column("id"), ID_BYTES))
        self.writer.write_table(table, row_group_size=table.num_rows)


@contextmanager
def part_files(workspace: Workspace, part: InputPart) -> Iterator[PartFiles]:
    """Open the files of a unit."""
    folder = f"ingest/{part.name}"
    with ExitStack() as stack:
        drops = stack.enter_context(DropsFile(workspace.create(f"{folder}/drops.parquet"), part))
        signatures = None
        if part.minhash:
            place = workspace.create(f"{folder}/signatures.npy")
            signatures = stack.enter_context(SignaturesFile(place, part.minhash))
        compared = stack.enter_context(compared_files(workspace, folder, part.compared))
        place = workspace.create(f"{folder}/documents.parquet")
        options = {"compression": "zstd", "use_dictionary": REPEATED}
        writer = stack.enter_context(pq.ParquetWriter(place, _schema(part), **options))
        files = PartFiles(part, drops, signatures, compared, writer)
        yield files
        files.write()


def _schema(part: InputPart) -> pa.Schema:
    fields = part.fields
    return ingested_schema(
        sections=bool(fields.section_columns) or fields.chat is not None,
        flags=fields.chat is not None,
        keep_columns=fields.keep_columns,
    )
