"""Dialogues: the ids of documents whose sections say which of them are markup."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.steps.units import joined_sections, section_flags, section_ptr, sections_of
from stages.chat.template import BY_ITSELF, MARKUP, SPOKEN
from stages.columns import SECTION_FLAGS
from stages.tokenizer.markup import MarkupEncoder, Sections
from stages.tokenizer.texts import JoinedTexts, TextIds


def encoded_sections(
    encoder: MarkupEncoder, texts: JoinedTexts, table: pa.Table, *, dtype: np.dtype[np.generic]
) -> TextIds:
    """Return the ids of each section of some documents.

    Args:
        encoder: of the run's tokenizer.
        texts: of the sections, end to end.
        table: the documents.
        dtype: of the ids.
    """
    if _are_plain(table):
        return encoder.tokenizer.encode_texts(texts, dtype=dtype)
    return encoder.encode(sections_in(table, texts.strings()), dtype=dtype)


def _are_plain(table: pa.Table) -> bool:
    """Say whether each document is one section, and none is markup."""
    return SECTION_FLAGS.name not in table.column_names and bool(first_of(table).all())


def sections_in(table: pa.Table, texts: Sequence[str]) -> Sections:
    """Return the sections of some documents, and what each is."""
    first = first_of(table)
    if SECTION_FLAGS.name not in table.column_names:
        return Sections(texts, np.zeros(len(first), np.bool_), first)
    flags = section_flags(table)
    markup, by_itself, answers = (flags & bit != 0 for bit in (MARKUP, BY_ITSELF, SPOKEN))
    return Sections(texts, markup, first, by_itself, answers)


def first_of(table: pa.Table) -> NDArray[np.bool_]:
    """Return which sections begin a document: (S,)."""
    ptr = section_ptr(table)
    found = np.zeros(int(ptr[-1]), np.bool_)
    found[ptr[:-1]] = True
    return found


def token_counts(encoder: MarkupEncoder, table: pa.Table) -> list[int]:
    """Return how many ids each document has, without those that frame it."""
    texts = joined_sections(table)
    encoded = encoded_sections(encoder, texts, table, dtype=np.dtype(np.int32))
    found: list[int] = np.add.reduceat(encoded.counts, section_ptr(table)[:-1]).tolist()
    return found


def normalised_texts(encoder: MarkupEncoder, table: pa.Table) -> Iterator[str]:
    """Yield each document's text as the tokenizer's normaliser leaves its sections."""
    texts, ptr = [text for own in sections_of(table) for text in own], section_ptr(table).tolist()
    found = encoder.normalised(sections_in(table, texts))
    yield from ("".join(found[begin:end]) for begin, end in pairwise(ptr))
