"""Decode: the token store against the texts, once for all datasets.

    ingested    each document that ingest wrote is the one that its digest and its id say
    documents   each unit holds exactly the documents that dedup kept, described as ingest has them, in
                the groups of their shards
    texts       the ids of each document decode to its text, those of each section to its own, unless an
                existing tokenizer loses some of it; and they are those that encoding it again gives
    sentences   end where the documents are split once more, if a dataset asks

Findings, never exceptions: a damaged file is what it looks for. `verify` then holds the rows of every
dataset to the ids of the store, token by token, and so to the texts.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from numpy.typing import NDArray
from pydantic import Field

from pipeline.engine.tasks import Workspace
from pipeline.steps.cut.check import check_cuts
from pipeline.steps.decode.texts import StoredTexts, compare_dialogues, compare_with_texts
from pipeline.steps.ingest.check import check_ingested
from pipeline.steps.names import read_rows
from pipeline.steps.records import CheckRecord, found_in, unreadable
from pipeline.steps.sentences.step import languages_of
from pipeline.steps.tokenize.dialogues import normalised_texts
from pipeline.steps.tokenize.encode import COPY, TokenizeUnit, groups_of
from pipeline.steps.tokenizer.load import CHECK, load_markup, load_tokenizer
from pipeline.steps.units import (
    SECTIONED_TEXT,
    Unit,
    as_names,
    fixed_bytes,
    kept_groups,
    named_table,
    rows_of_bytes,
    text_slices,
)
from stages.columns import STORED_DOCUMENTS, kept_names, with_kept
from stages.errors import FormatError
from stages.findings import Finding
from stages.identity import DIGEST_BYTES, ID_BYTES, content_digest
from stages.mixing.placement import order_of
from stages.store.token_store import TokenUnit, read_ends
from stages.tokenizer.sentences import split_sentences

_NAME = {"id": ID_BYTES, "digest": DIGEST_BYTES}
"""The columns that name a document and its text, with their widths."""
_BYTES: np.dtype[np.bytes_] = np.dtype(f"S{sum(_NAME.values())}")
_INGESTED = ("own_id", "language", "path", "position")
"""Columns of the token store's documents that are ingest's, without what goes along of records."""
_NUMBERS = ("id", "digest", "order", "tokens")
"""Its columns that are as long for every document: the others may be as long as the input makes them."""


class DecodedRecord(CheckRecord):
    """What was found of a unit of the token store."""

    documents: int = 0
    compiled: bool = False
    """Whether texts were encoded in compiled code, and not by the tokenizer's own library."""
    returned: dict[str, int] = Field(default_factory=dict)
    """Documents by how they come back from their ids, of an existing tokenizer."""


@dataclass(frozen=True)
class DecodeUnit:
    """One unit of the token store."""

    made: TokenizeUnit
    """As it was made."""
    sentences: bool
    """Whether its sentences were split."""


def checks_of(
    units: Sequence[Unit], shards: Mapping[str, int], *, seed: int, sentences: bool
) -> Iterator[tuple[str, DecodeUnit]]:
    """Yield the checks of the token store: the name of each and what it is of."""
    for unit in units:
        made = TokenizeUnit(unit, shards["train"], shards["validation"], seed)
        yield unit.commit_name, DecodeUnit(made, sentences)


def check_texts(workspace: Workspace, work: DecodeUnit) -> DecodedRecord:
    """Compare a unit of the token store with the documents that were kept of it, and their texts."""
    unit = work.made.unit
    listed = f"{unit.tokens}/documents.parquet"
    returned: Counter[str] = Counter()
    damaged = check_ingested(workspace, unit) + check_cuts(workspace, unit)
    if damaged:  # what is held to these would lead anywhere
        return DecodedRecord(findings=found_in(damaged))
    try:
        groups = work.made.train_shards + work.made.validation_shards
        store = TokenUnit.open(workspace.path(unit.tokens), groups=groups)
        path = workspace.path(listed)
        with named_table(path):
            schema = pq.read_schema(path)
        if not schema.equals(with_kept(STORED_DOCUMENTS, unit.keep_columns)):
            message = f"columns {schema.names} are not those of the store, or of other types"
            return DecodedRecord(findings=found_in([(listed, Finding("readable", message))]))
        table = pq.read_table(path, columns=list(_NUMBERS), use_threads=False)
        found = [(listed, f) for f in _documents(workspace, unit, store, table)]
        identities = fixed_bytes(table.column("id"), ID_BYTES)
        if not found:
            found += [(listed, f) for f in _description_of(workspace, work.made, store, table)]
            stored = StoredTexts.open(
                unit, store, identities, begun=load_tokenizer(workspace).begin is not None
            )
            compare = compare_dialogues if unit.dialogues else compare_with_texts
            found += compare(workspace, stored, returned)
        if work.sentences and not found:  # of other ids than the texts', sentences may not even be split
            found += _sentences(workspace, unit, store, table)
    except (FormatError, OSError, pa.ArrowException, KeyError) as error:
        return DecodedRecord(findings=found_in([(unit.tokens, unreadable(error))]))
    return DecodedRecord(
        findings=found_in(found),
        documents=table.num_rows,
        compiled=load_tokenizer(workspace, use=CHECK).compiled,
        returned=dict(returned),
    )


