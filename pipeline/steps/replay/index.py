"""Index: the training documents of a unit of another run, in the groups and the order of this one.

    other run   ids.npy  aaa bbbb cc ddd | ee       | = behind it, what is held out there
    here        places   8:11 0:3 3:7 7:9           by this run's (group, hash)

Ids stay where they are; what is written is where those of each document begin and end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.names import COLUMNS, Names, read_rows
from pipeline.steps.records import UnitRecord
from pipeline.steps.tokenize.encode import COPY, row_groups_of, store_order
from pipeline.steps.units import Unit, fixed_array, fixed_bytes, open_unit, rows_of_bytes, stored_tally
from stages.columns import STORED_DOCUMENTS, kept_names, with_kept
from stages.errors import DataError
from stages.identity import DIGEST_BYTES, ID_BYTES
from stages.ledger import Flow, IdSum, Tally
from stages.mixing.placement import shard_of
from stages.ragged import Ragged
from stages.store.digests import FileDigest
from stages.store.token_store import TokenUnit, read_ends, write_borrowing_unit, write_sections

HELD_OUT = "held_out"
"""Why documents are gone: the other run holds them out of training."""
_FIXED = ("id", "position", "digest", "tokens")


@dataclass(frozen=True)
class ReplayUnit:
    """One unit of another run."""

    unit: Unit
    """As that run has it."""
    made: Unit
    """As this run does."""
    shards: int
    """That run's training shards."""
    groups: tuple[int, int]
    """This run's training and validation shards."""
    seed: int
    stored: Tally
    """What the other run's ledger says that its token store holds of the unit."""
    ids: FileDigest
    """Of the unit's `ids.npy`, as that run committed it."""


class ReplayUnitRecord(UnitRecord):
    """The index over a unit of another run."""

    documents: int
    tokens: int
    ids: FileDigest
    """Of the array that ids are borrowed from."""


@dataclass(frozen=True)
class _FixedColumns:
    """What is as long for every document, as the other run has them."""

    id: NDArray[np.uint8]
    position: NDArray[np.int64]
    digest: NDArray[np.uint8]
    tokens: NDArray[np.int64]


def index_unit(workspace: Workspace, work: ReplayUnit) -> ReplayUnitRecord:
    """Write where the ids of a unit's training documents are.

    Raises:
        DataError: the other run's files contradict each other.
    """
    store = open_unit(workspace.root, work.unit, groups=work.shards)
    count = int(store.group_ptr[work.shards])  # documents of training come first
    fixed = _fixed_of(store, count)
    if not np.array_equal(fixed.tokens, store.lengths[:count]):
        raise DataError(
            f"{store.folder}: documents.parquet says other numbers of tokens than the offsets; make that"
            " run again with --replace"
        )
    train, validation = work.groups
    every = rows_of_bytes(fixed.id)
    placed = (shard_of(name, work.seed, copy=COPY, shards=train) for name in every)
    groups = np.fromiter(placed, np.int64)
    orders, order = store_order(fixed.id, groups, work.seed)
    counts = np.bincount(groups, minlength=train + validation)
    group_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    folder, kept = workspace.create(work.made.tokens), work.unit.keep_columns
    with workspace.scratch() as scratch:
        names = _names_of(store, count, scratch, work.unit)

        def tables() -> Iterator[pa.Table]:
            for rows in row_groups_of(names.blocks(order), group_ptr):
                columns = {
                    "id": fixed_array(fixed.id[rows]),
                    "own_id": names.take("own_id", rows),
                    "language": names.take("language", rows),
                    "path": names.take("path", rows).dictionary_encode(),
                    "position": fixed.position[rows],
                    "digest": fixed_array(fixed.digest[rows]),
                    "order": orders[rows],
                    "tokens": fixed.tokens[rows],
                    **{name: names.take(name, rows) for name in kept_names(kept)},
                }
                yield pa.table(columns, schema=with_kept(STORED_DOCUMENTS, kept))

        places = store.places[:count][order]
        write_borrowing_unit(folder, tables(), places=places, group_ptr=group_ptr, keep_columns=kept)
    if work.unit.sections != 1:
        _write_sections(folder, store, order, work)
    return _record(folder, work, held_out=_held_out(store, count))


def _fixed_of(store: TokenUnit, count: int) -> _FixedColumns:
    """Return ids, positions, digests and tokens of the first documents of a unit."""
    ids, digests = [np.empty((0, ID_BYTES), np.uint8)], [np.empty((0, DIGEST_BYTES), np.uint8)]
    positions, tokens = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for table in read_rows(store.folder / "documents.parquet", _FIXED, 0, count):
        ids.append(fixed_bytes(table.column("id"), ID_BYTES))
        digests.append(fixed_bytes(table.column("digest"), DIGEST_BYTES))
        positions.append(table.column("position").to_numpy())
        tokens.append(table.column("tokens").to_numpy())
    return _FixedColumns(
        np.concatenate(ids), np.concatenate(positions), np.concatenate(digests), np.concatenate(tokens)
    )


def _names_of(store: TokenUnit, count: int, scratch: Path, unit: Unit) -> Names:
    """Return own ids, languages, paths and values of the records of the first documents of a unit."""
    columns = (*COLUMNS, "path", *kept_names(unit.keep_columns))
    names = Names(scratch / "names", columns)
    for table in read_rows(store.folder / "documents.parquet", columns, 0, count):
        names.add(table)
    names.finish()
    return names


def _write_sections(folder: Path, store: TokenUnit, order: NDArray[np.int64], work: ReplayUnit) -> None:
    """Write where the sections of the documents end, and which are learned, in this run's order."""
    ends = read_ends(store.folder / "sections", 0, len(order))
    learned = None
    if work.unit.dialogues:
        flags = np.concatenate([store.learned(group) for group in range(work.shards)])
        learned = Ragged(ends.ptr, flags.astype(np.int64)).take(order).values.astype(np.bool_)
    write_sections(folder, ends.take(order), learned=learned)


def _held_out(store: TokenUnit, count: int) -> Tally:
    """Return the tally of a unit's documents that the other run holds out."""
    listed, tokens = IdSum(), 0
    last = len(store.places)
    for table in read_rows(store.folder / "documents.parquet", ("id", "tokens"), count, last):
        listed.add_all(fixed_bytes(table.column("id"), ID_BYTES))
        tokens += int(table.column("tokens").to_numpy().sum())
    return listed.tally(tokens=tokens)


def _record(folder: Path, work: ReplayUnit, *, held_out: Tally) -> ReplayUnitRecord:
    """Return the record of what was written."""
    indexed = stored_tally(folder / "documents.parquet")
    flow = Flow(
        input=work.stored.model_copy(update={"bytes": None}),
        output=indexed,
        gone={HELD_OUT: held_out},
    )
    return ReplayUnitRecord(
        documents=indexed.documents, tokens=indexed.tokens or 0, ids=work.ids, flow=flow
    )
