"""Tokenize: a unit's kept documents to ids, each closed by its EOS, grouped by the shard it goes to."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NotRequired

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from typing_extensions import TypedDict

from pipeline.engine.tasks import Workspace
from pipeline.steps.names import COLUMNS, Names
from pipeline.steps.records import UnitRecord
from pipeline.steps.split.choice import HeldOutClusters
from pipeline.steps.tokenize.dialogues import encoded_sections, normalised_texts
from pipeline.steps.tokenizer.load import load_byte_tokens, load_markup
from pipeline.steps.unit_clusters import clusters_of
from pipeline.steps.units import (
    SECTIONED_TEXT,
    Unit,
    fixed_array,
    fixed_bytes,
    joined_sections,
    kept_groups,
    rows_of_bytes,
    section_flags,
    section_ptr,
    stored_tally,
    tally_of_texts,
    text_slices,
)
from stages.chat.template import LEARNED
from stages.columns import SECTION_ENDS, SECTION_FLAGS, STORED_DOCUMENTS, kept_names, with_kept
from stages.identity import DIGEST_BYTES, ID_BYTES, content_digest
from stages.ledger import Flow, Tally
from stages.mixing.placement import order_of, shard_of
from stages.ragged import Ragged, batches, joined
from stages.store.arrays import array_writer, as_integers, id_dtype, open_array
from stages.store.ranges import copy_ranges
from stages.store.token_store import write_sections, write_unit
from stages.tokenizer.markup import MarkupEncoder
from stages.tokenizer.sampling import SPACE_SYMBOL

COPY = 0
"""Which copy of a document: each stands in the mixture once."""
_GATHERED = 1 << 18
"""Tokens that are put into the order of the store at a time."""
_ROWS = 512
"""Documents of a row group, at the least, unless there are no more: with fewer, what a file says of its
row groups costs more than reading rows of other shards."""
_FIXED = ID_BYTES + DIGEST_BYTES + 8 + 4
"""Bytes of what is as long for every document: id, digest, position and the number of its path."""
_COLUMNS = ("id", "own_id", "language", "path", "position", "digest", "text_bytes", *SECTIONED_TEXT)
"""Of every document; what goes along of its record comes to these."""


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
    append: Callable[[NDArray[np.generic]], None]
    """Writes ids behind the others."""
    names: Names
    is_byte: NDArray[np.bool_]
    """(vocab_size,) Which ids are less than whole characters."""
    lengths: list[NDArray[np.int64]] = field(default_factory=list)
    """Tokens of each document."""
    ends: list[Ragged] = field(default_factory=list)
    """After how many of its tokens each section of a document ends; of sources with sections alone."""
    learned: list[NDArray[np.bool_]] = field(default_factory=list)
    """Which sections are learned; of dialogues alone."""
    fixed: list[NDArray[np.uint8]] = field(default_factory=list)
    """(N, 44) id, digest, position and number of the path of each."""
    paths: dict[str, int] = field(default_factory=dict)
    """Of the unit's files, numbered as they come."""
    languages: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Documents, bytes, tokens and byte tokens of each; unknown tokens too if the tokenizer has any."""
    space_symbols: int = 0

    def count(self, languages: pa.ChunkedArray, counts: Mapping[str, NDArray[np.int64]]) -> None:
        """Add amounts of documents, (N,) each, to those of their languages."""
        coded = languages.combine_chunks().dictionary_encode()
        numbers = coded.indices.to_numpy()
        for name, values in counts.items():
            totals = np.zeros(len(coded.dictionary), np.int64)
            np.add.at(totals, numbers, values)
            for language, total in zip(coded.dictionary.to_pylist(), totals.tolist(), strict=True):
                self.languages[language][name] += total


class LanguageTokens(TypedDict):
    """What the token store holds of a language."""

    documents: int
    bytes: int
    """Of text."""
    tokens: int
    byte_tokens: NotRequired[int]
    """Tokens that are single bytes or parts of characters; missing if a run did not count them yet."""
    unknown: NotRequired[int]
    """Tokens that stand for no piece of text; missing if the tokenizer has none such."""


def language_tokens(counts: Mapping[str, int]) -> LanguageTokens:
    """Return what was counted of a language."""
    found = LanguageTokens(documents=counts["documents"], bytes=counts["bytes"], tokens=counts["tokens"])
    if "byte_tokens" in counts:
        found["byte_tokens"] = counts["byte_tokens"]
    if "unknown" in counts:
        found["unknown"] = counts["unknown"]
    return found


class StoredRecord(UnitRecord):
    """A unit of the token store."""

    documents: int
    tokens: int
    space_symbols: int
    languages: dict[str, LanguageTokens]


def tokenize_unit(workspace: Workspace, work: TokenizeUnit) -> StoredRecord:
    """Encode one unit and write it to the token store."""
    encoder = load_markup(workspace, work.unit.source)
    tokenizer = encoder.tokenizer
    dtype, received = id_dtype(tokenizer.vocab_size), Tally(bytes=0)
    kept = kept_names(work.unit.keep_columns)
    with workspace.scratch() as scratch:
        with array_writer(scratch / "ids.npy", dtype=dtype.str) as append:
            names = Names(scratch / "names", (*COLUMNS, *kept))
            documents = _Documents(dtype, append, names, load_byte_tokens(workspace))
            for table in kept_groups(workspace, work.unit, (*_COLUMNS, *kept)):
                received += tally_of_texts(table)
                for part in text_slices(table):
                    _encode(encoder, part, documents)
        documents.names.finish()
        ids = as_integers(open_array(scratch / "ids.npy"), scratch)
        lengths = np.concatenate([np.empty(0, np.int64), *documents.lengths])
        stored = _write(workspace, work, documents, ids=ids, lengths=lengths)
    return StoredRecord(
        flow=Flow(input=received, output=stored),
        documents=len(lengths),
        tokens=int(lengths.sum()),
        space_symbols=documents.space_symbols,
        languages={
            name: language_tokens(counts) for name, counts in sorted(documents.languages.items())
        },
    )


def _encode(encoder: MarkupEncoder, table: pa.Table, documents: _Documents) -> None:
    """Encode a slice of documents; what is held of it is numbers, all else goes to files."""
    tokenizer, texts, ptr = encoder.tokenizer, joined_sections(table), section_ptr(table)
    encoded = encoded_sections(encoder, texts, table, dtype=documents.dtype)
    sections = encoded.counts
    last = encoded.ends[ptr[1:] - 1]
    sections[ptr[1:] - 1] += 1
    if tokenizer.begin is not None:
        sections[ptr[:-1]] += 1
    lengths = np.add.reduceat(sections, ptr[:-1])
    documents.append(_framed(encoded.ids, last, begin=tokenizer.begin, end=tokenizer.eos))
    documents.lengths.append(lengths)
    if SECTION_ENDS.name in table.column_names:
        before = np.repeat(np.cumsum(lengths) - lengths, np.diff(ptr))
        documents.ends.append(Ragged(ptr, np.cumsum(sections) - before))
    if SECTION_FLAGS.name in table.column_names:
        documents.learned.append(section_flags(table) & LEARNED != 0)
    documents.space_symbols += texts.data.tobytes().count(SPACE_SYMBOL.encode())
    counts = {"documents": np.ones_like(lengths), "bytes": table.column("text_bytes").to_numpy()}
    counts["tokens"] = lengths
    counts["byte_tokens"] = _marked(documents.is_byte[encoded.ids], last)
    if tokenizer.unk is not None:
        counts["unknown"] = _marked(encoded.ids == tokenizer.unk, last)
    documents.count(table.column("language"), counts)
    documents.fixed.append(_fixed(encoder, table, documents.paths))
    documents.names.add(table)


def _marked(marks: NDArray[np.bool_], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many tokens of each document are marked: (N,).

    marks 0 1 1 0 1, last 3 5  ->  2 1
    """
    found: NDArray[np.int64] = np.concatenate([[0], np.cumsum(marks)])[last]
    return np.diff(found, prepend=0)


