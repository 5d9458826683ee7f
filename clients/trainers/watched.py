"""What a trainer tells of its training: its losses, and what it was fed, printed as JSON.

    {"unit": "rows", "fields": ["input_ids", "labels"], "losses": [8.31, 8.27, ...],
     "fed": ["5d0c...", ...], "epoch": ["91aa...", ...], "order": null}

`fed` has a digest of each row that went into the model in the steps of training, `epoch` one of each row
that the trainer's own loader gives in a whole epoch. Numbers are hashed as little-endian int64, whatever
dtype the trainer has. Needs torch and numpy alone: this runs in the trainer's environment.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

IGNORED = -100
LEARNING_RATE = 3e-3


@dataclass(frozen=True)
class Facts:
    """What a trainer's script is told: where the files are, and what a config of it would say."""

    folder: Path
    format: str
    objective: str
    seq_len: int
    id_bytes: int
    special_ids: dict[str, int]
    vocab_size: int
    steps: int
    batch_size: int
    scratch: str
    """A folder for what the trainer writes."""


def read_facts() -> Facts:
    """Return the facts from the command line, and make torch repeatable and modest."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    content: dict[str, Any] = json.loads(sys.argv[1])
    return Facts(folder=Path(content.pop("folder")), **content)


class Watch:
    """Digests of all rows that go by.

    Args:
        fields: what of a batch is hashed, in this order; each has an axis of rows first. Its first word
            is its name in the batch: "labels without first" are the labels of a batch that should have
            none for the first token of a document.
    """

    def __init__(self, fields: Sequence[str]) -> None:
        self.fields = tuple(fields)
        self.digests: list[str] = []

    def saw(self, batch: Mapping[str, ArrayLike]) -> None:
        """Hash each row of a batch."""
        values = [batch[name.split()[0]] for name in self.fields]
        columns = [np.ascontiguousarray(np.asarray(value), "<i8") for value in values]
        for row in zip(*columns, strict=True):
            sha256 = hashlib.sha256()
            for value in row:
                sha256.update(value.data)
            self.digests.append(sha256.hexdigest()[:16])

    def hook(self, model: nn.Module) -> None:
        """Hash what goes into a model while it trains."""

        def before(module: nn.Module, _: object, batch: Mapping[str, Tensor]) -> None:
            if module.training:
                self.saw(batch)

        model.register_forward_pre_hook(before, with_kwargs=True)


class SmallModel(nn.Module):
    """A causal model of one layer, for trainers whose own models do not run on a CPU.

    Args:
        facts: say how many ids and positions there are.
    """

    WIDTH = 64

    def __init__(self, facts: Facts) -> None:
        super().__init__()
        self.tokens = nn.Embedding(facts.vocab_size, self.WIDTH)
        self.positions = nn.Embedding(facts.seq_len, self.WIDTH)
        self.layer = nn.TransformerEncoderLayer(self.WIDTH, 4, 2 * self.WIDTH, 0.0, batch_first=True)
        self.head = nn.Linear(self.WIDTH, facts.vocab_size)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the logits (N, L, vocabulary) of ids (N, L)."""
        length = ids.shape[1]
        hidden = self.tokens(ids) + self.positions(torch.arange(length))
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        logits: Tensor = self.head(self.layer(hidden, src_mask=mask, is_causal=True))
        return logits


def train(
    model: nn.Module, batches: Iterator[tuple[Tensor, Tensor]], watch: Watch, facts: Facts
) -> list[float]:
    """Train on batches of ids and of the labels that stand one on; return the loss of each step.

    Args:
        model: gives logits of ids.
        batches: (ids, labels), both (N, L) int64; -100 is no loss.
        watch: hashes each batch.
        facts: say how many steps.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    losses = []
    for _, (ids, labels) in zip(range(facts.steps), batches, strict=False):
        watch.saw({"input_ids": ids, "labels": labels})
        logits = model(ids)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    return losses


def tell(
    unit: str, losses: Iterable[float], fed: Watch, epoch: Watch, *, order: Sequence[int] | None = None
) -> None:
    """Print what was found, behind whatever the trainer printed.

    Args:
        unit: what a digest is of: rows, windows of a file, windows of a split, or samples.
        losses: of each step.
        fed: what training saw.
        epoch: what an epoch of the trainer's loader gave.
        order: documents in the order in which the trainer drew them, if samples depend on it.
    """
    assert fed.fields == epoch.fields, "what was fed is held to other fields than an epoch"
    content = {
        "unit": unit,
        "fields": fed.fields,
        "losses": [float(loss) for loss in losses],
        "fed": fed.digests,
        "epoch": epoch.digests,
        "order": order,
    }
    print("\n" + json.dumps(content))
