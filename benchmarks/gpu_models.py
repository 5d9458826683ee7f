"""Train a transformer of GPT-2 small's shape on the rows of any objective, and count its operations.

    rows of                      model                             loss
    clm, fim, prefix_lm          decoder, 12 layers                the next label of the same document
    mlm, nsp, sop                encoder, 12 layers                what was masked, and the pair's label
    electra                      the same                          whether a token was replaced
    span_corruption, ul2, bart   encoder, decoder, 6 layers each   the targets
    simcse                       encoder, mean over tokens         each text's other view

Attention is scaled_dot_product_attention under the masks that the loader's columns give, so documents of
a row do not see each other. Logits are computed where there is a label, and nowhere else.

Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.3.

Axes: N rows, L tokens, H heads, K channels of a head.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from stages.loading.attention import dense_masks
from stages.loading.losses import (
    contrastive_loss,
    duplicate_rows,
    next_labels,
    pair_classification_loss,
    replaced_token_loss,
)
from stages.loading.masks import ENCODER_DECODER
from stages.loading.torch_loader import Tensors
from stages.objectives.rows import IGNORED
from stages.objectives.traits import PAIRS
from stages.verify.examples import PAIR_LABELS

_SCALE = 0.02
_DROPOUT = 0.1
_WARMUP = 10


@dataclass(frozen=True)
class Sizes:
    """The shape of a model: by default GPT-2 small's, with 50,257 ids padded to a multiple of 128."""

    layers: int = 12
    """An encoder with a decoder has half of them each."""
    width: int = 768
    heads: int = 12
    vocabulary: int = 50_304


@dataclass(frozen=True)
class Question:
    """What rows ask of a model, by the names of the manifest."""

    attention: str
    label_convention: str
    length: int
    """Most tokens of a row or of its targets."""


