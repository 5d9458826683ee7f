"""Dialogues: the ids of documents whose sections say which of them are markup."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

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
    if SECTION_FLAGS.name not in table.column_names:
        return encoder.tokenizer.encode_texts(texts, dtype=dtype)
    return encoder.encode(texts.strings(), section_flags(table) & MARKUP != 0, dtype=dtype)


def token_counts(encoder: MarkupEncoder, table: pa.Table) -> list[int]:
    """Return how many ids each document has, without those that frame it."""
    texts = joined_sections(table)
    encoded = encoded_sections(encoder, texts, table, dtype=np.dtype(np.int32))
    found: list[int] = np.add.reduceat(encoded.counts, section_ptr(table)[:-1]).tolist()
    return found


def normalised_texts(encoder: MarkupEncoder, table: pa.Table) -> Iterator[str]:
    """Yield each document's text as the tokenizer's normaliser leaves its sections."""
    if SECTION_FLAGS.name not in table.column_names:
        for sections in sections_of(table):
            yield "".join(map(encoder.tokenizer.normalise, sections))
        return
    is_markup = iter((section_flags(table) & MARKUP != 0).tolist())
    for sections in sections_of(table):
        yield "".join(encoder.normalise(section, markup=next(is_markup)) for section in sections)
