"""SimCSE: two views of a text belong together, those of two texts do not.

    row          The quick brown fox jumps </s>

    identical    The quick brown fox jumps </s>      both views: what differs is the model's dropout
    cropped      quick brown fox jumps .     .       two thirds of the tokens, from a place of its own
                 brown fox jumps </s>  .     .       (. is padding)

    row          A man eats | He is eating | Nobody eats </s>     segments: the document's sections
    triples      A man eats   </s>                                a text
                 He is eating </s>                                what it entails
                 Nobody eats  </s>                                what contradicts it: a hard negative

A loss holds each first view against all second views of a batch: its labels are 0, 1, 2, .., which is
not for a row to say, so there is no such column. Pairs and triples are those of a source with
`section_columns`, each text closed by an EOS of its own. A document without them, or with a text that is
too long for a row, is shown as identical views are, an EOS at the end of each of its pieces, and has no
hard negative: that view is empty.

Cropped are all n tokens of a row, its EOS like the
others; a row of no token has empty views. Every draw is a function of (seed, epoch, shard, row, view v):

    crop         tag 25, block 0, u64[v]     begins at token floor(u (n - m + 1) / 2**64),
                                             m = ceil(crop_ratio n) tokens long

The product is one of IEEE doubles. Only crops are drawn. Identical views restore the row; cropped ones
need not hold all of it, and those of a source may stand for one text or for two that are the same, so
that `check_views` says instead whether they are pieces of it.

Source: Gao, Yao, Chen 2021, "SimCSE", sections 3 and 4, arXiv 2104.08821. We leave the paper in this:
texts are whatever a row holds, not sentences, and never cut off; crops are an option.
"""

from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from pydantic import Field

from stages.errors import FormatError
from stages.objectives.rows import Columns, StoredRows, Widths, lengths_without_eos
from stages.objectives.traits import Objective
from stages.objectives.vocabulary import Vocabulary
from stages.seeding import Tag, draw_u64

CROPS = 2
"""Views that are drawn of a row; a block holds a draw for each."""


class ViewTag(Tag):
    """What the draws of views are for."""

    CROP = 25
    """Where the views of a row begin."""


class SimCSE(Objective):
    """Contrastive learning of texts from two views of each."""

    kind: Literal["simcse"] = "simcse"
    """Names the objective."""
    views: Literal["identical", "cropped", "pairs", "triples"] = "identical"
    """`identical` shows the row twice, and `cropped` shows two pieces of it. `pairs` shows a text and
    another that belongs to it; `triples` also shows one that does not. For these two, the source has one
    or two `section_columns`."""
    crop_ratio: float = Field(0.75, ge=0.5, le=1.0)
    """Share of the tokens in each piece, rounded up. Only with `views = "cropped"`."""

    @property
    def from_source(self) -> bool:
        """Whether a source says what belongs together."""
        return self.views in ("pairs", "triples")

    @property
    def num_views(self) -> int:
        """V, views of a row."""
        return 3 if self.views == "triples" else 2


def widths_of_views(config: SimCSE, seq_len: int) -> Widths:
    """Return how many tokens rows hold, and views of `seq_len` tokens.

    triples of 32 -> stored 94, inputs 32
    """
    stored = config.num_views * (seq_len - 1) + 1 if config.from_source else seq_len
    return Widths(stored=stored, inputs=seq_len, labels=seq_len)


def make_views(rows: StoredRows, config: SimCSE, vocabulary: Vocabulary, widths: Widths) -> Columns:
    """Return the views of each row, plainly.

    Returns:
        `input_ids` (N, V, L) in the dtype of the rows and `input_length` (N, V) int32.

    Raises:
        FormatError: a row whose texts are too long for their views.
    """
    if config.from_source:
        return _show_sections(rows, config, vocabulary, widths)
    begins, lengths = crops(rows, config)
    shape = len(rows.input_ids), CROPS, widths.inputs
    input_ids = np.full(shape, vocabulary.named("pad"), rows.input_ids.dtype)
    for row, ids in enumerate(rows.input_ids):
        for view, begin in enumerate(begins[row]):
            input_ids[row, view, : lengths[row]] = ids[begin : begin + lengths[row]]
    return {"input_ids": input_ids, "input_length": np.stack([lengths] * CROPS, 1).astype(np.int32)}


def _show_sections(rows: StoredRows, config: SimCSE, vocabulary: Vocabulary, widths: Widths) -> Columns:
    """Return each row's segments, or its only one twice, each with an EOS behind it."""
    eos, starts = vocabulary.named("eos"), view_starts(rows, config, vocabulary, widths)
    shape = len(rows.input_ids), config.num_views, widths.inputs
    input_ids = np.full(shape, vocabulary.named("pad"), rows.input_ids.dtype)
    for row, ids in enumerate(rows.input_ids):
        for view, (first, last) in enumerate(starts[row].tolist()):
            if last > first:
                input_ids[row, view, : last - first + 1] = [*ids[first:last], eos]
    lengths = np.diff(starts, axis=2)[:, :, 0]
    return {"input_ids": input_ids, "input_length": (lengths + (lengths > 0)).astype(np.int32)}


