"""Tokenize: a unit's kept documents to ids, each closed by its EOS, grouped by the shard it goes to."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.steps.split import HeldOut, cluster_names, load_tokenizer
from pipeline.steps.units import (
    SECTIONED_TEXT,
    Unit,
    clusters_of,
    fixed_bytes,
    kept_groups,
    sections_of,
    tally_of_texts,
    text_slices,
)
from pipeline.tasks import Workspace
from stages.columns import SECTION_ENDS, STORED_DOCUMENTS
from stages.identity import DIGEST_BYTES, ID_BYTES, content_digest
from stages.ledger import Flow, Tally, tally_of
from stages.mixing.placement import order_of, shard_of
from stages.ragged import Ragged, joined, ragged_of
from stages.store.arrays import id_dtype
from stages.store.token_store import write_unit
from stages.tokenizer.existing import RunTokenizer
from stages.tokenizer.sampling import SPACE_SYMBOL

COPY = 0
"""Which copy of a document: each stands in the mixture once."""
_COLUMNS = ("id", "own_id", "language", "position", "digest", "text_bytes", *SECTIONED_TEXT)


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

    dtype: np.dtype[np.generic]
    ids: list[NDArray[np.integer]] = field(default_factory=list)
    ends: list[Ragged] = field(default_factory=list)
    """After how many of its tokens each section of a document ends; of sources with sections alone."""
    tables: list[pa.Table] = field(default_factory=list)
    languages: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Documents, bytes and tokens of each; unknown tokens too if the tokenizer has any."""
    space_symbols: int = 0


def tokenize_unit(workspace: Workspace, work: TokenizeUnit) -> dict[str, Any]:
    """Encode one unit and write it to the token store."""
    tokenizer = load_tokenizer(workspace)
    documents = _Documents(id_dtype(tokenizer.vocab_size))
    received = Tally(bytes=0)
    for table in kept_groups(workspace, work.unit, _COLUMNS):
        received += tally_of_texts(table)
        for part in text_slices(table):
            _encode(tokenizer, part, documents)
    stored = _write(workspace, work, documents)
    return {
        "flow": Flow(input=received, output=stored).model_dump(mode="json"),
        "documents": len(documents.ids),
        "tokens": sum(map(len, documents.ids)),
        "space_symbols": documents.space_symbols,
        "languages": {name: dict(counts) for name, counts in sorted(documents.languages.items())},
    }


def _encode(tokenizer: RunTokenizer, table: pa.Table, documents: _Documents) -> None:
    """Encode a slice of documents; what is kept of it is ids and the small columns."""
    texts = sections_of(table)
    eos = np.array([tokenizer.eos], documents.dtype)
    ids = iter(tokenizer.encode(chain.from_iterable(texts), dtype=documents.dtype))
    sections = [[*islice(ids, len(text) - 1), np.append(next(ids), eos)] for text in texts]
    encoded = [np.concatenate(parts) for parts in sections]
    documents.ids += encoded
    if SECTION_ENDS.name in table.column_names:
        documents.ends.append(ragged_of([list(accumulate(map(len, parts))) for parts in sections]))
    documents.space_symbols += sum("".join(text).count(SPACE_SYMBOL) for text in texts)
    names = table.column("language").to_pylist()
    sizes = table.column("text_bytes").to_pylist()
    for name, size, tokens in zip(names, sizes, map(len, encoded), strict=True):
        documents.languages[name].update(documents=1, bytes=size, tokens=tokens)
    if tokenizer.unk is not None:
        for name, ids_ in zip(names, encoded, strict=True):
            documents.languages[name]["unknown"] += int(np.count_nonzero(ids_ == tokenizer.unk))
    table = table.select([name for name in table.column_names if name in _EMPTY.schema.names])
    if tokenizer.normalises:
        digests = [content_digest("".join(map(tokenizer.normalise, text))) for text in texts]
        column = table.schema.get_field_index("digest")
        table = table.set_column(column, "digest", pa.array(digests, pa.binary(DIGEST_BYTES)))
    documents.tables.append(table)


def groups_of(workspace: Workspace, work: TokenizeUnit, identities: list[bytes]) -> NDArray[np.int64]:
    """Give the group of each document: a training shard, or a validation shard behind those."""
    clusters = clusters_of(workspace, work.unit)
    held_out = HeldOut.read(workspace).holds(cluster_names(identities, clusters))
    first = np.where(held_out, work.train_shards, 0)
    shards = np.where(held_out, work.validation_shards, work.train_shards)
    placed = (
        shard_of(identity, work.seed, copy=COPY, shards=count)
        for identity, count in zip(identities, shards.tolist(), strict=True)
    )
    groups: NDArray[np.int64] = first + np.fromiter(placed, np.int64, len(identities))
    return groups


def _write(workspace: Workspace, work: TokenizeUnit, documents: _Documents) -> Tally:
    """Write the documents in the order of (group, hash), equal hashes by id; return what was written."""
    table = pa.concat_tables([_EMPTY, *(part.cast(_EMPTY.schema) for part in documents.tables)])
    identities = table.column("id").to_pylist()
    groups = groups_of(workspace, work, identities)
    hashes = (order_of(identity, work.seed, copy=COPY) for identity in identities)
    orders = np.fromiter(hashes, np.uint64, len(identities))
    halves = np.ascontiguousarray(fixed_bytes(table.column("id"), ID_BYTES)).view(">u8")
    order = np.lexsort((halves[:, 1], halves[:, 0], orders, groups))
    table = (
        table.append_column("order", pa.array(orders))
        .append_column("tokens", pa.array([len(ids) for ids in documents.ids], pa.int64()))
        .take(pa.array(order, pa.int64()))
        .cast(STORED_DOCUMENTS)
    )
    counts = np.bincount(groups, minlength=work.train_shards + work.validation_shards)
    write_unit(
        workspace.create(work.unit.tokens),
        table,
        ids=(documents.ids[row] for row in order),
        dtype=documents.dtype,
        group_ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        sections=joined(documents.ends).take(order) if work.unit.sections > 1 else None,
    )
    size = sum(counts["bytes"] for counts in documents.languages.values())
    tokens = sum(table.column("tokens").to_pylist())
    return tally_of(fixed_bytes(table.column("id"), ID_BYTES), bytes=size, tokens=tokens)


_EMPTY = pa.schema(
    [field for field in STORED_DOCUMENTS if field.name not in ("order", "tokens")]
).empty_table()
