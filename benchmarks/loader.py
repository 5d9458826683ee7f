"""The loader from the page cache: tokens a second of one core, and how long a small model waits for it.

    python benchmarks/loader.py --repeats 9

Tokens are positions of `input_ids` that come out, padding among them (1 in 1,000 here). *All columns* is
what a batch has by default, four int64 arrays of that size. The limit, in the same turns: as many rows
through numpy's own mapping, `np.load(path, mmap_mode="r")[rows].astype(np.int64)`, one column. Turns go
through the epoch, batch after batch.
"""

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from contests import Contest, Way, hold, markdown
from loader_material import VOCAB, write_dataset
from torch import nn

from stages.loading.batches import Batches
from stages.loading.dataset import ShardDataset, open_dataset
from stages.loading.torch_loader import Loader

SEQ_LEN, SHARDS, ROWS = 1024, 4, 8192
WIDTH, TRAIN_ROWS, TRAIN_STEPS = 256, 4, 8
MEGA = 1e6


def contest(folder: Path, joined: Path, size: int, columns: tuple[str, ...] | None) -> Contest:
    """Hold batches of so many rows against plain numpy."""
    rows = open_dataset(folder, columns=columns)
    plain = np.load(joined, mmap_mode="r")
    numbers, places = itertools.count(), itertools.count()
    batches = len(rows) // size

    def positions(number: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.arange(number % batches * size, (number % batches + 1) * size)

    spread = np.random.default_rng(1).permutation(len(plain))
    what = "all columns" if columns is None else ", ".join(columns)
    amount = size * SEQ_LEN / MEGA
    return Contest(
        f"batch of {size} x {SEQ_LEN:,}, {what}",
        "million tokens",
        Way("ours", lambda: rows.batch(positions(next(numbers))), amount),
        [
            Way(
                "limit: np.load(mmap)[rows].astype(int64)",
                lambda: plain[spread[positions(next(places))]].astype(np.int64),
                amount,
            )
        ],
    )


def waiting(rows: ShardDataset) -> float:
    """Return the share of a small training loop's time that goes by waiting for batches."""
    model = nn.Sequential(nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = iter(Loader(Batches(rows, TRAIN_ROWS)))
    next(loader)
    waited, began = 0.0, time.perf_counter()
    for _ in range(TRAIN_STEPS):
        asked = time.perf_counter()
        batch = next(loader)
        waited += time.perf_counter() - asked
        loss = nn.functional.cross_entropy(
            model(batch["input_ids"]).flatten(0, 1), batch["labels"].flatten()
        )
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
        optimizer.step()
    return waited / (time.perf_counter() - began)


def contests(folder: Path) -> Iterator[Contest]:
    """Yield the contests, on a dataset written to a folder."""
    path = write_dataset(folder / "clm", shards=SHARDS, rows=ROWS, seq_len=SEQ_LEN)
    files = sorted(path.rglob("input_ids.npy"))
    np.save(folder / "joined.npy", np.concatenate([np.load(file) for file in files]))
    for size in (16, 64):
        for columns in (None, ("input_ids",)):
            yield contest(path, folder / "joined.npy", size, columns)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9, metavar="N", help="turns of each [default: 9]")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        rows = [row for one in contests(folder) for row in hold(one, repeats=arguments.repeats)]
        share = waiting(open_dataset(folder / "clm"))
        state = len(json.dumps(Batches(open_dataset(folder / "clm"), 8).state_dict(10**9)))
    print(markdown(rows))
    print(f"\nwaiting for batches, {TRAIN_ROWS} rows a step, no workers: {share:.2%} of the time")
    print(f"state: {state} bytes")
    if arguments.json:
        figures = {"contests": rows, "waiting": share, "state_bytes": state}
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
