"""Prefix language modelling of packed rows: each document of a row has a prefix and a rest of its own.

    tokens         How many ? Two </s>  Who ? Me </s>  .       two documents, prefixes of 3 and 2 tokens
    in_prefix       1   1   1  0   0     1  1  0   0   0       attention both ways within each prefix
    labels          .   .   . Two </s>   .  . Me </s>  .       unshifted; . is -100

No token sees another document, and the first token of each has no label, so that no label is predicted
across a border. Of a segment of n tokens the first k are the prefix:

    k   what its source names, if it names a target; else what `prefix_lm.py` draws for a row of n
        tokens, by tag 12, draw s for segment s of the row, from 0

A document that is cut into rows is a segment in each: one within the prompt has no label, one behind it
has a prefix of one token.
"""

import numpy as np
from numpy.typing import NDArray

from stages.objectives.prefix_lm import PrefixLM, shortest_prefixes, unsaid_ends, with_prompts
from stages.objectives.rows import IGNORED, Columns, Restored, StoredRows, Widths, segment_starts
from stages.objectives.vocabulary import Vocabulary
from stages.seeding import Tag, draw_u64, scale

_SMALLEST = 2
"""Tokens of the shortest text that has a prefix and a rest."""


def split_documents(
    rows: StoredRows, config: PrefixLM, vocabulary: Vocabulary, widths: Widths
) -> Columns:
    """Return the columns of packed rows, plainly.

    Returns:
        `input_ids` (N, L) as stored, `labels` (N, L) int32 and `in_prefix` (N, L) bool.
    """
    del vocabulary, widths
    row, start = segment_starts(rows)
    n = rows.segment_length
    prefix = with_prompts(rows.segment_prompt, n, _prefixes(rows, config))
    said = _marked(rows, row, start + prefix, n - prefix)
    return {
        "input_ids": rows.input_ids,
        "labels": np.where(said, rows.input_ids.astype(np.int32), np.int32(IGNORED)),
        "in_prefix": _marked(rows, row, start, prefix),
    }


def _prefixes(rows: StoredRows, config: PrefixLM) -> NDArray[np.int64]:
    """Return the length of each segment's prefix, as it is drawn: (S,)."""
    counts, n = np.diff(rows.segment_ptr), rows.segment_length
    within = np.arange(len(n)) - np.repeat(rows.segment_ptr[:-1], counts)
    numbers = np.repeat(rows.numbers, counts).astype(np.uint64)
    blocks = draw_u64(
        rows.key(Tag.PREFIX_LENGTH), numbers, block=within.astype(np.uint64) // np.uint64(2)
    )
    draws = blocks[np.arange(len(n)), within % 2]
    shortest, prefix = shortest_prefixes(n, config), n.copy()
    for one in np.flatnonzero(n >= _SMALLEST):
        prefix[one] = shortest[one] + scale(draws[one : one + 1], int(n[one] - shortest[one]))[0]
    return prefix


def _marked(
    rows: StoredRows, row: NDArray[np.int64], start: NDArray[np.int64], length: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return where runs of tokens stand: (N, L) bool."""
    count, width = rows.input_ids.shape
    changes = np.zeros((count, width + 1), np.int64)
    np.add.at(changes, (row, start), 1)
    np.add.at(changes, (row, start + length), -1)
    return np.asarray(changes.cumsum(axis=1)[:, :width] > 0)


def prefixes_shown(rows: StoredRows, columns: Columns) -> NDArray[np.int64]:
    """Return how many tokens of each segment are shown as its prefix: (S,)."""
    row, start = segment_starts(rows)
    begin = row * rows.input_ids.shape[1] + start
    sums = np.concatenate([[0], np.cumsum(columns["in_prefix"] != 0)])
    shown: NDArray[np.int64] = sums[begin + rows.segment_length] - sums[begin]
    return shown


def documents_keep_prompts(rows: StoredRows, columns: Columns) -> NDArray[np.bool_]:
    """Say of which rows each prefix is the prompt that its source names, if it names one: (N,) bool."""
    assert rows.segment_prompt is not None
    named = np.minimum(rows.segment_prompt, rows.segment_length)
    wrong = (rows.segment_prompt > 0) & (prefixes_shown(rows, columns) != named)
    row, _ = segment_starts(rows)
    return np.asarray(np.bincount(row[wrong], minlength=len(rows.numbers)) == 0)


def restore_documents(columns: Columns, config: PrefixLM, vocabulary: Vocabulary) -> Restored:
    """Return the rows' tokens back: prefixes as they are shown, the rest as it is to be said."""
    del config
    labels, shown = columns["labels"], columns["in_prefix"] != 0
    said = labels != IGNORED
    shown |= unsaid_ends(said | shown, columns)
    ids = np.where(said, labels, np.where(shown, columns["input_ids"], vocabulary.named("pad")))
    lengths = np.count_nonzero(said | shown, axis=1)
    return ids.astype(columns["input_ids"].dtype), lengths.astype(np.int64)
