"""Rows as an objective takes them: what is stored of them, and what keys their draws.

row              A A E B E . .      E is EOS, . is padding
segment_length   3 2                they follow each other from position 0
filled           5
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stages.seeding import Key, Tag

IGNORED = -100
"""The label of a position without loss, as torch's cross entropy has it."""
Columns = Mapping[str, NDArray[np.integer]]
"""What an objective makes of N rows: columns by name, each (N, ...)."""
Restored = tuple[NDArray[np.integer], NDArray[np.int64]]
"""Clean tokens of rows, (N, W), and how many, (N,)."""


@dataclass(frozen=True, eq=False)
class StoredRows:
    """N rows of L tokens of one shard; the arrays are never changed.

    Args:
        input_ids: (N, L), of any integer dtype, as stored.
        segment_ptr: (N + 1,) int64, the segments of row n are segment_ptr[n] .. segment_ptr[n + 1].
        segment_length: (S,) int64, tokens of each; a row's segments follow each other from position 0.
        numbers: (N,) int64, each row's number in its shard.
        seed: the run's seed.
        epoch: the pass over the data.
        shard: as `seeding.shard_field` numbers the shards of both splits.
        components: (N,) uint8, which component of a mixture each row belongs to; None without one.
        unigram: (V,) int64, the shard's ordinary ids counted up, for draws by frequency; None if the
            objective makes none.
        room: (N,) int32, tokens of another document that each row has room for; None without any.
        prompt: (N,) int32, tokens of each row before the target that its source names, 0 if it names
            none; None if nobody asks.
        segment_prompt: (S,) int32, the same of each segment of packed rows; None if nobody asks.
        loss_mask: (N, L) uint8, 1 where a token has a loss, else 0; None if nobody asks.
        added_end: (N,) uint8, 1 for rows whose last id frames them and is no document's; None if rows
            have no frame.
    """

    input_ids: NDArray[np.integer]
    segment_ptr: NDArray[np.int64]
    segment_length: NDArray[np.int64]
    numbers: NDArray[np.int64]
    seed: int
    epoch: int
    shard: int
    components: NDArray[np.uint8] | None = None
    unigram: NDArray[np.int64] | None = None
    room: NDArray[np.int32] | None = None
    prompt: NDArray[np.int32] | None = None
    segment_prompt: NDArray[np.int32] | None = None
    loss_mask: NDArray[np.uint8] | None = None
    added_end: NDArray[np.uint8] | None = None

    @property
    def filled(self) -> NDArray[np.int64]:
        """Tokens of each row: (N,) int64. The rest of a row is padding."""
        ends = np.concatenate([[0], np.cumsum(self.segment_length)])[self.segment_ptr]
        filled: NDArray[np.int64] = np.diff(ends)
        return filled

    @property
    def covered(self) -> NDArray[np.bool_]:
        """Where a token stands and no padding: (N, L) bool."""
        covered: NDArray[np.bool_] = np.arange(self.input_ids.shape[1]) < self.filled[:, None]
        return covered

    @property
    def added_ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where ids stand that close a row and no document: (row, position), both (E,) int64."""
        if self.added_end is None:
            return np.arange(0), np.arange(0)
        row = np.flatnonzero(self.added_end)
        return row, self.filled[row] - 1

    def key(self, tag: Tag) -> Key:
        """Return what keys the draws of these rows for one purpose."""
        return Key(self.seed, self.epoch, self.shard, tag)

    def match(self, restored: Restored, counts: NDArray[np.int64] | None = None) -> NDArray[np.bool_]:
        """Return which rows hold the restored tokens, no fewer and no more: (N,) bool.

        Args:
            restored: ids (N, W) and lengths (N,).
            counts: (N,) how many tokens of each row are meant; None means all.
        """
        ids, lengths = restored
        wanted = self.filled if counts is None else counts
        width = min(self.input_ids.shape[1], ids.shape[1])
        inside = np.arange(width) < np.minimum(wanted, width)[:, None]
        differ = ((ids[:, :width] != self.input_ids[:, :width]) & inside).any(axis=1)
        return np.asarray((lengths == wanted) & ~differ)

    def take(self, chosen: NDArray[np.int64]) -> "StoredRows":
        """Return some of the rows, in the order chosen."""
        counts = np.diff(self.segment_ptr)[chosen]
        ptr = np.concatenate([[0], np.cumsum(counts)])
        within = np.arange(ptr[-1]) - np.repeat(ptr[:-1], counts)
        segments = np.repeat(self.segment_ptr[chosen], counts) + within
        return replace(
            self,
            input_ids=self.input_ids[chosen],
            segment_ptr=ptr,
            segment_length=self.segment_length[segments],
            numbers=self.numbers[chosen],
            components=None if self.components is None else self.components[chosen],
            room=None if self.room is None else self.room[chosen],
            prompt=None if self.prompt is None else self.prompt[chosen],
            segment_prompt=None if self.segment_prompt is None else self.segment_prompt[segments],
            loss_mask=None if self.loss_mask is None else self.loss_mask[chosen],
            added_end=None if self.added_end is None else self.added_end[chosen],
        )


@dataclass(frozen=True)
class Widths:
    """How many tokens the rows of a dataset hold."""

    stored: int
    """Of a row on disk."""
    inputs: int
    """Of `input_ids` as a trainer gets them."""
    labels: int
    """Of `labels`; those of an encoder-decoder have a length of their own."""


def single_segments(lengths: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (segment_ptr, segment_length) of rows that hold one segment each."""
    return np.arange(len(lengths) + 1), lengths.astype(np.int64)


def lengths_without_eos(rows: StoredRows, eos: int) -> NDArray[np.int64]:
    """Return how many tokens of each row are transformed: all, less an EOS at the end: (N,) int64.

    An encoder-decoder objective closes its inputs and its targets with an EOS of their own.
    """
    filled = rows.filled
    last = rows.input_ids[np.arange(len(filled)), np.maximum(filled - 1, 0)]
    closed: NDArray[np.int64] = filled - ((filled > 0) & (last == eos))
    return closed


def segment_starts(rows: StoredRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (row, first position) of each segment, both (S,) int64."""
    counts = np.diff(rows.segment_ptr)
    row = np.repeat(np.arange(len(counts)), counts)
    ends = np.cumsum(rows.segment_length)
    before = np.concatenate([[0], ends])[rows.segment_ptr[:-1]]
    return row, ends - rows.segment_length - before[row]
