"""Fill in the middle, cut between characters: cuts fall within words, as they do in an editor.

    text             def add(a, b):              n = 14 characters
    cuts                 ad|d(a, b|):            c1 = 6, c2 = 12
    A, B, C          "def ad" "d(a, b" "):"      each encoded by itself
    PSM              <PRE> A <SUF> C <MID> B </s>
    SPM              <PRE> <SUF> C <MID> A B </s>

The text is what a segment's ids decode to, without its EOS; the parts decode to that text again, byte
for byte, but their ids may be others and more than it had. Each segment has room for `GROWTH` more; one
that would need more stays plain, and so does an empty one. Where a long document was cut into rows
between the bytes of a character, those bytes stay tokens of their own at the outer ends of A and C; a
segment stays plain if one of its tokens has such bytes and others. A character is a code point.

Rates are those of the document's source. Draws are functions of (seed, epoch, shard, document of the
shard, segment s of the document, counted from 0):

    eligible   tag 28, block 0, u64[0]    below T(document_fraction), in the stream of epoch 0
    fim        tag 27, block 2 s, u64[0]  below T(fim_rate): transformed, else plain
    spm        tag 27, block 2 s, u64[1]  below T(fim_spm_rate): SPM, else PSM
    cuts       tag 27, block 2 s + 1      floor(u64[i] (n + 1) / 2**64) for i = 0, 1; the lesser is c1

Source: as `fim.config`; the units are the paper's context and document level. We leave it in this: of
documents, only those that lie in one row as a whole are transformed, for a middle in another
row than its prefix could not be filled in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.objectives.fim.config import FIM, blank_columns, fim_ids, restored_segments
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths
from stages.objectives.vocabulary import Vocabulary
from stages.objectives.whole_shard import WholeShard
from stages.pieces import Pieces, pieces_of
from stages.ragged import ranges_of
from stages.seeding import Key, Tag, below, draw_u64, threshold

GROWTH = 11
"""Tokens by which a segment may grow: three special ids, and what two cuts may break tokens into. Of
28,000 segments in hundreds of languages none needed more than 10; of those of 249 million tokens, 3
had no room."""
_CONTINUATION = range(0x80, 0xC0)
"""Bytes that begin no character."""
_LONGEST = 4
"""Bytes of the longest character."""

Encode = Callable[[Sequence[str]], list[NDArray[np.integer]]]
"""Returns the ids of texts, as they are."""


class CharacterTag(Tag):
    """What the draws between characters are for."""

    SEGMENTS = 27
    """Which segments are transformed to fill in the middle, how, cut between which characters."""
    ELIGIBLE = 28
    """Which documents are ever transformed."""


@dataclass(frozen=True)
class Spelling:
    """What ids and text have to do with each other."""

    pieces: Sequence[bytes]
    """What each id decodes to."""
    encode: Encode


@dataclass(frozen=True)
class _ChosenSegment:
    """One segment that is to be transformed, as the parts that are encoded."""

    segment: int
    suffix_first: bool
    parts: tuple[str, str, str]
    """A, B, C."""
    head: NDArray[np.integer]
    """Tokens before A that are the end of a character."""
    tail: NDArray[np.integer]
    """Tokens behind C that are the beginning of one."""
    apart: bool
    """Whether no token has bytes of these and of the text."""


def fill_in_text(
    rows: StoredRows,
    config: FIM,
    vocabulary: Vocabulary,
    widths: Widths,
    *,
    shard: WholeShard,
    spelling: Spelling,
) -> Columns:
    """Return the columns of `stages.objectives.fim.config.fill_in_middle`, and `plain` (N,) int32.

    `plain` counts the segments of a row that were to be transformed and had no room for it, or could
    not be cut between tokens.
    """
    ids = fim_ids(vocabulary)
    segments = _segments(rows, ids)
    chosen = _choose(rows, segments, config, ids=ids, shard=shard, pieces=pieces_of(spelling.pieces))
    encoded = iter(spelling.encode([part for one in chosen for part in one.parts]))
    flat = rows.input_ids.reshape(-1)
    bounds = zip(segments.begin.tolist(), (segments.begin + segments.length).tolist(), strict=True)
    stored = [flat[begin:end] for begin, end in bounds]
    parts: list[list[NDArray[np.integer]]] = [[tokens] for tokens in stored]
    made, crowded = np.zeros(len(parts), np.bool_), np.zeros(len(parts), np.bool_)
    hidden = np.zeros(len(parts), np.int64)  # tokens before each middle
    for one in chosen:
        shown = _arrange(one, [next(encoded) for _ in one.parts], stored[one.segment], ids)
        roomy = one.apart and sum(map(len, shown)) <= len(stored[one.segment]) + GROWTH
        (made if roomy else crowded)[one.segment] = True
        if roomy:
            parts[one.segment], hidden[one.segment] = shown, sum(map(len, shown[:-2]))
    tokens = np.concatenate([np.empty(0, flat.dtype), *(part for shown in parts for part in shown)])
    lengths = np.array([sum(map(len, shown)) for shown in parts], np.int64)
    columns = _lay(rows, tokens, lengths, vocabulary, widths)
    silent = np.zeros(len(tokens), np.bool_)
    if config.loss == "middle":
        silent = ranges_of(np.zeros_like(lengths), lengths) < np.repeat(hidden, lengths)
    elif not config.train_on_sentinels:
        silent = np.repeat(made, lengths) & np.isin(tokens, ids[:3])
    labels = tokens.astype(np.int32)
    labels[silent] = IGNORED
    columns["labels"][columns["segment_ids"] >= 0] = labels
    counts = np.concatenate([[0], np.cumsum(crowded)])
    return {**columns, "plain": np.diff(counts[rows.segment_ptr]).astype(np.int32)}


def _lay(
    rows: StoredRows,
    tokens: NDArray[np.integer],
    lengths: NDArray[np.int64],
    vocabulary: Vocabulary,
    widths: Widths,
) -> Columns:
    """Return the columns of segments, (T,) tokens end to end, that stand where the rows' do."""
    columns = dict(blank_columns(rows, vocabulary, widths))
    owner = np.repeat(np.arange(len(rows.numbers)), np.diff(rows.segment_ptr))
    filled = np.bincount(owner, weights=lengths, minlength=len(rows.numbers)).astype(np.int64)
    inside = np.arange(widths.inputs) < filled[:, None]
    columns["input_ids"][inside] = tokens
    columns["labels"][inside] = tokens
    columns["segment_ids"][inside] = np.repeat(
        ranges_of(np.zeros_like(filled), np.diff(rows.segment_ptr)), lengths
    )
    columns["position_ids"][inside] = ranges_of(np.zeros_like(lengths), lengths)
    return columns


