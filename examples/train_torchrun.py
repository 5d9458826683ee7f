"""Train on several processes, stop, and go on with another number of them.

    torchrun --standalone --nproc-per-node 2 examples/train_torchrun.py DIR/datasets/clm \
        --steps 20 --checkpoint run.pt

Each process takes its slice of every step's rows. The checkpoint holds the loader's state beside the
model's, so whoever goes on begins behind the last row that was trained on, with as many processes as
there are then.
"""

import argparse
from pathlib import Path

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from train_torch import BATCH_ROWS, TinyTransformer

import shardmill
from shardmill import Batches, Loader, causal_lm_loss, dense_masks


def main() -> None:
    """Train, and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("dataset", help="a clm or fim dataset of a run: DIR/datasets/NAME")
    parser.add_argument("--steps", type=int, default=20, help="steps to train now")
    parser.add_argument("--checkpoint", type=Path, required=True, help="gone on from, and written")
    arguments = parser.parse_args()
    distributed.init_process_group("gloo")
    rank, world_size = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(0)
    rows = shardmill.open_dataset(arguments.dataset)
    loader = Loader(Batches(rows, BATCH_ROWS, rank=rank, world_size=world_size))
    model = DistributedDataParallel(TinyTransformer(rows.manifest.vocab_size, rows.manifest.seq_len))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    if arguments.checkpoint.exists():
        saved = torch.load(arguments.checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
    step = 0
    while step < arguments.steps:
        for batch in loader:
            mask = dense_masks(batch, rows.manifest.attention)["attention_mask"]
            logits = model(batch["input_ids"], batch["position_ids"], mask)
            loss = causal_lm_loss(logits, batch["labels"], segment_ids=batch["segment_ids"]).value
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
            optimizer.step()
            step += 1
            if rank == 0:
                epoch, position = loader.batches.place()
                print(f"loss {loss.item():.4f}  {world_size} processes  epoch {epoch} row {position}")
            if step == arguments.steps:
                break
    if rank == 0:
        states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({**states, "loader": loader.state_dict()}, arguments.checkpoint)
    distributed.barrier()  # a process that ends while its last sums are still let go of would abort
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
