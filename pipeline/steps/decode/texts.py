"""Texts: the ids of the token store against the texts that dedup kept.

    spelled    the ids of each document spell its text, those of each section its own
    encoded    they are the ids that the text gives when it is encoded once more

An existing tokenizer may lose some of a text: then how it comes back is counted. The encoder is one of
the check's own, which remembers no word that `tokenize` met.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import islice

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.tokenizer.load import CHECK, load_pieces, load_tokenizer
from pipeline.steps.units import (
    NAME,
    SECTIONED_TEXT,
    Unit,
    fixed_bytes,
    joined_sections,
    kept_groups,
    sections_of,
    text_slices,
)
from stages.errors import FormatError
from stages.findings import Finding
from stages.identity import ID_BYTES
from stages.ragged import Ragged, joined
from stages.store.token_store import TokenUnit
from stages.tokenizer.encode import Tokenizer
from stages.tokenizer.existing import RunTokenizer
from stages.tokenizer.spelling import OTHER_IDS, OTHER_TEXT, Spelling, Stored, compare_texts

_COLUMNS = ("id", "text_bytes", *SECTIONED_TEXT)
_WRONG = {
    "text": "do not decode to their text",
    "pieces": "decode to their text, but are not the ids that the tokenizer gives of it",
}
"""What can be wrong of documents, by the name of its finding."""


class Returned(StrEnum):
    """How a document comes back from its ids."""

    TEXT = "text"
    """As it was."""
    NORMALISED = "normalised"
    """As the tokenizer's normaliser leaves it."""
    ENCODED = "encoded"
    """Not as a whole."""


def compare_with_texts(
    workspace: Workspace,
    unit: Unit,
    store: TokenUnit,
    identities: NDArray[np.uint8],
    returned: Counter[str],
) -> Iterator[tuple[str, Finding]]:
    """Yield what is wrong of the ids of a unit's documents, each with its file.

    Args:
        workspace: where texts and tokenizer are.
        unit: whose documents they are.
        store: their ids.
        identities: (D, 16) uint8, the documents of the store.
        returned: gets how documents come back, of an existing tokenizer.
    """
    ends = None
    if unit.sections > 1:
        try:
            groups = range(len(store.group_ptr) - 1)
            ends = joined([store.sections(group, count=unit.sections) for group in groups])
        except FormatError as error:
            yield f"{unit.tokens}/sections", Finding("sections", str(error))
            return
    tokenizer = load_tokenizer(workspace, use=CHECK)
    if isinstance(tokenizer, Tokenizer):
        yield from _of_trained(workspace, unit, store, identities, ends, tokenizer)
    else:
        yield from _of_existing(workspace, unit, store, identities, ends, returned)


def _of_trained(
    workspace: Workspace,
    unit: Unit,
    store: TokenUnit,
    identities: NDArray[np.uint8],
    ends: Ragged | None,
    tokenizer: Tokenizer,
) -> Iterator[tuple[str, Finding]]:
    """Ids spell the text, or what the model's normaliser leaves of it, and are those of the text."""
    pieces = load_pieces(workspace)
    spelling = Spelling(pieces.data, pieces.begins, pieces.sizes)
    found = np.zeros(len(identities), np.uint8)
    for part, numbers in _documents(workspace, unit, identities):
        texts = joined_sections(part)
        stored = _stored(store, numbers, ends)
        encoded = tokenizer.encode_texts(texts, dtype=stored.ids.dtype)
        worst = compare_texts(stored, tokenizer.normalise_texts(texts), encoded, spelling)
        found[numbers] = worst.reshape(len(numbers), -1).max(axis=1)
    for name, verdict in (("text", OTHER_TEXT), ("pieces", OTHER_IDS)):
        wrong = np.flatnonzero(found == verdict)
        if len(wrong):
            message = f"{len(wrong):,} of {len(found):,} documents {_WRONG[name]}"
            first = f"the first is document {identities[wrong[0]].tobytes().hex()}"
            file = "ids.npy" if ends is None else "sections"
            yield f"{unit.tokens}/{file}", Finding(name, f"{message}; {first}")


def _documents(
    workspace: Workspace, unit: Unit, identities: NDArray[np.uint8]
) -> Iterator[tuple[pa.Table, NDArray[np.int64]]]:
    """Yield the kept documents, some at a time, each time with their numbers in the store."""
    names = np.ascontiguousarray(identities).view(NAME).ravel()
    order = np.argsort(names)
    for table in kept_groups(workspace, unit, _COLUMNS):
        for part in text_slices(table):
            wanted = np.ascontiguousarray(fixed_bytes(part.column("id"), ID_BYTES)).view(NAME).ravel()
            yield part, order[np.searchsorted(names, wanted, sorter=order)]


def _stored(store: TokenUnit, numbers: NDArray[np.int64], ends: Ragged | None) -> Stored:
    """Return where the ids of each section of some documents lie, without the EOS."""
    begins, last = store.offsets[numbers], store.offsets[numbers + 1] - 1
    if ends is None:
        return Stored(store.ids, begins, last)
    within = ends.values.reshape(len(store.offsets) - 1, -1)[numbers]
    stops = begins[:, None] + within
    stops[:, -1] -= 1
    starts = np.concatenate([begins[:, None], stops[:, :-1]], axis=1)
    return Stored(store.ids, starts.ravel(), stops.ravel())


def _of_existing(
    workspace: Workspace,
    unit: Unit,
    store: TokenUnit,
    identities: NDArray[np.uint8],
    ends: Ragged | None,
    returned: Counter[str],
) -> Iterator[tuple[str, Finding]]:
    """Ids are those of the text, whatever of it they give back."""
    tokenizer = load_tokenizer(workspace, use=CHECK)
    wrong: list[int] = []
    for part, numbers in _documents(workspace, unit, identities):
        stored = _stored(store, numbers, ends)
        places = zip(stored.begins.tolist(), stored.ends.tolist(), strict=True)
        ids = (np.asarray(store.ids[begin:end]) for begin, end in places)
        for number, texts in zip(numbers.tolist(), sections_of(part), strict=True):
            back = _come_back(tokenizer, texts, list(islice(ids, len(texts))))
            returned.update([] if back is None else [back.value])
            wrong += [number] if back is None else []
    if wrong:
        whole = f"of {len(identities):,} documents"
        message = f"those of {len(wrong):,} {whole} do not decode to their text, or are other ids of it"
        first = f"the first is document {identities[wrong[0]].tobytes().hex()}"
        file, check = ("ids.npy", "text") if ends is None else ("sections", "sections")
        yield f"{unit.tokens}/{file}", Finding(check, f"{message}; {first}")


def _come_back(
    tokenizer: RunTokenizer, texts: list[str], parts: Sequence[NDArray[np.integer]]
) -> Returned | None:
    """Say how the sections of a document come back from their ids, or None if those are other ones."""
    if not all(map(np.array_equal, tokenizer.encode(texts), parts)):
        return None
    found = tokenizer.decode(parts)
    if found == texts:
        return Returned.TEXT
    if found == list(map(tokenizer.normalise, texts)):
        return Returned.NORMALISED
    return Returned.ENCODED
