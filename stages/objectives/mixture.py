"""Mixtures: several objectives of one dataset, one for each document copy.

    document copies   A      B      C      D          weights 0.5  0.5
    component         t5     bart   t5     t5
    rows              A A . .    C C C .    D . . .   and    B B B .

Which component a document copy has is laid out, not drawn: its hash decides (components.py), so every
epoch has the same. Copies of one component are packed together, each row draws by its component alone,
and `objective_id` says which that was. Components must make columns of the same names for the same
attention: encoder-decoders with each other, or several settings of one kind.

Source: mixtures of denoisers, Tay et al. 2022, "UL2", section 3.1.2, arXiv 2205.05131; theirs is `ul2`.
"""

from typing import Annotated, Literal

from pydantic import Field

from stages.config import Config, one_of
from stages.objectives.objective import Objective
from stages.objectives.simple_kinds import SIMPLE_KINDS

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
