"""Semantic: documents that say the same in other words, by embeddings and clusters.

embed    groups of units  -> dedup/embeddings/GROUP.npy  (documents, dimensions) int8
cluster  once           -> dedup/centroids.npy       (clusters, dimensions) int8
assign   groups of units  -> dedup/assigned/GROUP/     documents.npy, of each cluster: each is in its
                                                     nearest one and the next; ptr.npy, where they begin
compare  clusters       -> dedup/semantic/PART/      edges

A task that compares holds the best-ranked documents of one cluster and a block of its others, so a
cluster may be of any size.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Phase, Phases, TaskPlace, Workspace
from pipeline.steps.dedup.edges import SIMILARITIES, EdgeWriter, FoundEdges, ranks_of
from pipeline.steps.dedup.equal import WITHIN, compared_documents
from pipeline.steps.dedup.method import Corpus, GroupWork, Method
from pipeline.steps.dedup.unit_groups import UnitGroup
from pipeline.steps.records import UnitRecord, read_all
from pipeline.steps.step import Job, RowsOf
from pipeline.steps.units import fixed_bytes, row_groups, text_slices
from stages.dedup.encoders import EmbedTexts, embedded, open_encoder
from stages.dedup.semantic import (
    MAX_HEADS,
    SAMPLE,
    RankedVectors,
    SemanticConfig,
    find_centroids,
    nearest_centroids,
    num_clusters,
    rounded,
    similar_pairs,
)
from stages.dedup.survivors import Ranks
from stages.identity import ID_BYTES
from stages.store.arrays import array_writer, open_array, write_array

NAME = "semantic"
_EMBEDDINGS, _ASSIGNED, _CENTROIDS = "dedup/embeddings", "dedup/assigned", "dedup/centroids.npy"
_FOLDER = "dedup/semantic"
_TEXTS = 256
"""That an encoder is given at a time."""
_ROWS = 1_024
"""Documents of a cluster that are compared at a time."""
_ASSIGNED_ROWS = 1 << 14
"""Documents whose clusters are found at a time."""


@dataclass(frozen=True)
class SemanticClusters:
    """All documents, and which clusters a task compares: each `step`-th from a number on."""

    corpus: Corpus
    groups: tuple[UnitGroup, ...]
    part: int = 0
    step: int = 1

    @property
    def within(self) -> list[str]:
        """Sources whose documents are compared with each other alone."""
        return sorted(name for name, rule in self.corpus.rules.items() if rule == WITHIN)


def _config(corpus: Corpus) -> SemanticConfig:
    config = corpus.settings.semantic
    assert config is not None, "the method applies only where it is asked for"
    return config


class SemanticRecord(UnitRecord):
    """What was compared."""

    compared: int = 0


def embed_group(workspace: Workspace, work: GroupWork) -> UnitRecord:
    """Embed the documents of a group of units."""
    encode = encoder_of(workspace, _config(work.corpus))
    path = workspace.create(vectors_key(work.group.name))
    width = rounded(encode([""])).shape[1]
    with array_writer(path, dtype="|i1", shape=(width,)) as append:
        for texts in _texts(workspace, work.group):
            append(rounded(embedded(encode, texts)))
    return UnitRecord()


def encoder_of(workspace: Workspace, config: SemanticConfig) -> EmbedTexts:
    """Return the encoder, opened once in a process.

    Raises:
        ConfigError: its package or module is not installed.
    """
    return workspace.cached(f"encoder {config.encoder}", lambda: open_encoder(config.encoder))


def vectors_key(group: str) -> str:
    """Return the key of the vectors of a group of units, by its name."""
    return f"{_EMBEDDINGS}/{group}.npy"


def _texts(workspace: Workspace, group: UnitGroup) -> Iterator[list[str]]:
    for unit in group.units:
        for _, table in row_groups(workspace, unit, ["text", "text_bytes"]):
            for part in text_slices(table):
                texts = part.column("text").to_pylist()
                for start in range(0, len(texts), _TEXTS):
                    yield texts[start : start + _TEXTS]


def find_clusters(workspace: Workspace, work: SemanticClusters) -> UnitRecord:
    """Find centroids with a sample that the ids of documents decide, in the order of ids.

    So neither the order of files nor what is read beside them says which documents are in it.
    """
    total = work.corpus.documents
    bound = np.uint64(min(SAMPLE / total, 1.0) * float(2**64 - 2**12))
    parts, places = [], [np.empty((0, 2), np.uint64)]
    for group in work.groups:
        ids = _ids(workspace, group)
        chosen = np.flatnonzero(ids[:, 0] <= bound)  # an id is a hash
        parts.append(np.asarray(_embeddings(workspace, group)[chosen]))
        places.append(ids[chosen])
    sampled = np.concatenate(places)
    order = np.lexsort((sampled[:, 1], sampled[:, 0]))
    centroids = find_centroids(np.concatenate(parts)[order], num_clusters(total, _config(work.corpus)))
    write_array(workspace.create(_CENTROIDS), centroids)
    return UnitRecord()


def _ids(workspace: Workspace, group: UnitGroup) -> NDArray[np.uint64]:
    """Return the ids of a group's documents as numbers, (N, 2)."""
    parts = [
        fixed_bytes(table.column("id"), ID_BYTES).view(">u8").astype(np.uint64)
        for unit in group.units
        for _, table in row_groups(workspace, unit, ["id"])
    ]
    return np.concatenate([np.empty((0, 2), np.uint64), *parts])


