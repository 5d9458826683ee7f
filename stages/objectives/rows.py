"""Rows as an objective takes them: what is stored of them, and what keys their draws."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class StoredRows:
    """N rows of L tokens of one shard; the arrays are never changed.

    Args:
        input_ids: (N, L) int64, as stored.
        segment_ids: (N, L) int32, the segment within the row, -1 on padding.
        numbers: (N,) int64, each row's number in its shard.
        seed: the run's seed.
        epoch: the pass over the data.
        shard: as `seeding.shard_field` numbers the shards of both splits.
    """

    input_ids: NDArray[np.int64]
    segment_ids: NDArray[np.int32]
    numbers: NDArray[np.int64]
    seed: int
    epoch: int
    shard: int

    def take(self, part: slice) -> "StoredRows":
        """Give some of the rows."""
        return replace(
            self,
            input_ids=self.input_ids[part],
            segment_ids=self.segment_ids[part],
            numbers=self.numbers[part],
        )
