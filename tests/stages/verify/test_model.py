"""What the tiny model promises.

Documents of a row do not see each other; the first loss is the unigram entropy; the loss is that of a
plain loop over labels, each predicted where its objective says.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from stages.verify.model import TinyTransformer, heldout_loss, summed_loss
from stages.verify.rows import (
    NO_LABEL,
    LabelledRows,
    count_labelled,
    cut_windows,
    log_unigram,
    predicted_labels,
    unigram_entropy,
)
from tests.stages.verify.languages import (
    BOTH_WAYS,
    NUM_IDS,
    arrays_of,
    language,
    logits_of,
    rows_of,
    tiny,
)


def test_a_masked_label_is_predicted_where_it_stands() -> None:
    rows = rows_of([[3, 9, 7]], labels=[[NO_LABEL, 5, NO_LABEL]])
    rows = replace(rows, attention=BOTH_WAYS)
    assert predicted_labels(rows).tolist() == [[NO_LABEL, 5, NO_LABEL]]
    model = tiny(10, attention=BOTH_WAYS)
    expected = -logits_of(model, rows).log_softmax(dim=-1)[0, 1, 5]
    loss, labelled = summed_loss(model, rows)
    assert labelled == 1
    torch.testing.assert_close(loss.detach(), expected)


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


@pytest.mark.parametrize("attention", ["causal_within_document", BOTH_WAYS])
def test_only_a_causal_model_is_blind_to_later_tokens(attention: str) -> None:
    model = tiny(10, attention=attention)
    rows = replace(rows_of([[1, 2, 3, 4]]), attention=attention)
    before = logits_of(model, rows)
    after = logits_of(model, replace(rows, input_ids=np.array([[1, 2, 3, 9]])))
    assert torch.equal(before[:, :3], after[:, :3]) is rows.causal


def test_a_prefix_is_read_both_ways_and_what_follows_it_is_not() -> None:
    model = tiny(10, attention="prefix")
    rows = replace(rows_of([[1, 2, 3, 4, 5]]), attention="prefix", prefix_length=np.array([3], np.int64))
    before = logits_of(model, rows)
    last_of_prefix = logits_of(model, replace(rows, input_ids=np.array([[1, 2, 9, 4, 5]])))
    last = logits_of(model, replace(rows, input_ids=np.array([[1, 2, 3, 4, 9]])))
    assert not torch.equal(before[:, 0], last_of_prefix[:, 0])
    assert torch.equal(before[:, :4], last[:, :4])


def targets(decoder_input_ids: list[list[int]], labels: list[list[int]]) -> LabelledRows:
    """Two inputs and one pad for an encoder, with what its decoder reads and gives."""
    return replace(
        rows_of([[1, 2, 0]], segment_ids=[[0, 0, -1]]),
        attention="encoder_decoder",
        decoder_input_ids=np.array(decoder_input_ids),
        labels=np.array(labels),
    )


def test_a_decoder_sees_all_inputs_no_padding_and_nothing_that_is_to_come() -> None:
    model = tiny(10, attention="encoder_decoder")
    rows = targets([[0, 5, 6]], [[5, 6, 7]])
    before = logits_of(model, rows)
    later = logits_of(model, replace(rows, decoder_input_ids=np.array([[0, 5, 9]])))
    inputs = logits_of(model, replace(rows, input_ids=np.array([[1, 9, 0]])))
    padding = logits_of(model, replace(rows, input_ids=np.array([[1, 2, 9]])))
    assert torch.equal(before[:, :2], later[:, :2])
    assert not torch.equal(before[:, 2], later[:, 2])
    assert not torch.isclose(before, inputs).all(dim=-1).any()
    assert torch.equal(before, padding)


def test_places_that_pad_all_targets_cost_nothing_and_change_no_loss() -> None:
    model = tiny(10, attention="encoder_decoder")
    tight = targets([[0, 5, 6]], [[5, 6, 7]])
    padded = targets([[0, 5, 6, 0, 0]], [[5, 6, 7, NO_LABEL, NO_LABEL]])
    loss, labelled = summed_loss(model, padded)
    assert labelled == 3
    assert torch.equal(loss, summed_loss(model, tight)[0])


def test_ids_that_are_no_labels_here_take_no_probability() -> None:
    model = tiny(10, attention="encoder_decoder")
    rows = targets([[0, 5]], [[5, NO_LABEL]])
    logits = logits_of(model, rows)[0, 0]
    expected = logits[torch.arange(10) != 7].logsumexp(dim=0) - logits[5]
    loss, _ = summed_loss(model, rows, without=(7,))
    torch.testing.assert_close(loss.detach(), expected)


def test_bfloat16_computes_in_bfloat16_and_sums_in_float32() -> None:
    rows = language(4, seed=1)
    model = tiny(NUM_IDS)
    exact, _ = summed_loss(model, rows)
    model.shape = replace(model.shape, bfloat16=True)
    rough, labelled = summed_loss(model, rows)
    assert rough.dtype == torch.float32
    assert rough.item() != exact.item()
    assert rough.item() == pytest.approx(exact.item(), rel=0.02)
    assert labelled > 100


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
    assert predicted_labels(rows).tolist() == [[5, NO_LABEL, 8, NO_LABEL]]
    assert count_labelled(rows) == 2


def test_rows_are_cut_into_windows_and_the_last_is_padded() -> None:
    rows = rows_of([[1, 2, 3, 4, 5], [6, 7, 8, 9, 0]], segment_ids=[[0] * 5, [0, 0, 1, -1, -1]])
    cut = cut_windows(rows, 3)
    assert cut.input_ids.tolist() == [[1, 2, 3], [4, 5, 0], [6, 7, 8]]
    assert cut.labels.tolist() == [[1, 2, 3], [4, 5, NO_LABEL], [6, 7, 8]]
    assert cut.segment_ids.tolist() == [[0, 0, 0], [0, 0, -1], [0, 0, 1]]
    assert cut.position_ids.tolist() == [[0, 1, 2], [3, 4, 0], [0, 1, 0]]
    assert [array.dtype for array in arrays_of(cut)] == [np.int64, np.int64, np.int32, np.int32]


def test_the_loss_of_no_label_is_not_a_number() -> None:
    rows = targets([[0, 5]], [[NO_LABEL, NO_LABEL]])
    model = tiny(10, attention="encoder_decoder")
    assert math.isnan(heldout_loss(model, rows))
    assert math.isnan(unigram_entropy(rows, np.zeros(10)))
