"""Sentence pairs: say whether two pieces of text belong together, and what stood at masked positions.

    nsp   [CLS] A [SEP] B [SEP]      B follows A (0), or is from another document (1)
    sop   [CLS] A [SEP] B [SEP]      B follows A (0), or A and B have changed places (1)

    input_ids        <cls> The quick <sep> brown fox . <sep> .    (here without its masks; . is padding)
    token_type_ids     0    0    0     0     1    1  1   1   0
    segment_ids        0    0    0     0     0    0  0   0  -1
    labels           of mlm: -100 but where a position was selected; never on <cls> or <sep>

Rows hold one or two halves of a chunk (stages/packing/pairs.py). The EOS of a document is not shown.
Draws are functions of (seed, epoch, shard, row):

    nsp   borrows from   tag 30, block 0, u64[0]: floor(u (D - 1) / 2**64) counts the shard's other
                         documents that have text
          begins at      tag 30, block 0, u64[1]: sentence floor(u S / 2**64) of its S, and takes those
                         behind it that fit the room; the first is taken as far as the row holds it
    sop   changed        tag 31, block 0, u64[0], below T(swap_rate)
    both  masks          as `mask` says, by the draws of mlm, on the row as it is shown

A row that stands alone, because there is no other sentence to pair its one with (sop) or its shard has
one document (nsp), shows <cls> A <sep> and has the label -100: its masks are learned, no pair is made
up. `borrowed_doc` and `borrowed_offset` say which text of the shard was borrowed, -1 where none was:
those tokens stand in a second place and are counted apart.

Source: nsp: Devlin et al. 2019, "BERT", section 3.1, arXiv 1810.04805; sop: Lan et al. 2020, "ALBERT",
section 3.1, arXiv 1909.11942. We leave them in this: nobody is its own stranger, as in the public code
when it finds no other document, and a single sentence makes no false pair.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from stages.objectives.mlm.config import MaskedLM, mask_tokens, restore_mlm  # masks what is shown
from stages.objectives.rows import (
    IGNORED,
    Columns,
    StoredRows,
    Widths,
    lengths_without_eos,
    single_segments,
)
from stages.objectives.traits import Objective
from stages.objectives.vocabulary import Vocabulary
from stages.objectives.whole_shard import WholeShard
from stages.ragged import ranges_of
from stages.seeding import Tag, below, draw_u64, scale, threshold

Mask = Callable[[StoredRows, MaskedLM, Vocabulary, Widths], Columns]
"""How masks are drawn: plainly or compiled."""
ENDS = 3
"""Tokens beside the text of a pair: CLS and two SEP."""
LEAST_PAIR = ENDS + 2
"""Tokens of the shortest row that holds a pair."""


class PairTag(Tag):
    """What the draws of pairs are for."""

    PARTNER = 30
    """From which document a row borrows its second half."""
    SWAP = 31
    """Whether the halves of a row change places."""
    CHUNKS = 32
    """How documents are cut into pairs; laid out, so in the stream of epoch 0."""


class NextSentence(Objective):
    """Next sentence prediction, with masks."""

    kind: Literal["nsp"] = "nsp"
    """Names the objective."""
    random_rate: float = Field(0.5, gt=0.0, le=1.0)
    """Share of the chunks whose second half comes from another document; those of a single sentence
    always have it from there."""
    short_rate: float = Field(0.1, ge=0.0, le=1.0)
    """Share of the chunks that aim at a length of their own, from 2 tokens up."""
    mask: MaskedLM = MaskedLM()
    """The masks."""


class SentenceOrder(Objective):
    """Sentence order prediction, with masks."""

    kind: Literal["sop"] = "sop"
    """Names the objective."""
    swap_rate: float = Field(0.5, ge=0.0, le=1.0)
    """Share of the pairs that change places. Each epoch draws again which ones."""
    short_rate: float = Field(0.1, ge=0.0, le=1.0)
    """Share of the chunks that aim at a length of their own, from 2 tokens up."""
    mask: MaskedLM = MaskedLM()
    """The masks."""


SentencePairs = NextSentence | SentenceOrder


def pair_widths(seq_len: int) -> Widths:
    """Return how many tokens rows hold: stored, all but CLS, two SEP and an EOS that is not shown."""
    return Widths(seq_len - ENDS + 1, seq_len, seq_len)


def label_name(config: SentencePairs) -> str:
    """Return the column that says whether a pair belongs together."""
    return "next_sentence_label" if isinstance(config, NextSentence) else "sentence_order_label"


def make_pairs(
    rows: StoredRows,
    config: SentencePairs,
    vocabulary: Vocabulary,
    widths: Widths,
    *,
    shard: WholeShard,
    mask: Mask = mask_tokens,
) -> Columns:
    """Return the columns of pairs.

    Args:
        rows: as stored.
        config: the objective.
        vocabulary: of the tokenizer.
        widths: of the dataset.
        shard: that the rows are of, with its sentences.
        mask: draws the masks, plainly or compiled: the same bits.

    Returns:
        `input_ids` (N, L) in the dtype of the rows; `labels` (N, L) int32; `token_type_ids` (N, L)
        uint8; `segment_ids` (N, L) int32, -1 on padding; `position_ids` (N, L) int32;
        `next_sentence_label` or `sentence_order_label` (N,) int32; for nsp `borrowed_doc` (N,) int32
        and `borrowed_offset` (N,) int64.
    """
    halves = _halves(rows, vocabulary.named("eos"))
    extra: Columns
    if isinstance(config, NextSentence):
        halves, extra = _borrow(rows, halves, shard)
    else:
        halves, extra = _swap(rows, halves, config)
    shown, types = _show(halves, rows, vocabulary, width=widths.inputs)
    lengths = halves.a + halves.b + np.where(halves.b > 0, ENDS, ENDS - 1)
    ptr, segment_length = single_segments(lengths)
    built = StoredRows(
        shown, ptr, segment_length, rows.numbers, seed=rows.seed, epoch=rows.epoch, shard=rows.shard
    )
    masked = mask(built, config.mask, vocabulary, widths)
    places = np.arange(widths.inputs)
    covered = places < lengths[:, None]
    return {
        **masked,
        "token_type_ids": types,
        "segment_ids": np.where(covered, 0, -1).astype(np.int32),
        "position_ids": np.where(covered, places, 0).astype(np.int32),
        **extra,
    }


def restore_pairs(
    columns: Columns, config: SentencePairs, vocabulary: Vocabulary
) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Return (ids, lengths) of the rows' own text without EOS: (N, L) padded with pad, (N,) int64."""
    shown, lengths = restore_mlm(columns, config.mask, vocabulary)
    middle, b = _split(columns, lengths)
    a, apart = middle - 2, columns[label_name(config)] == 1
    if isinstance(config, NextSentence):
        b, apart = np.where(apart, 0, b), np.zeros(len(b), np.bool_)
    clean = np.full(shown.shape, vocabulary.named("pad"), shown.dtype)
    _move(shown, clean, np.ones(len(a), np.int64), np.where(apart, b, 0), a)
    _move(shown, clean, middle, np.where(apart, 0, a), b)
    return clean, a + b


