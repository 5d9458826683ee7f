"""Train a tiny causal transformer on a dataset: a plain torch loop, about as short as it can be.

    python examples/train_torch.py DIR/datasets/clm --steps 300

The two things to take over into another trainer are its mask and its loss: documents packed in one row
must not see each other, and labels come unshifted. Each is a call of `shardmill`, which has those
of the other objectives too.
"""

import argparse

import torch
from torch import Tensor, nn

import shardmill
from shardmill import Batches, Loader, causal_lm_loss, dense_masks

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
        """Return the logits of each position's next token: (N, L, V).

        Args:
            input_ids: (N, L).
            position_ids: (N, L), from 0 in each document.
            mask: (N, 1, L, L), True where the row's position may attend to the column's.
        """
        hidden = self.tokens(input_ids) + self.positions(position_ids)
        # this layer wants the opposite, True where nothing is seen, and a mask for each head
        hidden_from = ~mask.expand(-1, HEADS, -1, -1).flatten(0, 1)
        logits: Tensor = self.head(self.block(hidden, src_mask=hidden_from))
        return logits


def main() -> None:
    """Train and print the loss."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("dataset", help="a clm or fim dataset of a run: DIR/datasets/NAME")
    parser.add_argument("--steps", type=int, default=300, help="steps to train")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    rows = shardmill.open_dataset(arguments.dataset, split="train")
    model = TinyTransformer(rows.manifest.vocab_size, rows.manifest.seq_len)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = Loader(Batches(rows, BATCH_ROWS))  # its rows come shuffled, each epoch anew
    step = 0
    while step < arguments.steps:
        for batch in loader:
            mask = dense_masks(batch, rows.manifest.attention)["attention_mask"]
            logits = model(batch["input_ids"], batch["position_ids"], mask)
            # with the segments, the end of a document is not held to the beginning of the next
            loss = causal_lm_loss(logits, batch["labels"], segment_ids=batch["segment_ids"]).value
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
            optimizer.step()
            if step % 10 == 0 or step == arguments.steps - 1:
                print(f"step {step:>5}  loss {loss.item():.4f}")
            step += 1
            if step == arguments.steps:
                break


if __name__ == "__main__":
    main()
