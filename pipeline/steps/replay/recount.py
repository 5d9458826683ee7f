"""Recount: the index over a unit of another run against that run's own token store.

The documents are those that the run trains on, described as it describes them, each in the group of its
hash; its ids are where that run has them, in a file with the digest that was committed there.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.decode.check import described_as
from pipeline.steps.names import read_rows
from pipeline.steps.records import CheckRecord
from pipeline.steps.recount import Found, differs, recounted
from pipeline.steps.replay.index import HELD_OUT
from pipeline.steps.tokenize.encode import COPY
from pipeline.steps.units import Unit, as_names, fixed_bytes, open_unit, rows_of_bytes
from stages.columns import kept_names
from stages.findings import Finding
from stages.identity import ID_BYTES
from stages.ledger import Flow, Tally, tally_of
from stages.mixing.placement import order_of, shard_of
from stages.ragged import Ragged
from stages.store.digests import FileDigest, xxh3_file
from stages.store.token_store import TokenUnit, read_ends

_COLUMNS = ("own_id", "language", "path", "position", "digest", "tokens")


@dataclass(frozen=True)
class ReplayRecount:
    """The index over one unit of another run."""

    unit: Unit
    """As that run has it."""
    made: Unit
    """As this run does."""
    shards: int
    """That run's training shards."""
    groups: int
    """This run's."""
    seed: int
    flow: Flow
    ids: FileDigest
    """Of the array that ids are borrowed from, when they were."""


def recount_replayed(workspace: Workspace, work: ReplayRecount) -> CheckRecord:
    """Hold an index to the token store that it is over."""
    key, borrowed = f"{work.made.tokens}/documents.parquet", f"{work.unit.tokens}/ids.npy"
    return recounted(
        (borrowed, lambda: _borrowed(workspace, work, borrowed)),
        (key, lambda: _indexed(workspace, work, key)),
    )


def _borrowed(workspace: Workspace, work: ReplayRecount, key: str) -> Found:
    """The array of ids is what the other run committed."""
    path = workspace.path(key)
    if path.stat().st_size != work.ids.bytes or xxh3_file(path) != work.ids.xxh3:
        message = (
            f"is not what that run committed (XXH3 {work.ids.xxh3}); restore it, or make that run again"
            " with --replace, and then this one"
        )
        yield key, Finding("files", message)


def _indexed(workspace: Workspace, work: ReplayRecount, key: str) -> Found:
    """The index lists that run's training documents, in this run's groups and order."""
    theirs, own = open_unit(workspace.root, work.unit), open_unit(workspace.root, work.made)
    count = int(theirs.group_ptr[work.shards])
    found, wanted = _ids(own, 0, len(own.places)), _ids(theirs, 0, count)
    held_out = _tally(theirs, count, len(theirs.places))
    yield from differs(key, _tally(own, 0, len(own.places)), work.flow.output)
    yield from differs(key, held_out, work.flow.gone.get(HELD_OUT, Tally()), what=HELD_OUT)
    rows, columns = _by_name(found), _by_name(wanted)
    if not np.array_equal(found[rows], wanted[columns]):
        message = "lists other documents than those that the replayed run trains on"
        yield key, Finding("documents_kept", message)
        return
    if not np.array_equal(own.places[rows], theirs.places[columns]):
        message = "ids of some documents begin or end elsewhere"
        yield f"{work.made.tokens}/places.npy", Finding("ids", message)
    yield from _placed(own, found, work, key)
    names = (*_COLUMNS, *kept_names(work.unit.keep_columns))
    tables = [
        read_rows(one.folder / "documents.parquet", ["id", *names], 0, count) for one in (own, theirs)
    ]
    mine, other = (described_as(one, names) for one in tables)
    wrong = [name for name in names if not np.array_equal(mine[name], other[name])]
    if wrong:
        message = f"says another {', '.join(wrong)} of some documents than the replayed run"
        yield key, Finding("documents", message)
    if work.unit.sections != 1:
        yield from _sections(own, theirs, rows, columns, work)


def _placed(own: TokenUnit, found: NDArray[np.uint8], work: ReplayRecount, key: str) -> Found:
    """Each document is in the group of its hash, in order, and says that order."""
    groups = np.repeat(np.arange(len(own.group_ptr) - 1), np.diff(own.group_ptr))
    hashed = (shard_of(name, work.seed, copy=COPY, shards=work.groups) for name in rows_of_bytes(found))
    if not np.array_equal(groups, np.fromiter(hashed, np.int64)):
        yield key, Finding("placement", "some documents stand in the group of another shard")
    orders = np.fromiter(
        (order_of(name, work.seed, copy=COPY) for name in rows_of_bytes(found)), np.uint64
    )
    table = pq.read_table(own.folder / "documents.parquet", columns=["order"], use_threads=False)
    inside = groups[1:] == groups[:-1]
    if (
        not np.array_equal(table.column("order").to_numpy(), orders)
        or (orders[1:][inside] < orders[:-1][inside]).any()
    ):
        yield key, Finding("order", "documents do not stand in the order of their hashes")


def _sections(
    own: TokenUnit,
    theirs: TokenUnit,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    work: ReplayRecount,
) -> Found:
    """Sections end where they do in the other run, and the same are learned."""
    key = f"{work.made.tokens}/sections"
    mine = read_ends(own.folder / "sections", 0, len(rows)).take(rows)
    other = read_ends(theirs.folder / "sections", 0, len(columns)).take(columns)
    if not (np.array_equal(mine.ptr, other.ptr) and np.array_equal(mine.values, other.values)):
        yield key, Finding("sections", "sections of some documents end elsewhere")
    elif work.unit.dialogues:
        flags = [
            Ragged(ends.ptr, np.concatenate([one.learned(group) for group in groups]).astype(np.int64))
            for one, groups, ends in (
                (own, range(len(own.group_ptr) - 1), read_ends(own.folder / "sections", 0, len(rows))),
                (theirs, range(work.shards), read_ends(theirs.folder / "sections", 0, len(columns))),
            )
        ]
        if not np.array_equal(flags[0].take(rows).values, flags[1].take(columns).values):
            yield key, Finding("sections", "other sections of some documents are learned")


def _ids(store: TokenUnit, first: int, last: int) -> NDArray[np.uint8]:
    """Return the ids of documents [first, last): (D, 16)."""
    tables = read_rows(store.folder / "documents.parquet", ("id",), first, last)
    parts = (fixed_bytes(table.column("id"), ID_BYTES) for table in tables)
    return np.concatenate([np.empty((0, ID_BYTES), np.uint8), *parts])


def _tally(store: TokenUnit, first: int, last: int) -> Tally:
    """Return the tally of documents [first, last), their tokens by where their ids are."""
    return tally_of(_ids(store, first, last), tokens=int(store.lengths[first:last].sum()))


def _by_name(ids: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return documents in the order of their ids, (D, 16)."""
    return np.argsort(as_names(ids), kind="stable")
