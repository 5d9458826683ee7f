"""What the learning check promises.

A language that can be learned passes, labels without relation to their inputs do not, and visible
labels trip the floor; documents of a row do not see each other; the same seed gives the same bits;
nothing outside is touched.
"""

import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from stages.errors import DataError
from stages.verify.gates import LearningConfig, LearningResult, gates
from stages.verify.learning import (
    check_learning,
    compact_ids,
    frequent_ids,
    learning_rate,
    permute_labels,
    shuffle_tokens,
    step_rows,
    train,
)
from stages.verify.model import (
    NO_LABEL,
    PADDING,
    LabelledRows,
    TinyTransformer,
    attention_mask,
    count_labelled,
    cut_windows,
    heldout_loss,
    log_unigram,
    shifted_labels,
    summed_loss,
    take_rows,
    unigram_entropy,
)

NUM_IDS = 64
QUICK = LearningConfig(
    row_length=32,
    labelled_tokens=16_000,
    warmup_steps=5,
    heldout_rows=40,
    min_labelled_tokens=1_000,
    min_heldout_tokens=500,
)
SHORT = QUICK.model_copy(update={"labelled_tokens": 3_000})


def rows_of(
    input_ids: list[list[int]],
    *,
    labels: list[list[int]] | None = None,
    segment_ids: list[list[int]] | None = None,
) -> LabelledRows:
    """Rows written out; labels are the inputs, each row one document, unless said otherwise."""
    inputs = np.array(input_ids, np.int64)
    segments = np.zeros(inputs.shape, np.int32)
    if segment_ids is not None:
        segments = np.array(segment_ids, np.int32)
    targets = np.where(segments == PADDING, NO_LABEL, inputs)
    if labels is not None:
        targets = np.array(labels, np.int64)
    return LabelledRows(inputs, targets, segments, positions_of(segments))


def positions_of(segment_ids: NDArray[np.int32]) -> NDArray[np.int32]:
    """The slow plain count of positions from each document's first token."""
    positions = np.zeros_like(segment_ids)
    for row, column in np.ndindex(segment_ids.shape):
        same = column > 0 and segment_ids[row, column] == segment_ids[row, column - 1]
        positions[row, column] = positions[row, column - 1] + 1 if same else 0
    return positions


