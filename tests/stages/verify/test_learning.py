"""What the learning check promises.

A language that can be learned passes, labels without relation to their inputs do not, and visible
labels trip the floor, for each objective; the same seed gives the same bits; nothing outside is touched.
"""

import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from stages.errors import DataError
from stages.objectives.clm.config import CausalLM
from stages.objectives.learning import (
    MASKED_TOKENS,
    NEXT_TOKENS,
    TARGET_TOKENS,
    LearningConfig,
    LearningSettings,
)
from stages.objectives.mlm.config import MaskedLM
from stages.objectives.table import read_objective
from stages.verify.gates import LearningResult, gates, settings_of
from stages.verify.learning import check_learning
from stages.verify.rows import (
    NO_LABEL,
    LabelledRows,
    compact_ids,
    cut_windows,
    frequent_ids,
    permute_labels,
    shuffle_tokens,
    take_rows,
)
from stages.verify.training import learning_rate, step_rows, train
from tests.campaign import some_of
from tests.stages.verify.languages import (
    MASK,
    NUM_IDS,
    arrays_of,
    language,
    masked,
    restored,
    rows_of,
    topics,
)

pytestmark = pytest.mark.slow

QUICK = LearningSettings(
    min_order_ablation=0.3,
    row_length=32,
    labelled_tokens=8_000,
    warmup_steps=5,
    heldout_rows=40,
    min_labelled_tokens=1_000,
    min_heldout_tokens=500,
)
SHORT = QUICK.model_copy(update={"labelled_tokens": 3_000})
MASKED = LearningSettings(
    row_length=32,
    labelled_tokens=2_000,
    warmup_steps=5,
    heldout_rows=200,
    min_labelled_tokens=1_000,
    min_heldout_tokens=500,
    max_epochs=4.0,
)


def labels_permuted(rows: LabelledRows) -> LabelledRows:
    return permute_labels(rows, np.random.default_rng(3))


def labels_visible(rows: LabelledRows) -> LabelledRows:
    return replace(rows, labels=np.roll(rows.input_ids, 1, axis=1))


def tokens_shuffled(rows: LabelledRows) -> LabelledRows:
    return shuffle_tokens(rows, np.random.default_rng(3))


def check(
    damage: Callable[[LabelledRows], LabelledRows] = lambda rows: rows,
    *,
    config: LearningSettings = QUICK,
    seed: int = 0,
) -> LearningResult:
    training, heldout = language(200, seed=1), language(30, seed=2)
    return check_learning(damage(training), damage(heldout), config=config, seed=seed).result


def failed(result: LearningResult) -> set[str]:
    return {gate.name for gate in result.gates if not gate.passed}


def test_a_language_that_can_be_learned_passes_every_gate() -> None:
    result = check()
    assert failed(result) == set()
    assert result.passed
    assert result.gain > 0.5
    assert abs(result.control_gain) < 0.1
    assert result.curve[0][1] > result.curve[-1][1] + 0.5


DAMAGE: list[tuple[Callable[[LabelledRows], LabelledRows], set[str]]] = [
    (labels_permuted, {"gain", "order_ablation"}),
    (labels_visible, {"leak_floor"}),
    (tokens_shuffled, {"gain", "order_ablation"}),
]


@pytest.mark.parametrize(("damage", "caught_by"), some_of(DAMAGE, 2))
def test_damaged_rows_fail_the_gates_meant_for_them(
    damage: Callable[[LabelledRows], LabelledRows], caught_by: set[str]
) -> None:
    result = check(damage)
    assert caught_by <= failed(result) <= caught_by | {"gain_over_control"}
    assert not result.passed


MASKED_FAULTS: dict[str, tuple[Callable[[LabelledRows], LabelledRows], set[str]]] = {
    "correct": (lambda rows: rows, set()),
    "labels permuted": (labels_permuted, {"gain"}),
    "inputs show the labels": (lambda rows: replace(rows, input_ids=restored(rows)), {"leak_floor"}),
    "labels on all tokens": (lambda rows: replace(rows, labels=restored(rows)), {"leak_floor"}),
}


@pytest.mark.parametrize("fault", some_of(list(MASKED_FAULTS), 1))
def test_masked_rows_pass_and_fail_the_gates_meant_for_them(fault: str) -> None:
    damage, caught_by = MASKED_FAULTS[fault]
    training, heldout = masked(topics(200, seed=1), seed=1), masked(topics(60, seed=2), seed=2)
    budget = 16_000 if fault == "labels on all tokens" else MASKED.labelled_tokens  # in as many steps
    config = MASKED.model_copy(update={"labelled_tokens": budget})
    result = check_learning(damage(training), damage(heldout), config=config, seed=0).result
    assert caught_by <= failed(result) <= caught_by | ({"gain_over_control"} if caught_by else set())
    assert "order_ablation" not in {gate.name for gate in result.gates}


def test_the_mask_keeps_an_id_of_its_own_among_rarer_tokens() -> None:
    rows = masked(language(20, seed=1), seed=1)
    kept = frequent_ids(rows, 8)
    assert kept[0] == MASK
    compact = compact_ids(rows, kept)
    assert np.array_equal(compact.input_ids == 0, rows.input_ids == MASK)
    assert (compact.input_ids == len(kept)).any()
    assert (cut_windows(compact, 32).causal, take_rows(compact, np.arange(2)).causal) == (False, False)


def test_what_a_run_file_leaves_open_is_the_objectives_own() -> None:
    assert settings_of(CausalLM(), LearningConfig()) == NEXT_TOKENS
    chosen = settings_of(MaskedLM(), LearningConfig(labelled_tokens=40_000, min_gain=0.2))
    assert (chosen.labelled_tokens, chosen.min_gain) == (40_000, 0.2)
    assert chosen.batch_rows == MASKED_TOKENS.batch_rows


