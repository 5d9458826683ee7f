"""What gates promise: a value on the right side of its bound passes; what is no number never does."""

import math
from dataclasses import replace

import pytest

from stages.objectives.learning import LearningSettings
from stages.verify.gates import LearningResult, at_least, at_most, gates

RESULT = LearningResult(
    unigram_entropy=6.0,
    loss=5.0,
    control_loss=5.9,
    gain=1.0,
    control_gain=0.1,
    order_ablation=0.5,
    finite_share=1.0,
    labelled_tokens=1000,
    steps=10,
    tokens_per_second=1.0,
    curve=(),
    control_curve=(),
)
CONFIG = LearningSettings(min_order_ablation=0.3)


def failed(result: LearningResult, config: LearningSettings = CONFIG) -> list[str]:
    """Return the gates that a result does not pass."""
    return [gate.name for gate in gates(result, config) if not gate.passed]


def test_a_bound_itself_passes_and_nan_passes_neither_way() -> None:
    assert at_least("a", 1.0, 1.0).passed
    assert not at_least("a", 0.999, 1.0).passed
    assert at_most("a", 1.0, 1.0).passed
    assert not at_most("a", 1.001, 1.0).passed
    for gate in (at_least, at_most):
        assert not gate("a", math.nan, 1.0).passed
        assert not gate("a", 1.0, math.nan).passed


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, []),
        ({"gain": 0.099, "control_gain": 0.0}, ["gain"]),
        ({"gain": 0.49}, ["gain_over_control"]),
        ({"gain": 0.5}, []),
        ({"gain": 0.1, "control_gain": -9.0}, []),
        ({"control_gain": math.nan}, ["gain_over_control"]),
        ({"loss": 1.49}, ["leak_floor"]),
        ({"order_ablation": 0.29}, ["order_ablation"]),
        ({"finite_share": 0.999}, ["finite_share"]),
        ({"gain": math.nan}, ["gain", "gain_over_control"]),
    ],
)
def test_each_gate_has_its_own_bound(changes: dict[str, float], names: list[str]) -> None:
    assert failed(replace(RESULT, **changes)) == names  # type: ignore[arg-type]  # names of floats


def test_what_is_held_to_no_gate_of_the_loss_must_still_be_finite() -> None:
    config = LearningSettings(gated=False)
    hopeless = replace(RESULT, gain=-1.0, loss=0.0, order_ablation=0.0)
    assert failed(hopeless, config) == []
    assert failed(replace(hopeless, finite_share=0.5), config) == ["finite_share"]