class Attention(nn.Module):
    """Attention over a normed input, of its own positions or of what an encoder knows."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.norm = nn.LayerNorm(sizes.width)
        self.query = nn.Linear(sizes.width, sizes.width)
        self.key_value = nn.Linear(sizes.width, 2 * sizes.width)
        self.out = nn.Linear(sizes.width, sizes.width)

    def forward(self, hidden: Tensor, mask: Tensor, memory: Tensor | None = None) -> Tensor:
        """Return what is read: (N, L, width) like the input."""
        normed = self.norm(hidden)
        key, value = self.key_value(normed if memory is None else memory).chunk(2, dim=-1)
        query, key, value = (self._heads(part) for part in (self.query(normed), key, value))
        read = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        out: Tensor = self.out(read.transpose(1, 2).flatten(2))
        return out

    def _heads(self, projected: Tensor) -> Tensor:
        """Return (N, H, L, K) of (N, L, width)."""
        return projected.view(*projected.shape[:2], self.heads, -1).transpose(1, 2)


class Layer(nn.Module):
    """Attention, of a decoder also to the encoder, then a feed-forward of four widths."""

    def __init__(self, sizes: Sizes, *, crossed: bool) -> None:
        super().__init__()
        self.attention = Attention(sizes)
        self.cross = Attention(sizes) if crossed else None
        self.norm = nn.LayerNorm(sizes.width)
        self.up = nn.Linear(sizes.width, 4 * sizes.width)
        self.down = nn.Linear(4 * sizes.width, sizes.width)

    def forward(
        self, hidden: Tensor, mask: Tensor, memory: Tensor | None, cross_mask: Tensor | None
    ) -> Tensor:
        """Return the next layer's input: (N, L, width) like this one's."""
        hidden = hidden + self.attention(hidden, mask)
        if self.cross is not None and memory is not None and cross_mask is not None:
            hidden = hidden + self.cross(hidden, cross_mask, memory)
        out: Tensor = hidden + self.down(functional.gelu(self.up(self.norm(hidden)), approximate="tanh"))
        return out


class Stack(nn.Module):
    """Layers one after the other, with a last norm."""

    def __init__(self, sizes: Sizes, *, crossed: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(sizes, crossed=crossed) for _ in range(sizes.layers))
        self.norm = nn.LayerNorm(sizes.width)

    @property
    def crossings(self) -> list[Attention]:
        """Where a decoder attends to what an encoder knows."""
        return [
            m for name, m in self.named_modules() if name.endswith("cross") and isinstance(m, Attention)
        ]

    def forward(
        self,
        hidden: Tensor,
        mask: Tensor,
        memory: Tensor | None = None,
        cross_mask: Tensor | None = None,
    ) -> Tensor:
        """Return what each position knows: (N, L, width)."""
        for layer in self.layers:
            hidden = layer(hidden, mask, memory, cross_mask)
        out: Tensor = self.norm(hidden)
        return out


class Model(nn.Module):
    """Says what rows ask; its output weights are its embedding, as GPT-2's are.

    Args:
        sizes: its shape.
        question: what rows ask.
    """

    def __init__(self, sizes: Sizes, question: Question) -> None:
        super().__init__()
        self.sizes, self.question = sizes, question
        halved = question.attention == ENCODER_DECODER
        each = replace(sizes, layers=max(1, sizes.layers // 2)) if halved else sizes
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.width)
        self.position = nn.Embedding(max(1024, question.length), sizes.width)
        self.encoder = Stack(each)
        self.decoder = Stack(each, crossed=True) if halved else None
        self.pair = nn.Linear(sizes.width, 2)
        self.replaced = nn.Linear(sizes.width, 1)
        for name, weight in self.named_parameters():
            if weight.ndim == 1:
                nn.init.constant_(weight, float(name.endswith("norm.weight")))
            else:
                deep = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(weight, std=_SCALE / ((2 * sizes.layers) ** 0.5 if deep else 1))

    def forward(self, columns: Tensors, masks: Tensors) -> Tensor:
        """Return what each position knows, of an encoder with a decoder the decoder's: (N, L, width)."""
        ids = columns["input_ids"]
        ids = ids.reshape(-1, ids.shape[-1])  # views one after the other
        own = masks["encoder_mask"] if self.decoder is not None else masks["attention_mask"]
        known: Tensor = self.encoder(self._embedded(ids, columns.get("position_ids")), own)
        if self.decoder is None:
            return known
        targets = self._embedded(columns["decoder_input_ids"], None)
        out: Tensor = self.decoder(targets, masks["decoder_mask"], known, masks["cross_mask"])
        return out

    def _embedded(self, ids: Tensor, places: Tensor | None) -> Tensor:
        if places is None:
            places = torch.arange(ids.shape[1], device=ids.device)
        embedded: Tensor = self.embedding(ids) + self.position(places)
        return embedded


def targets_of(columns: Tensors, question: Question) -> Tensor:
    """Return the label that each position must predict, -100 where there is none: (N, L)."""
    if question.label_convention != "unshifted":
        return columns["labels"]
    following = next_labels(columns["labels"], columns["segment_ids"])
    return functional.pad(following, (0, 1), value=IGNORED)


def loss_of(model: Model, known: Tensor, columns: Tensors) -> Tensor:
    """Return the loss of rows, by what each of their positions knows: () float32."""
    if model.question.label_convention == PAIRS:
        return _contrast(known, columns)
    targets = targets_of(columns, model.question)
    if model.question.label_convention == "replaced":
        return replaced_token_loss(model.replaced(known)[..., 0], targets).value
    labelled = targets != IGNORED
    logits = functional.linear(known[labelled], model.embedding.weight)
    loss = functional.cross_entropy(logits.float(), targets[labelled], reduction="sum")
    loss = loss / labelled.sum().clamp(min=1)
    for name in PAIR_LABELS:
        if name in columns:
            loss = loss + pair_classification_loss(model.pair(known[:, 0]), columns[name]).value
    return loss


def _contrast(known: Tensor, columns: Tensors) -> Tensor:
    """Return the loss of finding each row's other view in the batch."""
    lengths = columns["input_length"]
    count, views = lengths.shape
    inside = torch.arange(known.shape[1], device=known.device) < lengths.reshape(-1, 1)
    known = functional.dropout(known.float(), _DROPOUT) * inside[..., None]
    embeddings = known.sum(dim=1) / lengths.reshape(-1, 1).clamp(min=1)
    one, two, *more = embeddings.view(count, views, -1).unbind(dim=1)
    return contrastive_loss(
        one,
        two,
        hard_negatives=more[0] if more else None,
        negative_of=lengths[:, 2] > 0 if more else None,
        same=duplicate_rows(columns["input_ids"][:, 0]),
    ).value


