"""The gates of the learning check: what it measures, and the bounds it is held to.

Free of torch, so that reading a run file imports none.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from stages.objectives.learning import LearningConfig, LearningSettings
from stages.objectives.table import components_of, kind_of
from stages.objectives.traits import Objective


def settings_of(objective: Objective, config: LearningConfig) -> LearningSettings:
    """Return what the run file sets, and for the rest what an objective's check has of its own.

    A mixture is learned as its first component is, and held to what all of them are held to.
    """
    return own_settings(objective).model_copy(update=config.model_dump(exclude_none=True))


def own_settings(objective: Objective) -> LearningSettings:
    """Return the settings of an objective's check where a run file sets nothing."""
    components = components_of(objective)
    if not components:
        return kind_of(objective).learning(objective)
    parts = [own_settings(part) for part in components]
    orders = [p.min_order_ablation for p in parts if p.min_order_ablation is not None]
    bounds = {
        "gated": all(part.gated for part in parts),
        "min_gain": min(part.min_gain for part in parts),
        "min_order_ablation": min(orders) if len(orders) == len(parts) else None,
    }
    return parts[0].model_copy(update=bounds)


@dataclass(frozen=True)
class Gate:
    """One measured value, its bound, and whether it is on the right side of it; NaN never is."""

    name: str
    value: float
    bound: float
    passed: bool
    relation: Literal["at least", "at most"] = "at least"


def at_least(name: str, value: float, bound: float) -> Gate:
    """Return a gate that larger values pass."""
    return Gate(name, value, bound, passed=value >= bound)


def at_most(name: str, value: float, bound: float) -> Gate:
    """Return a gate that smaller values pass."""
    return Gate(name, value, bound, passed=value <= bound, relation="at most")


@dataclass(frozen=True)
class LearningResult:
    """What the check measured, losses in nats per label, and the gates it was held to."""

    unigram_entropy: float
    loss: float
    control_loss: float
    gain: float
    control_gain: float
    order_ablation: float
    finite_share: float
    labelled_tokens: int
    steps: int
    tokens_per_second: float = field(compare=False)
    curve: tuple[tuple[int, float], ...]
    control_curve: tuple[tuple[int, float], ...]
    apart_loss: float | None = None
    """Of EOS and sentinels, which the loss above leaves out; None without them."""
    gates: tuple[Gate, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every gate passed."""
        return all(gate.passed for gate in self.gates)

    def to_dict(self) -> dict[str, object]:
        """Return the result in the types of JSON; a number that is not finite becomes null."""
        return to_json(asdict(self) | {"passed": self.passed})


def to_json(values: Mapping[str, object]) -> dict[str, object]:
    """Return values in the types of JSON; a number that is not finite becomes null."""
    record: dict[str, object] = json.loads(json.dumps(values), parse_constant=lambda _: None)
    return record


def gates(result: LearningResult, config: LearningSettings) -> tuple[Gate, ...]:
    """Hold what was measured to its bounds."""
    finite = at_least("finite_share", result.finite_share, 1.0)
    if not config.gated:
        return (finite,)
    control_gain = max(result.control_gain, 0.0)  # in this order NaN stays NaN, which no gain reaches
    found = [
        at_least("gain", result.gain, config.min_gain),
        at_least("gain_over_control", result.gain, config.min_gain_ratio * control_gain),
        at_least("leak_floor", result.loss, config.leak_floor * result.unigram_entropy),
        finite,
    ]
    if config.min_order_ablation is not None:
        found.insert(3, at_least("order_ablation", result.order_ablation, config.min_order_ablation))
    return tuple(found)
