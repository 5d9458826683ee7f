"""Dialogues: the ids of documents whose sections say which of them are markup."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.steps.units import joined_sections, section_flags, section_ptr, sections_of
from stages.chat.template import MARKUP
from stages.columns import SECTION_FLAGS
from stages.tokenizer.markup import MarkupEncoder
from stages.tokenizer.texts import Encoded, JoinedTexts


def encoded_sections(
    encoder: MarkupEncoder, texts: JoinedTexts, table: pa.Table, *, dtype: np.dtype[np.generic]
) -> Encoded:
    """Return the ids of each section of some documents.

    Args:
        encoder: of the run's tokenizer.
        texts: of the sections, end to end.
        table: the documents.
        dtype: of the ids.
    """
    markup, first = markup_of(table), first_of(table)
    if not markup.any() and first.all():
        return encoder.tokenizer.encode_texts(texts, dtype=dtype)
    return encoder.encode(texts.strings(), markup, dtype=dtype, first=first)


def markup_of(table: pa.Table) -> NDArray[np.bool_]:
    """Return which sections of some documents are markup: (S,)."""
    if SECTION_FLAGS.name not in table.column_names:
        return np.zeros(int(section_ptr(table)[-1]), np.bool_)
    found: NDArray[np.bool_] = section_flags(table) & MARKUP != 0
    return found


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
    markup, place = markup_of(table), 0
    for sections in sections_of(table):
        own = markup[place : place + len(sections)]
        yield "".join(encoder.normalised(sections, own))
        place += len(sections)
