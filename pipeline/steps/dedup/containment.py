"""Containment: the method that finds documents inside of others.

Contained: documents that stand inside better-ranked ones.

    winnow      groups of units   -> the selected hashes of each document, cut into partitions
    buckets     partitions        -> candidates, without writing out a pair
    candidates  groups of units   -> pairs that share enough of the worse one's selected hashes
    shingles    groups of units   -> the shingles of each document of such a pair
    verify      groups of units   -> pairs verified by exact containment

The number of partitions follows from the bytes of all texts.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Function, Phase, Phases, Workspace
from pipeline.steps.dedup.band_keys import KEYS, CandidatesRecord, fill_buckets, keys_of_groups
from pipeline.steps.dedup.edges import (
    BATCH_PAIRS,
    SIMILARITIES,
    FoundEdges,
    expanded,
)
from pipeline.steps.dedup.equal import WITHIN, compared_documents
from pipeline.steps.dedup.hashing import (
    INDEX,
    HashingRecord,
    PairsRecord,
    PairVerification,
    Rows,
    shingles_key,
    texts_at,
    write_hashed,
    write_verified,
)
from pipeline.steps.dedup.method import Corpus, GroupWork, Method, PartitionWork, own_groups
from pipeline.steps.dedup.unit_groups import UnitGroup, by_partition
from pipeline.steps.partitions import partition_bounds, write_partitions
from pipeline.steps.records import UnitRecord, read_all
from pipeline.steps.step import Job, RowsOf
from stages.columns import utf8_of
from stages.dedup.compared_texts import compared_winnowed
from stages.dedup.containment import (
    ContainmentConfig,
    containments,
    least_shared_of,
)
from stages.dedup.keys import salted
from stages.dedup.lsh import num_partitions
from stages.store.arrays import array_writer, open_array, write_array

FOLDER = "dedup/contained"
SHINGLES = f"{FOLDER}/shingles"
EDGES = f"{FOLDER}/edges"
_BYTES_OF_KEY = 12
"""Of text to a selected hash, at the least: English words take 6 bytes, and 5 of them give 2."""


def key_partitions(corpus: Corpus) -> int:
    """Return the number of ranges that selected hashes are cut into, each with some number of them."""
    return num_partitions(corpus.text_bytes // _BYTES_OF_KEY, keys=corpus.keys)


def _config(corpus: Corpus) -> ContainmentConfig:
    config = corpus.settings.containment
    assert config is not None, "it applies"
    return config


def winnow_group(workspace: Workspace, work: GroupWork) -> UnitRecord:
    """Write a group's selected hashes by partition: keys, documents (S,), ptr (P + 1,); their counts."""
    group, corpus = work.group, work.corpus
    documents = compared_documents(workspace, work)
    counts = np.zeros(group.last - group.first, "<u4")
    keys, owners = [np.empty(0, np.uint64)], [np.empty(0, np.uint32)]
    for unit in group.units:
        low, high = np.searchsorted(documents + group.first, (unit.first, unit.last))
        place = low
        for column in texts_at(workspace, unit, documents[low:high] + group.first):
            data, offsets = utf8_of(column)
            for text in range(len(offsets) - 1):
                part = data[offsets[text] : offsets[text + 1]]
                own = compared_winnowed(part, corpus.settings.minhash)
                within = corpus.rules.get(unit.source) == WITHIN
                keys.append(salted(own, unit.source) if within else own)
                counts[documents[place]] = len(own)
                owners.append(np.full(len(own), documents[place], np.uint32))
                place += 1
    joined, numbers = np.concatenate(keys), np.concatenate(owners)
    order, ptr = by_partition(joined, key_partitions(corpus))
    folder = workspace.create(_keys_key(group.number))
    write_array(folder / "keys.npy", joined[order])
    write_array(folder / "documents.npy", numbers[order])
    write_partitions(folder, KEYS, ptr)
    write_array(folder / "counts.npy", counts)
    return UnitRecord()


def _keys_key(group: int) -> str:
    return f"{FOLDER}/keys/{group:05d}"


def partition_key(partition: int) -> str:
    """Return the folder of a partition's candidates."""
    return f"{FOLDER}/pieces/{partition:05d}"


def find_containing(workspace: Workspace, partition: PartitionWork) -> CandidatesRecord:
    """Find the documents that share selected hashes of one partition."""
    corpus, at = partition.corpus, partition.number
    folders = [_keys_key(group) for group in range(len(corpus.firsts))]
    parts = keys_of_groups(workspace, corpus, partition_bounds(workspace, folders, at), (at,))
    most = _config(partition.corpus).max_candidates
    return fill_buckets(
        workspace, partition, partition_key(partition.number), parts, max_candidates=most
    )


def _candidates_key(group: int) -> str:
    return f"{FOLDER}/candidates/{group:05d}"


