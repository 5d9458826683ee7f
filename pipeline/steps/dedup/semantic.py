"""Semantic: documents that say the same in other words, by embeddings and clusters.

embed    runs of units  -> dedup/embeddings/RUN.npy  (documents, dimensions) int8
cluster  once           -> dedup/centroids.npy       (clusters, dimensions) int8
assign   runs of units  -> dedup/assigned/RUN.npy    (documents, 2) int32: nearest cluster and the next
compare  clusters       -> dedup/semantic/PART/      edges
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.phase import Phase, Phases, Where
from pipeline.engine.tasks import Workspace
from pipeline.run_file.deduplication import SourceRule
from pipeline.steps.dedup.edges import EdgeWriter, Found, ranks_of
from pipeline.steps.dedup.equal import compared_documents
from pipeline.steps.dedup.method import Corpus, Method
from pipeline.steps.dedup.runs import UnitRun
from pipeline.steps.records import UnitRecord, read_all
from pipeline.steps.step import Job
from pipeline.steps.units import row_groups, text_slices
from stages.dedup.encoders import Encode, beginnings, open_encoder
from stages.dedup.semantic import (
    MAX_CLUSTER,
    SAMPLE,
    SemanticConfig,
    find_centroids,
    nearest_centroids,
    num_clusters,
    rounded,
    similar_pairs,
)
from stages.store.arrays import array_writer, open_array, write_array

NAME = "semantic"
_EMBEDDINGS, _ASSIGNED, _CENTROIDS = "dedup/embeddings", "dedup/assigned", "dedup/centroids.npy"
_FOLDER = "dedup/semantic"
_TEXTS = 256
"""That an encoder is given at a time."""
_LEFT_OUT = -1
"""In place of the cluster of a document that is compared with none."""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class SemanticRun:
    """A run of units."""

    run: UnitRun
    config: SemanticConfig
    pieces: int
    rules: Mapping[str, SourceRule]


@dataclass(frozen=True)
class SemanticClusters:
    """All documents, and which clusters a task compares: each `step`-th from a number on."""

    runs: tuple[UnitRun, ...]
    config: SemanticConfig
    ranked: bool
    part: int = 0
    step: int = 1
    within: frozenset[str] = frozenset()
    """Sources whose documents are compared with each other alone."""


class SemanticRecord(UnitRecord):
    """What was compared."""

    compared: int = 0


def embed_run(workspace: Workspace, work: SemanticRun) -> UnitRecord:
    """Embed the documents of a run of units."""
    key = f"encoder {work.config.encoder}"
    encode: Encode = workspace.cache.get(key) or open_encoder(work.config.encoder)
    workspace.cache[key] = encode
    path = workspace.create(f"{_EMBEDDINGS}/{work.run.name}.npy")
    width = rounded(encode([""])).shape[1]
    with array_writer(path, dtype="|i1", shape=(width,)) as append:
        for texts in _texts(workspace, work.run):
            append(rounded(encode(beginnings(texts))))
    return UnitRecord()


def _texts(workspace: Workspace, run: UnitRun) -> Iterator[list[str]]:
    for unit in run.units:
        for _, table in row_groups(workspace, unit, ["text", "text_bytes"]):
            for part in text_slices(table):
                texts = part.column("text").to_pylist()
                for start in range(0, len(texts), _TEXTS):
                    yield texts[start : start + _TEXTS]


def find_clusters(workspace: Workspace, work: SemanticClusters) -> UnitRecord:
    """Find centroids with a sample that the numbers of documents decide."""
    total = work.runs[-1].last
    parts = []
    for run in work.runs:
        numbers = np.arange(run.first, run.last, dtype=np.uint64) * _SPREAD
        chosen = numbers < np.uint64(min(SAMPLE / total, 1.0) * float(2**64 - 2**12))
        parts.append(np.array(_embeddings(workspace, run)[chosen]))
    centroids = find_centroids(np.concatenate(parts), num_clusters(total, work.config))
    write_array(workspace.create(_CENTROIDS), centroids)
    return UnitRecord()


def assign_run(workspace: Workspace, work: SemanticRun) -> UnitRecord:
    """Find the nearest clusters of the documents of a run of units."""
    run = work.run
    centroids: Any = open_array(workspace.path(_CENTROIDS), dtype="|i1")
    vectors = _embeddings(workspace, run)
    compared = compared_documents(workspace, run, pieces=work.pieces, rules=work.rules)
    compared = compared[np.asarray(vectors[compared]).any(axis=1)]  # of others the encoder knows nothing
    found = np.full((len(vectors), 2), _LEFT_OUT, "<i4")
    found[compared] = nearest_centroids(np.asarray(vectors[compared]), np.asarray(centroids))
    write_array(workspace.create(f"{_ASSIGNED}/{run.name}.npy"), found)
    return UnitRecord()


def compare_clusters(workspace: Workspace, work: SemanticClusters) -> SemanticRecord:
    """Write the pairs over the threshold of some clusters."""
    ranks, firsts = ranks_of(workspace, work.ranked), [run.first for run in work.runs]
    count = num_clusters(work.runs[-1].last, work.config)
    compared = 0
    folder = workspace.create(f"{_FOLDER}/{work.part:05d}")
    folder.mkdir(parents=True, exist_ok=True)
    with EdgeWriter(folder, firsts, ranks=ranks) as writer:
        for cluster in range(work.part, count, work.step):
            members, vectors, sources = _members(workspace, work, cluster)
            order = np.argsort(ranks.of(members), kind="stable")
            for start in range(0, len(order), MAX_CLUSTER):
                rows = order[start : start + MAX_CLUSTER]
                compared += len(rows) * (len(rows) - 1) // 2
                for better, worse, similarity in similar_pairs(vectors[rows], work.config):
                    a, b = rows[better], rows[worse]
                    same = (sources[a] == sources[b]) | ((sources[a] < 0) & (sources[b] < 0))
                    writer.add(members[a[same]], members[b[same]], similarity[same])
    return SemanticRecord(compared=compared)


def _members(
    workspace: Workspace, work: SemanticClusters, cluster: int
) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.int64]]:
    """Return the documents of a cluster, their vectors, and a number for each source that is apart."""
    members, vectors, sources = [np.empty(0, np.int64)], [], [np.empty(0, np.int64)]
    apart = sorted(work.within)
    for run in work.runs:
        assigned = open_array(workspace.path(f"{_ASSIGNED}/{run.name}.npy"), dtype="<i4")
        rows = np.flatnonzero((np.asarray(assigned) == cluster).any(axis=1))
        members.append(rows + run.first)
        vectors.append(np.array(_embeddings(workspace, run)[rows]))
        own = np.concatenate(
            [
                np.full(unit.documents, apart.index(unit.source) if unit.source in work.within else -1)
                for unit in run.units
            ]
        )
        sources.append(own[rows])
    return np.concatenate(members), np.concatenate(vectors), np.concatenate(sources)


def _embeddings(workspace: Workspace, run: UnitRun) -> Any:
    return open_array(workspace.path(f"{_EMBEDDINGS}/{run.name}.npy"), dtype="|i1")


def _find(job: Job, corpus: Corpus) -> Phases[tuple[Found, ...]]:
    """Find documents that say the same in other words."""
    config = job.file.dedup.semantic
    assert config is not None, "the method applies only where it is asked for"
    within = frozenset(name for name, rule in corpus.rules.items() if rule == "within")
    work = {run.name: SemanticRun(run, config, corpus.pieces, corpus.rules) for run in corpus.runs}
    yield Phase("embed", [job.task(f"embed-{name}", embed_run, one) for name, one in work.items()])
    whole = SemanticClusters(corpus.runs, config, corpus.ranked)
    yield Phase("find clusters", [job.task("centroids", find_clusters, whole)], Where.ALONE)
    yield Phase("cluster", [job.task(f"assign-{name}", assign_run, one) for name, one in work.items()])
    parts = min(len(corpus.runs), num_clusters(corpus.runs[-1].last, config))
    tasks = [
        job.task(
            f"semantic-{part:05d}",
            compare_clusters,
            SemanticClusters(corpus.runs, config, corpus.ranked, part, parts, within),
        )
        for part in range(parts)
    ]
    done = yield Phase("compare embeddings", tasks)
    compared = sum(one.compared for one in read_all(done, SemanticRecord).values())
    return (Found(NAME, _FOLDER, compared=compared, parts=parts),)


SEMANTIC = Method(
    applies=lambda file: file.dedup.semantic is not None,
    find=_find,
    unread=(f"{_EMBEDDINGS}/", f"{_ASSIGNED}/", _CENTROIDS, f"{_FOLDER}/"),
)
