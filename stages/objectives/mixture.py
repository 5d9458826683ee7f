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

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field

from stages.config import Config
from stages.objectives.bart import BART
from stages.objectives.clm import CausalLM
from stages.objectives.components import (
    Restored,
    choose_by_weight,
    draw_by_component,
    restore_by_component,
)
from stages.objectives.electra import ReplacedTokens
from stages.objectives.fim import FIM
from stages.objectives.mlm import MaskedLM
from stages.objectives.prefix_lm import PrefixLM
from stages.objectives.rows import Columns, StoredRows
from stages.objectives.span_corruption import SpanCorruption

ComponentObjective = Annotated[
    BART | CausalLM | FIM | MaskedLM | PrefixLM | ReplacedTokens | SpanCorruption,
    Field(discriminator="kind"),
]
"""What may be mixed."""


class Component(Config):
    """One objective of a mixture."""

    weight: float = Field(1.0, gt=0.0)
    """How likely a document copy is to have it, in any unit."""
    objective: ComponentObjective
    """What is learned from its rows."""


class Mixture(Config):
    """Several objectives in one dataset, chosen by document copy."""

    kind: Literal["mixture"] = "mixture"
    """Names the objective."""
    components: tuple[Component, ...] = Field(min_length=2, max_length=255)
    """The objectives, in the order in which `objective_id` counts them."""


def choose_mixed(hashed: int, config: Mixture) -> int:
    """Give the component of a document copy by its hash below 2**64, as likely as its weight."""
    return choose_by_weight(hashed, tuple(part.weight for part in config.components))


def draw_mixture(
    rows: StoredRows, config: Mixture, draw: Callable[[StoredRows, ComponentObjective], Columns]
) -> Columns:
    """Give each row's columns by its component, and `objective_id` (N,) int32.

    Raises:
        FormatError: a row of no component, or one that its component refuses.
    """
    parts = config.components
    return draw_by_component(rows, len(parts), lambda n, some: draw(some, parts[n].objective))


def restore_mixture(
    columns: Columns,
    config: Mixture,
    restore: Callable[[Columns, ComponentObjective], Restored],
    *,
    pad: int,
) -> Restored:
    """Give the clean tokens of rows back, each by the component that `objective_id` names."""
    parts = config.components
    return restore_by_component(
        columns, len(parts), lambda n, some: restore(some, parts[n].objective), pad=pad
    )
