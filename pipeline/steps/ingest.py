"""Ingest: input files to cleaned documents with ids, languages, digests and MinHash signatures.

Each part of a file is a unit: its records are read, cleaned, filtered and signed one after the other,
and go to files a batch at a time, so that memory follows the batch and not the unit.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.steps.columns import column_counts
from pipeline.steps.ingest_files import DropsFile, SignaturesFile
from pipeline.steps.parts import Part, Reading
from pipeline.tasks import Workspace
from stages.cleaning.text import clean_text
from stages.columns import DOCUMENTS, SECTION_ENDS, Drop, DropReason
from stages.filtering.length import length_verdicts
from stages.identity import content_digest, document_id
from stages.ledger import Flow, IdSum
from stages.reading.records import RawDocument, Record

BATCH_BYTES = 16 << 20
"""Text in a row group: what later steps hold at a time."""
BATCH_DOCUMENTS = 65_536
"""Documents in a row group, however short: 16 MiB of two-letter texts would be a gigabyte of objects."""


@dataclass
class _Batch:
    """Documents on their way to a row group."""

    positions: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    ends: list[list[int]] = field(default_factory=list)
    """Of the sections of each text, in characters."""
    own_ids: list[str | None] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    bytes: int = 0

    @property
    def full(self) -> bool:
        """Whether it is to be written."""
        return self.bytes >= BATCH_BYTES or len(self.texts) >= BATCH_DOCUMENTS


def ingest_part(workspace: Workspace, part: Part) -> dict[str, Any]:
    """Read, clean and filter one part, and sign its documents."""
    folder = f"ingest/{part.name}"
    counts: Counter[str] = Counter()
    received, kept = IdSum(), IdSum()
    reading = Reading(workspace, part)
    with ExitStack() as stack:
        drops = stack.enter_context(DropsFile(workspace.create(f"{folder}/drops.parquet"), part))
        signatures = None
        if part.minhash:
            place = workspace.create(f"{folder}/signatures.npy")
            signatures = stack.enter_context(SignaturesFile(place, part.minhash))
        writer = stack.enter_context(
            pq.ParquetWriter(
                workspace.create(f"{folder}/documents.parquet"), _schema(part), compression="zstd"
            )
        )
        for batch in _batches(reading.records(), part, drops, counts, received):
            table = _table(batch, part)
            for identity in table.column("id").to_pylist():
                kept.add(identity)
            writer.write_table(table, row_group_size=max(1, table.num_rows))
            counts["documents"] += table.num_rows
            counts["text_bytes"] += batch.bytes
            if signatures:
                signatures.add(batch.texts)
    return {
        "source": part.source,
        "path": part.path,
        "part": part.number,
        "next": reading.next,
        "covered": list(reading.covered) if reading.covered else None,
        "columns": column_counts(reading.columns),
        "read": counts["read"],
        "documents": counts["documents"],
        "text_bytes": counts["text_bytes"],
        "sections": len(part.fields.text_columns),
        "cleaned": counts["cleaned"],
        "drops": dict(sorted(drops.counts.items())),
        "named": drops.named,
        "flow": Flow(
            input=received.tally(),
            output=kept.tally(bytes=counts["text_bytes"]),
            gone=drops.tallies(),
        ).model_dump(mode="json"),
    }


def _batches(
    records: Iterator[Record], part: Part, drops: DropsFile, counts: Counter[str], received: IdSum
) -> Iterator[_Batch]:
    """Give the part's documents in batches; what gives none goes to `drops`."""
    batch = _Batch()
    for record in records:
        counts["read"] += 1
        received.add(document_id(part.source, part.path, record.position))
        if isinstance(record, Drop):
            drops.add(record)
            continue
        _add(batch, record, part, drops, counts)
        if batch.full:
            yield batch
            batch = _Batch()
    if batch.texts:
        yield batch


def _schema(part: Part) -> pa.Schema:
    return DOCUMENTS.append(SECTION_ENDS) if part.fields.section_columns else DOCUMENTS


def _add(
    batch: _Batch, document: RawDocument, part: Part, drops: DropsFile, counts: Counter[str]
) -> None:
    sections = [clean_text(section) for section in (document.text, *document.sections)]
    text = "".join(sections)
    counts["cleaned"] += sections != [document.text, *document.sections]
    (verdict,) = length_verdicts([text], part.ingest)
    if verdict is None and document.sections:
        verdict = _empty_section(sections, part)
    if verdict is not None:
        drops.add(Drop(document.line, document.position, *verdict))
        return
    batch.positions.append(document.position)
    batch.texts.append(text)
    batch.ends.append(list(accumulate(map(len, sections))))
    batch.own_ids.append(document.own_id)
    batch.languages.append(document.language)
    batch.bytes += len(text.encode())


def _empty_section(sections: Sequence[str], part: Part) -> tuple[DropReason, str] | None:
    """Say why a document of several sections goes: each must hold something."""
    for name, section in zip(part.fields.text_columns, sections, strict=True):
        if not section or section.isspace():
            return DropReason.EMPTY, f"field {name!r} has no character but white space"
    return None


def _table(batch: _Batch, part: Part) -> pa.Table:
    table = pa.table(
        {
            "id": [document_id(part.source, part.path, place) for place in batch.positions],
            "own_id": batch.own_ids,
            "language": batch.languages,
            "position": batch.positions,
            "text_bytes": [len(text.encode()) for text in batch.texts],
            "digest": [content_digest(text) for text in batch.texts],
            "text": batch.texts,
        },
        schema=DOCUMENTS,
    )
    if not part.fields.section_columns:
        return table
    return table.append_column(SECTION_ENDS, pa.array(batch.ends, SECTION_ENDS.type))
