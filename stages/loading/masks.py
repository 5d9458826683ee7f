"""Who may attend to whom: the rules of all masks, and masks as numpy arrays.

No mask is stored: it follows from a row's segments and lengths and from what the manifest says under
`attention`. True is "may attend" throughout, as torch's attention and transformers have it; Megatron's
masks say the opposite. A mask takes L x L bytes a row, so a trainer of long rows takes `cu_seqlens`
(variable-length kernels) or the block masks of `stages.loading.attention` instead.

    attention                       position i attends to j
    causal_within_document          j <= i, both in one document
    bidirectional_within_document   both in one document
    prefix_within_document          j <= i, or in_prefix[j], both in one document
    prefix                          j <= i, or j < prefix_length
    causal                          j <= i
    bidirectional                   all
    encoder_decoder                 encoder all, decoder j <= i, across all of the inputs

The last four look at a row as one text, whatever documents it is packed of. Nobody attends to padding
but padding itself: a padding position sees itself alone, since a softmax over nothing is NaN.

    batch, attention -> grids_of -> rules -> masks

A rule says of one pair of positions whether the first may attend to the second. It is made of operators
alone, so the same rules serve arrays of numpy here and tensors in `stages.loading.attention`.

Axes: N rows, L tokens, L_in and L_out those of an encoder and a decoder, V views of a row.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stages.errors import ConfigError, DataError

PADDING = -1
"""The segment id of positions that hold no token."""

ENCODER_DECODER = "encoder_decoder"
"""The attention of rows for an encoder with a decoder, which takes three masks."""

if TYPE_CHECKING:
    from torch import Tensor

_Column = TypeVar("_Column")
Array = TypeVar("Array", NDArray[np.integer], "Tensor")
Rule = Callable[[Array, Array, Array], Array]
"""(row, query, key) -> bool, each of any shape."""
Count = Callable[[int], Array]
"""Gives the numbers below one: numpy's `arange`, or torch's on some device."""


class SelfAttention(StrEnum):
    """Who attends to whom within a row, by the names of the manifest."""

    CAUSAL_WITHIN_DOCUMENT = "causal_within_document"
    BIDIRECTIONAL_WITHIN_DOCUMENT = "bidirectional_within_document"
    PREFIX_WITHIN_DOCUMENT = "prefix_within_document"
    PREFIX = "prefix"
    CAUSAL = "causal"
    BIDIRECTIONAL = "bidirectional"

    @property
    def within_document(self) -> bool:
        """Whether the documents of a packed row are hidden from each other."""
        return self.value.endswith("within_document")

    @property
    def prefix_columns(self) -> tuple[str, ...]:
        """The column that says what is seen by later and by earlier positions; none without a prefix."""
        columns = {self.PREFIX: ("prefix_length",), self.PREFIX_WITHIN_DOCUMENT: ("in_prefix",)}
        return columns.get(self, ())

    @property
    def both_ways(self) -> bool:
        """Whether a position sees the later ones too."""
        return self in {self.BIDIRECTIONAL_WITHIN_DOCUMENT, self.BIDIRECTIONAL}


class VariableLength(NamedTuple):
    """What variable-length attention takes of a batch whose padding is left out."""

    cu_seqlens: NDArray[np.int32]
    """(S + 1,): where each of the S segments begins in the flat batch, and the end of the last."""
    max_seqlen: int
    """Tokens of the longest segment; 0 if there is none."""


@dataclass(frozen=True)
class Grid(Generic[Array]):
    """A rule and the pairs it is about."""

    rule: Rule[Array]
    rows: int
    queries: int
    keys: int

    def narrowed(self, other: Rule[Array]) -> "Grid[Array]":
        """Return the pairs that another rule allows too; a position still sees itself."""

        def both(row: Array, query: Array, key: Array) -> Array:
            found: Array = self.rule(row, query, key) & (other(row, query, key) | (query == key))
            return found

        return replace(self, rule=both)

    def mask(self, count: Count[Array]) -> Array:
        """Return the rule asked of all pairs: (rows, queries, keys) bool."""
        rows, queries, keys = count(self.rows), count(self.queries), count(self.keys)
        return self.rule(rows[:, None, None], queries[:, None], keys)


def masks_of(batch: Mapping[str, NDArray[np.integer]], attention: str) -> dict[str, NDArray[np.bool_]]:
    """Return the masks of a batch by name, True where the row's position may attend to the column's.

    Args:
        batch: the loader's columns. Within documents: `segment_ids`; else `input_length`, or
            `segment_ids` where there is none; `prefix_length` if there is a prefix, `in_prefix` if each
            document has its own; of an encoder-decoder `input_length` and `label_length`.
        attention: as the manifest says it.

    Returns:
        `attention_mask` (N, L, L) bool; of an encoder-decoder `encoder_mask` (N, L_in, L_in),
        `decoder_mask` (N, L_out, L_out) and `cross_mask` (N, L_out, L_in). Rows of several views,
        (N, V, L), give one mask a view: (N V, L, L), view by view.

    Raises:
        ConfigError: the attention is unknown.
        DataError: a column is missing.
    """
    grids = grids_of(batch, attention, np.arange)
    return {name: grid.mask(np.arange).astype(np.bool_, copy=False) for name, grid in grids.items()}


def grids_of(batch: Mapping[str, Array], attention: str, count: Count[Array]) -> dict[str, Grid[Array]]:
    """Return the rules of an attention, by the names of `masks_of`."""
    if attention == ENCODER_DECODER:
        inputs, labels = (column(batch, f"{side}_length", attention) for side in ("input", "label"))
        width_in, width_out = batch["input_ids"].shape[-1], batch["labels"].shape[-1]
        encoder, decoder = one_segment(inputs, width_in, count), one_segment(labels, width_out, count)
        return {
            "encoder_mask": self_grid(SelfAttention.BIDIRECTIONAL, encoder),
            "decoder_mask": self_grid(SelfAttention.CAUSAL, decoder),
            "cross_mask": cross_grid(inputs, width_in=width_in, width_out=width_out),
        }
    kind = self_attention(attention)
    prefix = {name: column(batch, name, attention) for name in kind.prefix_columns}
    return {"attention_mask": self_grid(kind, row_segments(batch, kind, count), **prefix)}


def self_grid(
    kind: SelfAttention,
    segment_ids: Array,
    *,
    prefix_length: Array | None = None,
    in_prefix: Array | None = None,
) -> Grid[Array]:
    """Return the rule of an attention within rows.

    segment_ids  0 0 1 -1    causal_within_document   bidirectional   prefix of 2
                             # . . .                  # # # .         # # . .
                             # # . .                  # # # .         # # . .
                             . . # .                  # # # .         # # # .
                             . . . #                  . . . #         . . . #

    Args:
        kind: who attends to whom.
        segment_ids: (N, L), the document within the row, -1 on padding.
        prefix_length: (N,) tokens of each row's prefix, in unshifted positions, for PREFIX alone.
        in_prefix: (N, L), not 0 in the prefix of each document, for PREFIX_WITHIN_DOCUMENT alone.
    """
    prefix = prefix_length if kind is SelfAttention.PREFIX else None
    shown = in_prefix if kind is SelfAttention.PREFIX_WITHIN_DOCUMENT else None

    def may_attend(row: Array, query: Array, key: Array) -> Array:
        ours, theirs = segment_ids[row, query], segment_ids[row, key]
        seen = (ours == theirs) if kind.within_document else (theirs != PADDING)
        seen = seen & (ours != PADDING)
        if not kind.both_ways:
            earlier = key <= query
            if prefix is not None:
                earlier = earlier | (key < prefix[row])
            if shown is not None:
                earlier = earlier | (shown[row, key] != 0)
            seen = seen & earlier
        found: Array = seen | (query == key)
        return found

    rows, length = segment_ids.shape
    return Grid(may_attend, rows, length, length)


def cross_grid(input_length: Array, *, width_in: int, width_out: int) -> Grid[Array]:
    """Return the rule by which a decoder attends to inputs: to all of the row's.

    The decoder's padding does so too, which has no position of its own there. A row without inputs sees
    the first position, padding, so that no softmax is over nothing.
    """

    def may_attend(row: Array, query: Array, key: Array) -> Array:
        seen = (key < input_length[row]) | (key == 0)
        found: Array = seen & (query >= 0)  # whichever: so that the mask has all of them
        return found

    return Grid(may_attend, len(input_length), width_out, width_in)


def padding_mask(lengths: NDArray[np.integer], width: int) -> NDArray[np.bool_]:
    """Say where a token stands and no padding: (..., width) bool of lengths (...).

    lengths [2 0], width 3 -> [[# # .] [. . .]]
    """
    mask: NDArray[np.bool_] = np.arange(width) < lengths[..., None]
    return mask


def cu_seqlens(segment_ids: NDArray[np.integer]) -> VariableLength:
    """Return where the segments of a batch begin once it is flat and its padding left out.

    segment_ids  [[0 0 1 -1] [0 0 0 -1]]  ->  [0 2 3 6], 3

    The flat batch is `input_ids[segment_ids >= 0]`.

    Args:
        segment_ids: (N, L), the document within the row, -1 on padding.
    """
    covered = segment_ids != PADDING
    first = np.flatnonzero(_starts(segment_ids)[covered])
    ends = np.append(first, np.count_nonzero(covered)).astype(np.int32)
    return VariableLength(ends, int(np.diff(ends).max(initial=0)))


def of_lengths(lengths: NDArray[np.integer]) -> VariableLength:
    """Return where rows of one text each begin; one of no token begins where the next does.

    lengths [3 0 2]  ->  [0 3 3 5], 3

    An encoder and its decoder must have as many entries, which segments of rows without a token lack.
    """
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return VariableLength(ends, int(lengths.max(initial=0)))


def position_ids(segment_ids: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the position of each token in its segment, (N, L) int64; 0 on padding.

    segment_ids  0 0 0 1 1 -1  ->  0 1 2 0 1 0
    """
    places = np.arange(segment_ids.shape[1])
    first = np.maximum.accumulate(np.where(_starts(segment_ids), places, 0), axis=1)
    return np.where(segment_ids != PADDING, places - first, 0)


def self_attention(attention: str) -> SelfAttention:
    """Return the attention that a manifest names, for rows of one sequence."""
    try:
        return SelfAttention(attention)
    except ValueError:
        known = ", ".join([*SelfAttention, ENCODER_DECODER])
        raise ConfigError(f"attention = {attention!r}: this reader knows {known}") from None


def column(batch: Mapping[str, _Column], name: str, attention: str) -> _Column:
    """Return a column that masks of this attention follow from."""
    if name not in batch:
        raise DataError(
            f"attention = {str(attention)!r} follows from the column {name}, and the batch has"
            f" {', '.join(batch)}; hand over the batch with all the columns the dataset gives"
        )
    return batch[name]


def _starts(segment_ids: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Say where a segment begins, or the padding: (N, L)."""
    starts = np.ones(segment_ids.shape, np.bool_)
    starts[:, 1:] = segment_ids[:, 1:] != segment_ids[:, :-1]
    return starts


def one_segment(lengths: Array, width: int, count: Count[Array]) -> Array:
    """Return the segment ids, (..., width), of rows that hold one text each."""
    segment_ids: Array = (count(width) < lengths[..., None]) * 1 + PADDING
    return segment_ids


def token_mask(batch: Mapping[str, NDArray[np.integer]]) -> NDArray[np.bool_] | None:
    """Return where rows hold a token, the shape of `input_ids`; None if no column tells padding."""
    ids, lengths, segments = (batch.get(name) for name in ("input_ids", "input_length", "segment_ids"))
    if ids is None:
        return None
    if lengths is not None and lengths.shape == ids.shape[:-1]:
        return padding_mask(lengths, ids.shape[-1])
    return None if segments is None or segments.shape != ids.shape else segments != PADDING


def row_segments(batch: Mapping[str, Array], kind: SelfAttention, count: Count[Array]) -> Array:
    """Return the segment ids, (N, L) or (N V, L), that an attention follows from."""
    *views, length = column(batch, "input_ids", kind).shape
    if not kind.within_document and "input_length" in batch:
        segment_ids = one_segment(batch["input_length"], length, count)
    else:
        segment_ids = column(batch, "segment_ids", kind)
    segment_ids = segment_ids.reshape(-1, length)
    rows = math.prod(views)
    if len(segment_ids) == rows:
        return segment_ids
    owners = count(rows) // (rows // len(segment_ids))
    for_views: Array = segment_ids[owners]
    return for_views