def check_text(
    rows: StoredRows, columns: Columns, vocabulary: Vocabulary, pieces: Sequence[bytes]
) -> NDArray[np.bool_]:
    """Say of which rows each segment, put together again, decodes to what is stored: (N,) bool."""
    ids, known = fim_ids(vocabulary), pieces_of(pieces)
    shown = columns["input_ids"]
    right = np.asarray(((shown >= 0) & (shown < len(known))).all(axis=1))
    some = np.flatnonzero(right)
    part = rows.take(some)
    row, lengths, tokens = restored_segments(shown[some], columns["segment_ids"][some], ids)
    wanted = part.input_ids[part.covered]
    counts = np.diff(part.segment_ptr)
    alike = np.bincount(row, minlength=len(some)) == counts
    alike_of_segment, stored = alike[row], np.repeat(alike, counts)  # segments of rows that have as many
    a = tokens[np.repeat(alike_of_segment, lengths)], lengths[alike_of_segment]
    b = wanted[np.repeat(stored, part.segment_length)], part.segment_length[stored]
    wrong = ~_same_text(*a, *b, ids=ids, pieces=known)
    alike &= np.bincount(row[alike_of_segment], weights=wrong, minlength=len(some)) == 0
    right[some] = alike
    return right


def _same_text(
    tokens: NDArray[np.integer],
    lengths: NDArray[np.int64],
    wanted: NDArray[np.integer],
    wanted_lengths: NDArray[np.int64],
    *,
    ids: NDArray[np.int64],
    pieces: Pieces,
) -> NDArray[np.bool_]:
    """Say which of S segments decode to the text of others, and end in an EOS if those do: (S,) bool.

    Args:
        tokens: (T,) end to end.
        lengths: (S,) of the segments.
        wanted: (U,) those of the others.
        wanted_lengths: (S,).
        ids: of `fim_ids`.
        pieces: what each id decodes to.
    """
    found, bytes_ = _spelled(tokens, lengths, pieces)
    stored, wanted_bytes = _spelled(wanted, wanted_lengths, pieces)
    same: NDArray[np.bool_] = bytes_ == wanted_bytes
    differ = found[np.repeat(same, bytes_)] != stored[np.repeat(same, wanted_bytes)]
    owner = np.repeat(np.arange(len(same)), np.where(same, bytes_, 0))
    same &= np.bincount(owner[differ], minlength=len(same)) == 0
    same &= _closed(tokens, lengths, ids) == _closed(wanted, wanted_lengths, ids)
    return same


