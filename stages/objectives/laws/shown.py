"""Shown rows: rows of a shard as they are stored, and as a trainer gets them, for laws to compare."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stages.objectives.rows import Columns, StoredRows, lengths_without_eos
from stages.objectives.vocabulary import Vocabulary
from stages.objectives.whole_shard import WholeShard
from stages.pieces import Pieces


@dataclass(frozen=True, eq=False)
class ShardContext:
    """One shard, as laws ask for it that look beyond a row: D documents in S segments."""

    whole: WholeShard
    row_components: NDArray[np.integer] | None = None
    """The component of each row of a mixture: (R,)."""
    pieces: Pieces | None = None
    """What each id decodes to; None if nobody asks."""

    @cached_property
    def segment_components(self) -> NDArray[np.int64]:
        """The component of each segment's row: (S,)."""
        assert self.row_components is not None, "it is no mixture's"
        return np.asarray(self.row_components, np.int64)[self.whole.segment_rows]

    @cached_property
    def components(self) -> NDArray[np.int64]:
        """The component of each document, -1 of one without a row: (D,)."""
        found = np.full(self.whole.documents, -1, np.int64)
        found[self.whole.segments["doc"]] = self.segment_components
        return found

    @cached_property
    def sources(self) -> NDArray[np.object_]:
        """The source of each document: (D,)."""
        assert self.whole.sources is not None, "nobody asked for sources"
        return np.array(self.whole.sources, object)


@dataclass(frozen=True, eq=False)
class ShownRows:
    """N rows of one shard, in the shard's order."""

    stored: StoredRows
    """As they are on disk, keyed for epoch 0."""
    epochs: tuple[Columns, ...]
    """What a trainer gets of them: one epoch, or two if epochs differ."""
    vocabulary: Vocabulary
    shard: ShardContext

    @cached_property
    def lengths_without_eos(self) -> NDArray[np.int64]:
        """Tokens of each row, less an EOS at its end: (N,)."""
        return lengths_without_eos(self.stored, self.vocabulary.named("eos"))

    @cached_property
    def documents(self) -> NDArray[np.int64]:
        """The document of each segment of the rows: (S,)."""
        whole = self.shard.whole
        found = whole.segments["doc"][whole.segments_in(self.stored.numbers)]
        return np.asarray(found, np.int64)

    def take(self, chosen: NDArray[np.int64]) -> "ShownRows":
        """Return some of the rows."""
        epochs = tuple({name: column[chosen] for name, column in each.items()} for each in self.epochs)
        return replace(self, stored=self.stored.take(chosen), epochs=epochs)
