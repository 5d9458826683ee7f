"""Split: which duplicate clusters are held out, in hash order until `validation.max_tokens`.

The tokens of a candidate are known only after the tokenizer is trained, so candidates are encoded
here, once; no candidate was in the tokenizer's sample.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field

from pipeline.engine.tasks import Workspace
from pipeline.steps.earlier_runs import Sides, may_be_held_out
from pipeline.steps.records import StepRecord, UnitRecord
from pipeline.steps.tokenize.dialogues import token_counts
from pipeline.steps.tokenizer.load import load_markup
from pipeline.steps.unit_clusters import clusters_of
from pipeline.steps.units import (
    NAME,
    SECTIONED_TEXT,
    Unit,
    as_names,
    fixed_array,
    fixed_bytes,
    kept_groups,
    places_of_names,
    read_table,
    rows_of_bytes,
    tally_of_texts,
)
from stages.config import Config
from stages.identity import ID_BYTES
from stages.ledger import Flow, Tally, tally_of
from stages.mixing.placement import ValidationConfig, num_shards, validation_hash
from stages.packing.layout import PackingConfig

VALIDATION = "split/validation.parquet"

_CLUSTER = pa.schema(
    [
        pa.field("cluster", pa.binary(ID_BYTES), nullable=False),
        pa.field("tokens", pa.int64(), nullable=False),
        pa.field("text_bytes", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True)
class CandidateUnit:
    """One unit whose candidates are counted."""

    unit: Unit
    validation: ValidationConfig
    seed: int
    sides: str | None = None
    """Key of the sides that earlier runs decided; None if there are none."""


@dataclass(frozen=True)
class ValidationChoice:
    """The candidates of all units."""

    units: tuple[Unit, ...]
    validation: ValidationConfig
    packing: PackingConfig
    seed: int
    kept_bytes: int
    kept_documents: int = 0
    sides: str | None = None
    """As of `CandidateUnit`: what earlier runs held out is so, whatever `validation` allows."""


class JoinedDocuments(Config):
    """Documents that are held out because an earlier generation or run holds out their clusters."""

    documents: int = 0
    tokens: int = 0


class JoinedCluster(JoinedDocuments):
    """A cluster of such documents."""

    cluster: str
    """Its name."""
    document: str
    """The id of its first document here."""


class CountRecord(UnitRecord):
    """Candidates of a unit."""

    clusters: int
    joined: JoinedDocuments = JoinedDocuments()
    """What joins validation because an earlier run holds out its clusters."""
    largest_joined: JoinedCluster | None = None


class SplitRecord(StepRecord):
    """What is held out, and how many shards there are, decided once and for all."""

    candidates: int
    """Clusters that may be held out."""
    clusters: int
    """That are."""
    tokens: int
    """Of these."""
    held_out: Tally
    """Of their names."""
    shards: dict[str, int]
    """By split; 0 if there is none."""
    joined: dict[str, JoinedDocuments] = Field(default_factory=dict)
    """By source; sources without such documents are left out."""
    largest_joined: JoinedCluster | None = None
    """The one with the most tokens in a unit."""


def count_candidates(workspace: Workspace, work: CandidateUnit) -> CountRecord:
    """Count the tokens of each candidate cluster in one unit."""
    by_cluster = work.validation.fraction or work.sides
    clusters = clusters_of(workspace, work.unit) if by_cluster else None
    sides = Sides.read(workspace, work.sides)
    encoder = load_markup(workspace, work.unit.source)
    counts: defaultdict[bytes, list[int]] = defaultdict(lambda: [0, 0])
    joined = _JoinedCounts()
    received, held_out, others = Tally(bytes=0), Tally(bytes=0), Tally(bytes=0)
    for table in kept_groups(workspace, work.unit, ["id", "text_bytes", *SECTIONED_TEXT]):
        ids = fixed_bytes(table.column("id"), ID_BYTES)
        of_documents = ids if clusters is None else clusters.of(ids)
        names = list(rows_of_bytes(of_documents))
        chosen = may_be_held_out(of_documents, work.seed, config=work.validation, sides=sides)
        held_out_before = sides.of(of_documents)[1].tolist()
        columns = table.select(["id", "text_bytes"])  # a filter copies what it is given, and not texts
        received += tally_of_texts(columns)
        held_out += tally_of_texts(columns.filter(pa.array(chosen, pa.bool_())))
        others += tally_of_texts(columns.filter(pa.array([not one for one in chosen], pa.bool_())))
        for row, cluster in enumerate(names):
            if chosen[row]:
                tokens = sum(token_counts(encoder, table.slice(row, 1))) + 1
                counts[cluster][0] += tokens
                counts[cluster][1] += table.column("text_bytes")[row].as_py()
                if held_out_before[row]:
                    joined.add(cluster, ids[row].tobytes(), tokens)
    clusters_ = sorted(counts)
    rows = np.array([counts[name] for name in clusters_], np.int64).reshape(-1, 2)
    found = np.array(clusters_, NAME).view(np.uint8).reshape(-1, ID_BYTES)
    _write(workspace, _counts_key(work.unit), _Counts(found, rows[:, 0], rows[:, 1]))
    flow = Flow(input=received, output=held_out + others)
    return CountRecord(clusters=len(counts), flow=flow, joined=joined.all, largest_joined=joined.largest)


class _JoinedCounts:
    """Documents of a unit that join validation, counted by cluster."""

    def __init__(self) -> None:
        self._clusters: dict[bytes, JoinedCluster] = {}

    def add(self, cluster: bytes, document: bytes, tokens: int) -> None:
        """Count a document."""
        known = self._clusters.get(cluster)
        first = document.hex() if known is None else known.document
        self._clusters[cluster] = JoinedCluster(
            documents=1 + (known.documents if known else 0),
            tokens=tokens + (known.tokens if known else 0),
            cluster=cluster.hex(),
            document=first,
        )

    @property
    def all(self) -> JoinedDocuments:
        """What all clusters have together."""
        each = self._clusters.values()
        return JoinedDocuments(
            documents=sum(one.documents for one in each), tokens=sum(one.tokens for one in each)
        )

    @property
    def largest(self) -> JoinedCluster | None:
        """The cluster with the most tokens."""
        return largest_of(self._clusters.values())


def largest_of(clusters: Iterable[JoinedCluster]) -> JoinedCluster | None:
    """Return the cluster with the most tokens, of equal ones the first by name."""
    return min(clusters, key=lambda one: (-one.tokens, one.cluster), default=None)


def choose_validation(workspace: Workspace, work: ValidationChoice) -> SplitRecord:
    """Choose the clusters that are held out, and decide the number of shards once and for all."""
    candidates = _merged_counts(workspace, work.units)
    hashes = (validation_hash(cluster, work.seed) for cluster in map(bytes, candidates.clusters))
    order = np.lexsort(
        (*_sort_keys(candidates.clusters), np.fromiter(hashes, np.uint64, len(candidates.clusters)))
    )
    known, _ = Sides.read(workspace, work.sides).of(candidates.clusters)
    free = order[~known[order]]
    totals = np.cumsum(candidates.tokens[free])
    num_free = int(np.searchsorted(totals, work.validation.max_tokens, side="right"))
    chosen = np.sort(np.concatenate([free[:num_free], np.flatnonzero(known)]))  # in name order
    num_chosen = len(chosen)
    validation = candidates.take(chosen)
    _write(workspace, VALIDATION, validation)
    held_out = int(validation.text_bytes.sum())
    tokens = int(validation.tokens.sum())
    train = work.packing.shards or num_shards(
        work.kept_bytes - held_out,
        shard_size=work.packing.shard_size,
        documents=work.kept_documents,
    )
    empty = 1 if work.validation.fraction else 0  # a split without documents is there, and opens
    return SplitRecord(
        candidates=len(candidates.clusters),
        clusters=num_chosen,
        tokens=tokens,
        held_out=tally_of(validation.clusters, bytes=held_out, tokens=tokens),
        shards={
            "train": train,
            "validation": num_shards(held_out, shard_size=work.packing.shard_size)
            if num_chosen
            else empty,
        },
    )


@dataclass(frozen=True)
class _Counts:
    """Candidate clusters with what they hold: 32 bytes a row."""

    clusters: NDArray[np.uint8]
    """(N, 16), the name of each."""
    tokens: NDArray[np.int64]
    text_bytes: NDArray[np.int64]

    def take(self, rows: NDArray[np.int64]) -> "_Counts":
        """Return some rows."""
        return _Counts(self.clusters[rows], self.tokens[rows], self.text_bytes[rows])


def _merged_counts(workspace: Workspace, units: Sequence[Unit]) -> _Counts:
    """Return the candidates of all units, each once, in the order of their names."""
    parts = [_read(workspace, _counts_key(unit)) for unit in units]
    every = _Counts(
        np.concatenate([part.clusters for part in parts]),
        np.concatenate([part.tokens for part in parts]),
        np.concatenate([part.text_bytes for part in parts]),
    )
    del parts
    every = every.take(np.lexsort(_sort_keys(every.clusters)))
    changes = (every.clusters[1:] != every.clusters[:-1]).any(axis=1)
    first = np.flatnonzero(np.concatenate([[True], changes])[: len(every.clusters)])
    if not len(first):
        return every
    return _Counts(
        every.clusters[first],
        np.add.reduceat(every.tokens, first),
        np.add.reduceat(every.text_bytes, first),
    )


def _sort_keys(names: NDArray[np.uint8]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the keys by which lexsort orders (N, 16) names as their bytes do."""
    halves = np.ascontiguousarray(names).view(">u8").reshape(-1, 2)
    return halves[:, 1], halves[:, 0]


@dataclass(frozen=True)
class HeldOutClusters:
    """The clusters that are held out, 16 bytes each."""

    names: NDArray[np.bytes_]
    """(N,) S16, ascending."""

    @classmethod
    def read(cls, workspace: Workspace) -> "HeldOutClusters":
        """Return what the split chose."""
        return cls(np.sort(as_names(_read(workspace, VALIDATION).clusters)))

    def holds(self, names: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Say of each cluster, (N, 16) uint8, whether it is held out."""
        return places_of_names(self.names, as_names(names))[1]


def _counts_key(unit: Unit) -> str:
    return f"work/split/{unit.name}.parquet"


def _read(workspace: Workspace, key: str) -> _Counts:
    table = read_table(workspace, key)
    return _Counts(
        fixed_bytes(table.column("cluster"), ID_BYTES),
        table.column("tokens").to_numpy(),
        table.column("text_bytes").to_numpy(),
    )


def _write(workspace: Workspace, key: str, counts: _Counts) -> None:
    columns = [fixed_array(counts.clusters), counts.tokens, counts.text_bytes]
    table = pa.table(columns, schema=_CLUSTER)
    pq.write_table(table, workspace.create(key), compression="zstd")
