"""BART's sentence permutation: the sentences of a row in another order, before any other noise.

    row           [The fox ran .][ It hid .][ Why ? </s>]
    permuted      [ Why ?][The fox ran .][ It hid .] </s>
    labels        The fox ran . It hid . Why ? </s>          the row as it was

Sentences are those of the document (stages/tokenizer/sentences.py), as far as they lie in the row; those
of a packed row stay within their segment, and an EOS at its end. Draws are functions of (seed, epoch,
shard, row); number i of tag 26 is u64[i % 2] of block i // 2:

    permuted   0         below T(permute_probability), else the row keeps its order
    order      2 + j     of sentence j of the row: those of a segment stand by ascending draw

Source: Lewis et al. 2020, "BART", section 2.2, arXiv 1910.13461. We leave it in this: sentences are not
full stops in the tokens but what a splitter for the language says.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.objectives.bart.config import BART
from stages.objectives.rows import Columns, StoredRows, Widths
from stages.objectives.vocabulary import Vocabulary
from stages.objectives.whole_shard import WholeShard
from stages.ragged import ranges_of
from stages.seeding import Tag, below, draw_u64, threshold

AddNoise = Callable[[StoredRows, BART, Vocabulary, Widths], Columns]
"""Draws the other noises of rows."""


class SentenceTag(Tag):
    """What the draws of permuted sentences are for."""

    ORDER = 26
    """Whether the sentences of a row change places, and in which order they stand."""


def permute_and_add_noise(
    rows: StoredRows,
    config: BART,
    vocabulary: Vocabulary,
    widths: Widths,
    *,
    shard: WholeShard,
    add_noise: AddNoise,
) -> Columns:
    """Return the columns of `add_noise` of rows whose sentences change places; labels are the rows'.

    Args:
        rows: as stored.
        config: the objective.
        vocabulary: of the tokenizer.
        widths: of the dataset.
        shard: that the rows are of, with its sentences.
        add_noise: the other noises, plain or compiled.
    """
    permuted = permute_sentences(rows, config, shard, eos=vocabulary.named("eos"))
    columns = add_noise(permuted, config, vocabulary, widths)
    clean = add_noise(rows, config, vocabulary, widths)
    return {**columns, **{name: clean[name] for name in ("labels", "decoder_input_ids")}}


def permute_sentences(rows: StoredRows, config: BART, shard: WholeShard, *, eos: int) -> StoredRows:
    """Return the rows with their sentences in the order drawn."""
    key = rows.key(SentenceTag.ORDER)
    draws = draw_u64(key, rows.numbers.astype(np.uint64))[:, 0]
    some = np.flatnonzero(below(draws, threshold(config.permute_probability)))
    part = rows.take(some)
    found = _sentences(part, shard, eos)
    drawn = 2 + found.number
    pairs = draw_u64(
        key, part.numbers[found.row].astype(np.uint64), block=(drawn // 2).astype(np.uint64)
    )
    order = np.lexsort((pairs[np.arange(len(drawn)), drawn % 2], found.segment))
    lengths = found.length[order]
    before = np.concatenate([[0], np.cumsum(lengths)])
    opens = np.searchsorted(found.segment, found.segment)  # the first sentence of each one's segment
    places = found.begin[opens] + before[:-1] - before[opens]
    width = rows.input_ids.shape[1]
    shift = some[found.row] * width
    input_ids = rows.input_ids.copy()
    source = ranges_of((shift + found.begin)[order], lengths)
    input_ids.reshape(-1)[ranges_of(shift + places, lengths)] = rows.input_ids.reshape(-1)[source]
    return replace(rows, input_ids=input_ids)


class _Sentences(NamedTuple):
    """The S sentences of some rows, as they stand: (S,) each."""

    row: NDArray[np.int64]
    segment: NDArray[np.int64]
    number: NDArray[np.int64]
    """Which of its row's."""
    begin: NDArray[np.int64]
    """Where in its row."""
    length: NDArray[np.int64]
    """Tokens that move: all but an EOS at the end of the segment."""


def _sentences(rows: StoredRows, shard: WholeShard, eos: int) -> _Sentences:
    """Return the sentences of rows: those of the documents, as far as they lie in each segment."""
    assert shard.sentences is not None, "packed for another objective"
    numbers = shard.segments_in(rows.numbers)
    doc, offset, length = (
        shard.segments[name][numbers].astype(np.int64) for name in ("doc", "doc_offset", "length")
    )
    segment_row = np.repeat(np.arange(len(rows.numbers)), np.diff(rows.segment_ptr))
    ends = np.cumsum(rows.segment_length)
    start = ends - rows.segment_length - (ends - rows.segment_length)[rows.segment_ptr[segment_row]]
    closing = rows.input_ids[segment_row, np.maximum(start + length - 1, 0)]
    body = length - ((length > 0) & (closing == eos))
    first = shard.sentences_before(doc, offset + 1)
    inner = shard.sentences_before(doc, offset + length) - first  # the last one's end is the segment's
    segment = np.repeat(np.arange(len(numbers)), inner + 1)
    last = np.cumsum(inner + 1) - 1
    end = np.append(shard.sentences.values, 0)[ranges_of(first, inner + 1)] - offset[segment]
    end[last] = length
    end = np.minimum(end, body[segment])
    begin = np.concatenate([[0], end[:-1]])
    begin[last - inner] = 0
    row = segment_row[segment]
    number = np.arange(len(row)) - np.searchsorted(row, row)
    return _Sentences(row, segment, number, begin + start[segment], end - begin)
