"""Mixtures, as the program knows them.

Mixtures: several objectives of one dataset, one for each document copy.

    document copies   A      B      C      D          weights 0.5  0.5
    component         t5     bart   t5     t5
    rows              A A . .    C C C .    D . . .   and    B B B .

Which component a document copy has is laid out, not drawn: its hash decides (components.py), so every
epoch has the same. Copies of one component are packed together, each row draws by its component alone,
and `objective_id` says which that was. Components must make columns of the same names for the same
attention: encoder-decoders with each other, or several settings of one kind.

Source: mixtures of denoisers, Tay et al. 2022, "UL2", section 3.1.2, arXiv 2205.05131; theirs is `ul2`.

Draws of mixtures: which component each document belongs to.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from stages.config import Config, one_of
from stages.objectives.components import WeightedObjective
from stages.objectives.kind import Composite
from stages.objectives.laws.draws import Draws
from stages.objectives.laws.shown import ShardContext
from stages.objectives.simple_kinds import SIMPLE_KINDS
from stages.objectives.traits import Objective

MixedObjective = Annotated[Objective, one_of(kind.config for kind in SIMPLE_KINDS if kind.mixes)]
"""What may be mixed."""


class Component(Config):
    """One objective of a mixture."""

    weight: float = Field(1.0, gt=0.0)
    """How likely a document copy is to have it, in any unit."""
    objective: MixedObjective
    """What is learned from its rows."""


class Mixture(Objective):
    """Several objectives in one dataset, chosen by document copy."""

    kind: Literal["mixture"] = "mixture"
    """Names the objective."""
    components: tuple[Component, ...] = Field(min_length=2, max_length=255)
    """The objectives, in the order in which `objective_id` counts them."""


def _components(config: Mixture) -> tuple[WeightedObjective, ...]:
    return tuple(
        WeightedObjective(f"{number} {part.objective.kind}", part.weight, part.objective)
        for number, part in enumerate(config.components)
    )


MIXTURE = Composite(config=Mixture, components=_components, category="text-generation")


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