def _documents(workspace: Workspace, unit: Unit, store: TokenUnit, table: pa.Table) -> Iterator[Finding]:
    """The unit lists the kept documents with the digests of their texts, each once."""
    wanted, found = _wanted(workspace, unit), _named(table)
    wanted.sort()
    found.sort()
    if not np.array_equal(wanted, found):
        both = len(np.intersect1d(wanted, found))
        lost, extra = len(wanted) - both, len(found) - both
        yield Finding(
            "documents_kept",
            f"{lost:,} kept documents are missing and {extra:,} are repeated or were never kept",
        )
    elif len(found) != len(store.places):
        stored = f"{len(store.places):,} in offsets.npy"
        yield Finding("documents_kept", f"{len(found):,} documents are listed, but {stored}")


def _named(table: pa.Table) -> NDArray[np.bytes_]:
    """Return each document's id with its digest: (D,) of 32 bytes, sorted without Python objects."""
    parts = [fixed_bytes(table.column(name), width) for name, width in _NAME.items()]
    return np.ascontiguousarray(np.concatenate(parts, axis=1)).view(_BYTES).ravel()


def _wanted(workspace: Workspace, unit: Unit) -> NDArray[np.bytes_]:
    """Return the kept documents' ids with the digests of the texts that their ids must decode to."""
    encoder = load_markup(workspace, unit.source)
    if not encoder.tokenizer.normalises:
        kept = [_named(table) for table in kept_groups(workspace, unit, ["id", "digest"])]
        return np.concatenate([np.empty(0, _BYTES), *kept])
    names = (
        identity + content_digest(text)
        for group in kept_groups(workspace, unit, ["id", "text_bytes", *SECTIONED_TEXT])
        for part in text_slices(group)
        for identity, text in zip(
            part.column("id").to_pylist(), normalised_texts(encoder, part), strict=True
        )
    )
    return np.fromiter(names, _BYTES)


def _description_of(
    workspace: Workspace, work: TokenizeUnit, store: TokenUnit, table: pa.Table
) -> Iterator[Finding]:
    """Documents stand in the groups they hash to, in order, and are described as ingested.

    A document that is held out stands in a group of validation, and so do those of its cluster; all
    others stand in a group of training.
    """
    identities = fixed_bytes(table.column("id"), ID_BYTES)
    groups = np.repeat(np.arange(len(store.group_ptr) - 1), np.diff(store.group_ptr))
    strangers = np.flatnonzero(groups != groups_of(workspace, work, identities))
    if len(strangers):
        first = f"the first is document {identities[strangers[0]].tobytes().hex()}"
        message = f"{len(strangers):,} documents stand in the group of another shard or split; {first}"
        yield Finding("placement", message)
    orders = (order_of(name, work.seed, copy=COPY) for name in rows_of_bytes(identities))
    if not np.array_equal(table.column("order").to_numpy(), np.fromiter(orders, np.uint64)):
        yield Finding("order", "says other order hashes than those of its documents")
    if not np.array_equal(table.column("tokens").to_numpy(), store.lengths):
        yield Finding("token_conservation", "says other numbers of tokens than the offsets")
    columns = (*_INGESTED, *kept_names(work.unit.keep_columns))
    kept = described_as(kept_groups(workspace, work.unit, ["id", *columns]), columns)
    path = workspace.path(f"{work.unit.tokens}/documents.parquet")
    stored = described_as(read_rows(path, ["id", *columns], 0, len(identities)), columns)
    wrong = [name for name in columns if not np.array_equal(stored[name], kept[name])]
    if wrong:
        message = f"says another {', '.join(wrong)} of some documents than ingest"
        yield Finding("documents", message)


def described_as(tables: Iterable[pa.Table], columns: Sequence[str]) -> dict[str, NDArray[np.uint64]]:
    """Return a digest of what each document is described as, by column, in the order of their ids."""
    names, digests = [np.empty((0, ID_BYTES), np.uint8)], [np.empty((0, len(columns)), np.uint64)]
    for table in tables:
        names.append(fixed_bytes(table.column("id"), ID_BYTES))
        digests.append(np.column_stack([_value_digests(table.column(name)) for name in columns]))
    order = np.argsort(as_names(np.concatenate(names)), kind="stable")
    ordered = np.concatenate(digests)[order]
    return {name: ordered[:, number] for number, name in enumerate(columns)}


def _value_digests(column: pa.ChunkedArray) -> NDArray[np.uint64]:
    """Return a digest of each value, (N,): of a language or a path once, however often it stands."""
    found = [np.empty(0, np.uint64)]
    for chunk in column.chunks:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode("encode")
        values = [
            xxhash.xxh3_64_intdigest(repr(value).encode()) for value in coded.dictionary.to_pylist()
        ]
        found.append(np.array(values, np.uint64)[coded.indices.to_numpy()])
    return np.concatenate(found)


def _sentences(
    workspace: Workspace, unit: Unit, store: TokenUnit, table: pa.Table
) -> Iterator[tuple[str, Finding]]:
    """Sentences end where the documents are split once more."""
    try:
        found = read_ends(workspace.path(unit.sentences), 0, table.num_rows)
    except FormatError as error:
        yield unit.sentences, Finding("readable", str(error))
        return
    pieces = load_tokenizer(workspace, use=CHECK).codec.spelling
    documents = (np.asarray(store.ids[slice(*place)]) for place in store.places.tolist())
    languages = languages_of(workspace, unit, table.num_rows)
    wrong = [
        number
        for number, (language, document) in enumerate(zip(languages, documents, strict=True))
        if not np.array_equal(found[number], split_sentences(document, language, pieces))
    ]
    if wrong:
        whole = f"of {table.num_rows:,} documents"
        message = f"those of {len(wrong):,} {whole} end elsewhere than where the text is split"
        yield unit.sentences, Finding("sentences", f"{message}; the first is document {wrong[0]}")