def _spelled(
    tokens: NDArray[np.integer], lengths: NDArray[np.int64], pieces: Pieces
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of segments end to end, and how many each has: (S,)."""
    ends = np.concatenate([[0], np.cumsum(pieces.sizes[tokens])])
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    return pieces.spell(tokens), np.diff(ends[bounds])


def _closed(
    tokens: NDArray[np.integer], lengths: NDArray[np.int64], ids: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Say which segments, (T,) end to end, have an EOS at their end: (S,) bool."""
    last = np.append(tokens, -1)[np.cumsum(lengths) - 1]
    closed: NDArray[np.bool_] = (lengths > 0) & (last == ids[3])
    return closed


class _Segments(NamedTuple):
    """The S segments of some rows: (S,) each."""

    begin: NDArray[np.int64]
    """Where in all the rows, end to end."""
    length: NDArray[np.int64]
    body: NDArray[np.int64]
    """Tokens before an EOS at its end."""


def _segments(rows: StoredRows, ids: NDArray[np.int64]) -> _Segments:
    length = rows.segment_length
    before = np.cumsum(length) - length
    row = np.repeat(np.arange(len(rows.numbers)), np.diff(rows.segment_ptr))
    begin = row * rows.input_ids.shape[1] + before - before[rows.segment_ptr[row]]
    last = rows.input_ids.reshape(-1)[np.maximum(begin + length - 1, 0)]
    return _Segments(begin, length, length - ((length > 0) & (last == ids[3])))


def _choose(
    rows: StoredRows,
    segments: _Segments,
    config: FIM,
    *,
    ids: NDArray[np.int64],
    shard: WholeShard,
    pieces: Pieces,
) -> list[_ChosenSegment]:
    """Return the segments that are to be transformed, cut."""
    numbers = shard.segments_in(rows.numbers)
    doc = np.asarray(shard.segments["doc"][numbers], np.int64)
    key, document = rows.key(CharacterTag.SEGMENTS), doc.astype(np.uint64)
    block = 2 * shard.ordinals[numbers].astype(np.uint64)
    first = draw_u64(key, document, block=block)
    cuts = draw_u64(key, document, block=block + np.uint64(1))
    always = Key(rows.seed, 0, rows.shard, CharacterTag.ELIGIBLE)
    eligible = below(draw_u64(always, document)[:, 0], threshold(config.document_fraction))
    eligible &= _drawn(first[:, 0], doc, config, shard, rate="fim_rate")
    suffix_first = _drawn(first[:, 1], doc, config, shard, rate="fim_spm_rate")
    if config.unit == "document":
        eligible &= shard.segment_counts[doc] == 1
    flat = rows.input_ids.reshape(-1)
    special = np.concatenate([[0], np.cumsum(np.isin(flat, ids))])
    eligible &= special[segments.begin + segments.body] == special[segments.begin]
    some = np.flatnonzero(eligible)
    begins, bodies = segments.begin[some], segments.body[some]
    data, sizes = _spelled(flat[ranges_of(begins, bodies)], bodies, pieces)
    raw, ends, chosen = data.tobytes(), np.cumsum(sizes).tolist(), []
    drawn = zip(some.tolist(), begins.tolist(), bodies.tolist(), cuts[some].tolist(), strict=True)
    for (number, begin, body, pair), (low, high) in zip(drawn, pairwise([0, *ends]), strict=True):
        head, text, tail = _text(raw[low:high])
        if text:
            c1, c2 = sorted(cut * (len(text) + 1) >> 64 for cut in pair)
            parts = text[:c1], text[c1:c2], text[c2:]
            tokens = flat[begin : begin + body]
            before, behind = _tokens_of(head, tokens, pieces), _tokens_of(tail, tokens[::-1], pieces)
            outer = tokens[: before or 0], tokens[body - (behind or 0) :]
            apart = before is not None and behind is not None
            chosen.append(_ChosenSegment(number, bool(suffix_first[number]), parts, *outer, apart))
    return chosen


def _tokens_of(size: int, tokens: NDArray[np.integer], pieces: Pieces) -> int | None:
    """Return how many of the first tokens have so many bytes; None if a token has these and others."""
    number, found = 0, 0
    while found < size:
        found += int(pieces.sizes[tokens[number]])
        number += 1
    return number if found == size else None


def _drawn(
    draws: NDArray[np.uint64],
    doc: NDArray[np.int64],
    config: FIM,
    shard: WholeShard,
    *,
    rate: Literal["fim_rate", "fim_spm_rate"],
) -> NDArray[np.bool_]:
    """Say which draws lie below a rate, which is that of their document's source if it has one."""
    drawn = below(draws, threshold(getattr(config, rate)))
    sources = shard.sources or ()
    for source, rates in config.sources.items() if sources else ():
        own: float | None = getattr(rates, rate)
        if own is not None:
            here = np.array([sources[number] == source for number in doc.tolist()], np.bool_)
            drawn[here] = below(draws[here], threshold(own))
    return drawn


def _text(data: bytes) -> tuple[int, str, int]:
    """Return the whole characters of some bytes, and how many before and behind them are parts of one.

    No text is given of bytes that are none.

    82 AC 61 E2 82 -> 2 "a" 2
    """
    head = 0
    while head < len(data) and data[head] in _CONTINUATION:
        head += 1
    try:
        return head, data[head:].decode(), 0
    except UnicodeDecodeError as error:
        tail = len(data) - head - error.start
        text = data[head : head + error.start].decode() if tail < _LONGEST else ""
        return head, text, tail


def _arrange(
    one: _ChosenSegment,
    parts: Sequence[NDArray[np.integer]],
    tokens: NDArray[np.integer],
    ids: NDArray[np.int64],
) -> list[NDArray[np.integer]]:
    """Return one segment as it is shown, in parts."""
    before, between, after = parts
    prefix, suffix, middle, eos = ids[:, None].astype(tokens.dtype)
    end = tokens[-1:] if tokens[-1] == eos[0] else tokens[:0]
    if one.suffix_first:
        return [prefix, suffix, after, one.tail, middle, one.head, before, between, end]
    return [prefix, one.head, before, suffix, after, one.tail, middle, between, end]
