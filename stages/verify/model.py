"""The reader that shards are tried on: a tiny transformer and its loss on rows.

Not a model to keep: 2 layers of width 64, or where the targets ask for a decoder 1 of it and 1 of an
encoder, that learn bigrams and a little more in some hundred steps on one CPU thread. Who may attend to
whom follows from `segment_ids` and from what the manifest says, so each document of a packed row is
learned from as if it stood alone.

Axes: N rows, L tokens, M tokens of a decoder, H heads, K channels of a head, V ids.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from stages.loading.attention import attention_mask
from stages.loading.masks import ENCODER_DECODER, SelfAttention
from stages.verify.rows import (
    NO_LABEL,
    LabelledRows,
    count_labelled,
    predicted_labels,
    take_rows,
    trim_rows,
)

_ROTARY_BASE = 10_000.0
_WEIGHT_SCALE = 0.05
_EMBEDDING_SCALE = 0.3
_EVALUATION_ROWS = 64
_ERROR = 2
"""Mode of torch in which an operation that is not deterministic is an error."""


def rotary_angles(position_ids: Tensor, channels: int) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines by which positions turn pairs of channels.

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
    """Return normal weights drawn from this generator; nn.Linear would draw from the global one."""
    return nn.Parameter(torch.randn(shape, generator=generator) * scale)


class Attention(nn.Module):
    """Attention over a normed input, of its own positions or of what an encoder knows."""

    def __init__(self, width: int, num_heads: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.norm = nn.LayerNorm(width)
        self.query = _normal(generator, width, width)
        self.key_value = _normal(generator, 2 * width, width)
        self.out = _normal(generator, width, width)

    def forward(
        self,
        hidden: Tensor,
        mask: Tensor,
        *,
        rotary: tuple[Tensor, Tensor] | None = None,
        memory: Tensor | None = None,
    ) -> Tensor:
        """Return what is read, (N, L, width): by position, or of the memory by content."""
        normed = self.norm(hidden)
        query = self._heads(functional.linear(normed, self.query))
        source = normed if memory is None else memory
        key, value = (
            self._heads(part) for part in functional.linear(source, self.key_value).chunk(2, dim=-1)
        )
        if rotary is not None:
            query, key = _rotate(query, rotary).to(value.dtype), _rotate(key, rotary).to(value.dtype)
        read = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return functional.linear(read.transpose(1, 2).flatten(2), self.out)

    def _heads(self, projected: Tensor) -> Tensor:
        return projected.view(*projected.shape[:2], self.num_heads, -1).transpose(1, 2)


class Block(nn.Module):
    """One layer: attention, of a decoder also to the encoder, then a feed-forward of four widths."""

    def __init__(
        self, width: int, num_heads: int, *, generator: torch.Generator, crossed: bool = False
    ) -> None:
        super().__init__()
        self.attention = Attention(width, num_heads, generator=generator)
        self.cross = Attention(width, num_heads, generator=generator) if crossed else None
        self.feed_norm = nn.LayerNorm(width)
        self.feed_in = _normal(generator, 4 * width, width)
        self.feed_out = _normal(generator, width, 4 * width)

    def forward(
        self,
        hidden: Tensor,
        mask: Tensor,
        *,
        rotary: tuple[Tensor, Tensor],
        memory: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Return the next layer's input, (N, L, width) like this one's."""
        hidden = hidden + self.attention(hidden, mask, rotary=rotary)
        if self.cross is not None and memory is not None:
            known, known_mask = memory
            hidden = hidden + self.cross(hidden, known_mask, memory=known)
        inner = functional.gelu(functional.linear(self.feed_norm(hidden), self.feed_in))
        return hidden + functional.linear(inner, self.feed_out)


@dataclass(frozen=True)
class Shape:
    """Sizes of a tiny transformer, and what it is asked."""

    attention: str = "causal_within_document"
    """Who attends to whom, by the manifest's names."""
    num_ids: int | None = None
    """Ids it reads, if its labels are others."""
    width: int = 64
    num_layers: int = 2
    num_heads: int = 4
    bfloat16: bool = False
    """Whether it computes in bfloat16; its loss is always float32."""


