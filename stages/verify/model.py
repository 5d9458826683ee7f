"""The reader that shards are tried on: a tiny transformer, the rows it reads, its loss on them.

Not a model to keep: 2 layers of width 64 that learn bigrams and a little more in some hundred steps on
one CPU thread. Who may attend to whom follows from `segment_ids`, so each document of a packed row is
learned from as if it stood alone.

Axes: N rows, L tokens, H heads, K channels of a head, V ids.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from stages.loading.attention import attention_mask
from stages.loading.masks import SelfAttention

NO_LABEL = -100
PADDING = -1

_ATTENTION = {
    True: SelfAttention.CAUSAL_WITHIN_DOCUMENT,
    False: SelfAttention.BIDIRECTIONAL_WITHIN_DOCUMENT,
}
_ROTARY_BASE = 10_000.0
_WEIGHT_SCALE = 0.05
_EMBEDDING_SCALE = 0.3
_EVALUATION_ROWS = 64
_Integer = TypeVar("_Integer", np.int64, np.int32)


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows of a dataset as a trainer gets them; the arrays are never changed.

    Args:
        input_ids: (N, L) int64.
        labels: (N, L) int64, unshifted (causal labels are the inputs), -100 where there is no loss.
        segment_ids: (N, L) int32, the document within the row, -1 on padding.
        position_ids: (N, L) int32, the position within the document.
        causal: whether later tokens are hidden and the model predicts the next one; if not, it sees
            the whole document and predicts the label where it stands.

    """

    input_ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    segment_ids: NDArray[np.int32]
    position_ids: NDArray[np.int32]
    causal: bool = True


def predicted_labels(rows: LabelledRows) -> NDArray[np.int64]:
    """Give the label that each position must predict.

    labels       3  5  7  8  .      (. is -100)
    segment_ids  0  0  1  1 -1
    causal       5  .  8  .         each but the last: the next, in its own document
    otherwise    3  5  7  8  .      its own
    """
    if not rows.causal:
        return rows.labels
    segments = rows.segment_ids
    same = (segments[:, 1:] == segments[:, :-1]) & (segments[:, 1:] != PADDING)
    return np.where(same, rows.labels[:, 1:], NO_LABEL)


def count_labelled(rows: LabelledRows) -> int:
    """Count the labels that are predicted."""
    return int(np.count_nonzero(predicted_labels(rows) != NO_LABEL))


def take_rows(rows: LabelledRows, chosen: NDArray[np.int64]) -> LabelledRows:
    """Give copies of the chosen rows, in the order chosen."""
    return replace(
        rows,
        input_ids=rows.input_ids[chosen],
        labels=rows.labels[chosen],
        segment_ids=rows.segment_ids[chosen],
        position_ids=rows.position_ids[chosen],
    )


def cut_windows(rows: LabelledRows, length: int) -> LabelledRows:
    """Cut each row into windows of at most this length; those with nothing to predict go."""
    length = min(length, rows.input_ids.shape[1])
    cut = replace(
        rows,
        input_ids=_cut(rows.input_ids, length, fill=0),
        labels=_cut(rows.labels, length, fill=NO_LABEL),
        segment_ids=_cut(rows.segment_ids, length, fill=PADDING),
        position_ids=_cut(rows.position_ids, length, fill=0),
    )
    return take_rows(cut, np.flatnonzero((predicted_labels(cut) != NO_LABEL).any(axis=1)))


def _cut(array: NDArray[_Integer], length: int, *, fill: int) -> NDArray[_Integer]:
    missing = -array.shape[1] % length
    return np.pad(array, ((0, 0), (0, missing)), constant_values=fill).reshape(-1, length)


def rotary_angles(position_ids: Tensor, channels: int) -> tuple[Tensor, Tensor]:
    """Give the cosines and sines by which positions turn pairs of channels.

    Rotary and not learned positions: rows of any length work, without a table to outgrow.
    Source: Su et al. 2021, "RoFormer", section 3.2, arXiv 2104.09864.
    We pair the halves of the channels, not neighbours.

    Args:
        position_ids: (N, L), from 0 in each document.
        channels: K, even.

    Returns:
        Two (N, 1, L, K / 2) float32.

    """
    exponents = torch.arange(0, channels, 2, device=position_ids.device) / channels
    angles = position_ids[:, None, :, None] * _ROTARY_BASE**-exponents
    return angles.cos(), angles.sin()


def _rotate(heads: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """Turn each pair of channels of (N, H, L, K) by its position's angle."""
    cosine, sine = rotary
    first, second = heads.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1)


def _normal(generator: torch.Generator, *shape: int, scale: float = _WEIGHT_SCALE) -> nn.Parameter:
    """Give normal weights drawn from this generator; nn.Linear would draw from the global one."""
    return nn.Parameter(torch.randn(shape, generator=generator) * scale)


