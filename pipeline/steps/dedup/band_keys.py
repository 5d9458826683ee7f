"""Dedup: which documents go, in seven phases over committed units.

    digests   groups of units (.equal)     -> the digests of each, cut into partitions of their range
    exact     partitions (.equal)            -> repeats of a text, each with the best-ranked of it
    keys      groups of units            -> the band keys of each without repeats, cut into partitions
    bands     bands x partitions         -> candidates, without writing out a pair
    shingles  groups of units (.hashing)   -> the shingles of each candidate
    pairs     groups of units (.pairs)     -> candidate pairs verified by exact Jaccard
    decide    once (.resolve)            -> who goes and for whom; then masks and evidence (.decision)

This module holds keys and bands. A partition reads one contiguous range of every group's file, block by
block. The number of partitions follows from the number of documents alone, so nothing here depends on
memory or on workers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.dedup.edges import ranks_of
from pipeline.steps.dedup.equal import WITHIN, compared_documents
from pipeline.steps.dedup.method import Corpus, GroupWork, PartitionWork
from pipeline.steps.dedup.unit_groups import BLOCK_KEYS, by_partition
from pipeline.steps.partitions import (
    FolderRows,
    RowKind,
    open_pointers,
    read_partition,
    write_partitions,
)
from pipeline.steps.records import UnitRecord
from stages.dedup.buckets import BucketFiller, KeyBlock, RankedBuckets, SharedKeys, shared_keys
from stages.dedup.keys import salted
from stages.dedup.lsh import band_keys
from stages.dedup.survivors import Ranks
from stages.store.arrays import array_writer, open_array, write_array

KEYS = {"keys": RowKind("<u8"), "documents": RowKind("<u4")}
"""The arrays of a group that are cut into partitions."""
KeysOfGroup = tuple[int, NDArray[np.uint64], NDArray[np.uint32]]
"""The number of the first document of a group, keys of it, (K,), and their documents, from 0."""


class CandidatesRecord(UnitRecord):
    """What was found in a partition of a band."""

    members: int
    comparisons: int


class SignedGroup:
    """The band keys of all documents of a group of units, computed from their signatures.

    Args:
        workspace: where they are.
        work: the group.
    """

    def __init__(self, workspace: Workspace, work: GroupWork) -> None:
        units, rules = work.group.units, work.corpus.rules
        self.bands, self._rows = work.corpus.shape
        self._signatures = [open_array(workspace.path(unit.signatures), dtype="<u4") for unit in units]
        self._salts = [unit.source if rules.get(unit.source) == WITHIN else None for unit in units]

    def keys(self, band: int) -> NDArray[np.uint64]:
        """Return the key of each document in one band: (N,)."""
        lanes = slice(band * self._rows, (band + 1) * self._rows)
        parts = zip(self._signatures, self._salts, strict=True)
        return np.concatenate([_band_keys(part[lanes], salt) for part, salt in parts])


def keys_key(group: int) -> str:
    """Return the folder of a group's band keys by partition."""
    return f"dedup/keys/{group:05d}"


def band_key(band: int, partition: int) -> str:
    """Return the folder of a band's candidates in one partition."""
    return f"dedup/bands/{band:03d}-{partition:05d}"


def cut_keys(workspace: Workspace, work: GroupWork) -> UnitRecord:
    """Order a group's band keys by partition, repeats left out: they are decided with their first.

    keys (B, M), documents (B, M) and where each partition begins in each band, ptr (B, P + 1).
    """
    documents = compared_documents(workspace, work)
    signed = SignedGroup(workspace, work)
    folder = workspace.create(keys_key(work.group.number))
    pointers = []
    with (
        array_writer(folder / "keys.npy", dtype="<u8", shape=documents.shape) as append_keys,
        array_writer(folder / "documents.npy", dtype="<u4", shape=documents.shape) as append_documents,
    ):
        for band in range(signed.bands):
            keys = signed.keys(band)[documents]
            order, ptr = by_partition(keys, work.corpus.partitions)
            append_keys(keys[order][None])
            append_documents(documents[order].astype("<u4")[None])
            pointers.append(ptr)
    write_partitions(folder, KEYS, np.stack(pointers), apart=len(documents))
    return UnitRecord()


def find_candidates(workspace: Workspace, partition: PartitionWork) -> CandidatesRecord:
    """Find the candidates of one band among the documents whose key lies in one partition."""
    parts = _parts(workspace, partition)
    room = min(partition.corpus.keys, sum(len(keys) for _, keys, _ in parts))
    folder, most = (
        band_key(partition.part, partition.number),
        partition.corpus.settings.minhash.max_candidates,
    )
    return fill_buckets(workspace, partition, folder, parts, max_candidates=most, room=room)


def _parts(workspace: Workspace, partition: PartitionWork) -> list[KeysOfGroup]:
    """Return the keys of a partition of a band, of each group that has some."""
    corpus, rows = partition.corpus, []
    for group, first in enumerate(corpus.firsts):
        folder = keys_key(group)
        ptr = open_pointers(workspace, folder)
        low, high = ptr[partition.part, partition.number : partition.number + 2].tolist()
        begin = (
            partition.part * int(ptr[-1, -1]) if first >= corpus.earlier else 0
        )  # of each band as many
        rows.append(FolderRows(folder, begin + low, begin + high))
    return keys_of_groups(workspace, corpus, rows, (partition.part, partition.number))


