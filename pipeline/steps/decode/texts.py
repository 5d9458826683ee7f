"""Texts: the ids of the token store against the texts that dedup kept.

    spelled    the ids of each document spell its text, those of each section its own
    encoded    they are the ids that the text gives when it is encoded once more

An existing tokenizer may lose some of a text: then how it comes back is counted. The encoder is one of
the check's own, which remembers no word that `tokenize` met.

Dialogues: the ids of the token store against dialogues, section by section.

encoded    the ids of each section are those that it gives when it is encoded once more
spelled    they spell it, control ids their pieces; as `decode.texts` has it
learned    the sections that are learned are those of ingest
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.tokenize.dialogues import encoded_sections, normalised_texts, sections_in
from pipeline.steps.tokenizer.load import CHECK, load_markup, load_tokenizer
from pipeline.steps.units import (
    SECTIONED_TEXT,
    Unit,
    as_names,
    fixed_bytes,
    joined_sections,
    kept_groups,
    section_flags,
    section_ptr,
    sections_of,
    text_slices,
)
from stages.chat.template import LEARNED
from stages.findings import Finding
from stages.identity import ID_BYTES
from stages.ragged import Ragged, joined, ranges_of
from stages.store.token_store import TokenUnit
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.markup import MarkupEncoder, Sections
from stages.tokenizer.spelling import OTHER_IDS, OTHER_TEXT, PieceBytes, StoredIds, compare_texts
from stages.tokenizer.texts import TextIds

COLUMNS = ("id", "language", "text_bytes", *SECTIONED_TEXT)
"""What is read of the documents that dedup kept."""
_WRONG = {
    "text": "do not decode to their text",
    "pieces": "decode to their text, but are not the ids that the tokenizer gives of it",
}
"""What can be wrong of documents, by the name of its finding."""


class RoundTripKind(StrEnum):
    """How a document comes back from its ids."""

    TEXT = "text"
    """As it was."""
    NORMALISED = "normalised"
    """As the tokenizer's normaliser leaves it."""
    ENCODED = "encoded"
    """Not as a whole."""


