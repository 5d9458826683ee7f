"""Ingested: the documents that ingest wrote of a unit, held to what each says of itself.

    digest    is that of the text, and text_bytes its length
    id        is that of source, path and position, which ascend
    keep      of dedup says of each document whether it stays

All documents are looked at: those that dedup removed are what its evidence speaks of. Texts are digested
as they lie in the file's buffers, without a Python string. Findings, never exceptions.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.units import Unit, row_groups
from stages.columns import ingested_schema
from stages.errors import FormatError
from stages.findings import Finding
from stages.identity import document_id
from stages.store.arrays import open_array

_COLUMNS = ("id", "path", "position", "text_bytes", "digest", "text")
_WRONG = {
    "text_digest": "have a text of another digest or length than they say",
    "identity": "have an id that is not the one of their source, path and position",
    "order": "stand at or before the place of the document before them",
}
"""What can be wrong of documents, by the name of its finding."""


def check_ingested(workspace: Workspace, unit: Unit) -> list[tuple[str, Finding]]:
    """Hold a unit's documents to their digests and ids, and dedup's mask to their number."""
    try:
        found = [(unit.table, finding) for finding in _documents(workspace, unit)]
    except (OSError, pa.ArrowException) as error:
        return [(unit.table, Finding("readable", str(error)))]
    try:
        open_array(workspace.path(unit.keep), dtype="|b1", shape=(unit.documents,))
    except FormatError as error:
        found.append((unit.keep, Finding("readable", str(error))))
    return found


def _documents(workspace: Workspace, unit: Unit) -> Iterator[Finding]:
    schema = pq.read_schema(workspace.path(unit.table))
    sections = unit.sections != 1
    wanted = ingested_schema(sections=sections, flags=unit.dialogues, keep_columns=unit.keep_columns)
    if not schema.equals(wanted):
        message = f"columns {schema.names} are not those of ingest, or of other types"
        yield Finding("readable", message)
        return
    count, last = 0, ("", -1)
    wrong: dict[str, list[str]] = {name: [] for name in _WRONG}
    for _, table in row_groups(workspace, unit, _COLUMNS):
        positions = table.column("position").to_pylist()
        ids = table.column("id").to_pylist()
        places = list(zip(_paths(table.column("path")), positions, strict=True))
        broken = {
            "text_digest": ~_digested(table),
            "identity": np.array(
                [
                    identity != document_id(unit.source, path, position)
                    for identity, (path, position) in zip(ids, places, strict=True)
                ],
                np.bool_,
            ),
            "order": np.array([here <= before for before, here in pairwise([last, *places])], np.bool_),
        }
        for name, rows in broken.items():
            wrong[name] += [ids[row].hex() for row in np.flatnonzero(rows)]
        count += table.num_rows
        last = places[-1] if places else last
    if count != unit.documents:
        yield Finding("documents", f"{count:,} documents, but ingest says {unit.documents:,}")
    for name, named in wrong.items():
        if named:
            message = f"{len(named):,} of {count:,} documents {_WRONG[name]}"
            yield Finding(name, f"{message}; the first is document {named[0]}")


def _paths(column: pa.ChunkedArray) -> Iterator[str]:
    """Yield the path of each document; all of a file are the same string."""
    for chunk in column.chunks:
        paths = chunk.dictionary.to_pylist()
        yield from (paths[number] for number in chunk.indices.to_pylist())


def _digested(table: pa.Table) -> NDArray[np.bool_]:
    """Say of which documents digest and length are those of the text: (N,) bool."""
    same: list[bool] = []
    for batch in filter(len, table.to_batches()):
        texts = batch.column("text")
        _, offsets_, data = texts.buffers()
        offsets = np.frombuffer(offsets_, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        text = memoryview(b"" if data is None else data)
        ends = offsets.tolist()
        rows = zip(
            ends[:-1],
            ends[1:],
            batch.column("text_bytes").to_pylist(),
            batch.column("digest").to_pylist(),
            strict=True,
        )
        same += [
            last - first == size and xxhash.xxh3_128_digest(text[first:last]) == digest
            for first, last, size, digest in rows
        ]
    return np.array(same, np.bool_)