class ModelTrainer:
    """A model with its optimizer.

    Args:
        model: that is trained.
        device: on which.
        bfloat16: whether it computes in bfloat16; its weights and its loss are float32.
        compiled: whether torch compiles it.
        rate: the learning rate, after a linear rise of ten steps.
    """

    def __init__(
        self, model: Model, device: torch.device, *, bfloat16: bool, compiled: bool, rate: float = 6e-4
    ) -> None:
        self.model = model.to(device)
        self._device = device
        self._bfloat16 = bfloat16
        self._rate = rate
        self._steps = 0
        self._known: Callable[[Tensors, Tensors], Tensor] = (
            torch.compile(self.model) if compiled else self.model
        )
        self._optimizer = torch.optim.AdamW(
            self.model.parameters(), betas=(0.9, 0.95), weight_decay=0.1, fused=True
        )

    def step(self, batch: Tensors) -> Tensor:
        """Take one step and return its loss, without waiting for the device."""
        self._steps += 1
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate * min(1.0, self._steps / _WARMUP)
        columns = {name: column.to(self._device, non_blocking=True) for name, column in batch.items()}
        masks = dense_masks(columns, self.model.question.attention)
        self._optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._bfloat16):
            loss = loss_of(self.model, self._known(columns, masks), columns)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._optimizer.step()
        return loss.detach()


@dataclass(frozen=True)
class Part:
    """Layers that the same tokens pass."""

    tokens: int
    weights: int
    """Of those layers, without an embedding, of which a token reads one line."""
    attended: int
    """Positions that a token attends to, over all those layers."""


def training_flops(parts: Sequence[Part], *, width: int, output: int, labels: int) -> float:
    """Return the operations of a training step: 6 for each weight that a token meets, and attention.

    A token's attention is 12 times the width for each position that it may attend to, counted as if rows
    were one document without padding and as if no mask hid the later half, as is usual.

    Source: Chowdhery et al. 2022, "PaLM", appendix B, arXiv 2204.02311.

    Args:
        parts: what tokens pass.
        width: of the model.
        output: weights that turn what a position knows into logits.
        labels: positions that have one; no other meets them.
    """
    passed = sum(part.tokens * (6 * part.weights + 12 * width * part.attended) for part in parts)
    return float(passed + 6 * output * labels)


def count_tokens(columns: Tensors) -> tuple[int, int]:
    """Return the tokens of a batch, and those of its targets where a decoder reads them."""
    if "label_length" in columns:
        return int(columns["input_length"].sum()), int(columns["label_length"].sum())
    if "segment_ids" in columns:
        return int((columns["segment_ids"] >= 0).sum()), 0
    return int(columns["input_length"].sum()), 0


def step_flops(model: Model, columns: Tensors) -> float:
    """Return the operations of a training step on a batch."""
    inputs, targets = count_tokens(columns)
    length, width = columns["input_ids"].shape[-1], model.sizes.width
    parts = [Part(inputs, _weights(model.encoder), len(model.encoder.layers) * length)]
    if model.decoder is not None:  # it attends to its own positions and to the encoder's
        crossed = sum(_weights(m.key_value) for m in model.decoder.crossings)
        attended = len(model.decoder.layers) * (columns["labels"].shape[-1] + length)
        parts += [Part(inputs, crossed, 0), Part(targets, _weights(model.decoder) - crossed, attended)]
    convention, output = model.question.label_convention, model.embedding.weight.numel()
    if convention == PAIRS:
        return training_flops(parts, width=width, output=0, labels=0)
    if convention == "replaced":
        output = model.replaced.weight.numel()
    labels = int((targets_of(columns, model.question) != IGNORED).sum())
    return training_flops(parts, width=width, output=output, labels=labels)


def _weights(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())
