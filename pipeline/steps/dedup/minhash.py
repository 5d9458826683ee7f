"""MinHash: near-duplicates by bands of signatures, verified by exact Jaccard similarity.

Screening: of earlier documents, only those band keys that a document of this run has, too.

    marks      once                     -> a Bloom filter of this run's keys for each band
    keys       groups of earlier units  -> the keys that pass it

An old document whose key no new one has is compared with none. So of most old documents nothing is
written, and no table of keys holds them.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.engine.tasks import Phase, Phases, Task, Workspace
from pipeline.steps.dedup.band_keys import (
    KEYS,
    SignedGroup,
    cut_keys,
    find_candidates,
    keys_key,
    read_keys,
)
from pipeline.steps.dedup.edges import SIMILARITIES, FoundEdges
from pipeline.steps.dedup.equal import compared_documents
from pipeline.steps.dedup.hashing import (
    INDEX,
    PAIRS_FOLDER,
    PairsRecord,
    hash_candidates,
    verify_pairs,
)
from pipeline.steps.dedup.method import Corpus, GroupWork, Method, PartitionWork, own_groups
from pipeline.steps.dedup.unit_groups import UnitGroup, by_partition
from pipeline.steps.partitions import write_partitions
from pipeline.steps.records import UnitRecord, read_all
from pipeline.steps.step import Job, RowsOf
from stages.dedup.bloom_filter import add_keys, empty_filter, may_hold
from stages.store.arrays import array_writer, open_array

_MARKS = "dedup/keys/marks.npy"


@dataclass(frozen=True)
class MarkedKeys:
    """Whose band keys are marked."""

    groups: tuple[int, ...]
    """Numbers of the groups of units of this run."""
    bands: int


def mark_keys(workspace: Workspace, work: MarkedKeys) -> UnitRecord:
    """Write a Bloom filter of the keys of each band: (B, W) uint64."""
    count = sum(read_keys(workspace, group).shape[1] for group in work.groups)
    empty = empty_filter(count)
    with array_writer(workspace.create(_MARKS), dtype="<u8", shape=empty.shape) as append:
        for band in range(work.bands):
            cells = empty.copy()
            for group in work.groups:
                add_keys(cells, read_keys(workspace, group)[band])
            append(cells[None])
    return UnitRecord()


def cut_screened_keys(workspace: Workspace, work: GroupWork) -> UnitRecord:
    """Order the band keys of earlier documents that may be those of new ones by partition.

    keys (K,), documents (K,) of all bands, and where each partition begins in each band, ptr (B, P + 1).
    """
    documents = compared_documents(workspace, work)
    marks = open_array(workspace.path(_MARKS), dtype="<u8").astype(np.uint64, copy=False)
    signed = SignedGroup(workspace, work)
    folder = workspace.create(keys_key(work.group.number))
    pointers, written = [], 0
    with (
        array_writer(folder / "keys.npy", dtype="<u8") as append_keys,
        array_writer(folder / "documents.npy", dtype="<u4") as append_documents,
    ):
        for band, cells in enumerate(marks):
            keys = signed.keys(band)[documents]
            passed = np.flatnonzero(may_hold(cells, keys))
            order, ptr = by_partition(keys[passed], work.corpus.partitions)
            append_keys(keys[passed[order]])
            append_documents(documents[passed[order]].astype("<u4"))
            pointers.append(written + ptr)
            written += len(passed)
    write_partitions(folder, KEYS, np.stack(pointers))
    return UnitRecord()


NEAR = "minhash"
"""`method` in the evidence."""


def _find(job: Job, corpus: Corpus, groups: Sequence[UnitGroup]) -> Phases[tuple[FoundEdges, ...]]:
    """Find near-duplicates."""
    bands, _ = corpus.shape
    works = [GroupWork(corpus, group) for group in groups]
    own = [GroupWork(corpus, group) for group in own_groups(corpus, groups)]
    yield from _cut_keys(job, works, own)
    partitions = [
        PartitionWork(corpus, number, band)
        for band, number in itertools.product(range(bands), range(corpus.partitions))
    ]
    yield Phase(
        "find near-duplicates",
        [job.task(f"band-{one.part:03d}-{one.number:05d}", find_candidates, one) for one in partitions],
    )
    tasks = [job.task(f"shingles-{work.group.name}", hash_candidates, work) for work in works]
    yield Phase("hash candidates", tasks)
    tasks = [job.task(f"pairs-{work.group.name}", verify_pairs, work) for work in own]
    verified = yield Phase("verify near-duplicates", tasks)
    compared = sum(pairs.compared for pairs in read_all(verified, PairsRecord).values())
    return (FoundEdges(NEAR, PAIRS_FOLDER, compared=compared),)


def _cut_keys(job: Job, works: Sequence[GroupWork], own: Sequence[GroupWork]) -> Phases[None]:
    """Cut band keys into partitions: all of this run's, and of earlier runs those that it has, too."""

    def tasks(
        some: Sequence[GroupWork], cut: Callable[[Workspace, GroupWork], UnitRecord]
    ) -> list[Task]:
        return [job.task(f"keys-{work.group.name}", cut, work) for work in some]

    corpus = works[0].corpus
    yield Phase("sort band keys", tasks(own, cut_keys))
    if corpus.earlier:
        marked = MarkedKeys(tuple(work.group.number for work in own), corpus.shape[0])
        yield Phase("mark band keys", [job.task("marks", mark_keys, marked)])
        before = works[: -len(own) or None]
        yield Phase("look up earlier band keys", tasks(before, cut_screened_keys))


MINHASH = Method(
    applies=lambda file: file.dedup.near,
    find=_find,
    unread=("dedup/keys/", "dedup/bands/", "dedup/shingles/", "dedup/pairs/"),
    sampled=(cut_keys, mark_keys, cut_screened_keys, find_candidates),
    listed={hash_candidates: RowsOf(INDEX, axis=1), verify_pairs: RowsOf(SIMILARITIES)},
)