def _framed(
    ids: NDArray[np.integer], last: NDArray[np.int64], *, begin: int | None, end: int
) -> NDArray[np.integer]:
    """Return documents with the ids that close each, and that begin each if there is one.

    ids 5 6 7, last 2 3, begin 1, end 2  ->  1 5 6 2 1 7 2
    """
    if begin is None:
        return np.insert(ids, last, end)
    places = np.stack([np.concatenate([[0], last[:-1]]), last], axis=1).reshape(-1)
    return np.insert(ids, places, np.tile([begin, end], len(last)))


def _fixed(encoder: MarkupEncoder, table: pa.Table, paths: dict[str, int]) -> NDArray[np.uint8]:
    """Return id, digest, position and number of the path of each document: (N, 44)."""
    digests = fixed_bytes(table.column("digest"), DIGEST_BYTES)
    if encoder.tokenizer.normalises:
        texts = normalised_texts(encoder, table)
        digests = np.frombuffer(b"".join(map(content_digest, texts)), np.uint8).reshape(-1, DIGEST_BYTES)
    positions = table.column("position").to_numpy().astype("<i8").view(np.uint8).reshape(-1, 8)
    files = _numbers_of(table.column("path"), paths).view(np.uint8).reshape(-1, 4)
    return np.concatenate([fixed_bytes(table.column("id"), ID_BYTES), digests, positions, files], axis=1)


def _numbers_of(column: pa.ChunkedArray, paths: dict[str, int]) -> NDArray[np.int32]:
    """Return the number of each document's path, (N,) int32; paths that are new get the next ones."""
    found = [np.empty(0, "<i4")]
    for chunk in column.chunks:
        own = [paths.setdefault(path, len(paths)) for path in chunk.dictionary.to_pylist()]
        found.append(np.array(own, "<i4")[chunk.indices.to_numpy()])
    return np.concatenate(found)


def _paths_of(numbers: NDArray[np.uint8], paths: pa.Array) -> pa.Array:
    """Return the path of each document, (N,) in dictionary code; of the others nothing is written."""
    used, codes = np.unique(numbers.view("<i4").reshape(-1), return_inverse=True)
    return pa.DictionaryArray.from_arrays(codes.astype(np.int32), paths.take(pa.array(used)))


