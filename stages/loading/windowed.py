"""The order of rows in an epoch for a reader that holds few shards at a time.

    shards of an epoch    in an order of (seed, epoch), cut into groups of W
    rows of a group       in an order of (seed, epoch, group)

So an epoch reads each shard once, a group after the other, and any rank computes any position alone. The
order of the whole epoch in `stages.loading.order` mixes rows of all shards, and needs all of them at
hand.
"""

from collections.abc import Sequence

import numpy as np
import xxhash
from numpy.typing import NDArray

from stages.loading.order import EpochOrder, shuffled
from stages.seeding import Key, OrderTag, permutation


class WindowOrder(EpochOrder):
    """The rows of one epoch by position, a group of shards after the other.

    Args:
        rows: of each shard, in stored order.
        window: shards of a group, at least 1.
        seed: the run's seed.
        epoch: the pass over the data.
    """

    def __init__(self, rows: Sequence[int], *, window: int, seed: int, epoch: int) -> None:
        super().__init__(sum(rows), seed=seed, epoch=epoch)
        sizes = np.array(rows, np.int64)
        self._window = window
        self._order = permutation(Key(seed, epoch, 0, OrderTag.SHARDS), len(sizes))
        self._ends = np.concatenate([[0], np.cumsum(sizes[self._order])])
        """Positions at which the shards begin, in the order of the epoch: (shards + 1,)."""
        self._first_rows = np.concatenate([[0], np.cumsum(sizes)])
        places = np.append(np.arange(0, len(sizes), window), len(sizes))
        self._groups = self._ends[places]
        """Positions at which the groups begin: (groups + 1,)."""
        self._seed_of_epoch = seed

    def _shuffled(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        found = np.empty_like(positions)
        groups = self._groups.searchsorted(positions, "right") - 1
        for group in np.unique(groups).tolist():
            places = np.flatnonzero(groups == group)
            found[places] = self._rows_of(group, positions[places])
        return found

    def _rows_of(self, group: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows at positions that lie in a group."""
        begin, end = (int(one) for one in self._groups[group : group + 2])
        seed = group_seed(group, seed=self._seed_of_epoch)
        mixed = begin + shuffled(positions - begin, end - begin, seed=seed, epoch=self.epoch)
        places = self._ends.searchsorted(mixed, "right") - 1
        rows: NDArray[np.int64] = self._first_rows[self._order[places]] + mixed - self._ends[places]
        return rows


def group_seed(group: int, *, seed: int) -> int:
    """Return the seed of the order of a group's rows."""
    return xxhash.xxh3_64_intdigest(b"window" + group.to_bytes(8, "little"), seed=seed)
