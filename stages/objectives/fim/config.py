"""Fill in the middle: predict a piece of a document from what stands before and after it.

    segment          A0 A1 B0 C0 C1 </s>
    plain            A0 A1 B0 C0 C1 </s>
    PSM              <PRE> A0 A1 <SUF> C0 C1 <MID> B0 </s>
    SPM              <PRE> <SUF> C0 C1 <MID> A0 A1 B0 </s>
    labels           the same ids (-100 on <PRE> <SUF> <MID> without train_on_sentinels)
    loss = "middle"  of PSM and SPM B0 </s> alone; plain segments have all their labels

A causal model learns it from the order of the tokens alone; labels are unshifted. Each segment of a
packed row is transformed by itself; its *body* is its tokens less an EOS at its end, which stays at its
end. Segments follow each other from position 0 with their new lengths, the rest of the row is padding.
A segment grows by `GROWTH` tokens or not at all, so a row is stored with room for the growth of all its
segments, whatever is drawn. Parts may be empty: cuts may be equal, in a body of one token they must
touch an end. Plain whatever is drawn stay an empty body (it would be three special ids and nothing to
fill in) and a body that holds an EOS or one of the three ids (it could not be told apart again; no text
gives such ids).

Every draw is a function of (seed, epoch, shard, row, segment s of the row, counted from 0):

    fim      tag 20, block 2 s, u64[0]   below T(fim_rate): transformed, else plain
    spm      tag 20, block 2 s, u64[1]   below T(fim_spm_rate): SPM, else PSM
    cuts     tag 20, block 2 s + 1       floor(u64[i] (n + 1) / 2**64) for i = 0, 1; the lesser is c1

T(p) = floor(p 2**64); n is the length of the body; A, B, C = body[:c1], body[c1:c2], body[c2:].

Source: Bavarian et al. 2022, "Efficient training of language models to fill in the middle", sections 3
and 4, arXiv 2207.14255; SPM is its variant 2, of appendix D. We leave the paper in this: tokens are cut,
not characters, so a row can be restored and drawn anew for each epoch, and no document is cut off.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from stages.config import Config
from stages.errors import FormatError
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths
from stages.objectives.traits import Objective
from stages.objectives.vocabulary import Vocabulary
from stages.ragged import ranges_of
from stages.seeding import Tag, draw_u64, threshold

GROWTH = 3
"""Tokens by which a segment may grow."""


class FimTag(Tag):
    """What the draws between tokens are for; those between characters have tags of their own."""

    SEGMENTS = 20
    """Which segments are transformed to fill in the middle, in which order, cut where."""


class FIMRates(Config):
    """How often the documents of one source are transformed."""

    fim_rate: float | None = Field(None, ge=0.0, le=1.0)
    """Instead of the objective's."""
    fim_spm_rate: float | None = Field(None, ge=0.0, le=1.0)
    """Instead of the objective's."""


class FIM(Objective):
    """Fill in the middle."""

    kind: Literal["fim"] = "fim"
    """Names the objective."""
    level: Literal["token", "character"] = "token"
    """What is cut: tokens, or the text that they decode to. With "character", the parts are encoded
    again, so a model also sees cuts within words. It needs the tokenizer, and each epoch is written to
    disk."""
    unit: Literal["segment", "document"] = "segment"
    """What is transformed: each document's part of a row by itself, or complete documents only, so that
    one that lies in several rows stays unchanged. To be set only with `level = "character"`; by
    tokens it is always each part."""
    document_fraction: float = Field(1.0, ge=0.0, le=1.0)
    """Share of the documents that are ever transformed, the same in each epoch. Only with
    `level = "character"`."""
    sources: dict[str, FIMRates] = Field({})
    """Separate rates for some sources, by name. Only with `level = "character"`."""
    fim_rate: float = Field(0.5, ge=0.0, le=1.0)
    """Share of the segments that are transformed; the others stay as they are."""
    fim_spm_rate: float = Field(0.5, ge=0.0, le=1.0)
    """Share of the transformed segments that show the suffix first; the others show the prefix first."""
    train_on_sentinels: bool = True
    """Whether the three special ids of a transformed segment have a loss too."""
    loss: Literal["all", "middle"] = "all"
    """Where a transformed segment has a loss: on all its tokens, or only on the middle and the EOS after
    it. With "middle", `train_on_sentinels` changes nothing. Other segments have a loss on every
    token."""

    @model_validator(mode="after")
    def _documents_are_known_to_characters_only(self) -> "FIM":
        usual = {"unit": "segment", "document_fraction": 1.0, "sources": {}}
        for name, value in usual.items():
            if self.level == "token" and getattr(self, name) != value:
                raise ValueError(
                    f'{name} = {getattr(self, name)!r}: rows of level = "token" are drawn by their ids'
                    ' alone; set level = "character", or leave it out'
                )
        return self


