"""Draws of mixtures: which component each document belongs to."""

from collections.abc import Sequence

import numpy as np

from stages.objectives.components import WeightedObjective
from stages.objectives.laws.draws import Draws
from stages.objectives.laws.shown import ShardContext


def count_documents(draws: Draws, parts: Sequence[WeightedObjective], shard: ShardContext) -> None:
    """Count which documents of a whole shard have which component."""
    of, documents = shard.components, shard.whole.segments["doc"]
    wrong = np.zeros(len(of), np.bool_)
    wrong[documents[of[documents] != shard.segment_components]] = True
    draws.exact("documents have one component", wrong)
    placed, total = int(np.count_nonzero(of >= 0)), sum(part.weight for part in parts)
    for number, (name, weight, _) in enumerate(parts):
        found = int(np.count_nonzero(of == number))
        draws.share(f"{name}: share of documents", placed, found, weight / total)
