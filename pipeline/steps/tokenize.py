"""Tokenize: a unit's kept documents to ids, each closed by its EOS, grouped by the shard it goes to."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.steps.split import load_tokenizer, validation_clusters
from pipeline.steps.units import Unit, clusters_of, kept_groups
from pipeline.tasks import Workspace
from stages.columns import STORED_DOCUMENTS
from stages.mixing.placement import order_of, shard_of
from stages.store.arrays import id_dtype
from stages.store.token_store import write_unit
from stages.tokenizer.encode import Tokenizer
from stages.tokenizer.sampling import SPACE_SYMBOL

COPY = 0
"""Which copy of a document: each stands in the mixture once."""
_COLUMNS = ("id", "own_id", "language", "position", "digest", "text_bytes", "text")


@dataclass(frozen=True)
class TokenizeUnit:
    """One unit, and how many shards there are."""

    unit: Unit
    train_shards: int
    validation_shards: int
    seed: int


@dataclass
class _Documents:
    """The unit's documents as they are encoded."""

    ids: list[NDArray[np.integer]] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    orders: list[int] = field(default_factory=list)
    tables: list[pa.Table] = field(default_factory=list)


def tokenize_unit(workspace: Workspace, work: TokenizeUnit) -> dict[str, Any]:
    """Encode one unit and write it to the token store."""
    tokenizer = load_tokenizer(workspace)
    held_out = validation_clusters(workspace)
    clusters = clusters_of(workspace, work.unit)
    documents = _Documents()
    languages: defaultdict[str, Counter[str]] = defaultdict(Counter)
    space_symbols = 0
    for table in kept_groups(workspace, work.unit, _COLUMNS):
        texts = table.column("text").to_pylist()
        encoded = _encode(tokenizer, texts)
        space_symbols += sum(text.count(SPACE_SYMBOL) for text in texts)
        for identity, ids in zip(table.column("id").to_pylist(), encoded, strict=True):
            documents.groups.append(_group(identity, work, clusters.get(identity, identity) in held_out))
            documents.orders.append(order_of(identity, work.seed, copy=COPY))
            documents.ids.append(ids)
        _count(table, encoded, languages)
        documents.tables.append(table.drop_columns(["text", "text_bytes"]))
    _write(workspace, work, documents, dtype=id_dtype(tokenizer.vocab_size))
    return {
        "documents": len(documents.ids),
        "tokens": sum(map(len, documents.ids)),
        "space_symbols": space_symbols,
        "languages": {name: dict(counts) for name, counts in sorted(languages.items())},
    }


def _encode(tokenizer: Tokenizer, texts: list[str]) -> list[NDArray[np.integer]]:
    dtype = id_dtype(tokenizer.vocab_size)
    eos = np.array([tokenizer.eos], dtype)
    return [np.concatenate([ids.astype(dtype), eos]) for ids in tokenizer.encode(texts)]


def _group(identity: bytes, work: TokenizeUnit, held_out: bool) -> int:  # noqa: FBT001  # a document's side
    """Give the group of a document: a training shard, or a validation shard behind those."""
    if held_out:
        shard = shard_of(identity, work.seed, copy=COPY, shards=work.validation_shards)
        return work.train_shards + shard
    return shard_of(identity, work.seed, copy=COPY, shards=work.train_shards)


def _count(
    table: pa.Table,
    encoded: list[NDArray[np.integer]],
    languages: defaultdict[str, Counter[str]],
) -> None:
    names = table.column("language").to_pylist()
    sizes = table.column("text_bytes").to_pylist()
    for name, size, ids in zip(names, sizes, encoded, strict=True):
        languages[name].update(documents=1, bytes=size, tokens=len(ids))


def _write(
    workspace: Workspace,
    work: TokenizeUnit,
    documents: _Documents,
    *,
    dtype: np.dtype[np.generic],
) -> None:
    """Write the documents in the order of (group, hash); equal hashes go by id."""
    num_groups = work.train_shards + work.validation_shards
    groups = np.array(documents.groups, np.int64)
    orders = np.array(documents.orders, np.uint64)
    table = pa.concat_tables([_EMPTY, *documents.tables])
    identities = table.column("id").to_pylist()
    order = sorted(range(len(groups)), key=lambda row: (groups[row], orders[row], identities[row]))
    table = (
        table.append_column("order", pa.array(orders))
        .append_column("tokens", pa.array([len(ids) for ids in documents.ids], pa.int64()))
        .take(pa.array(order, pa.int64()))
        .cast(STORED_DOCUMENTS)
    )
    counts = np.bincount(groups, minlength=num_groups) if len(groups) else np.zeros(num_groups)
    write_unit(
        workspace.create(work.unit.tokens),
        table,
        ids=np.concatenate([np.empty(0, dtype), *(documents.ids[row] for row in order)]),
        group_ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
    )


_EMPTY = pa.schema(
    [field for field in STORED_DOCUMENTS if field.name not in ("order", "tokens")]
).empty_table()
