"""The order of an epoch of rows interleaved by source: every stretch of it has the sources' shares.

    position of the epoch -> class, number n      the order of all rows: a class is a source and how full
                                                  its rows are
    n -> n' among the rows of the class           a permutation of its own in each epoch
    n' -> shard, number there                     a class has the rows of shard 0, then of shard 1, ...
    shard, class, number -> row of the file       the order of the shard

All of it is arithmetic on the numbers of rows that the manifest has, so any rank computes any position
alone. A class's permutation is `order.shuffled` with a seed of the class: XXH3-64 of the source's name
in UTF-8 and a byte that says how full, seeded with the run's seed.

Axes: G shards, K sources, N positions.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import xxhash
from numpy.typing import NDArray

from stages.interleaving import LEVELS, NestedInterleaving
from stages.loading.order import EpochOrder, Permutations
from stages.store.manifest import Manifest


class InterleavedRows:
    """The rows of shards, by source and how full they are.

    Args:
        shards: of each, in their order, how many rows of each source there are, by how full they are.
    """

    def __init__(self, shards: Sequence[Mapping[str, Sequence[int]]]) -> None:
        self.sources = sorted({name for shard in shards for name in shard})
        counts = np.zeros((len(shards), len(self.sources), LEVELS), np.int64)
        for number, shard in enumerate(shards):
            for source, name in enumerate(self.sources):
                if name in shard:
                    counts[number, source] = shard[name]
        self.of_all = NestedInterleaving(counts.sum(axis=0, keepdims=True))
        self.of_shards = NestedInterleaving(counts)
        self.first_rows: NDArray[np.int64] = np.cumsum([0, *counts.sum(axis=(1, 2))])
        """(G + 1,) the number of each shard's first row, and of all rows."""
        of_classes = counts.reshape(len(shards), -1)
        self.sizes: NDArray[np.int64] = of_classes.sum(axis=0)
        """Rows of each class."""
        self._begins: NDArray[np.int64] = np.cumsum([0, *of_classes.T.ravel()])
        self._first_of_class = self._begins[:: max(len(shards), 1)]

    def lying(
        self, classes: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where rows of classes lie: the shard of each, and which of its own rows, (N,) each."""
        rows = rows + self._first_of_class[classes]
        places = self._begins.searchsorted(rows, "right") - 1
        return places % (len(self.first_rows) - 1), rows - self._begins[places]


def interleaved_rows(manifests: Sequence[Manifest]) -> InterleavedRows | None:
    """Return the rows of all shards of some manifests; None unless those of each are interleaved."""
    if any(manifest.interleave != "exact" for manifest in manifests):
        return None
    return InterleavedRows([shard.source_rows or {} for one in manifests for shard in one.shards])


class InterleavedOrder(EpochOrder):
    """The rows of one epoch by position, in which they are interleaved.

    Args:
        rows: the rows.
        seed: the run's seed.
        epoch: the pass over the data.
    """

    def __init__(self, rows: InterleavedRows, *, seed: int, epoch: int) -> None:
        super().__init__(int(rows.first_rows[-1]), seed=seed, epoch=epoch)
        self._rows = rows
        seeds = [class_seed(name, part, seed=seed) for name in rows.sources for part in range(LEVELS)]
        self._permutations = Permutations(rows.sizes.tolist(), seeds=seeds, epoch=epoch)

    def _shuffled(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        rows = self._rows
        classes, numbers = rows.of_all.items(np.zeros_like(positions), positions)
        shards, numbers = rows.lying(classes, self._permutations.rows(classes, numbers))
        return rows.first_rows[shards] + rows.of_shards.places(shards, classes, numbers)


def class_seed(source: str, level: int, *, seed: int) -> int:
    """Return the seed of the orders of a source's rows that are so full."""
    return xxhash.xxh3_64_intdigest(source.encode() + bytes([level]), seed=seed)