def assign_group(workspace: Workspace, work: GroupWork) -> UnitRecord:
    """Find the nearest clusters of the documents of a group of units."""
    group = work.group
    centroids: Any = open_array(workspace.path(_CENTROIDS), dtype="|i1")
    vectors = _embeddings(workspace, group)
    compared = compared_documents(workspace, work)
    found, parts = [np.empty(0, np.int64)], [np.empty((0, 2), np.int64)]
    for start in range(0, len(compared), _ASSIGNED_ROWS):
        rows = compared[start : start + _ASSIGNED_ROWS]
        block = np.asarray(vectors[rows])
        known = block.any(axis=1)  # of the others the encoder knows nothing
        found.append(rows[known])
        parts.append(nearest_centroids(block[known], np.asarray(centroids)))
    compared, nearest = np.concatenate(found), np.concatenate(parts)
    twice = nearest[:, 0] != nearest[:, 1]
    clusters = np.concatenate([nearest[:, 0], nearest[twice, 1]])
    documents = np.concatenate([compared, compared[twice]])
    order = np.lexsort((documents, clusters))
    folder = workspace.create(f"{_ASSIGNED}/{group.name}")
    write_array(folder / "documents.npy", documents[order].astype("<u4"))
    begins = np.searchsorted(clusters[order], np.arange(len(centroids) + 1))
    write_array(folder / "ptr.npy", begins.astype("<i8"))
    return UnitRecord()


def compare_clusters(workspace: Workspace, work: SemanticClusters) -> SemanticRecord:
    """Write the pairs over the threshold of some clusters."""
    corpus, config = work.corpus, _config(work.corpus)
    ranks = ranks_of(workspace, corpus.ranked)
    count = len(open_array(workspace.path(_CENTROIDS), dtype="|i1"))
    compared = 0
    folder = workspace.create(f"{_FOLDER}/{work.part:05d}")
    folder.mkdir(parents=True, exist_ok=True)
    with EdgeWriter(folder, corpus.firsts, ranks=ranks) as writer:
        for cluster in range(work.part, count, work.step):
            for group in ("", *work.within):
                read = _Group(workspace, work, cluster, group)
                heads, numbers = _heads(read, ranks)
                for block, members in _blocks(read, ranks):
                    places, rows, similarity = similar_pairs(heads, block, config)
                    own = members[rows] >= corpus.earlier
                    writer.add(numbers[places[own]], members[rows[own]], similarity[own])
                    compared += int(np.searchsorted(heads.ranks, block.ranks).sum())
    return SemanticRecord(compared=compared)


_Members = tuple[RankedVectors, NDArray[np.int64]]
"""Documents by rank, and their numbers."""


