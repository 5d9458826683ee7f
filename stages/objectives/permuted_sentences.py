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

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from stages.objectives.bart import BART
from stages.objectives.drawing import Way
from stages.objectives.rows import Columns, StoredRows, Widths
from stages.objectives.vocabulary import Vocabulary
from stages.objectives.whole_shard import WholeShard
from stages.seeding import Tag, draw_u64, threshold


def permute_and_add_noise(
    rows: StoredRows,
    config: BART,
    vocabulary: Vocabulary,
    widths: Widths,
    *,
    shard: WholeShard,
    add_noise: Way[BART],
) -> Columns:
    """Give the columns of `add_noise` of rows whose sentences change places; labels are the rows'.

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
    """Give the rows with their sentences in the order drawn."""
    input_ids = rows.input_ids.copy()
    numbers = shard.segments_in(rows.numbers)
    bound = threshold(config.permute_probability)
    for row, number in enumerate(rows.numbers.tolist()):
        pieces = [
            _sentences(shard, int(segment))
            for segment in numbers[slice(*rows.segment_ptr[row : row + 2])]
        ]
        count = sum(map(len, pieces))
        blocks = np.arange(1 + (count + 1) // 2, dtype=np.uint64)
        draws = draw_u64(rows.key(Tag.SENTENCES), np.full(len(blocks), number, np.uint64), block=blocks)
        if int(draws[0, 0]) >= bound:
            continue
        drawn, place = iter(draws[1:].ravel()[:count].tolist()), 0
        for ends in pieces:
            length = int(ends[-1])
            here = rows.input_ids[row, place : place + length]
            input_ids[row, place : place + length] = _permuted(
                here, ends, [next(drawn) for _ in ends], eos
            )
            place += length
    return replace(rows, input_ids=input_ids)


def _sentences(shard: WholeShard, segment: int) -> NDArray[np.int64]:
    """Give after how many of a segment's tokens each of its sentences ends: the last is all of them."""
    assert shard.sentences is not None, "packed for another objective"
    doc, offset, length = (
        int(shard.segments[name][segment]) for name in ("doc", "doc_offset", "length")
    )
    ends = shard.sentences[doc]
    first, last = np.searchsorted(ends, [offset + 1, offset + length])
    return np.append(ends[first:last] - offset, length)


def _permuted(
    tokens: NDArray[np.integer], ends: NDArray[np.int64], draws: list[int], eos: int
) -> NDArray[np.integer]:
    """Give a segment with its sentences by ascending draw; an EOS stays at its end.

    "a b. c." ends 3 5, draws 9 4 -> "c. a b."
    """
    last = len(tokens) - int(len(tokens) > 0 and tokens[-1] == eos)
    parts = np.split(tokens[:last], np.minimum(ends[:-1], last))
    order = sorted(range(len(parts)), key=lambda number: (draws[number], number))
    return np.concatenate([*(parts[number] for number in order), tokens[last:]])
