"""Equal: documents that have the same text, or the same value of a field, found by 128-bit digests.

    digests   groups of units  -> the digests of each, cut into partitions of their range
    repeats   partitions     -> repeats, each with the best-ranked document of the same value

Texts are value -1, the fields of `dedup.url` and `dedup.keys` are numbered from 0. A source that is
deduplicated within itself has digests of its own, and one that is not has none.

Values: the methods that find equal values, of texts, URLs and keys.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Phase, Phases, Workspace
from pipeline.run_file.config import RunFile
from pipeline.steps.dedup.edges import FoundEdges, ranks_of
from pipeline.steps.dedup.method import TEXT, Corpus, GroupWork, Method, PartitionWork
from pipeline.steps.dedup.unit_groups import UnitGroup, by_partition, in_blocks
from pipeline.steps.earlier_runs import BY_KEY, URL, removed_for_values
from pipeline.steps.partitions import (
    RowKind,
    partition_bounds,
    read_partition,
    write_partitions,
)
from pipeline.steps.records import UnitRecord
from pipeline.steps.step import Job, RowsOf
from pipeline.steps.units import Unit, digest_halves, kept_mask
from stages.dedup.exact import DigestBlock, ranked_duplicates, stream_duplicates
from stages.dedup.keys import salted
from stages.dedup.lsh import partition_of
from stages.store.arrays import array_writer, open_array, write_array

WITHIN = "within"
_DIGESTS = {"digests": RowKind("<u8", (2,)), "documents": RowKind("<u4")}
"""The arrays of a group that are cut into partitions."""


class ExactRecord(UnitRecord):
    """What was found in a partition of the digests."""

    repeats: int


def digests_key(group: int, value: int = TEXT) -> str:
    """Return the folder of a group's digests by partition."""
    return (
        f"dedup/digests/{group:05d}" if value == TEXT else f"dedup/keyed/{value:02d}-digests/{group:05d}"
    )


def repeats_folder(value: int = TEXT) -> str:
    """Return the folder of all partitions' repeats."""
    return "dedup/exact" if value == TEXT else f"dedup/keyed/{value:02d}-repeats"


def exact_key(partition: int, value: int = TEXT) -> str:
    """Return the key of a partition's repeats."""
    return f"{repeats_folder(value)}/{partition:05d}.npy"


def cut_digests(workspace: Workspace, work: GroupWork) -> UnitRecord:
    """Order a group's digests by partition: digests (N, 2), documents (N,) and where each one begins."""
    parts = [_digests(workspace, work, unit) for unit in work.group.units]
    halves = np.concatenate([halves for halves, _ in parts])
    documents = np.concatenate([documents for _, documents in parts]) - work.group.first
    order, ptr = by_partition(halves[:, 0], work.corpus.partitions)
    folder = workspace.create(digests_key(work.group.number, work.part))
    write_array(folder / "digests.npy", halves[order])
    write_array(folder / "documents.npy", documents[order].astype("<u4"))
    write_partitions(folder, _DIGESTS, ptr)
    return UnitRecord()


def _digests(workspace: Workspace, work: GroupWork, unit: Unit) -> DigestBlock:
    """Return the digests of the documents of a unit that take part, and their numbers."""
    rule = work.corpus.rules.get(unit.source, True)
    documents = np.arange(unit.first, unit.last)
    if rule is False:
        return np.empty((0, 2), np.uint64), documents[:0]
    if work.part == TEXT:
        halves = digest_halves(workspace, unit)
        if unit.folder:  # what went for its URL alone says nothing of its text
            stays = np.flatnonzero(~removed_for_values(workspace, unit))
            halves, documents = halves[stays], documents[stays]
    else:
        keys: Any = open_array(workspace.path(unit.keys), dtype="<u8")
        halves = np.array(keys[:, work.part])
        there = np.flatnonzero(halves.any(axis=1))
        halves, documents = halves[there], documents[there]
    return (salted(halves, unit.source) if rule == WITHIN else halves), documents


def find_exact(workspace: Workspace, partition: PartitionWork) -> ExactRecord:
    """Find the repeats among the documents whose digest lies in one partition of the range."""
    firsts = partition.corpus.firsts
    folders = [digests_key(group, partition.part) for group in range(len(firsts))]
    at = partition.number
    rows = partition_bounds(workspace, folders, at)
    read: Any = read_partition(workspace, rows, _DIGESTS, (at,))

    def blocks() -> Iterator[DigestBlock]:
        parts = zip(firsts, read, strict=True)
        return in_blocks((digests(), own() + np.int64(first)) for first, (digests, own) in parts)

    ranks = ranks_of(workspace, partition.corpus.ranked)
    found = stream_duplicates(blocks) if ranks.canonical else ranked_duplicates(blocks, ranks.of)
    repeats = 0
    place = workspace.create(exact_key(partition.number, partition.part))
    with array_writer(place, dtype="<i8", shape=(2,)) as append:
        for pairs in found:
            append(pairs)
            repeats += len(pairs)
    return ExactRecord(repeats=repeats)