def fill_in_middle(rows: StoredRows, config: FIM, vocabulary: Vocabulary, widths: Widths) -> Columns:
    """Return the columns of packed rows whose segments are transformed, plainly.

    Returns:
        `input_ids` (N, L) in the dtype of the rows; `labels` (N, L) int32, unshifted, -100 without loss;
        `segment_ids` (N, L) int32, -1 on padding; `position_ids` (N, L) int32, from 0 in each segment.

    Raises:
        FormatError: a row was stored without room for the growth of its segments.
    """
    require_room(rows, widths)
    columns = blank_columns(rows, vocabulary, widths)
    sentinels = fim_ids(vocabulary)
    draws, segment = _segment_draws(rows), 0
    for row, ids in enumerate(rows.input_ids):
        begin = place = 0
        for number in range(rows.segment_ptr[row + 1] - rows.segment_ptr[row]):
            tokens = ids[begin : begin + rows.segment_length[segment]]
            shown, hidden = _rearrange(tokens, draws[segment].tolist(), config, sentinels)
            here = (row, slice(place, place + len(shown)))
            columns["input_ids"][here] = shown
            columns["labels"][here] = shown
            if config.loss == "middle":
                columns["labels"][here][:hidden] = IGNORED
            elif not config.train_on_sentinels and len(shown) > len(tokens):
                columns["labels"][here][np.isin(shown, sentinels[:3])] = IGNORED
            columns["segment_ids"][here] = number
            columns["position_ids"][here] = np.arange(len(shown))
            begin, place, segment = begin + len(tokens), place + len(shown), segment + 1
    return columns