class Block(nn.Module):
    """One layer: attention, then a feed-forward of four times the width, each on a normed input."""

    def __init__(self, width: int, num_heads: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = _normal(generator, 3 * width, width)
        self.attention_out = _normal(generator, width, width)
        self.feed_norm = nn.LayerNorm(width)
        self.feed_in = _normal(generator, 4 * width, width)
        self.feed_out = _normal(generator, width, 4 * width)

    def forward(self, hidden: Tensor, mask: Tensor, *, rotary: tuple[Tensor, Tensor]) -> Tensor:
        """Give the next layer's input, (N, L, width) like this one's."""
        hidden = hidden + self._attend(self.attention_norm(hidden), mask, rotary=rotary)
        inner = functional.gelu(functional.linear(self.feed_norm(hidden), self.feed_in))
        return hidden + functional.linear(inner, self.feed_out)

    def _attend(self, normed: Tensor, mask: Tensor, *, rotary: tuple[Tensor, Tensor]) -> Tensor:
        projected = functional.linear(normed, self.query_key_value)
        query, key, value = (
            part.view(*part.shape[:2], self.num_heads, -1).transpose(1, 2)
            for part in projected.chunk(3, dim=-1)
        )
        query, key = _rotate(query, rotary).to(value.dtype), _rotate(key, rotary).to(value.dtype)
        read = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return functional.linear(read.transpose(1, 2).flatten(2), self.attention_out)


class TinyTransformer(nn.Module):
    """Says what comes next at each position of packed rows or, seeing both sides, what stood there.

    The output weights start at 0 and the output bias at the log unigram probabilities, so the first
    loss is the unigram entropy: without this 60 steps never got below it.
    """

    def __init__(
        self,
        log_unigram: Tensor,
        generator: torch.Generator,
        *,
        causal: bool = True,
        width: int = 64,
        num_layers: int = 2,
        num_heads: int = 4,
    ) -> None:
        super().__init__()
        self.causal = causal
        self.channels = width // num_heads
        self.embedding = _normal(generator, len(log_unigram), width, scale=_EMBEDDING_SCALE)
        self.blocks = nn.ModuleList(
            Block(width, num_heads, generator=generator) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(width)
        self.output_weight = nn.Parameter(torch.zeros(len(log_unigram), width))
        self.output_bias = nn.Parameter(log_unigram.clone())

    def forward(self, input_ids: Tensor, segment_ids: Tensor, *, position_ids: Tensor) -> Tensor:
        """Give what each position knows, (N, L, width); `logits` turns it into predictions.

        Args:
            input_ids: (N, L), below V.
            segment_ids: (N, L), the document within the row, -1 on padding.
            position_ids: (N, L), the position within the document.

        """
        mask = attention_mask(_ATTENTION[self.causal], segment_ids)
        rotary = rotary_angles(position_ids, self.channels)
        hidden = functional.embedding(input_ids, self.embedding)
        for block in self.blocks:
            hidden = block(hidden, mask, rotary=rotary)
        normed: Tensor = self.norm(hidden)
        return normed

    def logits(self, hidden: Tensor) -> Tensor:
        """Give the logits, (..., V), of hidden states, (..., width)."""
        return functional.linear(hidden, self.output_weight, self.output_bias)


def log_unigram(rows: LabelledRows, num_ids: int) -> NDArray[np.float64]:
    """Give the log probability of each id as a label, (V,), one added to each count."""
    targets = predicted_labels(rows)
    counts = np.bincount(targets[targets != NO_LABEL], minlength=num_ids) + 1
    return np.log(counts) - math.log(counts.sum())


def unigram_entropy(heldout: LabelledRows, log_probabilities: NDArray[np.float64]) -> float:
    """Give the held-out loss of guessing every label from the training slice's frequencies."""
    targets = predicted_labels(heldout)
    return -float(log_probabilities[targets[targets != NO_LABEL]].mean())


def summed_loss(model: TinyTransformer, rows: LabelledRows) -> tuple[Tensor, int]:
    """Give the sum of the losses of all predicted labels, with their number.

    Only labelled positions meet the output weights: an unlabelled one can neither cost time nor
    get a gradient. On a GPU the model runs in bfloat16, the loss in float32.
    """
    device = model.output_bias.device
    targets = torch.from_numpy(predicted_labels(rows)).to(device)
    labelled = targets != NO_LABEL
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
        hidden = model(
            torch.from_numpy(rows.input_ids).to(device),
            torch.from_numpy(rows.segment_ids).to(device),
            position_ids=torch.from_numpy(rows.position_ids).to(device),
        )
        logits = model.logits(hidden[:, : targets.shape[1]][labelled])
    loss = functional.cross_entropy(logits.float(), targets[labelled], reduction="sum")
    return loss, int(labelled.sum())


@torch.no_grad()
def heldout_loss(model: TinyTransformer, heldout: LabelledRows) -> float:
    """Give the mean loss over all labels of the held-out rows."""
    total = 0.0
    for start in range(0, len(heldout.labels), _EVALUATION_ROWS):
        chosen = np.arange(start, min(start + _EVALUATION_ROWS, len(heldout.labels)))
        total += summed_loss(model, take_rows(heldout, chosen))[0].item()
    return total / count_labelled(heldout)


@contextmanager
def reproducible(device: str) -> Iterator[None]:
    """Hold torch to one thread and, on a CPU, to deterministic kernels; put both back after.

    One thread: on shared cores two cost ten times as much (330 ms a step against 27).
    """
    threads = torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(deterministic or device == "cpu")
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        torch.set_num_threads(threads)