@dataclass(frozen=True)
class _Group:
    """The documents of a cluster that are compared with each other."""

    workspace: Workspace
    work: SemanticClusters
    cluster: int
    source: str
    """A source that is compared with itself alone, or "" for all others together."""

    def documents(self, group: UnitGroup) -> NDArray[np.int64]:
        """Return those of a group, ascending, the group's first being 0."""
        folder = self.workspace.path(f"{_ASSIGNED}/{group.name}")
        low, high = open_array(folder / "ptr.npy", dtype="<i8")[self.cluster : self.cluster + 2]
        found = open_array(folder / "documents.npy", dtype="<u4")[low:high].astype(np.int64)
        if not self.work.within:
            return found
        ends = np.cumsum([unit.documents for unit in group.units])
        groups = [unit.source if unit.source in self.work.within else "" for unit in group.units]
        own = np.array([group == self.source for group in groups], np.bool_)
        return found[own[np.searchsorted(ends, found, side="right")]]

    def vectors(self, group: UnitGroup, rows: NDArray[np.int64]) -> NDArray[np.int8]:
        """Return the vectors of some documents of a group."""
        return np.asarray(_embeddings(self.workspace, group)[rows])


def _heads(read: _Group, ranks: Ranks) -> _Members:
    """Return the best-ranked documents of a group, at most `MAX_HEADS`."""
    numbers = np.empty(0, np.int64)
    for group in read.work.groups:
        numbers = np.concatenate([numbers, read.documents(group) + group.first])
        if len(numbers) > MAX_HEADS:
            best = np.argpartition(ranks.of(numbers), MAX_HEADS - 1)[:MAX_HEADS]
            numbers = numbers[best]
    numbers = np.sort(numbers)
    vectors = []
    for group in read.work.groups:
        low, high = np.searchsorted(numbers, (group.first, group.last))
        vectors.append(read.vectors(group, numbers[low:high] - group.first))
    return _by_rank(np.concatenate(vectors), numbers, ranks)


def _blocks(read: _Group, ranks: Ranks) -> Iterator[_Members]:
    """Yield all documents of a group, some at a time."""
    for group in read.work.groups:
        documents = read.documents(group)
        for start in range(0, len(documents), _ROWS):
            rows = documents[start : start + _ROWS]
            yield _by_rank(read.vectors(group, rows), rows + group.first, ranks)


def _by_rank(vectors: NDArray[np.int8], numbers: NDArray[np.int64], ranks: Ranks) -> _Members:
    own = ranks.of(numbers)
    order = np.argsort(own, kind="stable")
    return RankedVectors(vectors[order], own[order]), numbers[order]


def _embeddings(workspace: Workspace, group: UnitGroup) -> Any:
    return open_array(workspace.path(vectors_key(group.name)), dtype="|i1")


def _find(job: Job, corpus: Corpus, groups: Sequence[UnitGroup]) -> Phases[tuple[FoundEdges, ...]]:
    """Find documents that say the same in other words."""
    works = [GroupWork(corpus, group) for group in groups]
    yield Phase("embed", [job.task(f"embed-{one.group.name}", embed_group, one) for one in works])
    whole = SemanticClusters(corpus, tuple(groups))
    yield Phase("find clusters", [job.task("centroids", find_clusters, whole)], TaskPlace.OWN_ACTOR)
    yield Phase("cluster", [job.task(f"assign-{one.group.name}", assign_group, one) for one in works])
    parts = min(len(groups), num_clusters(corpus.documents, _config(corpus)))
    tasks = [
        job.task(f"semantic-{part:05d}", compare_clusters, replace(whole, part=part, step=parts))
        for part in range(parts)
    ]
    done = yield Phase("compare embeddings", tasks)
    compared = sum(one.compared for one in read_all(done, SemanticRecord).values())
    return (FoundEdges(NAME, _FOLDER, compared=compared, parts=parts),)


SEMANTIC = Method(
    applies=lambda file: file.dedup.semantic is not None,
    find=_find,
    unread=(f"{_EMBEDDINGS}/", f"{_ASSIGNED}/", _CENTROIDS, f"{_FOLDER}/"),
    whole=(find_clusters,),
    sampled=(assign_group,),
    listed={compare_clusters: RowsOf(SIMILARITIES)},
)
