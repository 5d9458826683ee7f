"""Ingested: the documents that ingest wrote of a unit, held to what each says of itself.

    digest    is that of the text, and text_bytes its length
    id        is that of source, path and position, which ascend
    keep      of dedup says of each document whether it stays

All documents are looked at: those that dedup removed are what its evidence speaks of. Texts are digested
as they lie in the file's buffers, without a Python string. Findings, never exceptions.

Recount: documents and drops of a unit of ingest against its flow.

Coverage: what of its files each unit of ingest read, and that together they read all of them.

Of each file a unit says where its first record begins and where what follows its last one begins: bytes
of the decompressed file, or rows of a table. In the order of the units each begins where the one before
ended, the first at 0, the last ends at the end that the scan found. So a slice that is cut wrongly, or a
stream that ends early without an error, is noticed by the gap, and what is read twice by the overlap.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.inputs.files import InputFile
from pipeline.steps.ingest.record import PartRecord
from pipeline.steps.records import CheckRecord
from pipeline.steps.recount import Found, UnitRecount, differs, recounted
from pipeline.steps.units import Unit, row_groups, tally_of_texts
from stages.columns import ingested_schema
from stages.errors import FormatError, VerificationError
from stages.findings import Finding
from stages.identity import document_id
from stages.ledger import IdSum, Tally
from stages.reading.reader import TableReader, TextSplit
from stages.reading.table import reader_of
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
        open_array(workspace.path(unit.keep_mask), dtype="|b1", shape=(unit.documents,))
    except FormatError as error:
        found.append((unit.keep_mask, Finding("readable", str(error))))
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
        faults = {
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
        for name, rows in faults.items():
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


_FIRST = (-1, 0)
"""Position and line before the first of a file."""


def _wrong_line(path: str, position: int, line: int, before: tuple[int, int]) -> str | None:
    """Say why a line cannot be that of a position, or None if it can.

    Args:
        path: of the file.
        position: where the record stands: in a table its row, from 0.
        line: that is named.
        before: position and line of the drop before it in that file.
    """
    if isinstance(reader_of(path, TextSplit.FILE), TableReader):
        return None if line == position + 1 else f"and row {position:,} is line {position + 1:,}"
    if line <= before[1] or line - before[1] > position - before[0]:
        return f"and byte {before[0]:,} is in line {before[1]:,}, byte {position:,} in this one"
    return None


def recount_ingested(workspace: Workspace, work: UnitRecount) -> CheckRecord:
    """Count the documents and the drops of a unit again."""
    unit = work.unit
    drops = f"ingest/{unit.name}/drops.parquet"

    def documents() -> Found:
        table = pq.read_table(
            workspace.path(unit.table), columns=["id", "text_bytes"], use_threads=False
        )
        yield from differs(unit.table, tally_of_texts(table), work.flow.output)

    def dropped() -> Found:
        """The records that it dropped, by reason: each named by where it stands."""
        sums = {reason: IdSum() for reason in work.flow.gone}
        before: dict[str, tuple[int, int]] = {}
        rows = 0
        with pq.ParquetFile(workspace.path(drops)) as file:
            for batch in file.iter_batches(
                columns=["source", "path", "line", "position", "reason"], use_threads=False
            ):
                for row in batch.to_pylist():
                    identity = document_id(row["source"], row["path"], row["position"])
                    sums.setdefault(row["reason"], IdSum()).add(identity)
                    place = row["position"], row["line"]
                    if fault := _wrong_line(row["path"], *place, before.get(row["path"], _FIRST)):
                        yield drops, Finding("drops", f"row {rows:,}, line: is {row['line']:,}, {fault}")
                    before[row["path"]] = place
                    rows += 1
        for reason, total in sums.items():
            yield from differs(drops, total.tally(), work.flow.gone.get(reason, Tally()), what=reason)

    return recounted((unit.table, documents), (drops, dropped))


Covered = tuple[int, int]
"""The first position of a unit in a file, and the one after its last."""


_BUG = "if no record of ingest was changed, this is a bug: please report it with the log"


def require_whole_files(files: Sequence[InputFile], units: Iterable[PartRecord]) -> None:
    """Hold the units of each file to a chain without gap or overlap, from 0 to the file's end.

    Args:
        files: the inputs.
        units: the records of all units of ingest, in canonical order.

    Raises:
        VerificationError: a part of a file was read by no unit, or by two.
    """
    covered = _by_file(units)
    for file in files:
        require_chain(covered.get((file.source, file.path), []), end=file.end, name=file.label)


def require_chains(units: Iterable[PartRecord]) -> None:
    """Hold the records of a finished run to such chains, where the files and their ends are not known.

    Raises:
        VerificationError: a part of a file was read by no unit, or by two.
    """
    for (_, path), parts in _by_file(units).items():
        require_chain(sorted(parts), end=None, name=path)


def _by_file(units: Iterable[PartRecord]) -> dict[tuple[str, str], list[Covered]]:
    """Return what units covered of each file, by its source and path."""
    covered: dict[tuple[str, str], list[Covered]] = {}
    for unit in units:
        for path, part in unit.covered.items():
            covered.setdefault((unit.source, path), []).append(part)
    return covered


def require_chain(units: Sequence[Covered], *, end: int | None, name: str) -> None:
    """Hold the units of one file to a chain; see `require_whole_files`.

    Args:
        units: what each covered, in order.
        end: where the file ends; None if nobody knows before it is read, which then is at least begun.
        name: the file, for the message.
    """
    if end is None and not units:
        raise VerificationError(f"{name}: was read by no unit; {_BUG}")
    position = 0
    for first, after in units:
        _require_equal(first, position, name)
        position = after
    if end is not None:
        _require_equal(end, position, name)


def _require_equal(found: int, expected: int, name: str) -> None:
    if found == expected:
        return
    low, high = sorted((found, expected))
    times = "by no unit" if found > expected else "twice"
    raise VerificationError(f"{name}: positions {low:,} to {high:,} were read {times}; {_BUG}")
