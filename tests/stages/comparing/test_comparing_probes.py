"""What probes promise: losses of a model of every text, and accuracy that luck does not give."""

import math

import numpy as np
import pytest
import torch

from stages.comparing.classes import bits_per_byte, classes_of, linear_accuracy
from stages.comparing.questions import ask
from stages.comparing.settings import IdCounts
from stages.objectives.traits import Form
from stages.objectives.vocabulary import vocabulary_of
from stages.verify.model import TinyTransformer

IDS = IdCounts(np.array([0, 1, 2, 3, 4, 5]), np.array([9, 5, 4, 3, 2, 1]))
KEPT = np.array([1, 0, 2])


def test_what_tells_rare_ids_apart_is_a_distribution_over_them() -> None:
    costs = IDS.rare_costs(KEPT)
    assert costs[KEPT].tolist() == [0, 0, 0]
    assert math.isclose(np.exp(-costs[3:]).sum(), 1)
    assert costs[3] < costs[4] < costs[5]


def test_a_model_that_knows_frequencies_alone_costs_their_entropy_in_bits_per_byte() -> None:
    shares = np.array([0.4, 0.1, 0.2, 0.3])  # of the ids 1, 0, 2 and of all others
    bias = torch.from_numpy(np.log(shares)).float()
    model = TinyTransformer(bias, torch.Generator().manual_seed(1))
    vocabulary = vocabulary_of(8, {"eos": 6, "pad": 7})
    asked = ask([np.array([1, 2, 5])], [[1, 2]], form=Form.NEXT, vocabulary=vocabulary)
    rare = (1 + 1) / (4 + 3 + 2)  # id 5 among the ids 3, 4, 5, one added to each count
    wanted = -math.log2(0.2 * 0.3 * rare) / (2 + 5)
    assert IDS.frequency_costs()[2] == pytest.approx(-math.log(5 / 30))
    assert bits_per_byte(model, asked, kept=KEPT, ids=IDS) == pytest.approx(wanted, rel=1e-5)


def test_a_linear_probe_tells_classes_that_knowledge_separates_and_no_others() -> None:
    classes = classes_of(["a", "b", "b", "few"] * 50 + ["rare"] * 3)
    assert classes is not None
    assert classes.names == ("a", "b", "few")
    random = np.random.Generator(np.random.Philox(5)).normal(size=(203, 8))
    known = random.copy()
    known[classes.places, classes.numbers] += 9
    assert linear_accuracy(known, classes) == 1
    assert linear_accuracy(random, classes) < 0.65
    assert classes.majority == pytest.approx(0.5)


def test_without_two_classes_large_enough_there_is_nothing_to_tell() -> None:
    assert classes_of(["a"] * 50 + ["b"] * 3) is None
