"""Span corruption: put sentinels in the place of spans, and say what stood there.

    tokens       The quick brown fox jumps over
    noise         .    #     #    .    .    #        two spans, the last at the end
    inputs       The <X> fox jumps <Y> </s>
    targets      <X> quick brown <Y> over </s>
    labels       the targets, -100 on padding         (seq2seq.py: the other columns)

The body of a row, its n tokens less an EOS at its end, is text and noise in turns: b_1 a_1 ... b_K a_K,
where the a are spans of noise, N tokens together, and the b are the n - N tokens of text. So it begins
with text and ends in noise, and no sentinel closes the targets. Sentinels come in the tokenizer's order.

    N   min(max(R(n noise_density), 1), n - 1)
    K   min(max(R(N / mean_noise_span_length), 1), N, n - N)

R rounds to the nearest integer, halves to the even one, of a product or quotient in IEEE double. Only
short bodies, and densities at the bound that the config allows, reach N or n - N in the second line.
Which spans, is drawn when rows are read, another draw for each epoch, by (seed, epoch, shard, row):

    lengths of a   tag 10: K - 1 of the cuts 1 .. N - 1
    lengths of b   tag 11: K - 1 of the cuts 1 .. n - N - 1

Cut c parts token c - 1 from token c. All choices of m = K - 1 cuts of M are equally likely: for i = 0 ..
m - 1, in turn, let j = M - m + 1 + i and t = 1 + floor(u_i j / 2**64); cut t is added, or cut j if t is
there already. u_i is draw i of the row's stream: u64[i % 2] of block i // 2. No choice is likelier than
another by more than M 2**-64 in relation. With K = 1 (n up to 30 at the defaults) nothing is drawn: the
last N tokens are the span. A body of fewer than two tokens gives its tokens as inputs and no label.

Source: Raffel et al. 2020, section 3.1.4 (arXiv 1910.10683), with the lengths of its code
(`random_spans_noise_mask`, `random_spans_helper` of t5.data.preprocessors), which rounds in float32. The
choice of cuts: Bentley and Floyd 1987, "A sample of brilliance", CACM 30(9). We leave that code in this:
spans beyond the sentinels are refused (there they become ordinary ids); noise never stands first.
"""

from bisect import bisect_right
from math import ceil, floor
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from stages.errors import ConfigError, FormatError
from stages.objectives.rows import Columns, StoredRows, Widths, lengths_without_eos
from stages.objectives.seq2seq import (
    Pair,
    columns_of,
    ids_without_ends,
    refuse_overflow,
    rows_in_order,
)
from stages.objectives.traits import Objective
from stages.objectives.vocabulary import Vocabulary
from stages.seeding import Tag, draw_u64, scale

ModeToken = Literal["mode_r", "mode_x", "mode_s"]
_HALF, _ROUNDING = 0.5, 1e-9
_MAX_BODY = 1 << 24
_SMALLEST = 2
"""Tokens of the shortest body that can be text and noise."""


class SpanTag(Tag):
    """What the draws of spans are for."""

    NOISE_CUTS = 10
    """Where corrupted tokens are cut into spans."""
    TEXT_CUTS = 11
    """Where the tokens between the spans are cut."""


class SpanCorruption(Objective):
    """Span corruption, as T5 has it."""

    kind: Literal["span_corruption"] = "span_corruption"
    """Names the objective."""
    noise_density: float = Field(0.15, gt=0.0, lt=1.0)
    """Share of the tokens that are in spans."""
    mean_noise_span_length: float = Field(3.0, ge=1.0)
    """Mean length of a span, in tokens."""
    mode_token: ModeToken | None = None
    """Put before the inputs; none by default."""
    pack_rows: bool = False
    """Corrupt packed rows, which hold several documents. Without it, each document has its own rows."""

    @model_validator(mode="after")
    def _text_separates_spans(self) -> "SpanCorruption":
        density, mean = self.noise_density, self.mean_noise_span_length
        if density / mean > 1.0 - density + _ROUNDING:
            lower = floor(1e3 * mean / (mean + 1.0)) / 1e3
            longer = ceil(1e3 * density / (1.0 - density) - _ROUNDING) / 1e3
            raise ValueError(
                f"noise_density = {density} and mean_noise_span_length = {mean}: text must stand before"
                f" each span, so a token can have {1.0 - density:.3g} spans, not {density / mean:.3g};"
                f" lower the density to {lower:g}, or raise the length to {longer:g}"
            )
        return self