def equal_texts(
    workspace: Workspace, units: Sequence[Unit], *, partitions: int
) -> Iterator[NDArray[np.int64]]:
    """Yield the repeats of all texts, each with the first of it, where no phase has looked for them all.

    What is not removed belongs to one side of the split with its equal texts still.
    """

    def blocks(partition: int) -> Iterator[DigestBlock]:
        def parts() -> Iterator[DigestBlock]:
            for unit in units:
                halves = digest_halves(workspace, unit)
                chosen = np.flatnonzero(partition_of(halves[:, 0], partitions=partitions) == partition)
                yield halves[chosen], chosen + np.int64(unit.first)

        return in_blocks(parts())

    for partition in range(partitions):
        yield from stream_duplicates(partial(blocks, partition))


def repeats_of(workspace: Workspace, first: int, last: int, *, partitions: int) -> NDArray[np.int64]:
    """Return the repeats of texts among documents [first, last), each with the first of its text.

    Returns:
        (D, 2) int64, ascending.
    """
    found = [np.empty((0, 2), np.int64)]
    for partition in range(partitions):
        pairs = _open(workspace.path(exact_key(partition)))
        low, high = np.searchsorted(pairs[:, 0], (first, last))
        found.append(pairs[low:high])
    repeats = np.concatenate(found)
    return repeats[np.argsort(repeats[:, 0], kind="stable")]


def compared_documents(workspace: Workspace, work: GroupWork) -> NDArray[np.int64]:
    """Return the documents of a group whose texts are compared: (N,), the group's first being 0.

    Repeats of a text are decided with the first of it; a source without deduplication has none.
    """
    group, corpus = work.group, work.corpus
    fresh = np.ones(group.last - group.first, np.bool_)
    repeats = (
        repeats_of(workspace, group.first, group.last, partitions=corpus.partitions)[:, 0] - group.first
    )
    if any(unit.folder for unit in group.units):  # of two earlier runs each may have kept the same text
        kept = np.concatenate([kept_mask(workspace, unit) for unit in group.units])
        repeats = repeats[~kept[repeats]]
    fresh[repeats] = False
    for unit in group.units:
        if corpus.rules.get(unit.source, True) is False:
            fresh[unit.first - group.first : unit.last - group.first] = False
    return np.flatnonzero(fresh)


def _open(path: Any) -> Any:
    """Return a committed array, mapped; its dtype is that of the step that wrote it."""
    return open_array(path)


EXACT = "exact"
"""`method` in the evidence."""


def value_names(file: RunFile) -> tuple[str, ...]:
    """Return the methods of the fields that are compared: url, key:doi."""
    keys = [f"{BY_KEY}{name}" for name in file.dedup.keys]
    return (*((URL,) if file.dedup.url is not None else ()), *keys)


def _find_texts(job: Job, corpus: Corpus, groups: Sequence[UnitGroup]) -> Phases[tuple[FoundEdges, ...]]:
    yield from _find(
        job, [GroupWork(corpus, group) for group in groups], "digests", "exact", "exact duplicates"
    )
    return (FoundEdges(EXACT, repeats_folder(), equal=True),)


def _find_values(
    job: Job, corpus: Corpus, groups: Sequence[UnitGroup]
) -> Phases[tuple[FoundEdges, ...]]:
    found = []
    for value, name in enumerate(value_names(job.file)):
        sort = f"{name} {value}" if value else name
        works = [GroupWork(corpus, group, value) for group in groups]
        yield from _find(job, works, f"value-{value:02d}", f"repeats-{value:02d}", sort)
        found.append(FoundEdges(name, repeats_folder(value), equal=True))
    return tuple(found)


def _find(
    job: Job, works: Sequence[GroupWork], cut_name: str, found_name: str, title: str
) -> Phases[None]:
    tasks = [job.task(f"{cut_name}-{one.group.name}", cut_digests, one) for one in works]
    yield Phase("sort digests", tasks)
    corpus, part = works[0].corpus, works[0].part
    partitions = [PartitionWork(corpus, number, part) for number in range(corpus.partitions)]
    tasks = [job.task(f"{found_name}-{one.number:05d}", find_exact, one) for one in partitions]
    yield Phase(f"find {title}", tasks)


EXACT_TEXTS = Method(
    applies=lambda file: file.dedup.exact,
    find=_find_texts,
    unread=("dedup/digests/", "dedup/exact/"),
    sampled=(cut_digests,),
    listed={find_exact: RowsOf(".npy")},
)
EQUAL_VALUES = Method(
    applies=lambda file: bool(file.dedup.value_columns),
    find=_find_values,
    unread=("dedup/keyed/",),
    sampled=(cut_digests,),
    listed={find_exact: RowsOf(".npy")},
)
