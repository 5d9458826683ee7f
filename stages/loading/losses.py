"""The losses of the objectives, on labels as the loader gives them.

    labels of the objective            loss                      logits of position t are held to
    unshifted                          causal_lm_loss            labels[t + 1]
    masked                             masked_lm_loss            labels[t]
    targets                            seq2seq_loss              labels[t]
    replaced                           replaced_token_loss       labels[t], 0 or 1
    one of a row                       pair_classification_loss  the row's label, 0 or 1
    pairs                              contrastive_loss          the row's own other view

Each gives the mean over its labels with their number, so that micro-batches can be put together
rightly: the sum of the totals by the sum of the counts, not the mean of the means. A batch without a
label has loss 0 and pulls nowhere, where a plain mean is NaN. Logits may be bfloat16: what is labelled
is taken to float32 before anything is summed. A position without a label gets a gradient of exactly 0,
even if its logits are no numbers.

Axes: N rows, L tokens, K channels of an embedding, V ids.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from stages.objectives.rows import IGNORED

_SMALLEST_NORM = 1e-8


class Loss(NamedTuple):
    """The mean loss of a batch and what it is the mean of."""

    value: Tensor
    """() float32: the mean over the labels; 0 if there is none."""
    labels: int
    """Positions, or rows, that had one. Counting them waits for the device."""

    @property
    def total(self) -> Tensor:
        """The sum over the labels."""
        return self.value * self.labels


def causal_lm_loss(logits: Tensor, labels: Tensor, *, segment_ids: Tensor | None = None) -> Loss:
    """Return the loss of predicting each token from those before it.

    This function shifts the labels. Do not shift them yourself, or the model learns to predict the token
    after the next.

    Source: Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training", 3.1.

    Args:
        logits: (N, L, V).
        labels: (N, L), the inputs themselves, -100 where there is no loss.
        segment_ids: (N, L), the document within the row, -1 on padding. With them, the last token of a
            document does not predict the first one of the next.
    """
    return _cross_entropy(logits[:, :-1], next_labels(labels, segment_ids))


def next_labels(labels: Tensor, segment_ids: Tensor | None = None) -> Tensor:
    """Return the label that each position but the last must predict: (N, L - 1).

    labels       3  5  7  8  -100
    segment_ids  0  0  1  1  -1
    next         5 -100  8 -100     without segment_ids: 5  7  8 -100
    """
    following = labels[:, 1:]
    if segment_ids is None:
        return following
    same = (segment_ids[:, 1:] == segment_ids[:, :-1]) & (segment_ids[:, 1:] >= 0)
    return following.masked_fill(~same, IGNORED)


def masked_lm_loss(logits: Tensor, labels: Tensor) -> Loss:
    """Return the loss of predicting what stood where tokens were selected; nothing is shifted.

    Source: Devlin et al. 2019, "BERT", 3.1, arXiv 1810.04805.

    Args:
        logits: (N, L, V).
        labels: (N, L), the token that stood there, -100 where none was selected.
    """
    return _cross_entropy(logits, labels)


def seq2seq_loss(logits: Tensor, labels: Tensor) -> Loss:
    """Return the loss of a decoder's targets; `decoder_input_ids` are shifted, so labels are not.

    Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning", 3.1.4, arXiv 1910.10683.

    Args:
        logits: (N, L, V), L that of the decoder.
        labels: (N, L), the targets, -100 on padding.
    """
    return _cross_entropy(logits, labels)


def replaced_token_loss(logits: Tensor, labels: Tensor) -> Loss:
    """Return the loss of telling replaced tokens from those of the text, at every token.

    Source: Clark et al. 2020, "ELECTRA", section 2, arXiv 2003.10555.

    Args:
        logits: (N, L), above 0 where the model takes a token for a replaced one.
        labels: (N, L), 1 where a token was replaced, 0 elsewhere in the text, -100 on padding.
    """
    labelled = labels != IGNORED
    chosen = _accurate(logits[labelled])
    targets = labels[labelled].to(chosen.dtype)
    total = functional.binary_cross_entropy_with_logits(chosen, targets, reduction="sum")
    return _mean(total, len(targets))


def electra_loss(masked: Loss, replaced: Loss, *, weight: float = 50.0) -> Tensor:
    """Return what generator and discriminator are trained on together: () float32.

    The sum of two means over different labels, so it has no count of its own.

    Source: Clark et al. 2020, "ELECTRA", section 2, and appendix A for the weight, arXiv 2003.10555.

    Args:
        masked: `masked_lm_loss` of the generator.
        replaced: `replaced_token_loss` of the discriminator.
        weight: of the discriminator's.
    """
    return masked.value + weight * replaced.value


def pair_classification_loss(logits: Tensor, labels: Tensor) -> Loss:
    """Return the loss of saying whether a row's second text follows its first, or is in order.

    Source: Devlin et al. 2019, "BERT", 3.1, arXiv 1810.04805; Lan et al. 2020, "ALBERT", 3.1, arXiv
    1909.11942. As in transformers, 0 is the real next sentence or the real order, 1 is not.

    Args:
        logits: (N, 2).
        labels: (N,) 0 or 1, -100 for a row without.
    """
    return _cross_entropy(logits, labels)


def contrastive_loss(
    first: Tensor,
    second: Tensor,
    *,
    temperature: float = 0.05,
    hard_negatives: Tensor | None = None,
    negative_of: Tensor | None = None,
    same: Tensor | None = None,
) -> Loss:
    """Return the loss of finding each row's other view among those of the whole batch.

    The cross entropy of cosine / temperature against the row's own number. A batch of one row without
    hard negatives has nothing to tell apart: its loss is 0. Autocast is off inside: a cosine rounded to
    bfloat16 and divided by 0.05 is off by up to 0.04.

    Source: Gao et al. 2021, "SimCSE", equations 1 and 5, arXiv 2104.08821. We add `same`.

    Args:
        first: (N, K) embeddings of one view.
        second: (N, K) of the other.
        temperature: divides the cosines.
        hard_negatives: (N, K) of texts that no row is to be taken for.
        negative_of: (N,) bool, rows that have one: `input_length[:, 2] > 0`; by default all do.
        same: (N, N) bool, rows of the same text (`duplicate_rows`): each other's second view is no
            wrong answer, and is left out.
    """
    with torch.autocast(first.device.type, enabled=False):
        anchors = _unit(first)
        cosines = anchors @ _unit(second).T
        own = torch.arange(len(cosines), device=cosines.device)
        if same is not None:
            others = own[:, None] != own
            cosines = cosines.masked_fill(same & others, -torch.inf)
        if hard_negatives is not None:
            if negative_of is not None:  # what is left out may be no number, and must not reach a sum
                hard_negatives = hard_negatives.masked_fill(~negative_of[:, None], 0.0)
            wrong = anchors @ _unit(hard_negatives).T
            if negative_of is not None:
                wrong = wrong.masked_fill(~negative_of, -torch.inf)
            cosines = torch.cat([cosines, wrong], dim=1)
        return _cross_entropy(cosines / temperature, own)


def duplicate_rows(input_ids: Tensor) -> Tensor:
    """Say which rows hold the same ids, each with itself too: (N, N) bool.

    Args:
        input_ids: (N, L), of one view.
    """
    _, number = torch.unique(input_ids, dim=0, return_inverse=True)
    same: Tensor = number[:, None] == number
    return same


def _cross_entropy(logits: Tensor, labels: Tensor) -> Loss:
    """Return the mean of logits (..., V) against labels (...) that are not -100."""
    labelled = labels != IGNORED
    targets = labels[labelled].long()
    chosen = _accurate(logits[labelled])
    return _mean(functional.cross_entropy(chosen, targets, reduction="sum"), len(targets))


def _mean(total: Tensor, count: int) -> Loss:
    return Loss(total / max(count, 1), count)


def _accurate(values: Tensor) -> Tensor:
    """Return values in float32 at least: half precision loses a sum of thousands."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _unit(embeddings: Tensor) -> Tensor:
    return functional.normalize(_accurate(embeddings), dim=-1, eps=_SMALLEST_NORM)
