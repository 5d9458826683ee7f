"""BART: restore a row of which spans are hidden, tokens deleted, or the beginning is moved.

    body               The quick brown fox jumps over
    infilling          The <mask> fox <mask> jumps over       quick brown is hidden; the second hides
    deletion           The <mask> fox <mask> over             nothing
    rotation           fox <mask> over The <mask>
    input_ids          <s> fox <mask> over The <mask> </s>
    labels             The quick brown fox jumps over </s>
    decoder_input_ids  .   The quick brown fox  jumps over    (. is the pad id)

The *body* of a row is its n tokens less an EOS at its end; inputs and labels get an EOS of their own.
The noises follow each other in the order above, each with a share or probability of its own; BOS and EOS
stay where they are, and deletion deletes no mask. W is the width of `input_ids`. An empty body gives
<s> </s> and no label. Special ids in a body are tokens like others. Infilling hides
B = ceil(mask_ratio n) tokens. Every draw is a function of (seed, epoch, shard, row); number i of a tag
is u64[i % 2] of block i // 2:

    lengths    tag 21, i         length of span i: how many of C_0 C_1 .. are at most the draw; spans are
                                 drawn until their sum reaches B, and the last is cut to end there
    places     tag 22, 0         the last span becomes number floor(u K / 2**64) of K; the others keep
                                 their order
               tag 22, 1 + i     K of the n - B + K places, for a mask each; kept tokens take the others
    deletion   tag 23, i         D = min(ceil(delete_ratio n), n - B) of the n - B kept tokens
    rotation   tag 24, 0         below T(rotate_probability): the X items are turned
               tag 24, 1         so that number floor(u X / 2**64) of them comes first

T(p) = floor(p 2**64); shares are multiplied in IEEE doubles before the ceiling. C_k =
floor(2**64 P(X <= k)) for X of Poisson's law, computed to 60 decimal digits from the exact value of the
double poisson_lambda; those below 2**64 - 1 count. A span of length 0 is a mask that hides nothing.
Those by which the inputs would pass W - 2 tokens, before deletion, are left out, the last drawn first;
without any, inputs always fit. Some of a number of places are chosen by Floyd's method: for i from 0,
j = places - wanted + i, take floor(u (j + 1) / 2**64), or j if that is taken. So every arrangement of
spans is as likely as any other; masks may be neighbours.

Source: Lewis et al. 2020, "BART", section 2.2, arXiv 1910.13461; Liu et al. 2020, "mBART", section 2.2,
arXiv 2001.08210. We leave the papers in this: spans never overlap, so that the budget is met exactly;
there is no BOS in the labels. Sentences are permuted by `stages.objectives.bart.permuted_sentences`.
"""

import math
from decimal import Context, Decimal
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from stages.objectives.rows import Columns, StoredRows, Widths, lengths_without_eos
from stages.objectives.seq2seq import Pair, columns_of, ids_without_ends, refuse_overflow
from stages.objectives.traits import Objective
from stages.objectives.vocabulary import Vocabulary
from stages.seeding import Tag, draw_u64, scale, threshold

ENDS = 2
"""Tokens that inputs have beside their body: BOS and EOS."""


_MBART = {"mask_ratio": 0.35, "poisson_lambda": 3.5, "permute_probability": 1.0}


class DenoisingTag(Tag):
    """What the draws of noises are for; those of permuted sentences have a tag of their own."""

    SPAN_LENGTH = 21
    """How many tokens each mask of an infilled row hides."""
    SPAN_PLACE = 22
    """Where its masks stand."""
    DELETION = 23
    """Which tokens are deleted."""
    ROTATION = 24
    """Whether a row is turned, and what comes first."""