def view_starts(
    rows: StoredRows, config: SimCSE, vocabulary: Vocabulary, widths: Widths
) -> NDArray[np.int64]:
    """Return where the text of each view begins and ends in its row: (N, V, 2), its EOS left out.

    Raises:
        FormatError: a row with another number of segments, or a text too long for its view.
    """
    count, counts = config.num_views, np.diff(rows.segment_ptr)
    wrong = np.flatnonzero((counts != count) & (counts > 1))
    if len(wrong):
        raise FormatError(
            f"row {rows.numbers[wrong[0]]:,}: {counts[wrong[0]]} texts, but {config.views} have {count},"
            " or a single one that is shown twice; the dataset is damaged"
        )
    found = np.zeros((len(counts), count, 2), np.int64)
    ends, body = np.cumsum(rows.segment_length), lengths_without_eos(rows, vocabulary.named("eos"))
    several, single = np.flatnonzero(counts == count), np.flatnonzero(counts == 1)
    segments = rows.segment_ptr[several][:, None] + np.arange(count)
    before = (ends - rows.segment_length)[segments[:, :1]]
    found[several, :, 1] = np.minimum(ends[segments] - before, body[several][:, None])
    found[several, 1:, 0] = (ends[segments] - before)[:, :-1]
    found[single[:, None], np.arange(CROPS), 1] = body[single][:, None]
    longest = np.diff(found, axis=2).max(axis=(1, 2), initial=0)
    if (longest >= widths.inputs).any():
        row = int(np.argmax(longest))
        raise FormatError(
            f"row {rows.numbers[row]:,}: a text of {longest[row]:,} tokens does not fit a view of"
            f" {widths.inputs:,} with its EOS; the dataset is damaged"
        )
    return found


def restore_simcse(
    columns: Columns, config: SimCSE, vocabulary: Vocabulary
) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Return (ids, lengths) of the rows, the first of two identical views: (N, L) padded with pad, (N,).

    Raises:
        FormatError: views are cropped.
    """
    del vocabulary
    if config.views != "identical":
        raise FormatError(
            f'views = "{config.views}": they need not tell the whole row, so it cannot be restored from'
            " them; hold them against the stored rows"
        )
    return columns["input_ids"][:, 0], columns["input_length"][:, 0].astype(np.int64)


def check_views(
    rows: StoredRows, columns: Columns, config: SimCSE, vocabulary: Vocabulary
) -> NDArray[np.bool_]:
    """Say of which rows the views are pieces, as long as they must be, and padded: (N,) bool."""
    if config.from_source:
        return _check_sections(rows, columns, vocabulary)
    _, lengths = crops(rows, config)
    filled, pad = rows.filled, vocabulary.named("pad")
    right = (columns["input_length"] == lengths[:, None]).all(axis=1)
    for row, length in enumerate(lengths.tolist()):
        windows = sliding_window_view(rows.input_ids[row, : filled[row]], length)
        for view in columns["input_ids"][row]:
            right[row] &= bool((windows == view[:length]).all(axis=1).any())
            right[row] &= bool((view[length:] == pad).all())
    return np.asarray(right)


def _check_sections(rows: StoredRows, columns: Columns, vocabulary: Vocabulary) -> NDArray[np.bool_]:
    """Say of which rows the views are its texts in order, or its only one twice: (N,) bool."""
    eos, pad = vocabulary.named("eos"), vocabulary.named("pad")
    right = np.ones(len(rows.input_ids), np.bool_)
    for row, views in enumerate(columns["input_ids"]):
        first, last = rows.segment_ptr[row : row + 2]
        ends = np.cumsum(rows.segment_length[first:last])[:-1]
        texts = np.split(rows.input_ids[row, : rows.filled[row]], ends)
        if len(texts[-1]) and texts[-1][-1] == eos:
            texts[-1] = texts[-1][:-1]
        shown = texts * CROPS if len(texts) == 1 else texts
        for view, length in enumerate(columns["input_length"][row].tolist()):
            text = shown[view] if view < len(shown) else texts[0][:0]
            wanted = [*text, eos] if len(text) else []
            right[row] &= views[view].tolist() == wanted + [pad] * (views.shape[1] - len(wanted))
            right[row] &= length == len(wanted)
    return right


def crops(rows: StoredRows, config: SimCSE) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the views of each row begin, (N, 2), and how many tokens each has, (N,)."""
    filled = rows.filled
    if config.views == "identical":
        return np.zeros((len(filled), CROPS), np.int64), filled
    lengths = np.ceil(config.crop_ratio * filled).astype(np.int64)
    draws = draw_u64(rows.key(ViewTag.CROP), rows.numbers.astype(np.uint64)).tolist()
    places = (filled - lengths + 1).tolist()
    begins = [[u * size >> 64 for u in pair] for pair, size in zip(draws, places, strict=True)]
    return np.array(begins, np.int64).reshape(-1, CROPS), lengths
