"""What the tiny model promises.

Documents of a row do not see each other; the first loss is the unigram entropy; the loss is that of a
plain loop over labels, each predicted where its objective says.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from stages.verify.model import (
    NO_LABEL,
    TinyTransformer,
    count_labelled,
    cut_windows,
    heldout_loss,
    log_unigram,
    predicted_labels,
    summed_loss,
    unigram_entropy,
)
from tests.stages.verify.languages import NUM_IDS, arrays_of, language, logits_of, rows_of, tiny


def test_a_masked_label_is_predicted_where_it_stands() -> None:
    rows = rows_of([[3, 9, 7]], labels=[[NO_LABEL, 5, NO_LABEL]])
    rows = replace(rows, causal=False)
    assert predicted_labels(rows).tolist() == [[NO_LABEL, 5, NO_LABEL]]
    model = tiny(10, causal=False)
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


@pytest.mark.parametrize("causal", [True, False])
def test_only_a_causal_model_is_blind_to_later_tokens(*, causal: bool) -> None:
    model = tiny(10, causal=causal)
    before, after = (logits_of(model, rows_of([[1, 2, 3, last]])) for last in (4, 9))
    assert torch.equal(before[:, :3], after[:, :3]) is causal


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