def keys_of_groups(
    workspace: Workspace, corpus: Corpus, rows: Sequence[FolderRows], at: tuple[int, ...]
) -> list[KeysOfGroup]:
    """Return the keys of a partition, of each group that has some.

    Args:
        workspace: where they are.
        corpus: that the groups are of.
        rows: of the partition in each group's folder.
        at: the partition, as in `read_partition`.
    """
    found: Any = read_partition(workspace, rows, KEYS, at)
    parts = zip(corpus.firsts, rows, found, strict=True)
    return [
        (first, keys(), documents()) for first, own, (keys, documents) in parts if own.first < own.last
    ]


def fill_buckets(
    workspace: Workspace,
    partition: PartitionWork,
    folder: str,
    parts: Sequence[KeysOfGroup],
    *,
    max_candidates: int,
    room: int | None = None,
) -> CandidatesRecord:
    """Find the documents that share a key, and write their buckets.

    Args:
        workspace: where ranks are.
        partition: of keys.
        folder: key of what is written.
        parts: of each group its first document's number, its keys in the partition, their documents.
        max_candidates: of a document.
        room: keys that are counted; None if nothing is known of them.
    """

    def blocks() -> Iterator[KeyBlock]:
        for first, keys, documents in parts:
            for start in range(0, len(keys), BLOCK_KEYS):
                block = slice(start, start + BLOCK_KEYS)
                yield keys[block], documents[block] + np.int64(first)

    shared = shared_keys(blocks()) if room is None else shared_keys(blocks(), room=room)
    buckets = Buckets(shared, max_candidates, partition.corpus.earlier)
    ranks = ranks_of(workspace, partition.corpus.ranked)
    return write_buckets(workspace.create(folder), buckets, blocks, ranks)


def read_keys(workspace: Workspace, group: int) -> NDArray[np.uint64]:
    """Return the band keys of a group, mapped: (B, M), or (K,) of an earlier run."""
    keys: NDArray[np.uint64] = _open(workspace.path(keys_key(group)) / "keys.npy")
    return keys


@dataclass(frozen=True)
class Buckets:
    """What decides the buckets of a partition."""

    shared: SharedKeys
    max_candidates: int
    earlier: int = 0
    """Documents of earlier runs: numbered first, ranked first, and members of none."""


def write_buckets(
    folder: Path, buckets: Buckets, blocks: Callable[[], Iterator[KeyBlock]], ranks: Ranks
) -> CandidatesRecord:
    """Write the members of all buckets of a partition, and their best-ranked documents.

    Args:
        folder: for members.npy, (M, 3), and heads.npy, (H,); with earlier runs also for earlier.npy,
            (E,): their documents that a new one is compared with.
        buckets: of the partition.
        blocks: gives keys and documents, ascending by document, from the start.
        ranks: of all documents.
    """
    members = comparisons = 0
    filler: BucketFiller | RankedBuckets
    if ranks.canonical:
        filler = BucketFiller(buckets.shared, buckets.max_candidates)
        found = filler.place(blocks())
    else:
        filler = RankedBuckets(buckets.shared, buckets.max_candidates)
        filler.rank((keys, ranks.of(documents)) for keys, documents in blocks())
        found = _placed(filler, blocks(), ranks)
    with array_writer(folder / "members.npy", dtype="<i8", shape=(3,)) as append:
        wanted = []
        for block in found:
            own = block[np.searchsorted(block[:, 0], buckets.earlier) :]
            append(own)
            members += len(own)
            comparisons += int(own[:, 2].sum())
            if buckets.earlier:
                wanted.append(_starts(own))
    heads = ranks.at(filler.heads)
    write_array(folder / "heads.npy", heads)
    if buckets.earlier:
        write_array(folder / "earlier.npy", _compared_earlier(heads, wanted, buckets.earlier))
    return CandidatesRecord(members=members, comparisons=comparisons)


def _starts(members: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the slices of heads that members are compared with, each once with its longest: (S, 2)."""
    starts, slices = np.unique(members[:, 1], return_inverse=True)
    counts = np.zeros(len(starts), np.int64)
    np.maximum.at(counts, slices, members[:, 2])
    return np.column_stack([starts, counts])


def _compared_earlier(
    heads: NDArray[np.int64], slices: Sequence[NDArray[np.int64]], earlier: int
) -> NDArray[np.int64]:
    """Return the documents of earlier runs among some slices of heads, ascending: (E,)."""
    places = _starts(np.insert(np.concatenate([np.empty((0, 2), np.int64), *slices]), 0, 0, axis=1))
    ends = np.cumsum(places[:, 1])
    within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - places[:, 1], places[:, 1])
    found = heads[np.repeat(places[:, 0], places[:, 1]) + within]
    return np.unique(found[found < earlier])


def _placed(
    filler: RankedBuckets, blocks: Iterator[KeyBlock], ranks: Ranks
) -> Iterator[NDArray[np.int64]]:
    """Yield the members of each block by number, where ranks are not numbers."""
    for keys, documents in blocks:
        (members,) = filler.place([(keys, ranks.of(documents))])
        members[:, 0] = documents[members[:, 0]]
        yield members


def _band_keys(rows: NDArray[np.generic], salt: str | None) -> NDArray[np.uint64]:
    """Return the keys of rows of signatures, uint32; with a salt they are those of one source alone."""
    keys = band_keys(cast("NDArray[np.uint32]", rows))
    return keys if salt is None else salted(keys, salt)


def _open(path: Any) -> Any:
    """Return a committed array, mapped; its dtype is that of the step that wrote it."""
    return open_array(path)