def restore_fim(
    columns: Columns, config: FIM, vocabulary: Vocabulary
) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Return (ids, lengths) of the rows as they were stored: (N, L) padded with pad, (N,) int64.

    A transformed segment is A B C again: what stands between <PRE> and <SUF>, what stands behind <MID>,
    what stands between <SUF> and <MID>. One rule for both orders: SPM is a PSM of an empty A.

    Args:
        columns: `input_ids` and `segment_ids` of `fill_in_middle`.
        config: the objective; restoring needs none of its numbers.
        vocabulary: of the tokenizer.
    """
    del config
    input_ids, segment_ids = columns["input_ids"], columns["segment_ids"]
    ids = fim_ids(vocabulary)
    row, lengths, tokens = restored_segments(input_ids, segment_ids, ids)
    clean = np.full(input_ids.shape, vocabulary.named("pad"), input_ids.dtype)
    filled = np.bincount(row, weights=lengths, minlength=len(clean)).astype(np.int64)
    clean[np.arange(input_ids.shape[1]) < filled[:, None]] = tokens
    return clean, filled


def restored_segments(
    input_ids: NDArray[np.integer], segment_ids: NDArray[np.integer], ids: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.integer]]:
    """Return the segments of rows as they were before they were transformed.

    Args:
        input_ids: (N, L).
        segment_ids: (N, L), -1 on padding.
        ids: of `fim_ids`.

    Returns:
        (S,) int64 the row of each segment, (S,) int64 its tokens, (T,) they, end to end.
    """
    row, tokens, begin, length, changed, (_, suffix, middle) = marked_segments(
        input_ids, segment_ids, ids
    )
    end = length - (tokens[begin + length - 1] == ids[3])
    firsts = np.stack([np.zeros_like(begin)] * 4)
    sizes = np.stack([length, *[np.zeros_like(length)] * 3])
    firsts[:, changed] = np.stack([np.ones_like(begin), middle + 1, suffix + 1, end])[:, changed]
    parts = np.stack([suffix - 1, end - middle - 1, middle - suffix - 1, length - end])
    sizes[:, changed] = parts[:, changed]
    order = ranges_of((firsts + begin).T.ravel(), sizes.T.ravel())
    return row, sizes.sum(axis=0), tokens[order]


class MarkedSegments(NamedTuple):
    """The S segments of rows as they are shown."""

    row: NDArray[np.int64]
    tokens: NDArray[np.integer]
    """(T,) of all of them, end to end."""
    begin: NDArray[np.int64]
    """(S,) where each begins there."""
    length: NDArray[np.int64]
    changed: NDArray[np.bool_]
    """Whether it is transformed: one <PRE>, in front, one <SUF> behind it and one <MID> behind that."""
    marks: NDArray[np.int64]
    """(3, S) where these are in a transformed segment."""


def marked_segments(
    input_ids: NDArray[np.integer], segment_ids: NDArray[np.integer], ids: NDArray[np.int64]
) -> MarkedSegments:
    """Return the segments of rows, and where special ids are; args as of `restored_segments`."""
    covered = np.count_nonzero(segment_ids >= 0, axis=1)
    inside = np.arange(input_ids.shape[1]) < covered[:, None]
    opens = inside.copy()
    opens[:, 1:] &= segment_ids[:, 1:] != segment_ids[:, :-1]
    row = np.nonzero(opens)[0]
    tokens, begin = input_ids[inside], np.flatnonzero(opens[inside])
    length = np.diff(begin, append=len(tokens))
    counts, marks = np.zeros((3, len(begin)), np.int64), np.zeros((3, len(begin)), np.int64)
    for number, mark in enumerate(ids[:3]):
        places = np.flatnonzero(tokens == mark)
        owner = np.searchsorted(begin, places, side="right") - 1
        counts[number] = np.bincount(owner, minlength=len(begin))
        marks[number, owner] = places - begin[owner]
    prefix, suffix, middle = marks
    changed = (counts == 1).all(axis=0) & (prefix == 0) & (suffix < middle)
    return MarkedSegments(row, tokens, begin, length, changed, marks)


def require_room(rows: StoredRows, widths: Widths) -> None:
    """Refuse rows whose segments might outgrow them, whatever is drawn for them in this epoch.

    Raises:
        FormatError: names the first such row.
    """
    filled, segments = rows.filled, np.diff(rows.segment_ptr)
    crowded = np.flatnonzero(filled + GROWTH * segments > widths.inputs)
    if len(crowded):
        row = crowded[0]
        raise FormatError(
            f"row {rows.numbers[row]:,} of shard {rows.shard:,}: {filled[row]:,} tokens in"
            f" {segments[row]:,} segments, which may grow by {GROWTH} tokens each, pass the"
            f" {widths.inputs:,} of a row; the shard was packed without room for fim, make it again"
        )


def blank_columns(rows: StoredRows, vocabulary: Vocabulary, widths: Widths) -> Columns:
    """Return the columns of rows that hold padding alone."""
    shape = len(rows.input_ids), widths.inputs
    return {
        "input_ids": np.full(shape, vocabulary.named("pad"), rows.input_ids.dtype),
        "labels": np.full(shape, IGNORED, np.int32),
        "segment_ids": np.full(shape, -1, np.int32),
        "position_ids": np.zeros(shape, np.int32),
    }


def fim_ids(vocabulary: Vocabulary) -> NDArray[np.int64]:
    """Return the ids that no transformed body may hold: <PRE>, <SUF>, <MID>, EOS: (4,) int64."""
    names = ("fim_prefix", "fim_suffix", "fim_middle", "eos")
    return np.array([vocabulary.named(name) for name in names], np.int64)


def _segment_draws(rows: StoredRows) -> NDArray[np.uint64]:
    """Return the four draws of each segment: (S, 4)."""
    counts = np.diff(rows.segment_ptr)
    numbers = np.repeat(rows.numbers, counts).astype(np.uint64)
    within = np.arange(len(numbers)) - np.repeat(rows.segment_ptr[:-1], counts)
    block = 2 * within.astype(np.uint64)
    key = rows.key(FimTag.SEGMENTS)
    choices = draw_u64(key, numbers, block=block)
    return np.hstack([choices, draw_u64(key, numbers, block=block + np.uint64(1))])


def _rearrange(
    tokens: NDArray[np.integer], draws: list[int], config: FIM, ids: NDArray[np.int64]
) -> tuple[NDArray[np.integer], int]:
    """Return one segment as it is shown, and how many tokens stand before its middle; 0 if plain."""
    length = len(tokens) - int(len(tokens) > 0 and tokens[-1] == ids[3])
    body, end = tokens[:length], tokens[length:]
    chosen = draws[0] < threshold(config.fim_rate)
    if not chosen or length == 0 or (body == ids[:, None]).any():
        return tokens, 0
    first, second = sorted(draw * (length + 1) >> 64 for draw in draws[2:])
    before, between, after = body[:first], body[first:second], body[second:]
    prefix, suffix, middle = ids[:3, None].astype(tokens.dtype)
    parts = [prefix, before, suffix, after, middle, between]
    if draws[1] < threshold(config.fim_spm_rate):
        parts = [prefix, suffix, after, middle, before, between]
    shown = np.concatenate([*parts, end])
    return shown, len(shown) - len(end) - len(between)