def noise_spans(
    n: NDArray[np.int64], config: SpanCorruption
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (N, K) for each body length: tokens in spans, and spans; 0 for fewer than two tokens.

    [1 2 30 568] -> [0 1 4 85], [0 1 1 28]
    """
    wanted = np.rint(n * config.noise_density).astype(np.int64)
    noise = np.maximum(np.minimum(np.maximum(wanted, 1), n - 1), 0)
    spans = np.maximum(np.rint(noise / config.mean_noise_span_length).astype(np.int64), 1)
    return noise, np.minimum(np.minimum(spans, noise), n - noise)


def corrupted_lengths(
    n: NDArray[np.int64], config: SpanCorruption
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return tokens of (inputs, targets) for each body length; neither ever shrinks as n grows."""
    return _lengths(n, *noise_spans(n, config), config)


def _lengths(
    n: NDArray[np.int64], noise: NDArray[np.int64], spans: NDArray[np.int64], config: SpanCorruption
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    closing = 2 if config.mode_token else 1
    return n - noise + spans + closing, noise + spans + (noise > 0)


def span_lengths(config: SpanCorruption, seq_len: int, target_len: int | None = None) -> Widths:
    """Return the widths for inputs of `seq_len` tokens: rows as long as can be.

    noise_density 0.15 of 512 -> stored 568, inputs 512, labels 114

    Any row of `stored` tokens fits, whether it ends in an EOS (which is none of its body) or not.

    Args:
        config: the objective.
        seq_len: tokens of inputs, their EOS and mode token included.
        target_len: bound on the targets' tokens; None allows `seq_len` up to a density of 0.5, where
            targets would else pass the inputs by one token, and any length above.

    Raises:
        ConfigError: not even a body of two tokens fits.
    """
    even = config.noise_density <= _HALF
    bound = seq_len if target_len is None and even else target_len

    def exceeds(n: int) -> bool:
        inputs, targets = corrupted_lengths(np.array([n]), config)
        return bool(inputs[0] > seq_len or (bound is not None and targets[0] > bound))

    body = bisect_right(range(_MAX_BODY), 0, key=exceeds) - 1
    if body < _SMALLEST:
        raise ConfigError(
            f"seq_len = {seq_len:,}: inputs and targets of span corruption take at least"
            f" {3 + (config.mode_token is not None)} and 3 tokens, sentinel and EOS included; raise it"
        )
    _, targets = corrupted_lengths(np.array([body]), config)
    return Widths(stored=body, inputs=seq_len, labels=int(targets[0]))


def max_spans(config: SpanCorruption, seq_len: int) -> int:
    """Return how many spans the longest row has: the sentinels it needs."""
    _, spans = noise_spans(np.array([span_lengths(config, seq_len).stored]), config)
    return int(spans[0])


def refuse_sentinels(config: SpanCorruption, seq_len: int, num_sentinels: int) -> None:
    """Refuse rows with more spans than the tokenizer has sentinels.

    Raises:
        ConfigError: says how many spans there are, and what fits.
    """
    needed = max_spans(config, seq_len)
    if needed <= num_sentinels:
        return
    least = 4
    fits = bisect_right(range(least, seq_len), num_sentinels, key=lambda n: max_spans(config, n))
    raise ConfigError(
        f"seq_len = {seq_len:,}: rows of span corruption with noise_density = {config.noise_density} and"
        f" mean_noise_span_length = {config.mean_noise_span_length} have up to {needed:,} spans, the"
        f" tokenizer has {num_sentinels:,} sentinels; lower it to {least + fits - 1:,}, or raise"
        " mean_noise_span_length"
    )


def spans_of_rows(
    rows: StoredRows, config: SpanCorruption, vocabulary: Vocabulary, widths: Widths
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return (n, N, K) of each row, all (N,) int64.

    Raises:
        FormatError: a row that does not fit its columns, or has more spans than there are sentinels.
    """
    n = lengths_without_eos(rows, vocabulary.named("eos"))
    noise, spans = noise_spans(n, config)
    inputs, targets = _lengths(n, noise, spans, config)
    refuse_overflow(inputs, targets, widths=widths, numbers=rows.numbers)
    most = int(spans.max(initial=0))
    if most > len(vocabulary.sentinels):
        raise FormatError(
            f"special_ids: {len(vocabulary.sentinels):,} sentinels, but a row has {most:,} spans; the"
            " rows need a tokenizer with as many"
        )
    return n, noise, spans


def composition(draws: NDArray[np.uint64], total: int, parts: int) -> NDArray[np.int64]:
    """Cut `total` tokens into positive parts, all ways equally likely.

    total 5, parts 3, cuts 1 and 3 -> 1 2 2

    Args:
        draws: (parts - 1,) uint64, uniform.
        total: tokens.
        parts: at most `total`.
    """
    cuts: set[int] = set()
    for number in range(parts - 1):
        highest = total - parts + 1 + number
        cut = 1 + int(scale(draws[number : number + 1], highest)[0])
        cuts.add(highest if cut in cuts else cut)
    return np.diff([0, *sorted(cuts), total])


def corrupt_spans(
    rows: StoredRows, config: SpanCorruption, vocabulary: Vocabulary, widths: Widths
) -> Columns:
    """Return the columns of an encoder-decoder (`seq2seq.columns_of`) for rows as they are stored.

    Raises:
        FormatError: a row that does not fit its columns, or has more spans than there are sentinels.
    """
    lengths = zip(*spans_of_rows(rows, config, vocabulary, widths), strict=True)
    pairs = [_corrupt(rows, row, each, config, vocabulary) for row, each in enumerate(lengths)]
    return columns_of(pairs, dtype=rows.input_ids.dtype, widths=widths, vocabulary=vocabulary)


def _corrupt(
    rows: StoredRows,
    row: int,
    lengths: tuple[int, int, int],
    config: SpanCorruption,
    vocabulary: Vocabulary,
) -> Pair:
    """Return inputs and targets of one row of (n, N, K)."""
    n, noise, spans = lengths
    body = rows.input_ids[row, :n].astype(np.int64)
    eos = [vocabulary.named("eos")]
    first = [vocabulary.named(config.mode_token)] if config.mode_token else []
    if spans == 0:
        return np.concatenate([first, body, eos]).astype(np.int64), np.empty(0, np.int64)
    hidden = composition(_draws(rows, row, SpanTag.NOISE_CUTS, spans - 1), noise, spans)
    shown = composition(_draws(rows, row, SpanTag.TEXT_CUTS, spans - 1), n - noise, spans)
    inputs, targets = first, []
    place = 0
    for text, span, sentinel in zip(shown, hidden, vocabulary.sentinels, strict=False):
        inputs += [*body[place : place + text], sentinel]
        targets += [sentinel, *body[place + text : place + text + span]]
        place += text + span
    return np.array([*inputs, *eos], np.int64), np.array([*targets, *eos], np.int64)


def _draws(rows: StoredRows, row: int, tag: Tag, count: int) -> NDArray[np.uint64]:
    """Return the first draws of one row's stream."""
    blocks = np.arange((count + 1) // 2, dtype=np.uint64)
    numbers = np.full(len(blocks), rows.numbers[row], np.uint64)
    return draw_u64(rows.key(tag), numbers, block=blocks).ravel()[:count]


def restore_span_corruption(
    columns: Columns, config: SpanCorruption, vocabulary: Vocabulary
) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Return the bodies of the rows back: each span of the targets in the place of its sentinel.

    A row whose sentinels are not 1, 2, .. K in both columns gives another body than the stored one: the
    sentinels that do not belong there stay in it.

    Returns:
        (N, W) ids, padded, and (N,) int64 lengths; an EOS that ended a stored row is not among them.
    """
    eos = vocabulary.named("eos")
    first = vocabulary.named(config.mode_token) if config.mode_token else None
    ids = columns["input_ids"].astype(np.int32), columns["labels"]
    inputs = ids_without_ends(ids[0], columns["input_length"], eos=eos, first=first)
    targets = ids_without_ends(ids[1], columns["label_length"], eos=eos)
    markers = _markers(ids[0], inputs, vocabulary), _markers(ids[1], targets, vocabulary)
    same = markers[0].sum(axis=1) == markers[1].sum(axis=1)
    values, counts, order = [], [], []
    for side, inside, marker, late in zip(ids, (inputs, targets), markers, (0, 1), strict=True):
        spans = marker & same[:, None]
        kept = inside & ~spans
        values.append(side[kept])
        counts.append(np.count_nonzero(kept, axis=1))
        # b_k stands after k - 1 sentinels of the inputs, a_k after k of the targets
        order.append(np.maximum(2 * np.cumsum(spans, axis=1, dtype=np.int32)[kept] - late, 0))
    return rows_in_order(
        np.concatenate(values).astype(columns["input_ids"].dtype),
        np.array(counts),
        np.concatenate(order),
        pad=vocabulary.named("pad"),
    )


def _markers(
    ids: NDArray[np.integer], inside: NDArray[np.bool_], vocabulary: Vocabulary
) -> NDArray[np.bool_]:
    """Say which positions hold sentinel k as the k-th sentinel of their row: (N, W) bool."""
    number = np.zeros(vocabulary.size, np.int32)
    number[vocabulary.sentinels] = np.arange(1, len(vocabulary.sentinels) + 1)
    found = np.where(inside, number.take(ids, mode="clip"), 0)
    count = np.cumsum(found > 0, axis=1, dtype=np.int32)
    marker: NDArray[np.bool_] = (found > 0) & (found == count)
    return marker