def language(num_rows: int, *, seed: int, length: int = 96) -> LabelledRows:
    """A language where each token has two usual successors, 40 % each; documents of 24 tokens."""
    draws = np.random.default_rng(seed)
    successors = np.random.default_rng(0).permuted(np.tile(np.arange(NUM_IDS), (2, 1)), axis=1)
    tokens = np.empty((num_rows, length), np.int64)
    tokens[:, 0] = draws.integers(NUM_IDS, size=num_rows)
    for column in range(1, length):
        usual = successors[draws.integers(2, size=num_rows), tokens[:, column - 1]]
        other = draws.integers(NUM_IDS, size=num_rows)
        tokens[:, column] = np.where(draws.random(num_rows) < 0.8, usual, other)
    segments = np.tile(np.arange(length) // 24, (num_rows, 1)).astype(np.int32)
    return LabelledRows(tokens, tokens.copy(), segments, positions_of(segments))


def labels_permuted(rows: LabelledRows) -> LabelledRows:
    return permute_labels(rows, np.random.default_rng(3))


def labels_visible(rows: LabelledRows) -> LabelledRows:
    return replace(rows, labels=np.roll(rows.input_ids, 1, axis=1))


def tokens_shuffled(rows: LabelledRows) -> LabelledRows:
    return shuffle_tokens(rows, np.random.default_rng(3))


def check(
    damage: Callable[[LabelledRows], LabelledRows] = lambda rows: rows,
    *,
    config: LearningConfig = QUICK,
    seed: int = 0,
) -> LearningResult:
    training, heldout = language(200, seed=1), language(30, seed=2)
    return check_learning(damage(training), damage(heldout), config=config, seed=seed)


def failed(result: LearningResult) -> set[str]:
    return {gate.name for gate in result.gates if not gate.passed}


def tiny(num_ids: int, *, causal: bool = True) -> TinyTransformer:
    """A model whose output weights are not 0, so that its logits depend on what it reads."""
    generator = torch.Generator().manual_seed(0)
    model = TinyTransformer(torch.zeros(num_ids), generator, causal=causal)
    torch.nn.init.normal_(model.output_weight, generator=generator)
    return model


@torch.no_grad()
def logits_of(model: TinyTransformer, rows: LabelledRows) -> torch.Tensor:
    hidden = model(
        torch.from_numpy(rows.input_ids),
        torch.from_numpy(rows.segment_ids),
        position_ids=torch.from_numpy(rows.position_ids),
    )
    return model.logits(hidden)


def test_a_language_that_can_be_learned_passes_every_gate() -> None:
    result = check()
    assert failed(result) == set()
    assert result.passed
    assert result.gain > 0.5
    assert abs(result.control_gain) < 0.1
    assert result.curve[0][1] > result.curve[-1][1] + 0.5


@pytest.mark.parametrize(
    ("damage", "caught_by"),
    [
        (labels_permuted, {"gain", "order_ablation"}),
        (tokens_shuffled, {"gain", "order_ablation"}),
        (labels_visible, {"leak_floor"}),
    ],
)
def test_damaged_rows_fail_the_gates_meant_for_them(
    damage: Callable[[LabelledRows], LabelledRows], caught_by: set[str]
) -> None:
    result = check(damage)
    assert caught_by <= failed(result) <= caught_by | {"gain_over_control"}
    assert not result.passed


def test_the_same_seed_gives_the_same_bits_and_another_seed_others() -> None:
    first, second, other = (check(config=SHORT, seed=seed) for seed in (7, 7, 8))
    assert first == second
    assert json.dumps(first.curve) == json.dumps(second.curve)
    assert first.loss != other.loss


def test_global_generators_threads_and_arguments_are_left_alone() -> None:
    training, heldout = language(200, seed=1), language(30, seed=2)
    for array in (*vars(training).values(), *vars(heldout).values()):
        array.flags.writeable = False
    torch.manual_seed(5)
    before = torch.get_rng_state(), np.random.get_state(legacy=False)  # noqa: NPY002
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    told: list[tuple[str, int, int]] = []

    result = check_learning(
        training, heldout, config=SHORT, seed=0, progress=lambda *step: told.append(step)
    )

    after = torch.get_rng_state(), np.random.get_state(legacy=False)  # noqa: NPY002
    assert torch.equal(before[0], after[0])
    assert repr(before[1]) == repr(after[1])
    assert threads == torch.get_num_threads()
    assert deterministic == torch.are_deterministic_algorithms_enabled()
    steps = range(1, result.steps + 1)
    assert told == [(run, step, len(steps)) for run in ("labels", "control") for step in steps]


def test_a_document_changes_no_bit_of_its_neighbours_logits() -> None:
    rows = rows_of([[1, 2, 3, 4, 5, 6, 7, 8, 0]], segment_ids=[[0, 0, 0, 1, 1, 2, 2, 2, -1]])
    changed = replace(rows, input_ids=np.array([[9, 8, 7, 4, 5, 1, 2, 3, 9]]))
    model = tiny(10)
    before, after = logits_of(model, rows), logits_of(model, changed)
    assert torch.equal(before[:, 3:5], after[:, 3:5])
    assert not torch.equal(before[:, :3], after[:, :3])
    assert not torch.equal(before[:, 5:8], after[:, 5:8])


def test_a_packed_document_is_read_as_it_is_alone() -> None:
    packed = rows_of([[1, 2, 3, 4, 5, 6]], segment_ids=[[0, 0, 0, 1, 1, 1]])
    model = tiny(10)
    alone = logits_of(model, rows_of([[4, 5, 6]]))
    torch.testing.assert_close(logits_of(model, packed)[:, 3:], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_only_a_causal_model_is_blind_to_later_tokens(*, causal: bool) -> None:
    model = tiny(10, causal=causal)
    before, after = (logits_of(model, rows_of([[1, 2, 3, last]])) for last in (4, 9))
    assert torch.equal(before[:, :3], after[:, :3]) is causal


def test_the_mask_written_out() -> None:
    segments = torch.tensor([[0, 0, 1, -1]])
    causal = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    both_ways = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert attention_mask(segments, causal=True).int().tolist() == [[causal]]
    assert attention_mask(segments, causal=False).int().tolist() == [[both_ways]]


def test_the_first_loss_is_the_unigram_entropy() -> None:
    training, heldout = language(50, seed=1), language(20, seed=2)
    unigram = log_unigram(training, NUM_IDS)
    bias = torch.from_numpy(unigram).float()
    model = TinyTransformer(bias, torch.Generator().manual_seed(0))
    entropy = unigram_entropy(heldout, unigram)
    assert heldout_loss(model, heldout) == pytest.approx(entropy, abs=1e-3)


def test_the_unigram_entropy_written_out() -> None:
    training = rows_of([[2, 0, 0, 1]])
    heldout = rows_of([[2, 0, 2, 5, 5]], segment_ids=[[0, 0, 0, 1, -1]])
    assert np.exp(log_unigram(training, 3)).tolist() == pytest.approx([3 / 6, 2 / 6, 1 / 6])
    entropy = unigram_entropy(heldout, log_unigram(training, 3))
    assert entropy == pytest.approx(-(math.log(3 / 6) + math.log(1 / 6)) / 2)


def test_the_loss_is_that_of_a_plain_loop_over_labels() -> None:
    rows = rows_of(
        [[1, 2, 3, 4, 5, 6]],
        labels=[[1, 2, NO_LABEL, 4, 5, 6]],
        segment_ids=[[0, 0, 0, 1, 1, -1]],
    )
    model = tiny(10)
    log_probabilities = logits_of(model, rows).log_softmax(dim=-1)
    expected = -(log_probabilities[0, 0, 2] + log_probabilities[0, 3, 5])
    loss, labelled = summed_loss(model, rows)
    assert labelled == 2
    torch.testing.assert_close(loss.detach(), expected)


def test_rows_without_labels_cost_0_and_pull_nowhere() -> None:
    rows = rows_of([[1, 2, 3]], labels=[[NO_LABEL] * 3])
    model = tiny(10)
    loss, labelled = summed_loss(model, rows)
    loss.backward()  # type: ignore[no-untyped-call]
    gradients = [weights.grad for weights in model.parameters() if weights.grad is not None]
    assert (loss.item(), labelled) == (0.0, 0)
    assert len(gradients) > 10
    assert not any(gradient.any() for gradient in gradients)


def test_labels_are_predicted_from_their_own_document_alone() -> None:
    rows = rows_of([[3, 5, 7, 8, 0]], segment_ids=[[0, 0, 1, 1, -1]])
    assert shifted_labels(rows).tolist() == [[5, NO_LABEL, 8, NO_LABEL]]
    assert count_labelled(rows) == 2


def test_rows_are_cut_into_windows_and_the_last_is_padded() -> None:
    rows = rows_of([[1, 2, 3, 4, 5], [6, 7, 8, 9, 0]], segment_ids=[[0] * 5, [0, 0, 1, -1, -1]])
    cut = cut_windows(rows, 3)
    assert cut.input_ids.tolist() == [[1, 2, 3], [4, 5, 0], [6, 7, 8]]
    assert cut.labels.tolist() == [[1, 2, 3], [4, 5, NO_LABEL], [6, 7, 8]]
    assert cut.segment_ids.tolist() == [[0, 0, 0], [0, 0, -1], [0, 0, 1]]
    assert cut.position_ids.tolist() == [[0, 1, 2], [3, 4, 0], [0, 1, 0]]
    assert [array.dtype for array in vars(cut).values()] == [np.int64, np.int64, np.int32, np.int32]


def test_the_most_frequent_ids_keep_an_id_and_ties_go_by_number() -> None:
    rows = rows_of([[7, 9, 9, 4, 7, 2, 5, 5, 5]], segment_ids=[[0, 0, 0, 0, 0, 0, -1, -1, -1]])
    assert frequent_ids(rows, 4).tolist() == [7, 9, 2]
    assert frequent_ids(rows, 99).tolist() == [7, 9, 2, 4]


def test_rare_ids_become_one_input_id_and_no_label() -> None:
    rows = rows_of([[4, 9, 7, 9]], labels=[[4, 9, 7, NO_LABEL]])
    compact = compact_ids(rows, np.array([9, 4]))
    assert compact.input_ids.tolist() == [[1, 0, 2, 0]]
    assert compact.labels.tolist() == [[1, 0, NO_LABEL, NO_LABEL]]


def test_the_control_moves_labels_and_nothing_else() -> None:
    rows = language(20, seed=1)
    rows.labels[:, ::3] = NO_LABEL
    control = labels_permuted(rows)
    labelled = rows.labels != NO_LABEL
    assert control.input_ids is rows.input_ids
    assert np.array_equal(control.labels != NO_LABEL, labelled)
    assert np.array_equal(np.sort(control.labels[labelled]), np.sort(rows.labels[labelled]))
    assert (control.labels == rows.labels)[labelled].mean() < 0.1


def test_shuffled_tokens_stay_in_their_document_with_their_labels() -> None:
    rows = language(20, seed=1)
    rows = replace(rows, labels=rows.input_ids + 1000)
    shuffled = tokens_shuffled(rows)
    assert np.array_equal(shuffled.labels, shuffled.input_ids + 1000)
    assert (shuffled.input_ids == rows.input_ids).mean() < 0.2
    for document in range(4):
        inside = slice(24 * document, 24 * (document + 1))
        before, after = rows.input_ids[:, inside], shuffled.input_ids[:, inside]
        assert np.array_equal(np.sort(before, axis=1), np.sort(after, axis=1))


@pytest.mark.parametrize(("num_rows", "epochs"), [(40, 2.0), (5, 3.2)])
def test_steps_take_every_row_once_an_epoch_up_to_max_epochs(num_rows: int, epochs: float) -> None:
    rows = language(num_rows, seed=1)
    order = step_rows(rows, QUICK.model_copy(update={"max_epochs": epochs}), seed=0).ravel()
    assert len(order) == num_rows * epochs
    assert sorted(order[:num_rows]) == list(range(num_rows))


def test_training_stops_at_the_budget_of_labelled_tokens() -> None:
    rows = language(20, seed=1)
    trained = train(rows, SHORT, num_ids=NUM_IDS, seed=0)
    one_step = 16 * 92
    assert trained.labelled_tokens == trained.steps * one_step
    assert abs(trained.labelled_tokens - 3_000) <= one_step / 2


def test_the_learning_rate_rises_then_falls() -> None:
    rates = [learning_rate(step, 100, config=LearningConfig()) for step in range(100)]
    assert rates[0] == pytest.approx(1e-2 / 20)
    assert max(rates) == rates[19] == rates[20] == 1e-2
    assert rates[20:] == sorted(rates[20:], reverse=True)
    assert 0 < rates[-1] < 1e-5


@pytest.mark.parametrize(
    ("num_training", "num_heldout", "message"),
    [
        (0, 30, "0 labelled tokens in the training slice, but verify.min_labelled_tokens = 1,000"),
        (10, 30, "920 labelled tokens in the training slice, but verify.min_labelled_tokens = 1,000"),
        (200, 0, "0 labelled tokens in the held-out slice, but verify.min_heldout_tokens = 500"),
    ],
)
def test_too_few_labels_are_refused(num_training: int, num_heldout: int, message: str) -> None:
    rows = language(200, seed=1)
    training = take_rows(rows, np.arange(num_training))
    heldout = take_rows(rows, np.arange(num_heldout))
    config = QUICK.model_copy(update={"row_length": 96})
    with pytest.raises(DataError, match=message):
        check_learning(training, heldout, config=config, seed=0)


def test_a_loss_that_is_not_a_number_fails_and_is_null_in_json() -> None:
    result = LearningResult(
        unigram_entropy=4.0,
        loss=math.nan,
        control_loss=math.nan,
        gain=math.nan,
        control_gain=math.nan,
        order_ablation=math.nan,
        finite_share=0.5,
        labelled_tokens=100,
        steps=10,
        tokens_per_second=1.0,
        curve=((0, 4.0), (9, math.nan)),
        control_curve=((0, 4.0),),
    )
    result = replace(result, gates=gates(result, LearningConfig()))
    record = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert not result.passed
    assert failed(result) == {gate.name for gate in result.gates}
    assert (record["loss"], record["curve"], record["passed"]) == (
        None,
        [[0, 4.0], [9, None]],
        False,
    )
    assert record["gates"][0] == {"name": "gain", "value": None, "bound": 0.1, "passed": False}
