"""Mixtures, as the program knows them."""

from stages.objectives.components import WeightedObjective
from stages.objectives.kind import Composite
from stages.objectives.mixture import Mixture


def _components(config: Mixture) -> tuple[WeightedObjective, ...]:
    return tuple(
        WeightedObjective(f"{number} {part.objective.kind}", part.weight, part.objective)
        for number, part in enumerate(config.components)
    )


MIXTURE = Composite(config=Mixture, components=_components)