@dataclass(frozen=True)
class StoredTexts:
    """The D documents of a unit in the token store, which are looked up by the texts that dedup kept."""

    unit: Unit
    store: TokenUnit
    identities: NDArray[np.bytes_]
    """(D,) their ids."""
    ends: Ragged | None
    """After how many of its tokens each section of a document ends; None if each has one section."""
    begun: bool
    """Whether a special id begins each document."""
    learned: NDArray[np.bool_] | None = None
    """Which sections are learned, of dialogues."""

    @classmethod
    def open(
        cls, unit: Unit, store: TokenUnit, identities: NDArray[np.uint8], *, begun: bool
    ) -> "StoredTexts":
        """Return the documents of a unit, (D, 16) uint8 their ids.

        Raises:
            FormatError: the ends of their sections are missing or damaged.
        """
        ends = learned = None
        groups = range(len(store.group_ptr) - 1)
        if unit.sections != 1:
            ends = joined([store.sections(group, count=unit.sections) for group in groups])
        if unit.dialogues:
            learned = np.concatenate([store.learned(group) for group in groups])
        return cls(unit, store, as_names(identities), ends, begun, learned)

    @property
    def file(self) -> str:
        """The key of what says where their ids end."""
        return f"{self.unit.tokens}/{'ids.npy' if self.ends is None else 'sections'}"

    def kept(self, workspace: Workspace) -> Iterator[tuple[pa.Table, NDArray[np.int64]]]:
        """Yield the texts, some at a time, each time with the numbers of the documents."""
        order = np.argsort(self.identities)
        for table in kept_groups(workspace, self.unit, COLUMNS):
            for part in text_slices(table):
                wanted = as_names(fixed_bytes(part.column("id"), ID_BYTES))
                yield part, order[np.searchsorted(self.identities, wanted, sorter=order)]

    def ids(self, numbers: NDArray[np.int64]) -> StoredIds:
        """Return the ids of each section of some documents, without those that frame the document."""
        begins, last = self.store.places[numbers, 0], self.store.places[numbers, 1] - 1
        first = np.minimum(begins + self.begun, last)
        if self.ends is None:
            return StoredIds(self.store.ids, first, last)
        own = self.ends.take(numbers)
        stops = np.repeat(begins, np.diff(own.ptr)) + own.values
        stops[own.ptr[1:] - 1] -= 1
        starts = np.concatenate([np.zeros(1, np.int64), stops[:-1]])
        starts[own.ptr[:-1]] = first
        return StoredIds(self.store.ids, starts, stops)

    @property
    def sections(self) -> Ragged:
        """After how many of its tokens each section of a document ends, of a source with sections."""
        assert self.ends is not None, "each document has one section"
        return self.ends

    def learned_of(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which sections of some dialogues are learned: (S,)."""
        assert self.learned is not None, "there are no dialogues"
        flags = Ragged(self.sections.ptr, self.learned.astype(np.int64))
        return flags.take(numbers).values.astype(np.bool_)

    def finding(self, name: str, wrong: NDArray[np.int64], what: str) -> tuple[str, Finding]:
        """Return what is wrong of some documents, by their numbers, with the file."""
        first = self.identities[wrong[:1]].view(np.uint8).tobytes().hex()
        message = f"{len(wrong):,} of {len(self.identities):,} documents {what}"
        return self.file, Finding(name, f"{message}; the first is document {first}")


def compare_with_texts(
    workspace: Workspace, stored: StoredTexts, returned: Counter[str]
) -> Iterator[tuple[str, Finding]]:
    """Yield what is wrong of the ids of a unit's documents, each with its file.

    Args:
        workspace: where texts and tokenizer are.
        stored: the documents.
        returned: gets how documents come back, of an existing tokenizer.
    """
    encoder = load_markup(workspace, stored.unit.source, use=CHECK)
    if encoder.tokenizer.exact:
        yield from _of_trained(workspace, stored, encoder.tokenizer)
    else:
        yield from _of_existing(workspace, stored, encoder, returned)


def _of_trained(
    workspace: Workspace, stored: StoredTexts, tokenizer: Tokenizer
) -> Iterator[tuple[str, Finding]]:
    """Ids spell the text, or what the model's normaliser leaves of it, and are those of the text."""
    spelling = _spelling(workspace)
    found = np.zeros(len(stored.identities), np.uint8)
    for part, numbers in stored.kept(workspace):
        ids, texts = stored.ids(numbers), joined_sections(part)
        encoded = tokenizer.encode_texts(texts, dtype=ids.ids.dtype)
        verdicts = compare_texts(ids, tokenizer.codec.normalise_texts(texts), encoded, spelling)
        found[numbers] = verdicts.reshape(len(numbers), -1).max(axis=1)
    for name, verdict in (("text", OTHER_TEXT), ("pieces", OTHER_IDS)):
        wrong = np.flatnonzero(found == verdict)
        if len(wrong):
            yield stored.finding(name, wrong, _WRONG[name])


def _of_existing(
    workspace: Workspace, stored: StoredTexts, encoder: MarkupEncoder, returned: Counter[str]
) -> Iterator[tuple[str, Finding]]:
    """Ids are those of the text, whatever of it they give back."""
    wrong: list[int] = []
    spelling = _spelling(workspace)
    for part, numbers in stored.kept(workspace):
        ids, texts = stored.ids(numbers), joined_sections(part)
        encoded = encoded_sections(encoder, texts, part, dtype=ids.ids.dtype)
        spelled = encoder.spelled_texts(texts, sections_in(part, texts.strings()))
        verdicts = compare_texts(ids, spelled, encoded, spelling)
        rows = np.flatnonzero(verdicts.reshape(len(numbers), -1).any(axis=1))
        returned.update({RoundTripKind.TEXT.value: len(numbers) - len(rows)})
        for row in rows.tolist():  # those that do not come back as they were, or not plainly so
            (sections,) = sections_of(part.slice(row, 1))
            own = stored.ids(numbers[row : row + 1]).parts()
            back = _come_back(encoder, sections, list(own))
            returned.update([] if back is None else [back.value])
            wrong += [int(numbers[row])] if back is None else []
    if wrong:
        check = "text" if stored.ends is None else "sections"
        what = "do not decode to their text, or have other ids than it"
        yield stored.finding(check, np.array(wrong), what)


def _spelling(workspace: Workspace) -> PieceBytes:
    pieces = load_tokenizer(workspace, use=CHECK).codec.spelling
    return PieceBytes(pieces.data, pieces.begins, pieces.sizes)


def _come_back(
    encoder: MarkupEncoder, texts: list[str], parts: Sequence[NDArray[np.integer]]
) -> RoundTripKind | None:
    """Say how the sections of a document come back from their ids, or None if those are other ones."""
    plain = Sections(texts, np.zeros(len(texts), np.bool_))
    again = encoder.encode(plain, dtype=parts[0].dtype).parts()
    if not all(map(np.array_equal, again, parts)):
        return None
    found = encoder.decoded(plain, parts)
    if found == texts:
        return RoundTripKind.TEXT
    if found == encoder.normalised(plain):
        return RoundTripKind.NORMALISED
    return RoundTripKind.ENCODED


_SECTIONS, _LEARNED, _TEXT, _PIECES = "sections", "learned", "text", "pieces"
_SAID = {
    _TEXT: "do not decode to their text",
    _PIECES: "have other ids than the tokenizer gives of their sections",
    _SECTIONS: "are cut into other sections than ingest has them",
    _LEARNED: "have other sections that are learned than ingest has them",
}


def compare_dialogues(
    workspace: Workspace, stored: StoredTexts, returned: Counter[str]
) -> Iterator[tuple[str, Finding]]:
    """Yield what is wrong of the ids of a unit's dialogues, each with its file.

    Args:
        workspace: where texts and tokenizer are.
        stored: the documents.
        returned: gets how documents come back, of an existing tokenizer.
    """
    encoder = load_markup(workspace, stored.unit.source, use=CHECK)
    wrong: dict[str, list[int]] = {name: [] for name in _SAID}
    for part, numbers in stored.kept(workspace):
        ptr = section_ptr(part)
        others = np.diff(ptr) != np.diff(stored.sections.ptr)[numbers]
        if others.any():
            wrong[_SECTIONS] += numbers[others].tolist()
            continue
        flags = stored.learned_of(numbers) != (section_flags(part) & LEARNED != 0)
        wrong[_LEARNED] += numbers[np.logical_or.reduceat(flags, ptr[:-1])].tolist()
        ids = stored.ids(numbers)
        encoded = encoded_sections(encoder, joined_sections(part), part, dtype=ids.ids.dtype)
        same = np.logical_and.reduceat(_are_same(ids, encoded), ptr[:-1])
        kinds = _sections_come_back(encoder, part, encoded, ptr)
        wrong[_PIECES] += numbers[~same].tolist()
        if encoder.tokenizer.exact:
            wrong[_TEXT] += numbers[same & (kinds == _ENCODED)].tolist()
        else:
            returned.update(_KINDS[kind].value for kind in kinds[same].tolist())
    for name, found in wrong.items():
        if found:
            yield stored.finding(name, np.array(found, np.int64), _SAID[name])


_KINDS = (RoundTripKind.TEXT, RoundTripKind.NORMALISED, RoundTripKind.ENCODED)
_ENCODED = _KINDS.index(RoundTripKind.ENCODED)


def _are_same(stored: StoredIds, encoded: TextIds) -> NDArray[np.bool_]:
    """Say of which sections the stored ids are those of the text: (S,)."""
    counts = stored.ends - stored.begins
    same: NDArray[np.bool_] = counts == encoded.counts
    chosen = np.flatnonzero(same)
    begins = (encoded.ends - encoded.counts)[chosen]
    differ = (
        stored.ids[ranges_of(stored.begins[chosen], counts[chosen])]
        != encoded.ids[ranges_of(begins, counts[chosen])]
    )
    owner = np.repeat(chosen, counts[chosen])
    same[owner[differ]] = False
    return same


def _sections_come_back(
    encoder: MarkupEncoder, part: pa.Table, encoded: TextIds, ptr: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how documents come back from their ids, as numbers of `_KINDS`: (N,)."""
    sections = [encoder.spell(ids).tobytes() for ids in encoded.parts()]
    texts, normalised = part.column("text").to_pylist(), normalised_texts(encoder, part)
    found, bare = np.zeros(len(texts), np.int64), sections
    if encoder.varies:
        own_texts = [text for own in sections_of(part) for text in own]
        bare = encoder.bare(sections_in(part, own_texts))
    for number, (text, left) in enumerate(zip(texts, normalised, strict=True)):
        own = slice(ptr[number], ptr[number + 1])
        spelled, plain = b"".join(sections[own]), b"".join(bare[own])
        wanted = text.encode()
        if wanted not in (spelled, plain):
            found[number] = 1 if left.encode() in (spelled, plain) else _ENCODED
    return found
