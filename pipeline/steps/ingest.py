"""Ingest: input files to cleaned documents with ids, languages, digests and MinHash signatures.

A file is read once, from front to back, in parts of `unit_size` decompressed bytes; each part is a
unit. The parts of a file are a chain of tasks on one worker, which holds the open stream; a worker
that takes over opens the file again and skips.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.config import Ingest
from pipeline.tasks import Workspace
from stages.cleaning.text import clean_text
from stages.columns import DOCUMENTS, DROPS, Drop
from stages.dedup.lsh import MinHashConfig
from stages.dedup.minhash import signature
from stages.dedup.shingles import shingle_hashes
from stages.filtering.length import length_verdicts
from stages.identity import content_digest, document_id
from stages.reading.decompress import stream_chunks
from stages.reading.jsonl import FieldMapping, RawDocument, parse_line
from stages.reading.lines import Line, split_lines
from stages.store.arrays import write_array

BATCH_BYTES = 16 << 20
"""Text in a row group: what later steps hold at a time."""
NAMED_DROPS = 3
"""Drops that a unit's record names; all of them stand in its drops.parquet."""


@dataclass(frozen=True)
class Part:
    """One part of one file."""

    source: str
    path: str
    place: Path
    key: str
    number: int
    fields: FieldMapping
    ingest: Ingest
    minhash: MinHashConfig | None

    @property
    def name(self) -> str:
        """Name of the unit."""
        return f"{self.key}-{self.number:05d}"


@dataclass
class _Stream:
    """An open file between two of its parts."""

    place: Path
    lines: Iterator[Line]
    pending: Line | None


@dataclass
class _Batch:
    """Documents on their way to a row group."""

    positions: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    own_ids: list[str | None] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    bytes: int = 0


def ingest_part(workspace: Workspace, part: Part) -> dict[str, Any]:
    """Read, clean and filter one part, and sign its documents."""
    stream = _stream_at(workspace.cache, part)
    folder = f"ingest/{part.name}"
    drops: list[Drop] = []
    signatures: list[NDArray[np.uint32]] = []
    counts: Counter[str] = Counter()
    with pq.ParquetWriter(
        workspace.create(f"{folder}/documents.parquet"), DOCUMENTS, compression="zstd"
    ) as writer:
        for batch in _batches(stream, part, drops, counts):
            table = _table(batch, part)
            writer.write_table(table, row_group_size=max(1, table.num_rows))
            counts["documents"] += table.num_rows
            counts["text_bytes"] += batch.bytes
            if part.minhash:
                signatures += [_sign(text, part.minhash) for text in batch.texts]
    if part.minhash:
        stacked = np.array(signatures, np.uint32).reshape(-1, part.minhash.num_perm)
        write_array(workspace.create(f"{folder}/signatures.npy"), stacked.T)
    _write_drops(workspace.create(f"{folder}/drops.parquet"), part, drops)
    pending = stream.pending
    return {
        "source": part.source,
        "path": part.path,
        "part": part.number,
        "next": None if pending is None else pending.position // part.ingest.unit_size,
        "read": counts["read"],
        "documents": counts["documents"],
        "text_bytes": counts["text_bytes"],
        "cleaned": counts["cleaned"],
        "drops": dict(sorted(Counter(drop.reason.value for drop in drops).items())),
        "named": [
            f"{part.source}: {part.path}, line {d.line}: {d.reason}: {d.detail}"
            for d in drops[:NAMED_DROPS]
        ],
    }


def _stream_at(cache: dict[str, Any], part: Part) -> _Stream:
    """Give the file's stream at the part's first line: the one left open, or a new one."""
    stream: _Stream | None = cache.pop("stream", None)
    start = part.number * part.ingest.unit_size
    if stream is None or stream.place != part.place or stream.pending is None:
        lines = split_lines(stream_chunks(part.place), max_bytes=part.ingest.max_document_bytes)
        stream = _Stream(part.place, lines, next(lines, None))
    while stream.pending is not None and stream.pending.position < start:
        stream.pending = next(stream.lines, None)
    cache["stream"] = stream
    return stream


def _batches(stream: _Stream, part: Part, drops: list[Drop], counts: Counter[str]) -> Iterator[_Batch]:
    """Give the part's documents in batches; what gives none goes to `drops`."""
    end = (part.number + 1) * part.ingest.unit_size
    batch = _Batch()
    while stream.pending is not None and stream.pending.position < end:
        line = stream.pending
        stream.pending = next(stream.lines, None)
        if line.size == len(line.data) and not line.data.strip():
            continue  # a blank line is no record
        counts["read"] += 1
        document = parse_line(line, part.fields)
        if isinstance(document, Drop):
            drops.append(document)
            continue
        _add(batch, document, line, part, drops, counts)
        if batch.bytes >= BATCH_BYTES:
            yield batch
            batch = _Batch()
    if batch.texts:
        yield batch


def _add(
    batch: _Batch,
    document: RawDocument,
    line: Line,
    part: Part,
    drops: list[Drop],
    counts: Counter[str],
) -> None:
    text = clean_text(document.text)
    counts["cleaned"] += text != document.text
    (verdict,) = length_verdicts([text], part.ingest)
    if verdict is not None:
        drops.append(Drop(line.number, line.position, *verdict))
        return
    batch.positions.append(document.position)
    batch.texts.append(text)
    batch.own_ids.append(document.own_id)
    batch.languages.append(document.language)
    batch.bytes += len(text.encode())


def _table(batch: _Batch, part: Part) -> pa.Table:
    return pa.table(
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


def _sign(text: str, config: MinHashConfig) -> NDArray[np.uint32]:
    return signature(shingle_hashes(text, size=config.size), num_perm=config.num_perm)


def _write_drops(path: Path, part: Part, drops: list[Drop]) -> None:
    rows = [
        {
            "source": part.source,
            "path": part.path,
            "line": drop.line,
            "position": drop.position,
            "reason": drop.reason.value,
            "detail": drop.detail,
        }
        for drop in drops
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=DROPS), path, compression="zstd")
