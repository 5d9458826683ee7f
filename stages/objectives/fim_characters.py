"""Fill in the middle, cut between characters: cuts fall within words, as they do in an editor.

    text             def add(a, b):              n = 14 characters
    cuts                 ad|d(a, b|):            c1 = 6, c2 = 12
    A, B, C          "def ad" "d(a, b" "):"      each encoded by itself
    PSM              <PRE> A <SUF> C <MID> B </s>
    SPM              <PRE> <SUF> C <MID> A B </s>

The text is what a segment's ids decode to, without its EOS; the parts decode to that text again, byte
for byte, but their ids may be others and more than it had. Each segment has room for `GROWTH` more; one
that would need more stays plain, and so does an empty one. Where a long document was cut into rows
between the bytes of a character, those bytes stay tokens of their own at the outer ends of A and C. A
character is a code point.

Rates are those of the document's source. Draws are functions of (seed, epoch, shard, document of the
shard, segment s of the document, counted from 0):

    eligible   tag 28, block 0, u64[0]    below T(document_fraction), in the stream of epoch 0
    fim        tag 27, block 2 s, u64[0]  below T(fim_rate): transformed, else plain
    spm        tag 27, block 2 s, u64[1]  below T(fim_spm_rate): SPM, else PSM
    cuts       tag 27, block 2 s + 1      floor(u64[i] (n + 1) / 2**64) for i = 0, 1; the lesser is c1

Source: as `stages.objectives.fim`; the units are the paper's context and document level. We leave it in
this: of documents, only those that lie in one row as a whole are transformed, for a middle in another
row than its prefix could not be filled in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.objectives.clm import IGNORED
from stages.objectives.fim import FIM, blank_columns, fim_ids, restored_segments
from stages.objectives.rows import Columns, StoredRows, Widths
from stages.objectives.vocabulary import Vocabulary
from stages.objectives.whole_shard import WholeShard
from stages.seeding import Key, Tag, draw_u64, threshold

GROWTH = 11
"""Tokens by which a segment may grow: three special ids, and what two cuts may break tokens into. Of
28,000 segments in hundreds of languages none needed more than 10."""
_CONTINUATION = range(0x80, 0xC0)
"""Bytes that begin no character."""
_LONGEST = 4
"""Bytes of the longest character."""

Encode = Callable[[Sequence[str]], list[NDArray[np.integer]]]
"""Gives the ids of texts, as they are."""


@dataclass(frozen=True)
class Spelling:
    """What ids and text have to do with each other."""

    pieces: Sequence[bytes]
    """What each id decodes to."""
    encode: Encode


@dataclass(frozen=True)
class _Chosen:
    """One segment that is to be transformed, as the parts that are encoded."""

    segment: int
    suffix_first: bool
    parts: tuple[str, str, str]
    """A, B, C."""
    head: NDArray[np.integer]
    """Tokens before A that are the end of a character."""
    tail: NDArray[np.integer]
    """Tokens behind C that are the beginning of one."""


def fill_in_text(
    rows: StoredRows,
    config: FIM,
    vocabulary: Vocabulary,
    widths: Widths,
    *,
    shard: WholeShard,
    spelling: Spelling,
) -> Columns:
    """Give the columns of `stages.objectives.fim.fill_in_middle`, and `plain` (N,) int32.

    `plain` counts the segments of a row that were to be transformed and had no room for it.
    """
    ids = fim_ids(vocabulary)
    segments = [tokens for row in range(len(rows.numbers)) for tokens in _segments(rows, row)]
    chosen = _choose(rows, segments, config, ids=ids, shard=shard, pieces=spelling.pieces)
    encoded = iter(spelling.encode([part for one in chosen for part in one.parts]))
    made, crowded = dict[int, NDArray[np.integer]](), np.zeros(len(segments), np.bool_)
    for one in chosen:
        tokens = segments[one.segment]
        shown = _arrange(one, [next(encoded) for _ in one.parts], tokens, ids)
        if len(shown) <= len(tokens) + GROWTH:
            made[one.segment] = shown
        else:
            crowded[one.segment] = True
    columns = dict(blank_columns(rows, vocabulary, widths))
    for row, (first, last) in enumerate(zip(rows.segment_ptr[:-1], rows.segment_ptr[1:], strict=True)):
        place = 0
        for number, segment in enumerate(range(first, last)):
            shown = made.get(segment, segments[segment])
            here = (row, slice(place, place + len(shown)))
            columns["input_ids"][here] = shown
            columns["labels"][here] = shown
            if not config.train_on_sentinels and segment in made:
                columns["labels"][here][np.isin(shown, ids[:3])] = IGNORED
            columns["segment_ids"][here] = number
            columns["position_ids"][here] = np.arange(len(shown))
            place += len(shown)
    counts = np.concatenate([[0], np.cumsum(crowded)])
    return {**columns, "plain": np.diff(counts[rows.segment_ptr]).astype(np.int32)}


def check_text(
    rows: StoredRows, columns: Columns, vocabulary: Vocabulary, pieces: Sequence[bytes]
) -> NDArray[np.bool_]:
    """Say of which rows each segment, put together again, decodes to what is stored: (N,) bool."""
    ids = fim_ids(vocabulary)
    right = np.zeros(len(rows.numbers), np.bool_)
    for row in np.flatnonzero((columns["input_ids"] < len(pieces)).all(axis=1)).tolist():
        found = restored_segments(columns["input_ids"][row], columns["segment_ids"][row], ids)
        stored = list(_segments(rows, row))
        right[row] = len(found) == len(stored) and all(
            _decode(a, pieces) == _decode(b, pieces) and np.array_equal(_end(a, ids), _end(b, ids))
            for a, b in zip(found, stored, strict=True)
        )
    return right


def _end(tokens: NDArray[np.integer], ids: NDArray[np.int64]) -> NDArray[np.integer]:
    """Give the EOS at the end of a segment, if it has one: (1,) or (0,)."""
    last = tokens[-1:]
    end: NDArray[np.integer] = last[last == ids[3]]
    return end


def _segments(rows: StoredRows, row: int) -> list[NDArray[np.integer]]:
    lengths = rows.segment_length[rows.segment_ptr[row] : rows.segment_ptr[row + 1]]
    ends = np.cumsum(lengths)
    return np.split(rows.input_ids[row, : int(lengths.sum())], ends[:-1]) if len(lengths) else []


def _choose(
    rows: StoredRows,
    segments: Sequence[NDArray[np.integer]],
    config: FIM,
    *,
    ids: NDArray[np.int64],
    shard: WholeShard,
    pieces: Sequence[bytes],
) -> list[_Chosen]:
    """Give the segments that are to be transformed, cut."""
    numbers = shard.segments_in(rows.numbers)
    doc = np.asarray(shard.segments["doc"], np.int64)[numbers]
    key, document = rows.key(Tag.FIM_TEXT), doc.astype(np.uint64)
    block = 2 * shard.ordinals[numbers].astype(np.uint64)
    first = draw_u64(key, document, block=block)
    draws = np.hstack([first, draw_u64(key, document, block=block + np.uint64(1))])
    always = Key(rows.seed, 0, rows.shard, Tag.FIM_ELIGIBLE)
    eligible = draw_u64(always, document)[:, 0].tolist()
    whole = shard.segment_counts[doc] == 1
    bound = threshold(config.document_fraction)
    chosen = []
    for number, tokens in enumerate(segments):
        is_fim, is_spm, *cuts = draws[number].tolist()
        fim_rate, spm_rate = _rates(config, shard, int(doc[number]))
        if eligible[number] >= bound or is_fim >= threshold(fim_rate):
            continue
        if config.unit == "document" and not whole[number]:
            continue
        body = tokens[: len(tokens) - len(_end(tokens, ids))]
        if (body == ids[:, None]).any():
            continue
        head, text, tail = _text(body, pieces)
        if not text:
            continue
        c1, c2 = sorted(cut * (len(text) + 1) >> 64 for cut in cuts)
        parts = text[:c1], text[c1:c2], text[c2:]
        suffix_first = is_spm < threshold(spm_rate)
        chosen.append(_Chosen(number, suffix_first, parts, body[:head], body[len(body) - tail :]))
    return chosen


def _rates(config: FIM, shard: WholeShard, document: int) -> tuple[float, float]:
    """Give (fim_rate, fim_spm_rate) of a document."""
    own = config.sources.get(shard.sources[document]) if config.sources and shard.sources else None
    if own is None:
        return config.fim_rate, config.fim_spm_rate
    return (
        config.fim_rate if own.fim_rate is None else own.fim_rate,
        config.fim_spm_rate if own.fim_spm_rate is None else own.fim_spm_rate,
    )


def _decode(tokens: NDArray[np.integer], pieces: Sequence[bytes]) -> bytes:
    return b"".join([pieces[number] for number in tokens.tolist()])


def _text(body: NDArray[np.integer], pieces: Sequence[bytes]) -> tuple[int, str, int]:
    """Give the whole characters of a body, and how many bytes before and behind them are parts of one.

    No text is given of bytes that are none.

    82 AC 61 E2 82 -> 2 "a" 2
    """
    data = _decode(body, pieces)
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
    one: _Chosen,
    parts: Sequence[NDArray[np.integer]],
    tokens: NDArray[np.integer],
    ids: NDArray[np.int64],
) -> NDArray[np.integer]:
    """Give one segment as it is shown."""
    before, between, after = parts
    prefix, suffix, middle = ids[:3, None].astype(tokens.dtype)
    before, after = np.concatenate([one.head, before]), np.concatenate([after, one.tail])
    end = _end(tokens, ids)
    shown = [prefix, before, suffix, after, middle, between, end]
    if one.suffix_first:
        shown = [prefix, suffix, after, middle, before, between, end]
    return np.concatenate(shown).astype(tokens.dtype)
