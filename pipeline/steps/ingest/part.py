"""Ingest: input files to cleaned documents with ids, languages, digests and MinHash signatures.

Each part of a file, or of a bundle of small ones, is a unit: its records are read, cleaned, filtered and
signed one after the other, and go to files a batch at a time, so that memory follows the batch and not
the unit.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.engine.tasks import Workspace
from pipeline.steps.ingest.columns import KeptRows, add_long, column_counts
from pipeline.steps.ingest.compared import ComparedFiles, ComparedValues, compared_values
from pipeline.steps.ingest.dialogues import DialogueWriter
from pipeline.steps.ingest.files import DropsFile, SignaturesFile
from pipeline.steps.ingest.filtering import PartFilters, part_filters
from pipeline.steps.ingest.reading import InputPart, Reading
from pipeline.steps.ingest.record import LongValues, PartRecord
from pipeline.steps.units import RAGGED, fixed_bytes
from stages.cleaning.text import CleanedText, cleaned
from stages.columns import (
    DOCUMENTS,
    SECTION_ENDS,
    SECTION_FLAGS,
    Drop,
    DropReason,
    ingested_schema,
    kept_names,
)
from stages.filtering.filter import Dropped
from stages.filtering.length import EMPTY, LengthFilter, length_verdict
from stages.identity import ID_BYTES, document_id, utf8_digest
from stages.ledger import Flow, IdSum
from stages.reading.records import RawDocument

BATCH_BYTES = 16 << 20
"""Text in a row group: what later steps hold at a time."""
BATCH_DOCUMENTS = 65_536
"""Documents in a row group, however short: 16 MiB of two-letter texts would be a gigabyte of objects."""
BATCH_NAMES = 16 << 20
"""Own ids, languages and ends of sections in a row group, bytes: they may be longer than their texts."""
REPEATED = ["language", "path"]
"""Columns written with a dictionary. Texts are written without, and are read a fifth faster."""
MAX_NAME_BYTES = {"own_id": 4096, "language": 256}
"""Longest own id and language: what is longer stands in the wrong column."""
_UTF8 = 4
"""Bytes of a character, at the most."""
_ANY = LengthFilter(min_chars=1)


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
    kept: KeptRows = field(default_factory=KeptRows)
    compared: list[ComparedValues] = field(default_factory=list)
    bytes: int = 0
    """Of the texts."""
    names: int = 0
    """Bytes of the other columns whose length is the input's."""

    @property
    def full(self) -> bool:
        """Whether it is to be written."""
        few = self.bytes < BATCH_BYTES and self.names + self.kept.bytes < BATCH_NAMES
        return not few or len(self.texts) >= BATCH_DOCUMENTS


@dataclass(frozen=True)
class _Making:
    """What makes documents of the records of a part."""

    part: InputPart
    filters: PartFilters
    drops: DropsFile
    counts: Counter[str]
    dialogues: DialogueWriter | None
    """What writes dialogues, if the source has such."""


def ingest_part(workspace: Workspace, part: InputPart) -> PartRecord:
    """Read, clean and filter one part, and sign its documents."""
    folder = f"ingest/{part.name}"
    counts, too_long = Counter[str](), dict[str, LongValues]()
    received, kept = IdSum(), IdSum()
    reading = Reading(workspace, part)
    filters = part_filters(workspace, part)
    dialogues = None if part.fields.chat is None else DialogueWriter(part.fields.chat)
    with ExitStack() as stack:
        drops = stack.enter_context(DropsFile(workspace.create(f"{folder}/drops.parquet"), part))
        signatures = None
        if part.minhash:
            place = workspace.create(f"{folder}/signatures.npy")
            signatures = stack.enter_context(SignaturesFile(place, part.minhash))
        compared = stack.enter_context(ComparedFiles(workspace, folder, part.compared))
        place = workspace.create(f"{folder}/documents.parquet")
        options = {"compression": "zstd", "use_dictionary": REPEATED}
        writer = stack.enter_context(pq.ParquetWriter(place, _schema(part), **options))
        making = _Making(part, filters, drops, counts, dialogues)
        for batch in _batches(reading, making, received):
            counts["text_bytes"] += batch.bytes
            add_long(too_long, batch.kept.too_long)
            compared.add(batch.compared)
            table = _table(batch, part)
            del batch  # its texts are in the table
            if signatures:
                signatures.add(table.column("text"))
            kept.add_all(fixed_bytes(table.column("id"), ID_BYTES))
            writer.write_table(table, row_group_size=max(1, table.num_rows))
            counts["documents"] += table.num_rows
    return PartRecord(
        source=part.source,
        label=part.label,
        part=part.number,
        next=reading.next,
        covered=reading.covered,
        columns=column_counts(reading.columns),
        read=counts["read"],
        documents=counts["documents"],
        text_bytes=counts["text_bytes"],
        sections=RAGGED if dialogues else len(part.fields.text_columns),
        keep_columns=part.fields.keep_columns,
        too_long=too_long,
        cleaned=counts["cleaned"] + (dialogues.cleaned if dialogues else 0),
        drops=dict(sorted(drops.counts.items())),
        named=tuple(drops.named),
        unreadable=tuple(drops.unreadable),
        changes=dict(sorted(filters.changes.items())),
        samples=filters.samples,
        roles=dict(sorted(dialogues.roles.items())) if dialogues else {},
        compared=compared.held,
        further_lines=reading.columns.further_lines,
        further_unreadable=drops.further_unreadable,
        noticed=dict(sorted((reading.columns.noticed + _noticed(dialogues)).items())),
        flow=Flow(
            input=received.tally(),
            output=kept.tally(bytes=counts["text_bytes"]),
            gone=drops.tallies(),
        ),
    )


