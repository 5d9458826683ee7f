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
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from stages.config import Config
from stages.objectives.clm import IGNORED
from stages.objectives.mlm import MaskedLM, mask_tokens, restore_mlm  # masks what is shown
from stages.objectives.rows import Columns, StoredRows, Widths, single_segments
from stages.objectives.vocabulary import Vocabulary
from stages.objectives.whole_shard import WholeShard
from stages.seeding import Tag, draw_u64, threshold

Mask = Callable[[StoredRows, MaskedLM, Vocabulary, Widths], Columns]
"""How masks are drawn: plainly or compiled."""
ENDS = 3
"""Tokens beside the text of a pair: CLS and two SEP."""
LEAST_PAIR = ENDS + 2
"""Tokens of the shortest row that holds a pair."""


class NextSentence(Config):
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


class SentenceOrder(Config):
    """Sentence order prediction, with masks."""

    kind: Literal["sop"] = "sop"
    """Names the objective."""
    swap_rate: float = Field(0.5, ge=0.0, le=1.0)
    """Share of the pairs that change places, in each epoch anew."""
    short_rate: float = Field(0.1, ge=0.0, le=1.0)
    """Share of the chunks that aim at a length of their own, from 2 tokens up."""
    mask: MaskedLM = MaskedLM()
    """The masks."""


SentencePairs = NextSentence | SentenceOrder


def pair_widths(seq_len: int) -> Widths:
    """Give how many tokens rows hold: stored, all but CLS and two SEP, and an EOS that is not shown."""
    return Widths(seq_len - ENDS + 1, seq_len, seq_len)


def label_name(config: SentencePairs) -> str:
    """Give the column that says whether a pair belongs together."""
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
    """Give the columns of pairs.

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
    halves = [_halves(rows, row, vocabulary.named("eos")) for row in range(len(rows.numbers))]
    extra: Columns
    if isinstance(config, NextSentence):
        halves, extra = _borrow(rows, halves, shard)
    else:
        halves, extra = _swap(rows, halves, config)
    shown, types = _show(halves, rows, vocabulary, width=widths.inputs)
    lengths = np.array([len(a) + len(b) + (ENDS if len(b) else 2) for a, b in halves], np.int64)
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
    """Give (ids, lengths) of the rows' own text without EOS: (N, L) padded with pad, (N,) int64."""
    shown, lengths = restore_mlm(columns, config.mask, vocabulary)
    clean = np.full(shown.shape, vocabulary.named("pad"), shown.dtype)
    kept = np.zeros(len(shown), np.int64)
    types, labels = columns["token_type_ids"], columns[label_name(config)]
    for row, length in enumerate(lengths.tolist()):
        a, b = _split(shown[row, :length], types[row, :length])
        if labels[row] == 1:
            a, b = (a, b[:0]) if isinstance(config, NextSentence) else (b, a)
        kept[row] = len(a) + len(b)
        clean[row, : kept[row]] = np.concatenate([a, b])
    return clean, kept


def check_borrowed(
    rows: StoredRows, columns: Columns, config: NextSentence, vocabulary: Vocabulary, shard: WholeShard
) -> NDArray[np.bool_]:
    """Say of which rows a borrowed half is another document's text and labelled so: (N,) bool."""
    shown, lengths = restore_mlm(columns, config.mask, vocabulary)
    right = np.ones(len(shown), np.bool_)
    for row, length in enumerate(lengths.tolist()):
        lender, begin = int(columns["borrowed_doc"][row]), int(columns["borrowed_offset"][row])
        if lender >= shard.documents:
            right[row] = False
            continue
        if lender < 0:
            right[row] = columns["next_sentence_label"][row] != 1
            continue
        _, half = _split(shown[row, :length], columns["token_type_ids"][row, :length])
        own = shard.segments["doc"][shard.segments["row_ptr"][rows.numbers[row]]]
        right[row] = (
            columns["next_sentence_label"][row] == 1
            and own != lender
            and len(half) > 0
            and np.array_equal(shard.tokens(lender, begin, len(half)), half)
        )
    return right


_Halves = tuple[NDArray[np.integer], NDArray[np.integer]]


def _halves(rows: StoredRows, row: int, eos: int) -> _Halves:
    """Give a row's own halves without EOS; the second may be empty."""
    lengths = rows.segment_length[rows.segment_ptr[row] : rows.segment_ptr[row + 1]]
    filled, first = int(lengths.sum()), int(lengths[0]) if len(lengths) else 0
    if filled and rows.input_ids[row, filled - 1] == eos:
        filled -= 1
    return rows.input_ids[row, : min(first, filled)], rows.input_ids[row, first:filled]