def count_shared(workspace: Workspace, work: GroupWork) -> UnitRecord:
    """Write the pairs that share enough selected hashes, (P,), and all their documents, once each."""
    group, code, threshold = work.group, work.code, _config(work.corpus).threshold
    counts = _open(workspace.path(f"{FOLDER}/keys/{group.name}") / "counts.npy")
    partitions = [partition_key(number) for number in range(key_partitions(work.corpus))]
    folder = workspace.create(_candidates_key(group.number))
    partners = np.empty(0, np.int64)

    def enough(parts: Iterable[NDArray[np.uint64]]) -> NDArray[np.uint64]:
        """Return the pairs that stand often enough, ascending."""
        found, shared = _counted(parts)
        selected = counts[code.worse(found) - group.first]
        return found[shared >= least_shared_of(selected, threshold)]

    with array_writer(folder / "pairs.npy", dtype="<u8") as append:
        for pairs in expanded(workspace, partitions, group.first, group.last, code=code, merge=enough):
            append(pairs)
            both = np.concatenate([code.better(pairs), code.worse(pairs)])
            partners = np.unique(np.concatenate([partners, both]))
    write_array(folder / "partners.npy", partners)
    return UnitRecord()


def _counted(
    parts: Iterable[NDArray[np.uint64]],
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the distinct numbers of some arrays, ascending, and how often each stands there."""
    found, counts = np.empty(0, np.uint64), np.empty(0, np.int64)
    for part in parts:
        own, times = np.unique(part, return_counts=True)
        if not len(found):
            found, counts = own, times
            continue
        found, place = np.unique(np.concatenate([found, own]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([counts, times]), len(found)).astype(np.int64)
    return found, counts


def hash_contained(workspace: Workspace, work: GroupWork) -> HashingRecord:
    """Write the sets of shingles of the documents of a group that are in a pair of any group."""
    group, corpus = work.group, work.corpus
    paired = np.zeros(group.last - group.first, np.bool_)
    for other in range(int(np.searchsorted(corpus.firsts, corpus.earlier)), len(corpus.firsts)):
        partners = _open(workspace.path(_candidates_key(other)) / "partners.npy")
        low, high = np.searchsorted(partners, (group.first, group.last))
        paired[partners[low:high] - group.first] = True
    folder = workspace.create(shingles_key(group.number, SHINGLES))
    return write_hashed(workspace, folder, np.flatnonzero(paired), work)


def verify_contained(workspace: Workspace, work: GroupWork) -> PairsRecord:
    """Verify the pairs of a group by exact containment of the worse document in the better one."""

    def contained(own: Rows, others: Rows) -> NDArray[np.float64]:
        return containments(own.sets, others.sets, rows=(own.rows, others.rows))

    pairs = _open(workspace.path(_candidates_key(work.group.number)) / "pairs.npy")
    starts = range(0, len(pairs), BATCH_PAIRS)
    batches = (np.sort(pairs[start : start + BATCH_PAIRS]) for start in starts)
    verified = PairVerification(work, contained, _config(work.corpus).threshold, shingles=SHINGLES)
    return write_verified(workspace, f"{EDGES}/{work.group.name}", verified, batches)


def _open(path: Any) -> Any:
    """Return a committed array, mapped; its dtype is that of the task that wrote it."""
    return open_array(path)


CONTAINED = "containment"
"""`method` in the evidence."""


def _find(job: Job, corpus: Corpus, groups: Sequence[UnitGroup]) -> Phases[tuple[FoundEdges, ...]]:
    every = [GroupWork(corpus, group) for group in groups]
    own = [GroupWork(corpus, group) for group in own_groups(corpus, groups)]
    partitions = [PartitionWork(corpus, number) for number in range(key_partitions(corpus))]

    def phase(title: str, name: str, function: Function, works: Sequence[GroupWork]) -> Phase:
        return Phase(title, [job.task(f"{name}-{work.group.name}", function, work) for work in works])

    yield phase("select shingles", "winnow", winnow_group, every)
    tasks = [job.task(f"contained-{one.number:05d}", find_containing, one) for one in partitions]
    yield Phase("find contained documents", tasks)
    yield phase("count shared shingles", "shared", count_shared, own)
    yield phase("hash contained documents", "contained-shingles", hash_contained, every)
    verified = yield phase("verify contained documents", "contained-pairs", verify_contained, own)
    compared = sum(pairs.compared for pairs in read_all(verified, PairsRecord).values())
    return (FoundEdges(CONTAINED, EDGES, compared=compared),)


CONTAINMENT = Method(
    applies=lambda file: file.dedup.containment is not None,
    find=_find,
    unread=(f"{FOLDER}/",),
    sampled=(winnow_group, find_containing, count_shared),
    listed={hash_contained: RowsOf(INDEX, axis=1), verify_contained: RowsOf(SIMILARITIES)},
)