class BART(Objective):
    """Denoising of rows."""

    kind: Literal["bart"] = "bart"
    """Names the objective."""
    preset: Literal["mbart"] | None = None
    """`mbart` sets keys that are not given to the values of its paper: mask_ratio 0.35, poisson_lambda
    3.5, permute_probability 1."""
    mask_ratio: float = Field(0.3, ge=0.0, le=1.0)
    """Share of the tokens that masks hide, rounded up."""
    poisson_lambda: float = Field(3.0, ge=0.5, le=64.0)
    """Mean length of what a mask hides, in tokens."""
    delete_ratio: float = Field(0.0, ge=0.0, le=1.0)
    """Share of the tokens that are deleted without a trace, rounded up."""
    rotate_probability: float = Field(0.0, ge=0.0, le=1.0)
    """Share of the rows that begin at another of their tokens."""
    permute_probability: float = Field(0.0, ge=0.0, le=1.0)
    """Share of the rows whose sentences get another order, before any other noise. Each epoch is then
    written to disk."""
    pack_rows: bool = False
    """Whether rows are packed and noised as a whole, across documents; else a row holds one piece of a
    document."""

    @model_validator(mode="before")
    @classmethod
    def _preset_sets_what_is_not_given(cls, content: object) -> object:
        if not isinstance(content, dict) or content.get("preset") != "mbart":
            return content
        return {**_MBART, **content}

    @model_validator(mode="after")
    def _noises_leave_something_to_do(self) -> "BART":
        if self.mask_ratio + self.delete_ratio > 1.0:
            raise ValueError(
                f"mask_ratio = {self.mask_ratio} and delete_ratio = {self.delete_ratio} must not pass 1"
                " together; lower one of them"
            )
        noises = self.mask_ratio, self.delete_ratio, self.rotate_probability, self.permute_probability
        if not any(noises):
            raise ValueError(
                "mask_ratio, delete_ratio, rotate_probability and permute_probability are all 0, so"
                " inputs would show what is asked for; set one above 0"
            )
        return self


def widths_bart(config: BART, seq_len: int) -> Widths:
    """Return how many tokens rows hold: inputs of `seq_len`, a stored row without their BOS and EOS.

    A stored row of nothing but body still fits, whatever is drawn, and has one EOS more as labels.
    """
    del config
    return Widths(seq_len - ENDS, seq_len, seq_len - 1)


def add_noise(rows: StoredRows, config: BART, vocabulary: Vocabulary, widths: Widths) -> Columns:
    """Return the columns of rows with noise, plainly; `seq2seq.columns_of` says which.

    Raises:
        FormatError: a row does not fit, or the tokenizer has no mask or BOS.
    """
    bos, eos, mask = (vocabulary.named(name) for name in ("bos", "eos", "mask"))
    lengths = lengths_without_eos(rows, eos)
    refuse_overflow(lengths + ENDS, lengths + 1, widths=widths, numbers=rows.numbers)

    def pair(row: int, length: int) -> Pair:
        body = rows.input_ids[row, :length].astype(np.int64)
        spans = span_lengths(rows, row, length, config=config, widths=widths)
        items = _noise(rows, row, body, spans, config=config, mask=mask)
        targets = np.append(body, eos) if length else body
        return np.concatenate([[bos], items, [eos]]), targets

    pairs = [pair(row, length) for row, length in enumerate(lengths.tolist())]
    return columns_of(pairs, dtype=rows.input_ids.dtype, widths=widths, vocabulary=vocabulary)