def groups_of(
    workspace: Workspace, work: TokenizeUnit, identities: NDArray[np.uint8]
) -> NDArray[np.int64]:
    """Return the group of each document: a training shard, or a validation shard behind those.

    Args:
        workspace: where the clusters are.
        work: the unit.
        identities: (N, 16) uint8, ids of documents of the unit.
    """
    held_out = np.zeros(len(identities), np.bool_)
    if work.validation_shards:
        clusters = clusters_of(workspace, work.unit)
        held_out = HeldOutClusters.read(workspace).holds(clusters.of(identities))
    first = np.where(held_out, work.train_shards, 0)
    shards = np.where(held_out, work.validation_shards, work.train_shards)
    placed = (
        shard_of(identity, work.seed, copy=COPY, shards=count)
        for identity, count in zip(rows_of_bytes(identities), shards.tolist(), strict=True)
    )
    groups: NDArray[np.int64] = first + np.fromiter(placed, np.int64, len(identities))
    return groups


def store_order(
    identities: NDArray[np.uint8], groups: NDArray[np.int64], seed: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the order hash of each document, and the documents in the order of the store.

    Args:
        identities: (N, 16) uint8, ids of documents.
        groups: (N,) the group of each.
        seed: of the run.

    Returns:
        (N,) hashes, and (N,) numbers of documents by (group, hash), equal hashes by id.
    """
    hashes = (order_of(identity, seed, copy=COPY) for identity in rows_of_bytes(identities))
    orders = np.fromiter(hashes, np.uint64, len(identities))
    halves = np.ascontiguousarray(identities).view(">u8")
    return orders, np.lexsort((halves[:, 1], halves[:, 0], orders, groups))


def _write(
    workspace: Workspace,
    work: TokenizeUnit,
    documents: _Documents,
    *,
    ids: NDArray[np.integer],
    lengths: NDArray[np.int64],
) -> Tally:
    """Write the documents in the order of (group, hash), equal hashes by id; return what was written."""
    fixed = np.concatenate([np.empty((0, _FIXED), np.uint8), *documents.fixed])
    identities = np.ascontiguousarray(fixed[:, :ID_BYTES])
    groups = groups_of(workspace, work, identities)
    orders, order = store_order(identities, groups, work.seed)
    begins = np.cumsum(lengths) - lengths

    counts = np.bincount(groups, minlength=work.train_shards + work.validation_shards)
    group_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    paths, keep_columns = pa.array(documents.paths, pa.string()), work.unit.keep_columns

    def tables() -> Iterator[pa.Table]:
        for rows in row_groups_of(documents.names.blocks(order), group_ptr):
            columns = {
                "id": fixed_array(fixed[rows, :ID_BYTES]),
                "own_id": documents.names.take("own_id", rows),
                "language": documents.names.take("language", rows),
                "path": _paths_of(np.ascontiguousarray(fixed[rows, -4:]), paths),
                "position": np.ascontiguousarray(fixed[rows, -12:-4]).view("<i8").reshape(-1),
                "digest": fixed_array(fixed[rows, ID_BYTES:-12]),
                "order": orders[rows],
                "tokens": lengths[rows],
                **{name: documents.names.take(name, rows) for name in kept_names(keep_columns)},
            }
            yield pa.table(columns, schema=with_kept(STORED_DOCUMENTS, keep_columns))

    def in_order() -> Iterator[NDArray[np.integer]]:
        for first, end in batches(lengths[order], _GATHERED):
            rows = order[first:end]
            part = np.empty(int(lengths[rows].sum()), documents.dtype)
            copy_ranges(ids, part, begins[rows], np.cumsum(lengths[rows]) - lengths[rows], lengths[rows])
            yield part

    folder = workspace.create(work.unit.tokens)
    write_unit(
        folder,
        tables(),
        ids=in_order(),
        dtype=documents.dtype,
        group_ptr=group_ptr,
        keep_columns=keep_columns,
    )
    if work.unit.sections != 1:
        learned = _learned(documents, order) if work.unit.dialogues else None
        write_sections(folder, joined(documents.ends).take(order), learned=learned)
    written = folder / "documents.parquet"
    size = sum(counts["bytes"] for counts in documents.languages.values())
    return stored_tally(written).model_copy(update={"bytes": size})


def _learned(documents: _Documents, order: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which sections of the documents are learned, in the order of the store."""
    learned = np.concatenate([np.empty(0, np.bool_), *documents.learned])
    flags = Ragged(joined(documents.ends).ptr, learned.astype(np.int64))
    return flags.take(order).values.astype(np.bool_)


def row_groups_of(
    blocks: Iterable[NDArray[np.int64]], group_ptr: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """Cut blocks of documents where a group ends, so that a shard reads little more than its own."""
    ends, last = [], 0
    for end in group_ptr.tolist():
        if end - last >= _ROWS:
            ends.append(end)
            last = end
    first, cuts = 0, np.array(ends, np.int64)
    for block in blocks:
        yield from filter(
            len, np.split(block, cuts[(cuts > first) & (cuts < first + len(block))] - first)
        )
        first += len(block)
