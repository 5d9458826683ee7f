"""Decode: the token store against the texts, once for all datasets.

    store     each unit holds exactly the documents that dedup kept
    text      the ids of each document decode to its text, those of each section to its own

Findings, never exceptions: a damaged file is what it looks for. `verify` then holds the rows of every
dataset to the ids of the store, token by token, and so to the texts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.steps.findings import result_of
from pipeline.steps.split import load_tokenizer
from pipeline.steps.units import SECTIONED_TEXT, Unit, kept_groups, kept_mask, sections_of, text_slices
from pipeline.tasks import Workspace
from stages.errors import FormatError
from stages.identity import content_digest
from stages.ragged import batches, joined
from stages.store.token_store import TokenUnit
from stages.tokenizer.encode import Tokenizer
from stages.verify.mechanics import Finding

_BATCH_TOKENS = 1 << 18
"""Tokens of documents that are decoded together (36 bytes each as Python's numbers)."""


@dataclass(frozen=True)
class DecodeUnit:
    """One unit of the token store."""

    unit: Unit


def check_texts(workspace: Workspace, work: DecodeUnit) -> dict[str, Any]:
    """Compare a unit of the token store with the documents that were kept of it, and their texts."""
    unit = work.unit
    listed = f"{unit.tokens}/documents.parquet"
    try:
        store = TokenUnit.open(workspace.path(unit.tokens))
        stored = pq.read_table(workspace.path(listed), columns=["id", "digest"])
    except (FormatError, OSError, pa.ArrowInvalid) as error:
        return result_of([(listed, Finding("readable", str(error)))], documents=0)
    identities, digests = (stored.column(name).to_pylist() for name in ("id", "digest"))
    findings = list(_documents(workspace, unit, store, list(zip(identities, digests, strict=True))))
    if findings:
        return result_of([(listed, finding) for finding in findings], documents=len(identities))
    if unit.sections > 1:
        found = [(f"{unit.tokens}/sections", f) for f in _sections(workspace, unit, store, identities)]
    else:
        found = [(f"{unit.tokens}/ids.npy", f) for f in _texts(workspace, store, digests)]
    return result_of(found, documents=len(identities))


def _documents(
    workspace: Workspace, unit: Unit, store: TokenUnit, found: Sequence[tuple[bytes, bytes]]
) -> Iterator[Finding]:
    """The unit lists the kept documents with the digests of their texts, each once."""
    wanted = _wanted(workspace, unit)
    lost, extra = wanted - set(found), len(found) - len(wanted & set(found))
    if lost or extra:
        yield Finding(
            "documents_kept",
            f"{len(lost):,} kept documents are missing and {extra:,} are repeated or were never kept",
        )
    elif len(found) != len(store.offsets) - 1:
        stored = f"{len(store.offsets) - 1:,} in offsets.npy"
        yield Finding("documents_kept", f"{len(found):,} documents are listed, but {stored}")


def _wanted(workspace: Workspace, unit: Unit) -> set[tuple[bytes, bytes]]:
    """Give the kept documents' ids with the digests of the texts that their ids must decode to."""
    tokenizer = load_tokenizer(workspace)
    if not tokenizer.normalises:
        table = pq.read_table(workspace.path(unit.table), columns=["id", "digest"])
        kept = table.filter(pa.array(kept_mask(workspace, unit)))
        return set(zip(kept.column("id").to_pylist(), kept.column("digest").to_pylist(), strict=True))
    return {
        (identity, content_digest("".join(map(tokenizer.normalise, sections))))
        for group in kept_groups(workspace, unit, ["id", "text_bytes", *SECTIONED_TEXT])
        for part in text_slices(group)
        for identity, sections in zip(part.column("id").to_pylist(), sections_of(part), strict=True)
    }


def _texts(workspace: Workspace, store: TokenUnit, digests: Sequence[bytes]) -> Iterator[Finding]:
    """The ids of each document, without its EOS, decode to the text of its digest."""
    tokenizer = load_tokenizer(workspace)
    wrong, first = 0, 0
    for start, end in batches(np.diff(store.offsets), _BATCH_TOKENS):
        offsets = store.offsets[start : end + 1]
        ids = np.asarray(store.ids[offsets[0] : offsets[-1]])
        documents = [part[:-1] for part in np.split(ids, offsets[1:-1] - offsets[0])]
        texts = zip(_decoded(tokenizer, documents), digests[start:end], strict=True)
        broken = [n for n, (text, digest) in enumerate(texts, start) if content_digest(text) != digest]
        first = broken[0] if broken and not wrong else first
        wrong += len(broken)
    if wrong:
        whole = f"of {len(digests):,} documents"
        yield Finding("text", f"{wrong:,} {whole} do not decode to their text; the first is {first}")


def _decoded(tokenizer: Tokenizer, documents: Sequence[NDArray[np.integer]]) -> list[str]:
    """Give the text of each document; ids past the model give none."""
    size = tokenizer.vocab_size
    return tokenizer.decode([ids if ((ids >= 0) & (ids < size)).all() else ids[:0] for ids in documents])


def _sections(
    workspace: Workspace, unit: Unit, store: TokenUnit, identities: Sequence[bytes]
) -> Iterator[Finding]:
    """The ids of each section decode to its text."""
    tokenizer = load_tokenizer(workspace)
    try:
        groups = range(len(store.group_ptr) - 1)
        ends = joined([store.sections(group, count=unit.sections) for group in groups])
    except FormatError as error:
        yield Finding("sections", str(error))
        return
    numbers = {identity: number for number, identity in enumerate(identities)}
    wrong = []
    for table in kept_groups(workspace, unit, ["id", "text_bytes", *SECTIONED_TEXT]):
        for part in text_slices(table):
            for identity, texts in zip(part.column("id").to_pylist(), sections_of(part), strict=True):
                number = numbers[identity]
                ids = np.asarray(store.ids[store.offsets[number] : store.offsets[number + 1] - 1])
                found = _decoded(tokenizer, np.split(ids, ends[number][:-1]))
                if found != list(map(tokenizer.normalise, texts)):
                    wrong.append(identity)
    if wrong:
        whole = f"of {len(identities):,} documents"
        message = f"those of {len(wrong):,} {whole} do not decode to their text"
        yield Finding("sections", f"{message}; the first is document {wrong[0].hex()}")