def restore_bart(
    columns: Columns, config: BART, vocabulary: Vocabulary
) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Return (ids, lengths) of the bodies of rows, from their labels: (N, L) padded with pad, (N,)."""
    del config
    labels = columns["labels"].astype(np.int64)
    inside = ids_without_ends(labels, columns["label_length"], eos=vocabulary.named("eos"))
    clean = np.where(inside, labels, vocabulary.named("pad")).astype(columns["input_ids"].dtype)
    return clean, np.count_nonzero(inside, axis=1).astype(np.int64)


def budget(ratio: float, length: int) -> int:
    """Return a share of so many tokens, rounded up.

    (0.3, 10) -> 3; (0.3, 11) -> 4; (0.3, 0) -> 0
    """
    return math.ceil(ratio * length)


@cache
def poisson_thresholds(mean: float) -> tuple[int, ...]:
    """Return floor(2**64 P(X <= k)) for k = 0, 1, .. while below 2**64 - 1, X of Poisson's law.

    Decimals are the same everywhere; exp of a double is not. 3.0 -> 29 numbers, from 918409308362266468
    """
    context = Context(prec=60)
    exact = Decimal(mean)
    term = context.exp(exact.copy_negate())
    total, found = term, [int(context.multiply(term, Decimal(2**64)))]
    while found[-1] < 2**64 - 1:
        term = context.divide(context.multiply(term, exact), Decimal(len(found)))
        total = context.add(total, term)
        found.append(int(context.multiply(total, Decimal(2**64))))
    return tuple(found[:-1])


def span_lengths(
    rows: StoredRows, row: int, length: int, *, config: BART, widths: Widths
) -> NDArray[np.int64]:
    """Return how many tokens each mask of a row hides, from left to right: (K,).

    Args:
        rows: the rows as stored.
        row: which of them.
        length: of its body.
        config: the objective.
        widths: of the dataset; inputs are never wider.
    """
    hidden = budget(config.mask_ratio, length)
    if hidden == 0:
        return np.empty(0, np.int64)
    table = np.array(poisson_thresholds(config.poisson_lambda), np.uint64)
    count, lengths = 0, np.zeros(1, np.int64)
    while lengths.sum() < hidden:
        count += hidden
        draws = _draws(rows, row, DenoisingTag.SPAN_LENGTH, count)
        lengths = np.searchsorted(table, draws, side="right").astype(np.int64)
    ends = np.cumsum(lengths)
    last = int(np.argmax(ends >= hidden))
    lengths = lengths[: last + 1]
    lengths[last] -= ends[last] - hidden
    insertions = widths.inputs - ENDS - (length - hidden) - np.count_nonzero(lengths)
    lengths = lengths[(lengths > 0) | (np.cumsum(lengths == 0) <= insertions)]
    place = scale(_draws(rows, row, DenoisingTag.SPAN_PLACE, 1), len(lengths))[0]
    return np.insert(lengths[:-1], place, lengths[-1])


def _noise(
    rows: StoredRows,
    row: int,
    body: NDArray[np.int64],
    spans: NDArray[np.int64],
    *,
    config: BART,
    mask: int,
) -> NDArray[np.int64]:
    """Return the tokens and masks of one row between BOS and EOS."""
    hidden, count = int(spans.sum()), len(spans)
    draws = _draws(rows, row, DenoisingTag.SPAN_PLACE, 1 + count)[1:]
    is_mask = _choose(draws, len(body) - hidden + count)
    ends = np.flatnonzero(is_mask) - np.arange(count) + np.cumsum(spans)
    shown = np.ones(len(body), np.bool_)
    for end, span in zip(ends, spans, strict=True):
        shown[end - span : end] = False
    items = np.full(len(is_mask), mask)
    items[~is_mask] = body[shown]
    kept = len(body) - hidden
    deleted = min(budget(config.delete_ratio, len(body)), kept)
    lost = _choose(_draws(rows, row, DenoisingTag.DELETION, deleted), kept)
    items = np.delete(items, np.flatnonzero(~is_mask)[lost])
    turn, start = _draws(rows, row, DenoisingTag.ROTATION, 2)
    if int(turn) < threshold(config.rotate_probability) and len(items):
        items = np.roll(items, -scale(start[None], len(items))[0])
    return items


def _draws(rows: StoredRows, row: int, tag: Tag, count: int) -> NDArray[np.uint64]:
    """Return the first draws of a row's stream: (count,)."""
    blocks = np.arange((count + 1) // 2, dtype=np.uint64)
    numbers = np.full(len(blocks), rows.numbers[row], np.uint64)
    return draw_u64(rows.key(tag), numbers, block=blocks).ravel()[:count]


def _choose(draws: NDArray[np.uint64], size: int) -> NDArray[np.bool_]:
    """Choose as many of `size` places as there are draws: (size,) bool, every choice as likely.

    Source: Bentley and Floyd 1987, "A sample of brilliance".
    """
    chosen = np.zeros(size, np.bool_)
    for last, draw in enumerate(draws.tolist(), size - len(draws)):
        place = draw * (last + 1) >> 64
        chosen[last if chosen[place] else place] = True
    return chosen