def check_borrowed(
    rows: StoredRows, columns: Columns, config: NextSentence, vocabulary: Vocabulary, shard: WholeShard
) -> NDArray[np.bool_]:
    """Say of which rows a borrowed half is another document's text and labelled so: (N,) bool."""
    shown, lengths = restore_mlm(columns, config.mask, vocabulary)
    middle, b = _split(columns, lengths)
    lender, label = columns["borrowed_doc"].astype(np.int64), columns["next_sentence_label"]
    right: NDArray[np.bool_] = (lender < 0) & (label != 1)
    known = (lender >= 0) & (lender < shard.documents) & (lender != shard.owners(rows.numbers))
    known &= (columns["borrowed_offset"] >= 0) & (columns["borrowed_offset"] < shard.input_ids.size)
    some = np.flatnonzero(known & (label == 1) & (b > 0))
    begins, wanted = columns["borrowed_offset"][some].astype(np.int64), b[some]
    lent, given = shard.texts(lender[some], begins, wanted)
    whole = given == wanted
    some, wanted = some[whole], wanted[whole]
    lent = lent[np.repeat(whole, given)]
    width = shown.shape[1]
    differ = shown.reshape(-1)[ranges_of(some * width + middle[some], wanted)] != lent
    row = np.repeat(np.arange(len(some)), wanted)
    right[some] = np.bincount(row, weights=differ, minlength=len(some)) == 0
    return right


class _Halves(NamedTuple):
    """What each of N rows shows: (N,) int64 each."""

    a: NDArray[np.int64]
    """Tokens of the first half of the row as stored."""
    b: NDArray[np.int64]
    """Of the second; there may be none."""
    second: NDArray[np.int64]
    """Where it begins in the row."""
    swapped: NDArray[np.bool_]
    """Whether the second is shown first."""
    lent: NDArray[np.integer]
    """(T,) the tokens of second halves that are from elsewhere, row after row."""
    borrows: NDArray[np.bool_]


def _halves(rows: StoredRows, eos: int) -> _Halves:
    """Return the rows' own halves without EOS."""
    filled = lengths_without_eos(rows, eos)
    lengths = np.append(rows.segment_length, 0)[rows.segment_ptr[:-1]]
    second = np.where(np.diff(rows.segment_ptr) > 0, lengths, 0)
    no = np.zeros(len(filled), np.bool_)
    b = np.maximum(filled - second, 0)
    return _Halves(np.minimum(second, filled), b, second, no, np.empty(0, rows.input_ids.dtype), no)


