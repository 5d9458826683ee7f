"""Train with Lightning, with the loader's state in its checkpoints.

    pip install lightning
    python examples/train_lightning.py DIR/datasets/clm --steps 20 --checkpoint run.ckpt

A `Loader` is no DataLoader, so Lightning takes it as it is: the rank's rows are chosen by `Batches`.
"""

import argparse
from pathlib import Path
from typing import Any

import lightning
import torch
from torch import Tensor
from train_torch import BATCH_ROWS, TinyTransformer

import shardmill
from shardmill import Batches, Loader, ShardDataset, causal_lm_loss, dense_masks


class Module(lightning.LightningModule):  # type: ignore[misc]  # its types are not read
    """The model of train_torch.py as Lightning wants it."""

    def __init__(self, rows: ShardDataset, loader: Loader) -> None:
        super().__init__()
        self.model = TinyTransformer(rows.manifest.vocab_size, rows.manifest.seq_len)
        self.attention = rows.manifest.attention
        self.loader = loader

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add where the loader stands."""
        checkpoint["loader"] = self.loader.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go where the loader stood."""
        self.loader.load_state_dict(checkpoint["loader"])

    def training_step(self, batch: dict[str, Tensor], _number: int) -> Tensor:
        """Return the loss of a batch."""
        mask = dense_masks(batch, self.attention)["attention_mask"]
        logits = self.model(batch["input_ids"], batch["position_ids"], mask)
        loss = causal_lm_loss(logits, batch["labels"], segment_ids=batch["segment_ids"]).value
        print(f"loss {loss.item():.4f}  row {self.loader.batches.place().position}")
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def main() -> None:
    """Train up to a number of steps, and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("dataset", help="a clm or fim dataset of a run: DIR/datasets/NAME")
    parser.add_argument("--steps", type=int, default=20, help="steps in all")
    parser.add_argument("--checkpoint", type=Path, required=True, help="gone on from, and written")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    rows = shardmill.open_dataset(arguments.dataset)
    trainer = lightning.Trainer(
        max_steps=arguments.steps,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    ranks = {"rank": trainer.global_rank, "world_size": trainer.world_size}
    loader = Loader(Batches(rows, BATCH_ROWS, **ranks))
    resumed = arguments.checkpoint if arguments.checkpoint.exists() else None
    trainer.fit(Module(rows, loader), loader, ckpt_path=resumed)
    trainer.save_checkpoint(arguments.checkpoint)


if __name__ == "__main__":
    main()
