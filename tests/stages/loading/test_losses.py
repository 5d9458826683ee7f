"""What the losses promise.

Each is the mean over its labels that a plain loop gives, held to the position its objective says; no
batch gives NaN; what has no label pulls nowhere; half precision costs no accuracy of the sum.
"""

import math
from collections.abc import Callable
from collections.abc import Set as AbstractSet

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from stages.loading.losses import (
    Loss,
    causal_lm_loss,
    contrastive_loss,
    duplicate_rows,
    electra_loss,
    masked_lm_loss,
    next_labels,
    pair_classification_loss,
    replaced_token_loss,
    seq2seq_loss,
)
from stages.objectives.rows import IGNORED
from stages.verify.rows import LabelledRows, predicted_labels
from tests.campaign import examples

LABELS = [[3, 1, IGNORED, 4, 1], [IGNORED, 2, 0, IGNORED, IGNORED]]
SEGMENTS = [[0, 0, 0, 1, 1], [0, 1, 1, -1, -1]]
NUM_IDS = 6


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Return normal numbers that gradients flow into."""
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return values.requires_grad_()


def pull(loss: Loss, logits: Tensor) -> Tensor:
    """Return the gradient of a loss."""
    (gradient,) = torch.autograd.grad(loss.value, logits)
    return gradient


def plain(logits: Tensor, pairs: list[tuple[int, int, int]]) -> float:
    """Return the mean loss of (row, position, label), by the words of the definition."""
    rows = logits.tolist()
    losses = []
    for row, position, label in pairs:
        scores = rows[row][position]
        losses.append(math.log(sum(math.exp(score) for score in scores)) - scores[label])
    return float(np.mean(losses))


def test_a_causal_label_is_predicted_from_the_position_before() -> None:
    logits = normal(2, 5, NUM_IDS)
    loss = causal_lm_loss(logits, torch.tensor(LABELS))
    pairs = [(0, 0, 1), (0, 2, 4), (0, 3, 1), (1, 0, 2), (1, 1, 0)]
    assert loss.labels == 5
    assert loss.value.item() == pytest.approx(plain(logits, pairs), rel=1e-6)
    assert loss.total.item() == pytest.approx(5 * loss.value.item())


def test_with_segments_no_document_predicts_the_next() -> None:
    logits = normal(2, 5, NUM_IDS)
    loss = causal_lm_loss(logits, torch.tensor(LABELS), segment_ids=torch.tensor(SEGMENTS))
    assert loss.labels == 3
    expected = plain(logits, [(0, 0, 1), (0, 3, 1), (1, 1, 0)])
    assert loss.value.item() == pytest.approx(expected, rel=1e-6)


def test_next_labels_written_out() -> None:
    labels, segment_ids = torch.tensor([[3, 5, 7, 8, IGNORED]]), torch.tensor([[0, 0, 1, 1, -1]])
    assert next_labels(labels).tolist() == [[5, 7, 8, IGNORED]]
    assert next_labels(labels, segment_ids).tolist() == [[5, IGNORED, 8, IGNORED]]
    pad = 9
    padded, segment_ids = torch.tensor([[3, 5, pad, pad]]), torch.tensor([[0, 0, -1, -1]])
    assert next_labels(padded, segment_ids).tolist() == [[5, IGNORED, IGNORED]]


def test_next_labels_are_those_that_verify_trains_on() -> None:
    generator = np.random.Generator(np.random.Philox(key=1))
    segment_ids = np.sort(generator.integers(0, 4, (50, 12)), axis=1).astype(np.int32)
    segment_ids[np.arange(12) >= generator.integers(0, 13, (50, 1))] = -1
    labels = np.where(segment_ids < 0, IGNORED, generator.integers(0, 9, (50, 12)))
    rows = LabelledRows(labels, labels, segment_ids, segment_ids)
    expected = predicted_labels(rows)
    given = next_labels(torch.from_numpy(labels), torch.from_numpy(segment_ids))
    assert np.array_equal(given.numpy(), expected)
    assert (expected != next_labels(torch.from_numpy(labels)).numpy()).any()


def test_shifting_labels_before_predicts_the_token_after_the_next() -> None:
    labels = torch.tensor([[3, 1, 4, 1, 5, 2]])
    knowing = 20.0 * functional.one_hot(labels.roll(-1, dims=1), NUM_IDS).float()
    right = causal_lm_loss(knowing, labels)
    shifted_twice = causal_lm_loss(knowing, functional.pad(labels[:, 1:], (0, 1), value=IGNORED))
    assert right.value < 1e-6
    assert (right.labels, shifted_twice.labels) == (5, 4)
    assert shifted_twice.value.item() == pytest.approx(20, abs=1e-6)


@pytest.mark.parametrize("loss_of", [masked_lm_loss, seq2seq_loss])
def test_other_labels_are_predicted_where_they_stand(loss_of: Callable[[Tensor, Tensor], Loss]) -> None:
    logits, labels = normal(2, 5, NUM_IDS), torch.tensor(LABELS)
    loss = loss_of(logits, labels)
    pairs = [(0, 0, 3), (0, 1, 1), (0, 3, 4), (0, 4, 1), (1, 1, 2), (1, 2, 0)]
    assert loss.labels == 6
    assert loss.value.item() == pytest.approx(plain(logits, pairs), rel=1e-6)
    torch.testing.assert_close(
        loss.value, functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    )


def test_replaced_tokens_are_told_at_every_token_of_the_text() -> None:
    logits, labels = normal(2, 3), torch.tensor([[0, 1, 0], [1, IGNORED, IGNORED]])
    loss = replaced_token_loss(logits, labels)
    (a, b, c), (d, *_) = logits.tolist()
    softplus = [math.log1p(math.exp(score)) for score in (a, -b, c, -d)]
    assert loss.labels == 4
    assert loss.value.item() == pytest.approx(sum(softplus) / 4, rel=1e-6)


def test_electra_weighs_the_discriminator_by_50() -> None:
    masked = masked_lm_loss(normal(2, 5, NUM_IDS), torch.tensor(LABELS))
    replaced = replaced_token_loss(normal(2, 3), torch.tensor([[0, 1, 0], [1, 0, IGNORED]]))
    both = electra_loss(masked, replaced)
    torch.testing.assert_close(both, masked.value + 50 * replaced.value)
    torch.testing.assert_close(electra_loss(masked, replaced, weight=0), masked.value)


def test_pairs_are_told_by_their_rows_label() -> None:
    logits, labels = normal(4, 2), torch.tensor([0, 1, IGNORED, 1])
    loss = pair_classification_loss(logits, labels)
    kept = torch.tensor([0, 1, 3])
    assert loss.labels == 3
    torch.testing.assert_close(loss.value, functional.cross_entropy(logits[kept], labels[kept]))


LABELLED = [
    (causal_lm_loss, (2, 5, NUM_IDS), LABELS),
    (masked_lm_loss, (2, 5, NUM_IDS), LABELS),
    (seq2seq_loss, (2, 5, NUM_IDS), LABELS),
    (replaced_token_loss, (2, 5), [[0, 1, IGNORED, 0, 1], [IGNORED, 1, 0, IGNORED, IGNORED]]),
    (pair_classification_loss, (5, 2), [1, IGNORED, 0, IGNORED, 1]),
]
EVERY = pytest.mark.parametrize(("loss_of", "shape", "labels"), LABELLED)
LossOf = Callable[[Tensor, Tensor], Loss]


def predicted(loss_of: LossOf, labels: Tensor) -> Tensor:
    """Say which positions are held to a label."""
    if loss_of is causal_lm_loss:
        return functional.pad(labels[:, 1:], (0, 1), value=IGNORED) != IGNORED
    return labels != IGNORED


@EVERY
def test_no_label_costs_0_and_pulls_nowhere(
    loss_of: LossOf, shape: tuple[int, ...], labels: list[int]
) -> None:
    logits = normal(*shape)
    loss = loss_of(logits, torch.full_like(torch.tensor(labels), IGNORED))
    assert (loss.value.item(), loss.labels, loss.total.item()) == (0.0, 0, 0.0)
    assert torch.equal(pull(loss, logits), torch.zeros(shape))


@EVERY
def test_positions_without_a_label_pull_nowhere_even_if_they_are_no_numbers(
    loss_of: LossOf, shape: tuple[int, ...], labels: list[int]
) -> None:
    held = predicted(loss_of, torch.tensor(labels))
    assert held.any()
    assert not held.all()
    clean = normal(*shape)
    broken = clean.detach().clone()
    broken[~held] = torch.nan
    broken.requires_grad_()
    loss = loss_of(broken, torch.tensor(labels))
    gradient = pull(loss, broken)
    assert torch.equal(loss.value, loss_of(clean, torch.tensor(labels)).value)
    assert torch.equal(gradient[~held], torch.zeros_like(gradient[~held]))
    assert gradient.isfinite().all()
    assert gradient[held].reshape(int(held.sum()), -1).any(dim=1).all()


@EVERY
def test_gradients_are_those_of_finite_differences(
    loss_of: LossOf, shape: tuple[int, ...], labels: list[int]
) -> None:
    logits = normal(*shape).detach().double().requires_grad_()
    assert torch.autograd.gradcheck(lambda scores: loss_of(scores, torch.tensor(labels)).value, logits)


@EVERY
def test_half_precision_is_summed_in_single(
    loss_of: LossOf, shape: tuple[int, ...], labels: list[int]
) -> None:
    repeats = [400, *[1] * (len(shape) - 1)]
    many = torch.tensor(labels).repeat(400, *[1] * (torch.tensor(labels).ndim - 1))
    half = normal(*shape).detach().repeat(repeats).bfloat16().requires_grad_()
    loss = loss_of(half, many)
    assert loss.value.dtype == torch.float32
    assert pull(loss, half).dtype == torch.bfloat16
    torch.testing.assert_close(loss.value, loss_of(half.detach().double(), many).value.float())


@EVERY
def test_labels_of_any_integer_type_will_do(
    loss_of: LossOf, shape: tuple[int, ...], labels: list[int]
) -> None:
    logits = normal(*shape)
    stored = loss_of(logits, torch.tensor(labels, dtype=torch.int32))
    assert torch.equal(stored.value, loss_of(logits, torch.tensor(labels)).value)


def test_micro_batches_put_together_by_their_counts_are_the_whole_batch() -> None:
    logits, labels = normal(2, 5, NUM_IDS), torch.tensor(LABELS)
    whole = causal_lm_loss(logits, labels)
    parts = [causal_lm_loss(logits[row : row + 1], labels[row : row + 1]) for row in range(2)]
    assert [part.labels for part in parts] == [3, 2]
    together = (parts[0].total + parts[1].total) / sum(part.labels for part in parts)
    torch.testing.assert_close(together, whole.value)
    assert not torch.isclose((parts[0].value + parts[1].value) / 2, whole.value)


def plain_contrast(
    first: Tensor,
    second: Tensor,
    *,
    negatives: Tensor | None = None,
    left_out: AbstractSet[tuple[int, int]] = frozenset(),
) -> float:
    """Return the mean loss of equation 1 of the paper, or 5 with negatives, in plain loops."""

    def score(one: Tensor, other: Tensor) -> float:
        product = sum(a * b for a, b in zip(one.tolist(), other.tolist(), strict=True))
        return math.exp(product / (math.hypot(*one.tolist()) * math.hypot(*other.tolist())) / 0.05)

    losses = []
    for row, anchor in enumerate(first):
        against = [score(anchor, z) for number, z in enumerate(second) if (row, number) not in left_out]
        against += [score(anchor, z) for z in negatives] if negatives is not None else []
        losses.append(math.log(sum(against)) - math.log(score(anchor, second[row])))
    return sum(losses) / len(losses)


def test_views_are_told_from_those_of_the_batch() -> None:
    first, second, third = (normal(4, 3, seed=seed) for seed in range(3))
    loss = contrastive_loss(first, second)
    assert loss.labels == 4
    assert loss.value.item() == pytest.approx(plain_contrast(first, second), rel=1e-5)
    cosines = functional.cosine_similarity(first[:, None], second[None], dim=2)
    torch.testing.assert_close(loss.value, functional.cross_entropy(cosines / 0.05, torch.arange(4)))
    harder = contrastive_loss(first, second, hard_negatives=third)
    assert harder.value.item() == pytest.approx(plain_contrast(first, second, negatives=third), rel=1e-5)
    assert harder.value > loss.value


def test_rows_of_the_same_text_are_no_wrong_answers() -> None:
    first, second, third = (normal(4, 3, seed=seed) for seed in range(3))
    same = duplicate_rows(torch.tensor([[5, 6, 7], [5, 6, 8], [5, 6, 7], [9, 6, 7]]))
    expected = np.eye(4, dtype=bool)
    expected[0, 2] = expected[2, 0] = True
    assert same.tolist() == expected.tolist()
    loss = contrastive_loss(first, second, same=same, hard_negatives=third)
    plainly = plain_contrast(first, second, negatives=third, left_out={(0, 2), (2, 0)})
    assert loss.value.item() == pytest.approx(plainly, rel=1e-5)
    assert loss.value < contrastive_loss(first, second, hard_negatives=third).value
    gradient = pull(contrastive_loss(first, second, same=torch.ones(4, 4).bool()), first)
    assert torch.equal(gradient, torch.zeros(4, 3))


@settings(deadline=None, max_examples=examples(40))
@given(st.integers(1, 7), st.integers(1, 5), st.integers(0, 99), st.sampled_from([0.05, 1.0]))
def test_any_row_is_held_to_its_own_number_among_cosines(
    rows: int, size: int, seed: int, temperature: float
) -> None:
    first, second = normal(rows, size, seed=seed), normal(rows, size, seed=seed + 100)
    loss = contrastive_loss(first, second, temperature=temperature)
    cosines = functional.cosine_similarity(first[:, None], second[None], dim=2)
    expected = functional.cross_entropy(cosines / temperature, torch.arange(rows))
    assert loss.labels == rows
    torch.testing.assert_close(loss.value, expected)
    assert rows > 1 or loss.value.item() == 0.0


@settings(deadline=None, max_examples=examples(60))
@given(
    st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(st.integers(3, 5), min_size=n, max_size=n)))
)
def test_any_rows_are_duplicates_where_all_their_ids_are_the_same(rows: list[list[int]]) -> None:
    same = duplicate_rows(torch.tensor(rows or np.empty((0, 4)), dtype=torch.int64))
    assert same.tolist() == [[one == other for other in rows] for one in rows]


def test_one_row_has_nothing_to_tell_apart() -> None:
    first, second = normal(1, 3), normal(1, 3, seed=1)
    loss = contrastive_loss(first, second)
    assert (loss.value.item(), loss.labels) == (0.0, 1)
    assert torch.equal(pull(loss, first), torch.zeros(1, 3))
    assert contrastive_loss(first, second, hard_negatives=second).value.item() == pytest.approx(
        math.log(2)
    )


def test_no_rows_cost_nothing() -> None:
    loss = contrastive_loss(torch.empty(0, 3), torch.empty(0, 3))
    assert (loss.value.item(), loss.labels) == (0.0, 0)
    assert duplicate_rows(torch.empty(0, 4, dtype=torch.int64)).shape == (0, 0)


def test_only_the_direction_of_an_embedding_counts_and_0_has_a_finite_gradient() -> None:
    first, second = normal(3, 4), normal(3, 4, seed=1)
    loss = contrastive_loss(first, second)
    torch.testing.assert_close(contrastive_loss(first * 1e3, second / 1e3).value, loss.value)
    small = contrastive_loss(first * 1e-4, second * 1e-4)
    torch.testing.assert_close(small.value, loss.value)
    nothing = torch.zeros(3, 4, requires_grad=True)
    assert pull(contrastive_loss(nothing, second), nothing).isfinite().all()


def test_autocast_does_not_round_cosines() -> None:
    first, second = normal(16, 8), normal(16, 8, seed=1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (first @ second.T).dtype == torch.bfloat16
        inside = contrastive_loss(first, second)
    assert torch.equal(inside.value, contrastive_loss(first, second).value)
    half = contrastive_loss(first.bfloat16(), second.bfloat16())
    exact = contrastive_loss(first.bfloat16().double(), second.bfloat16().double())
    assert half.value.dtype == torch.float32
    torch.testing.assert_close(half.value, exact.value.float())


def test_a_row_without_a_hard_negative_adds_none() -> None:
    first, second, third = (normal(4, 3, seed=seed) for seed in range(3))
    has = torch.tensor([True, False, True, False])
    loss = contrastive_loss(first, second, hard_negatives=third, negative_of=has)
    wanted = contrastive_loss(first, second, hard_negatives=third[has])
    assert loss.value.item() == pytest.approx(wanted.value.item(), rel=1e-6)
    nothing = third.detach().clone()
    nothing[1] = torch.nan
    again = contrastive_loss(first, second, hard_negatives=nothing.requires_grad_(), negative_of=has)
    assert again.value.item() == pytest.approx(wanted.value.item(), rel=1e-6)
    assert torch.equal(pull(again, nothing)[~has], torch.zeros(2, 3))
    again = contrastive_loss(first, second, hard_negatives=nothing, negative_of=has)
    assert torch.isfinite(pull(again, first)).all()
    none = contrastive_loss(first, second, hard_negatives=third, negative_of=torch.zeros(4).bool())
    assert none.value.item() == pytest.approx(contrastive_loss(first, second).value.item(), rel=1e-6)
