"""Shard: one shard of one dataset, from its range of every unit of the token store."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.commits import Commit
from pipeline.steps.tokenize import COPY
from pipeline.steps.tokenizer import MODEL
from pipeline.steps.units import Unit, fixed_bytes
from pipeline.tasks import Workspace
from stages.columns import SHARD_DOCUMENTS
from stages.identity import ID_BYTES
from stages.objectives.table import TRAITS, Objective
from stages.packing.best_fit import pack_best_fit
from stages.packing.concat import pack_concat
from stages.packing.layout import Layout, PackingConfig, Strategy, lay_out, shuffle_rows
from stages.seeding import Key, Tag
from stages.store.arrays import id_dtype, write_array
from stages.store.digests import digest_file
from stages.store.manifest import (
    FORMAT_VERSION,
    MANIFEST_NAME,
    SEGMENT_COLUMNS,
    Column,
    Manifest,
    Shard,
    TokenizerFile,
    sum_totals,
    write_manifest,
)
from stages.store.token_store import TokenUnit
from stages.tokenizer.special import special_ids

EPOCH_FOLDER = "epoch-0000"
_PACKERS = {Strategy.BEST_FIT: pack_best_fit, Strategy.CONCAT: pack_concat}


@dataclass(frozen=True)
class ShardWork:
    """One shard."""

    units: tuple[Unit, ...]
    dataset: str
    split: str
    number: int
    group: int
    """Its group in the token store."""
    packing: PackingConfig
    seed: int
    vocab_size: int

    @property
    def path(self) -> str:
        """Its folder, relative to the split's."""
        return f"{EPOCH_FOLDER}/{self.number:05d}"

    @property
    def key(self) -> str:
        """Its folder in the run."""
        return f"datasets/{self.dataset}/{self.split}/{self.path}"


@dataclass(frozen=True)
class ManifestWork:
    """One split whose shards are all committed."""

    dataset: str
    split: str
    shards: tuple[tuple[ShardWork, Commit], ...]
    objective: Objective
    packing: PackingConfig
    seed: int
    vocab_size: int


@dataclass(frozen=True)
class MergedGroup:
    """The documents of one group over all units, in the order of their hashes."""

    ids: NDArray[np.integer]
    document_ptr: NDArray[np.int64]
    table: pa.Table
    """columns.STORED_DOCUMENTS with the unit's source and path."""


def merge_group(workspace: Workspace, units: Sequence[Unit], group: int) -> MergedGroup:
    """Read one group of every unit and merge; equal hashes go by id."""
    ids, lengths, tables = [], [], []
    for unit in units:
        store = TokenUnit.open(workspace.path(unit.tokens))
        part, counts = store.group(group)
        table = store.documents(group)
        ids.append(part)
        lengths.append(counts)
        tables.append(
            table.append_column(
                "source", pa.array([unit.source] * len(counts), pa.string())
            ).append_column("path", pa.array([unit.path] * len(counts), pa.string()))
        )
    table = pa.concat_tables(tables)
    halves = np.ascontiguousarray(fixed_bytes(table.column("id"), ID_BYTES)).view(">u8")
    order = np.lexsort((halves[:, 1], halves[:, 0], table.column("order").to_numpy()))
    length, stored = np.concatenate(lengths), np.concatenate(ids)
    ends = np.cumsum(length)
    document_ptr = np.concatenate([[0], np.cumsum(length[order])])
    merged = np.empty_like(stored)
    for place, document in enumerate(order):
        begin, end = ends[document] - length[document], ends[document]
        merged[document_ptr[place] : document_ptr[place + 1]] = stored[begin:end]
    return MergedGroup(merged, document_ptr, table.take(pa.array(order)).combine_chunks())


def make_shard(workspace: Workspace, work: ShardWork) -> dict[str, Any]:
    """Merge, pack, shuffle and write one shard."""
    group = merge_group(workspace, work.units, work.group)
    lengths = np.diff(group.document_ptr)
    layout = _PACKERS[work.packing.strategy](lengths, row_length=work.packing.seq_len)
    layout = shuffle_rows(layout, Key(work.seed, 0, work.group, Tag.ROW_ORDER))
    rows = lay_out(
        layout,
        group.ids.astype(id_dtype(work.vocab_size)),
        document_ptr=group.document_ptr,
        padding=special_ids()["pad"],
    )
    folder = workspace.create(work.key)
    write_array(folder / "input_ids.npy", rows)
    _write_segments(folder / "segments", layout)
    pq.write_table(_documents(group), folder / "documents.parquet", compression="zstd")
    tokens = int(layout.length.sum())
    return {
        "rows": layout.num_rows,
        "segments": len(layout.start),
        "documents": len(lengths),
        "tokens": tokens,
        "tokens_cut": int(lengths.sum()) - tokens,
    }


def _write_segments(folder: Path, layout: Layout) -> None:
    for name, dtype in SEGMENT_COLUMNS.items():
        column: NDArray[np.int64] = getattr(layout, name)
        write_array(folder / f"{name}.npy", column.astype(dtype))


def _documents(group: MergedGroup) -> pa.Table:
    table = group.table
    count = table.num_rows
    return pa.table(
        {
            "doc": np.arange(count, dtype=np.int32),
            "id": [row.tobytes().hex() for row in fixed_bytes(table.column("id"), ID_BYTES)],
            "own_id": table.column("own_id"),
            "source": table.column("source"),
            "language": table.column("language"),
            "path": table.column("path"),
            "position": table.column("position"),
            "copy": np.full(count, COPY, np.int32),
            "tokens": table.column("tokens"),
        },
        schema=SHARD_DOCUMENTS,
    )


def make_manifest(workspace: Workspace, work: ManifestWork) -> dict[str, Any]:
    """Write the manifest of a split from the commits of its shards."""
    model = digest_file(workspace.path(MODEL))
    traits = TRAITS[work.objective.kind]
    shards = tuple(
        Shard(
            path=shard.path,
            files={key.removeprefix(shard.key + "/"): digest for key, digest in commit.files.items()},
            **commit.record,
        )
        for shard, commit in work.shards
    )
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        name=work.dataset,
        split=work.split,
        objective={**work.objective.model_dump(mode="json"), "form": "row"},
        seed=work.seed,
        epochs=1,
        attention=traits.attention,
        label_convention=traits.label_convention,
        seq_len=work.packing.seq_len,
        packing=work.packing.strategy.value,
        vocab_size=work.vocab_size,
        special_ids=special_ids(),
        tokenizer=TokenizerFile(file=f"../../../{MODEL}", sha256=model.sha256),
        columns={
            "input_ids": Column(
                dtype=id_dtype(work.vocab_size).str,
                shape=(work.packing.seq_len,),
                meaning="token ids; pad where no segment lies",
            )
        },
        shards=shards,
        totals=sum_totals(shards),
    ).signed()
    key = f"datasets/{work.dataset}/{work.split}/{MANIFEST_NAME}"
    write_manifest(workspace.create(key), manifest)
    return {"fingerprint": manifest.fingerprint, **manifest.totals.model_dump()}
