"""Settings: the one budget that every model of a comparison has. Free of torch."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from stages.config import Config


class CompareSettings(Config):
    """What the models of a comparison have in common."""

    tokens: int = Field(500_000, ge=1_000)
    """Tokens that each model reads in training, those of its decoder among them; padding is none."""

    seeds: int = Field(1, ge=1, le=100)
    """Models of each dataset: seeds 1 to so many, of weights and of the order of rows."""

    step_tokens: int = Field(2_048, ge=1)
    """Tokens of a training step: as many steps for all, however rows are filled."""

    max_ids: int = Field(2_048, ge=2)
    """Ids with an output of their own; one more stands for all rarer ones, told apart by frequency."""

    heldout_tokens: int = Field(50_000, ge=1)
    """Tokens of the validation split on which a model's own loss is measured."""

    documents: int = Field(600, ge=2)
    """Most documents that are asked about, of each kind."""

    places: int = Field(4, ge=1)
    """Tokens of a document that are asked for."""

    learning_rate: float = Field(5e-3, gt=0)
    """Highest learning rate, at the end of the warm-up."""

    warmup_steps: int = Field(20, ge=0)
    """Steps over which the learning rate rises to its highest."""


@dataclass(frozen=True, eq=False)
class IdCounts:
    """What is known of a vocabulary's ids.

    Args:
        num_bytes: (V,) int64, of text that each id stands for; 0 of special ids.
        counts: (V,) int64, how often each stands in the texts trained on.
    """

    num_bytes: NDArray[np.int64]
    counts: NDArray[np.int64]

    def frequency_costs(self) -> NDArray[np.float64]:
        """Return the nats that each id costs by its frequency alone, (V,), one added to each count."""
        return np.asarray(math.log(int(self.counts.sum()) + len(self.counts)) - np.log(self.counts + 1))

    def rare_costs(self, kept: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the nats by which each id is told from the other rare ones, (V,); 0 of those kept."""
        rare = np.ones(len(self.counts), np.bool_)
        rare[kept[kept < len(rare)]] = False
        weights = np.where(rare, self.counts + 1, 0)
        costs = math.log(max(int(weights.sum()), 1)) - np.log(np.maximum(weights, 1))
        return np.where(rare, costs, 0.0)


@dataclass(frozen=True)
class MemorisedBits:
    """Bits per byte of going on in texts that training held several times, once, or never."""

    repeated: float
    once: float
    fresh: float


@dataclass(frozen=True)
class ModelMeasures:
    """What was measured of one model; losses in nats per label, probes in bits per byte of text."""

    seed: int
    tokens: int
    labelled_tokens: int
    passes: float
    """Over the rows of the dataset."""
    unigram_entropy: float
    loss: float
    gain: float
    frequencies: float
    """What the tokens asked for cost by their frequency in training alone, of the tokenizer's ids."""
    going_on: float | None
    """Of tokens, given what stands before them; None if no row of the objective asks so."""
    filling_in: float | None
    """Of tokens, given all others of their text."""
    accuracy: float | None
    """Of a linear probe on what the model knows of a text; None without two classes of documents."""
    untrained_accuracy: float | None
    """Of the same probe on the model before its first step."""
    memorised: MemorisedBits | None
    """None without texts that are repeated, or without going on."""
    curve: tuple[tuple[int, float], ...]
    """(step, mean training loss of the steps since the last point)."""