class TinyTransformer(nn.Module):
    """Says what comes next at each position of packed rows or, seeing both sides, what stood there.

    The output weights start at 0 and the output bias at the log unigram probabilities, so the first
    loss is the unigram entropy: without this 60 steps never got below it.
    """

    def __init__(
        self, log_unigram: Tensor, generator: torch.Generator, shape: Shape | None = None
    ) -> None:
        super().__init__()
        self.shape = shape = shape or Shape()
        self.channels = shape.width // shape.num_heads
        num_ids = shape.num_ids or len(log_unigram)
        self.embedding = _normal(generator, num_ids, shape.width, scale=_EMBEDDING_SCALE)

        def blocks(*, crossed: bool) -> nn.ModuleList:
            made = (
                Block(shape.width, shape.num_heads, generator=generator, crossed=crossed)
                for _ in range(shape.num_layers)
            )
            return nn.ModuleList(made)

        self.blocks = blocks(crossed=False)
        self.norm = nn.LayerNorm(shape.width)
        crossed = shape.attention == ENCODER_DECODER
        self.decoder = blocks(crossed=True) if crossed else None
        self.decoder_norm = nn.LayerNorm(shape.width) if crossed else None
        self.output_weight = nn.Parameter(torch.zeros(len(log_unigram), shape.width))
        self.output_bias = nn.Parameter(log_unigram.clone())

    def forward(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        *,
        position_ids: Tensor,
        prefix_length: Tensor | None = None,
        in_prefix: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
    ) -> Tensor:
        """Return what each position knows, (N, L, width), of a decoder (N, M, width).

        `logits` turns it into predictions.

        Args:
            input_ids: (N, L), below V.
            segment_ids: (N, L), the document within the row, -1 on padding.
            position_ids: (N, L), the position within the document.
            prefix_length: (N,), of rows with a prefix.
            in_prefix: (N, L), of rows whose documents have one; a single document may give its length.
            decoder_input_ids: (N, M), of rows with a decoder.

        """
        kind = SelfAttention.BIDIRECTIONAL
        if self.decoder is None:
            kind = SelfAttention(self.shape.attention)
        if in_prefix is None and prefix_length is not None:
            in_prefix = (
                torch.arange(input_ids.shape[1], device=input_ids.device) < prefix_length[:, None]
            )
        mask = attention_mask(kind, segment_ids, prefix_length=prefix_length, in_prefix=in_prefix)
        rotary = rotary_angles(position_ids, self.channels)
        hidden = functional.embedding(input_ids, self.embedding)
        for block in self.blocks:
            hidden = block(hidden, mask, rotary=rotary)
        normed: Tensor = self.norm(hidden)
        if self.decoder is None or self.decoder_norm is None or decoder_input_ids is None:
            return normed
        count, length = decoder_input_ids.shape
        places = torch.arange(length, device=input_ids.device)
        # what pads a decoder's end is later than all its tokens, so that causal is mask enough
        mask = (places[:, None] >= places)[None, None]
        seen = (segment_ids >= 0).clone()
        seen[:, 0] = True  # no softmax over nothing
        rotary = rotary_angles(places.expand(count, length), self.channels)
        hidden = functional.embedding(decoder_input_ids, self.embedding)
        for block in self.decoder:
            hidden = block(hidden, mask, rotary=rotary, memory=(normed, seen[:, None, None, :]))
        known: Tensor = self.decoder_norm(hidden)
        return known

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits, (..., V), of hidden states, (..., width)."""
        return functional.linear(hidden, self.output_weight, self.output_bias)


def known_of(model: TinyTransformer, rows: LabelledRows) -> Tensor:
    """Return what the model knows at each position that may have a label: (N, L or M, width)."""
    device = model.output_bias.device
    columns = {
        name: torch.from_numpy(column).to(device)
        for name, column in rows.columns.items()
        if name != "labels"
    }
    hidden: Tensor = model(**columns)
    return hidden


def autocast(model: TinyTransformer) -> torch.autocast:
    """Return the context in which a model computes: bfloat16 if it is asked to."""
    device = model.output_bias.device.type
    return torch.autocast(device, dtype=torch.bfloat16, enabled=model.shape.bfloat16)


def summed_loss(
    model: TinyTransformer, rows: LabelledRows, *, without: tuple[int, ...] = ()
) -> tuple[Tensor, int]:
    """Return the sum of the losses of all predicted labels, with their number.

    Only labelled positions meet the output weights: an unlabelled one can neither cost time nor
    get a gradient.

    Args:
        model: what predicts.
        rows: with labels.
        without: ids that are no labels here, so that no probability is lost to them.
    """
    rows = trim_rows(rows)
    targets = torch.from_numpy(predicted_labels(rows)).to(model.output_bias.device)
    labelled = targets != NO_LABEL
    with autocast(model):
        hidden = known_of(model, rows)
        logits = model.logits(hidden[:, : targets.shape[1]][labelled])
    logits = logits.float()
    if without:
        logits[:, list(without)] = -torch.inf
    loss = functional.cross_entropy(logits, targets[labelled], reduction="sum")
    return loss, int(labelled.sum())


@torch.no_grad()
def heldout_loss(
    model: TinyTransformer, heldout: LabelledRows, *, without: tuple[int, ...] = ()
) -> float:
    """Return the mean loss over all labels of the held-out rows, as `summed_loss`; NaN of none."""
    total = 0.0
    for start in range(0, len(heldout.labels), _EVALUATION_ROWS):
        chosen = np.arange(start, min(start + _EVALUATION_ROWS, len(heldout.labels)))
        rows = take_rows(heldout, chosen)
        total += summed_loss(model, rows, without=without)[0].item()
    count = count_labelled(heldout)
    return total / count if count else math.nan


@contextmanager
def reproducible(device: str) -> Iterator[None]:
    """Hold torch to one thread and, on a CPU, to deterministic kernels; put both back after.

    One thread: on shared cores two cost ten times as much (330 ms a step against 27).
    """
    threads = torch.get_num_threads()
    mode = torch.get_deterministic_debug_mode()
    torch.set_num_threads(1)
    # `use_deterministic_algorithms` sets the same, and imports a compiler in 3 CPU seconds
    torch.set_deterministic_debug_mode(_ERROR if device == "cpu" else mode)
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        torch.set_num_threads(threads)