def _noticed(dialogues: DialogueWriter | None) -> Counter[str]:
    return Counter() if dialogues is None else dialogues.noticed


def _batches(reading: Reading, making: _Making, received: IdSum) -> Iterator[_RowGroup]:
    """Yield the part's documents in batches; what gives none goes to `drops`."""
    batch = _RowGroup()
    for record in reading.records():
        path, own_id = reading.file.path, None
        making.counts["read"] += 1
        received.add(document_id(making.part.source, path, record.position))
        if making.dialogues is not None and not isinstance(record, Drop):
            own_id = record.own_id
            record = making.dialogues.write(record)  # noqa: PLW2901  # nor is a dialogue beside its text
        if isinstance(record, Drop):
            making.drops.add(record, path, own_id)
            continue
        _add(batch, record, path, making)
        del record  # a long text is not held beside the batch that it goes to
        if batch.full:
            full, batch = [batch], _RowGroup()
            yield full.pop()
    if batch.texts:
        yield batch


def _schema(part: InputPart) -> pa.Schema:
    fields = part.fields
    return ingested_schema(
        sections=bool(fields.section_columns) or fields.chat is not None,
        flags=fields.chat is not None,
        keep_columns=fields.keep_columns,
    )


def _add(batch: _RowGroup, document: RawDocument, path: str, making: _Making) -> None:
    part, filters, drops = making.part, making.filters, making.drops
    sections = [cleaned(section) for section in (document.text, *document.sections)]
    text = sections[0].data if len(sections) == 1 else b"".join(part.data for part in sections)
    making.counts["cleaned"] += any(section.changed for section in sections)
    verdict = length_verdict(text, part.ingest) or _long_name(document, part)
    if verdict is None and document.sections and not document.flags:
        verdict = _empty_section(sections, part)
    if verdict is not None:
        drops.add(Drop(document.line, document.position, *verdict), path, document.own_id)
        return
    ends, language = list(accumulate(section.characters for section in sections)), document.language
    if filters.chain is not None:
        judged = filters.judge(part, document, path, text=text, characters=ends[-1])
        if judged.reason is not None:
            drop = Drop(document.line, document.position, judged.reason, judged.detail)
            drops.add(drop, path, document.own_id)
            return
        text, language = judged.document.text, judged.document.language or language
        ends[-1] = judged.document.characters
    batch.files.append(batch.paths.setdefault(path, len(batch.paths)))
    batch.positions.append(document.position)
    batch.texts.append(text)
    batch.ends.append(ends)
    batch.flags.append(document.flags)
    batch.own_ids.append(document.own_id)
    batch.languages.append(language)
    if part.fields.keep_columns:
        batch.kept.add(document, path, part)
    if part.compared is not None:
        batch.compared.append(compared_values(part.compared, part.fields.beside, document))
    batch.bytes += len(text)
    batch.names += len(document.own_id or "") + len(language) + 8 * len(sections)


def _long_name(document: RawDocument, part: InputPart) -> Dropped:
    """Say why a document goes whose own id or language is too long to be one."""
    for key, name in (("own_id", document.own_id), ("language", document.language)):
        most = MAX_NAME_BYTES[key]
        if name is not None and len(name) * _UTF8 > most and (size := len(name.encode())) > most:
            return (
                DropReason.TOO_LARGE,
                f"its {key} has {size:,} bytes, over {most:,}; {_column(key, part)}",
            )
    return None


def _column(key: str, part: InputPart) -> str:
    """Say which setting names the column of an own id or of a language."""
    if key == "own_id":
        return f"sources.{part.source}.id_column = {part.fields.id_column!r} may name another column"
    return f"sources.{part.source}.language.column may name another column"


def _empty_section(sections: Sequence[CleanedText], part: InputPart) -> Dropped:
    """Say why a document of several sections goes: each must hold something."""
    for name, section in zip(part.fields.text_columns, sections, strict=True):
        if length_verdict(section.data, _ANY) is not None:
            return EMPTY, f"field {name!r} has no character but white space"
    return None


def _table(batch: _RowGroup, part: InputPart) -> pa.Table:
    paths = list(batch.paths)
    table = pa.table(
        {
            "id": [
                document_id(part.source, paths[file], position)
                for file, position in zip(batch.files, batch.positions, strict=True)
            ],
            "own_id": batch.own_ids,
            "language": batch.languages,
            "path": pa.DictionaryArray.from_arrays(pa.array(batch.files, pa.int32()), paths),
            "position": batch.positions,
            "text_bytes": [len(text) for text in batch.texts],
            "digest": [utf8_digest(text) for text in batch.texts],
            "text": batch.texts,
        },
        schema=DOCUMENTS,
    )
    schema = _schema(part)
    if SECTION_ENDS.name in schema.names:
        table = table.append_column(SECTION_ENDS, pa.array(batch.ends, SECTION_ENDS.type))
    if SECTION_FLAGS.name in schema.names:
        table = table.append_column(SECTION_FLAGS, pa.array(batch.flags, SECTION_FLAGS.type))
    for number, name in enumerate(kept_names(part.fields.keep_columns)):
        table = table.append_column(pa.field(name, pa.string()), batch.kept.column(number))
    return table
