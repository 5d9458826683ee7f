"""Train a tiny causal transformer on a dataset: a plain torch loop, about as short as it can be.

    python examples/train_torch.py DIR/datasets/clm --steps 300

The two things to take over into another trainer stand in `attention_mask` and `loss_of`.
"""

import argparse
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

import shardmill

WIDTH, HEADS, BATCH_ROWS = 64, 4, 4


class TinyTransformer(nn.Module):
    """One block: enough to see the loss fall."""

    def __init__(self, vocab_size: int, seq_len: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, WIDTH)
        self.positions = nn.Embedding(seq_len, WIDTH)
        self.block = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.head = nn.Linear(WIDTH, vocab_size)

    def forward(self, input_ids: Tensor, position_ids: Tensor, mask: Tensor) -> Tensor:
        """Give the logits of each position's next token: (N, L, V)."""
        hidden = self.tokens(input_ids) + self.positions(position_ids)
        logits: Tensor = self.head(self.block(hidden, src_mask=mask))
        return logits


def attention_mask(segment_ids: Tensor) -> Tensor:
    """Say what is hidden from which position: all that is later or in another document.

    Returns:
        (N * HEADS, L, L) bool; padding (-1) sees padding, so no softmax is over nothing.
    """
    length = segment_ids.shape[1]
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    stranger = segment_ids[:, :, None] != segment_ids[:, None, :]
    return (later | stranger).repeat_interleave(HEADS, dim=0)


def loss_of(logits: Tensor, labels: Tensor, segment_ids: Tensor) -> Tensor:
    """Give the loss; labels come unshifted, so position t is held to label t + 1.

    Where t + 1 begins another document there is no loss: position t is the end of a document, and
    nothing in it says which document the packer put next. A dataset with `mask_first_token = true`
    has -100 there already.
    """
    same = segment_ids[:, 1:] == segment_ids[:, :-1]
    targets = labels[:, 1:].masked_fill(~same, -100)
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1), targets.flatten(), ignore_index=-100)


def main() -> None:
    """Train and print the loss."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("dataset", help="a dataset of a run: DIR/datasets/NAME")
    parser.add_argument("--steps", type=int, default=300, help="steps to train")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    rows = shardmill.open_dataset(arguments.dataset, split="train")
    model = TinyTransformer(rows.manifest.vocab_size, rows.manifest.seq_len)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    # The rows come shuffled already, by seed and epoch, so the loader must not shuffle again.
    loader = DataLoader(cast("Dataset[dict[str, Tensor]]", rows), batch_size=BATCH_ROWS)
    step = 0
    while step < arguments.steps:
        for batch in loader:
            segment_ids = batch["segment_ids"]
            logits = model(batch["input_ids"], batch["position_ids"], attention_mask(segment_ids))
            loss = loss_of(logits, batch["labels"], segment_ids)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
            optimizer.step()
            if step % 10 == 0 or step == arguments.steps - 1:
                print(f"step {step:>5}  loss {loss.item():.4f}")
            step += 1
            if step == arguments.steps:
                break
        rows.set_epoch(rows.epoch + 1)


if __name__ == "__main__":
    main()