def _borrow(rows: StoredRows, halves: list[_Halves], shard: WholeShard) -> tuple[list[_Halves], Columns]:
    """Give each row that has room for it a second half of another document."""
    assert rows.room is not None, "packed for another objective"
    assert shard.sentences is not None, "packed for another objective"
    draws = draw_u64(rows.key(Tag.PARTNER), rows.numbers.astype(np.uint64)).tolist()
    lenders = shard.with_text
    found, doc, offset = [], np.full(len(halves), -1, np.int32), np.full(len(halves), -1, np.int64)
    labels = np.zeros(len(halves), np.int32)
    for row, (a, b) in enumerate(halves):
        room = int(rows.room[row])
        own = int(shard.segments["doc"][shard.segments["row_ptr"][rows.numbers[row]]])
        place = int(np.searchsorted(lenders, own))
        lends_itself = place < len(lenders) and lenders[place] == own
        others = len(lenders) - int(lends_itself)
        if not room or not others or not len(a):
            labels[row] = 0 if len(b) else IGNORED
            found.append((a, b))
            continue
        number = draws[row][0] * others >> 64
        lender = int(lenders[number + int(lends_itself and number >= place)])
        most = rows.input_ids.shape[1] - 1 - len(a)
        begin, count = _lent(shard, lender, draw=draws[row][1], room=room, most=most)
        doc[row], offset[row], labels[row] = lender, begin, 1
        found.append((a, shard.tokens(lender, begin, count)))
    return found, {"next_sentence_label": labels, "borrowed_doc": doc, "borrowed_offset": offset}


def _lent(shard: WholeShard, lender: int, *, draw: int, room: int, most: int) -> tuple[int, int]:
    """Give where a borrowed text begins and how many tokens it has: whole sentences, like all halves.

    Were it cut where the row is full, a full row would tell that it is borrowed. A first sentence that
    is longer than the room is lent as far as the row holds it.
    """
    assert shard.sentences is not None, "packed for another objective"
    ends = np.minimum(shard.sentences[lender], shard.lengths[lender] - 1)  # the EOS is not shown
    sentence = draw * len(ends) >> 64
    begin = int(ends[sentence - 1]) if sentence else 0
    last = int(np.searchsorted(ends, begin + room, side="right")) - 1
    count = int(ends[max(last, sentence)]) - begin
    return begin, min(count, most)


def _swap(
    rows: StoredRows, halves: list[_Halves], config: SentenceOrder
) -> tuple[list[_Halves], Columns]:
    """Let the halves of some rows change places."""
    draws = draw_u64(rows.key(Tag.SWAP), rows.numbers.astype(np.uint64))[:, 0].tolist()
    bound = threshold(config.swap_rate)
    labels = np.array(
        [
            (IGNORED if not len(b) else int(draw < bound))
            for (_, b), draw in zip(halves, draws, strict=True)
        ],
        np.int32,
    )
    found = [
        (b, a) if label == 1 else (a, b) for (a, b), label in zip(halves, labels.tolist(), strict=True)
    ]
    return found, {"sentence_order_label": labels}


def _show(
    halves: list[_Halves], rows: StoredRows, vocabulary: Vocabulary, *, width: int
) -> tuple[NDArray[np.integer], NDArray[np.uint8]]:
    """Give the rows before masks, and which half each token belongs to: (N, W) each."""
    shown = np.full((len(halves), width), vocabulary.named("pad"), rows.input_ids.dtype)
    types = np.zeros(shown.shape, np.uint8)
    cls, sep = vocabulary.named("cls"), vocabulary.named("sep")
    for row, (a, b) in enumerate(halves):
        middle = len(a) + 2
        shown[row, 0], shown[row, 1 : middle - 1], shown[row, middle - 1] = cls, a, sep
        if len(b):
            shown[row, middle : middle + len(b)], shown[row, middle + len(b)] = b, sep
            types[row, middle : middle + len(b) + 1] = 1
    return shown, types


def _split(shown: NDArray[np.integer], types: NDArray[np.integer]) -> _Halves:
    """Give the halves of one row without CLS, SEP and padding."""
    middle = int(np.count_nonzero(types == 0))
    return shown[1 : middle - 1], shown[middle:-1]
