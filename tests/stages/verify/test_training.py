"""What training promises: an order of rows that follows the seed, clipped gradients, an honest count."""

from collections.abc import Callable

import pytest
import torch

from stages.objectives.learning import LearningSettings
from stages.verify import training as training_module
from stages.verify.model import TinyTransformer, summed_loss
from stages.verify.rows import LabelledRows
from stages.verify.training import step_rows, train
from tests.stages.verify.languages import NUM_IDS, language

SHORT = LearningSettings(
    row_length=32,
    labelled_tokens=3_000,
    warmup_steps=5,
    heldout_rows=40,
    min_labelled_tokens=1_000,
    min_heldout_tokens=500,
)


def test_the_order_of_rows_follows_the_seed() -> None:
    rows = language(40, seed=1)
    orders = [step_rows(rows, SHORT, seed=seed).tolist() for seed in (1, 2, 1)]
    assert orders[0] == orders[2] != orders[1]


@pytest.fixture
def steep(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let losses be what they are, and every gradient that many times as steep."""

    def multiplied(factor: float) -> None:
        def loss(model: TinyTransformer, batch: LabelledRows) -> tuple[torch.Tensor, int]:
            total, labelled = summed_loss(model, batch)
            return total.detach() + factor * (total - total.detach()), labelled

        monkeypatch.setattr(training_module, "summed_loss", loss)

    return multiplied


def test_a_steep_gradient_is_cut_to_a_norm_of_one(
    steep: Callable[[float], None],
) -> None:
    steep(1e6)
    result = train(language(40, seed=1), SHORT, num_ids=NUM_IDS, seed=0)
    last = [
        weights.grad.norm().item() for weights in result.model.parameters() if weights.grad is not None
    ]
    assert sum(norm**2 for norm in last) == pytest.approx(1.0, rel=1e-3)


def test_a_step_whose_gradient_is_not_finite_is_not_counted_as_finite(
    steep: Callable[[float], None],
) -> None:
    steep(3e38)  # the loss stays what it is
    result = train(language(40, seed=1), SHORT, num_ids=NUM_IDS, seed=0)
    assert result.finite_steps == 0
    assert result.steps > 0
