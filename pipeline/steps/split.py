"""Split: which duplicate clusters are held out, in hash order until `validation.max_tokens`.

The tokens of a candidate are known only after the tokenizer is trained, so candidates are encoded
here, once; no candidate was in the tokenizer's sample.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.steps.tokenizer import MODEL
from pipeline.steps.units import Unit, clusters_of, kept_groups
from pipeline.tasks import Workspace
from stages.mixing.placement import ValidationConfig, is_candidate, num_shards, validation_hash
from stages.packing.layout import PackingConfig
from stages.tokenizer.encode import Tokenizer

VALIDATION = "split/validation.parquet"

_CLUSTER = pa.schema(
    [
        pa.field("cluster", pa.binary(16), nullable=False),
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


@dataclass(frozen=True)
class Choice:
    """The candidates of all units."""

    units: tuple[Unit, ...]
    validation: ValidationConfig
    packing: PackingConfig
    seed: int
    kept_bytes: int


def count_candidates(workspace: Workspace, work: CandidateUnit) -> dict[str, Any]:
    """Count the tokens of each candidate cluster in one unit."""
    clusters = clusters_of(workspace, work.unit)
    tokenizer = load_tokenizer(workspace)
    counts: defaultdict[bytes, list[int]] = defaultdict(lambda: [0, 0])
    for table in kept_groups(workspace, work.unit, ["id", "text_bytes", "text"]):
        ids = table.column("id").to_pylist()
        for row, identity in enumerate(ids):
            cluster = clusters.get(identity, identity)
            if is_candidate(cluster, work.seed, config=work.validation):
                (encoded,) = tokenizer.encode([table.column("text")[row].as_py()])
                counts[cluster][0] += len(encoded) + 1
                counts[cluster][1] += table.column("text_bytes")[row].as_py()
    _write(workspace, _counts_key(work.unit), sorted((c, t, b) for c, (t, b) in counts.items()))
    return {"clusters": len(counts)}


def choose_validation(workspace: Workspace, work: Choice) -> dict[str, Any]:
    """Choose the clusters that are held out, and settle the number of shards once and for all."""
    counts: defaultdict[bytes, list[int]] = defaultdict(lambda: [0, 0])
    for unit in work.units:
        for row in pq.read_table(workspace.path(_counts_key(unit))).to_pylist():
            counts[row["cluster"]][0] += row["tokens"]
            counts[row["cluster"]][1] += row["text_bytes"]
    chosen: list[tuple[bytes, int, int]] = []
    tokens = 0
    for cluster in _in_hash_order(counts, work.seed):
        if tokens + counts[cluster][0] > work.validation.max_tokens:
            break
        tokens += counts[cluster][0]
        chosen.append((cluster, counts[cluster][0], counts[cluster][1]))
    _write(workspace, VALIDATION, sorted(chosen))
    held_out = sum(size for _, _, size in chosen)
    train = work.packing.shards or num_shards(
        work.kept_bytes - held_out, shard_size=work.packing.shard_size
    )
    return {
        "candidates": len(counts),
        "clusters": len(chosen),
        "tokens": tokens,
        "shards": {
            "train": train,
            "validation": num_shards(held_out, shard_size=work.packing.shard_size) if chosen else 0,
        },
    }


def validation_clusters(workspace: Workspace) -> frozenset[bytes]:
    """Give the clusters that are held out."""
    table = pq.read_table(workspace.path(VALIDATION), columns=["cluster"])
    return frozenset(table.column("cluster").to_pylist())


def load_tokenizer(workspace: Workspace) -> Tokenizer:
    """Give the run's tokenizer, loaded once a worker."""
    path = workspace.path(MODEL)
    key = f"tokenizer {path} {path.stat().st_ino}"
    if key not in workspace.cache:
        workspace.cache[key] = Tokenizer.load(path)
    tokenizer: Tokenizer = workspace.cache[key]
    return tokenizer


def _in_hash_order(clusters: Iterable[bytes], seed: int) -> list[bytes]:
    return sorted(clusters, key=lambda cluster: (validation_hash(cluster, seed), cluster))


def _counts_key(unit: Unit) -> str:
    return f"work/split/{unit.name}.parquet"


def _write(workspace: Workspace, key: str, rows: Sequence[tuple[bytes, int, int]]) -> None:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    table = pa.table([list(column) for column in columns], schema=_CLUSTER)
    pq.write_table(table, workspace.create(key), compression="zstd")
