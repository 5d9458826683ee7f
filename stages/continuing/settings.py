"""Settings and results of models that go on from a checkpoint. Free of torch."""

from dataclasses import dataclass

from pydantic import Field

from stages.config import Config


class ContinueSettings(Config):
    """What the models of a comparison have in common."""

    tokens: int = Field(500_000, ge=1_000)
    """Tokens that each model reads in training; padding is none."""

    seeds: int = Field(1, ge=1, le=100)
    """Models of each dataset: seeds 1 to so many. A seed reads epochs of its own of the dataset, so it
    has its own order of rows; weights are drawn by it where the checkpoint has none."""

    step_tokens: int = Field(4_096, ge=1)
    """Tokens of a training step, of whole rows; at least the longest row."""

    learning_rate: float = Field(3e-4, gt=0)
    """Highest learning rate, at the end of the warm-up; half a cosine leads to 0."""

    warmup_steps: int = Field(20, ge=0)
    """Steps over which the learning rate rises to its highest; at most a quarter of all."""

    weight_decay: float = Field(0.1, ge=0)
    """Of weights with two axes or more; vectors have none."""

    evaluations: int = Field(8, ge=1)
    """Times that the losses are measured in training, the last time after it."""

    evaluation_tokens: int = Field(50_000, ge=1)
    """Most tokens of each evaluation set."""


@dataclass(frozen=True)
class HeldoutLoss:
    """The loss of a model on an evaluation set."""

    nats: float
    """Nats a token, over all tokens that have something before them in their document."""
    bits: float
    """Bits a byte: the same nats, over the bytes of text that these tokens stand for."""


@dataclass(frozen=True)
class Measurement:
    """The losses at one moment of a training."""

    step: int
    """Steps taken before."""
    tokens: int
    """Tokens read before."""
    losses: dict[str, HeldoutLoss]
    """By the name of the evaluation set."""


@dataclass(frozen=True)
class ContinuedModel:
    """What was measured of one model."""

    seed: int
    steps: int
    tokens: int
    labelled_tokens: int
    passes: tuple[float, ...]
    """Over the rows of each dataset, in the order of training."""
    measurements: tuple[Measurement, ...]
    """The first is before the first step."""
    seen: dict[str, float | None]
    """By evaluation set: share of its pieces whose beginning stands somewhere in what was trained on.
    None if no piece is long enough."""
    curve: tuple[tuple[int, float], ...]
    """(step, mean training loss of the steps since the last point)."""