def settings(**objective: object) -> LearningSettings:
    return settings_of(read_objective(objective), LearningConfig())


def test_what_minutes_cannot_tell_is_held_to_no_gate_of_the_loss() -> None:
    assert settings(kind="prefix_lm").gated
    assert settings(kind="prefix_lm", architecture="encoder_decoder") == TARGET_TOKENS
    assert settings(kind="electra").gated
    assert not settings(kind="electra", generator="unigram").gated
    assert not settings(kind="electra", generator="model", model="package.module:make").gated
    assert all(not settings(kind=kind).gated for kind in ("bart", "nsp", "sop", "simcse"))


def test_a_mixture_is_held_to_what_all_its_components_are_held_to() -> None:
    def mixed(*kinds: str) -> LearningSettings:
        return settings(kind="mixture", components=[{"objective": {"kind": kind}} for kind in kinds])

    assert mixed("fim", "fim") == settings(kind="fim")
    assert mixed("mlm", "mlm") == MASKED_TOKENS
    assert mixed("span_corruption", "bart").gated is False
    spans = mixed("span_corruption", "span_corruption")
    assert (spans.gated, spans.min_gain, spans.min_order_ablation) == (True, 0.1, None)
    loose = LearningConfig(min_order_ablation=0.0)
    clm = {"objective": {"kind": "clm"}}
    both = read_objective({"kind": "mixture", "components": [clm, clm]})
    assert settings_of(both, loose).min_order_ablation == 0.0


def test_the_same_seed_gives_the_same_bits_and_another_seed_others() -> None:
    first, second, other = (check(config=SHORT, seed=seed) for seed in (7, 7, 8))
    assert first == second
    assert json.dumps(first.curve) == json.dumps(second.curve)
    assert first.loss != other.loss


def test_every_step_takes_one_thread_however_many_there_are() -> None:
    threads, used = torch.get_num_threads(), set()
    torch.set_num_threads(3)
    try:
        check_learning(
            language(200, seed=1),
            language(30, seed=2),
            config=SHORT,
            seed=0,
            progress=lambda *_: used.add(torch.get_num_threads()),
        )
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)
    assert used == {1}


def test_global_generators_threads_and_arguments_are_left_alone() -> None:
    training, heldout = language(200, seed=1), language(30, seed=2)
    for array in arrays_of(training) + arrays_of(heldout):
        array.flags.writeable = False
    torch.manual_seed(5)
    before = torch.get_rng_state(), np.random.get_state(legacy=False)  # noqa: NPY002
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    told: list[tuple[str, int, int]] = []

    result = check_learning(
        training, heldout, config=SHORT, seed=0, progress=lambda *step: told.append(step)
    ).result

    after = torch.get_rng_state(), np.random.get_state(legacy=False)  # noqa: NPY002
    assert torch.equal(before[0], after[0])
    assert repr(before[1]) == repr(after[1])
    assert threads == torch.get_num_threads()
    assert deterministic == torch.are_deterministic_algorithms_enabled()
    steps = range(1, result.steps + 1)
    assert told == [(run, step, len(steps)) for run in ("labels", "control") for step in steps]


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
    rates = [learning_rate(step, 100, config=NEXT_TOKENS) for step in range(100)]
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
    result = replace(result, gates=gates(result, NEXT_TOKENS))
    record = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert not result.passed
    assert failed(result) == {gate.name for gate in result.gates}
    assert (record["loss"], record["curve"], record["passed"]) == (
        None,
        [[0, 4.0], [9, None]],
        False,
    )
    assert record["gates"][0] == {
        "name": "gain",
        "value": None,
        "bound": 0.1,
        "passed": False,
        "relation": "at least",
    }


def test_labels_on_all_tokens_shorten_no_training() -> None:
    rows = masked(language(40, seed=1), seed=1)
    config = MASKED.model_copy(update={"label_share": 0.15, "labelled_tokens": 2_000})
    everywhere = replace(rows, labels=restored(rows))
    usual = step_rows(rows, config, seed=0)
    assert len(step_rows(everywhere, config, seed=0)) == pytest.approx(len(usual), rel=0.2)
    shorter = step_rows(everywhere, config.model_copy(update={"label_share": 1.0}), seed=0)
    assert len(shorter) < len(usual) / 4


def test_targets_without_eos_and_sentinels_have_no_loss_apart() -> None:
    plain = language(60, seed=1, length=32)
    rows = replace(
        plain,
        attention="encoder_decoder",
        segment_ids=np.zeros_like(plain.segment_ids),
        decoder_input_ids=np.roll(plain.labels, 1, axis=1),
        apart=(5,),
    )
    never = replace(rows, labels=np.where(rows.labels == 5, NO_LABEL, rows.labels))
    config = SHORT.model_copy(update={"labelled_tokens": 1_000, "gated": False})
    assert check_learning(rows, rows, config=config, seed=0).result.apart_loss is not None
    assert check_learning(rows, never, config=config, seed=0).result.apart_loss is None


def test_the_control_moves_no_label_that_ties_targets_to_inputs() -> None:
    rows = replace(language(40, seed=1), apart=(1, 3))
    moved = labels_permuted(rows)
    apart = np.isin(rows.labels, rows.apart)
    assert apart.any()
    assert np.array_equal(moved.labels[apart], rows.labels[apart])
    assert not np.isin(moved.labels[~apart], rows.apart).any()
    assert not np.array_equal(moved.labels, rows.labels)