def _borrow(rows: StoredRows, halves: _Halves, shard: WholeShard) -> tuple[_Halves, Columns]:
    """Return each row that has room for it a second half of another document."""
    assert rows.room is not None, "packed for another objective"
    draws = draw_u64(rows.key(PairTag.PARTNER), rows.numbers.astype(np.uint64))
    own, lenders = shard.owners(rows.numbers), shard.with_text
    place = np.searchsorted(lenders, own)
    lends_itself = np.append(lenders, -1)[place] == own
    others = len(lenders) - lends_itself
    borrows = (rows.room != 0) & (others > 0) & (halves.a > 0)
    some = np.flatnonzero(borrows)
    number = scale(draws[some, 0], others[some])
    number += lends_itself[some] & (number >= place[some])
    most = rows.input_ids.shape[1] - 1 - halves.a[some]
    lender = lenders[number]
    begin, count = _lent(shard, lender, draws[some, 1], room=rows.room[some], most=most)
    doc, offset = np.full(len(own), -1, np.int32), np.full(len(own), -1, np.int64)
    doc[some], offset[some] = lender, begin
    lent, given = shard.texts(lender, begin, count)
    b = halves.b.copy()
    b[some] = given
    labels = np.where(borrows, 1, np.where(b > 0, 0, IGNORED)).astype(np.int32)
    found = halves._replace(b=b, lent=lent, borrows=borrows)
    return found, {"next_sentence_label": labels, "borrowed_doc": doc, "borrowed_offset": offset}


def _lent(
    shard: WholeShard,
    lender: NDArray[np.int64],
    draws: NDArray[np.uint64],
    *,
    room: NDArray[np.integer],
    most: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each borrowed text begins and how many tokens it has: whole sentences, as all are.

    Were it cut where the row is full, a full row would tell that it is borrowed. A first sentence that
    is longer than the room is lent as far as the row holds it.
    """
    assert shard.sentences is not None, "packed for another objective"
    ptr, ends = shard.sentences.ptr, shard.sentences.values
    first, whole = ptr[lender], shard.lengths[lender] - 1  # the EOS is not shown
    sentence = scale(draws, ptr[lender + 1] - first)
    begin = np.where(sentence > 0, np.minimum(ends[first + sentence - 1], whole), 0)
    reach = shard.sentences_before(lender, np.minimum(begin + room, whole) + 1) - 1
    last = np.where(begin + room >= whole, ptr[lender + 1] - 1, reach)
    count = np.minimum(ends[np.maximum(last, first + sentence)], whole) - begin
    return begin, np.minimum(count, most)


def _swap(rows: StoredRows, halves: _Halves, config: SentenceOrder) -> tuple[_Halves, Columns]:
    """Let the halves of some rows change places."""
    draws = draw_u64(rows.key(PairTag.SWAP), rows.numbers.astype(np.uint64))[:, 0]
    swapped = below(draws, threshold(config.swap_rate)) & (halves.b > 0)
    labels = np.where(halves.b > 0, swapped, IGNORED).astype(np.int32)
    return halves._replace(swapped=swapped), {"sentence_order_label": labels}


def _show(
    halves: _Halves, rows: StoredRows, vocabulary: Vocabulary, *, width: int
) -> tuple[NDArray[np.integer], NDArray[np.uint8]]:
    """Return the rows before masks, and which half each token belongs to: (N, W) each."""
    a, b, second, swapped, lent, borrows = halves
    shown = np.full((len(a), width), vocabulary.named("pad"), rows.input_ids.dtype)
    front, back = np.where(swapped, b, a), np.where(swapped, a, b)
    middle = front + 2
    _move(rows.input_ids, shown, np.zeros(len(a), np.int64), np.where(swapped, middle, 1), a)
    place = np.where(swapped, 1, middle)
    _move(rows.input_ids, shown, second, place, np.where(borrows, 0, b))
    row = np.arange(len(a))
    shown.reshape(-1)[ranges_of((row * width + place)[borrows], b[borrows])] = lent
    closed = back > 0
    cls, sep = vocabulary.named("cls"), vocabulary.named("sep")
    shown[:, 0], shown[row, middle - 1] = cls, sep
    shown[row[closed], (middle + back)[closed]] = sep
    types = np.zeros(shown.shape, np.uint8)
    types.reshape(-1)[ranges_of((row * width + middle)[closed], back[closed] + 1)] = 1
    return shown, types


def _move(
    source: NDArray[np.integer],
    target: NDArray[np.integer],
    begins: NDArray[np.int64],
    places: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """Copy so many tokens from a place of each row to one of the same row of `target`."""
    row = np.arange(len(counts))
    tokens = source.reshape(-1)[ranges_of(row * source.shape[1] + begins, counts)]
    target.reshape(-1)[ranges_of(row * target.shape[1] + places, counts)] = tokens


def _split(columns: Columns, lengths: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the second half of each row begins and how many tokens it has: (N,) each.

    A row without CLS and SEP is taken for one of nothing.
    """
    types = columns["token_type_ids"]
    inside = np.arange(types.shape[1]) < lengths[:, None]
    middle = np.maximum(np.count_nonzero((types == 0) & inside, axis=1), ENDS - 1)
    return middle, np.maximum(lengths - 1 - middle, 0)
