"""Stop after a random step and go on with other batch sizes, ranks and workers: each row comes once.

    python benchmarks/resumed_walks.py --cases 200

Each case walks over a dataset of 3 shards in the order of an epoch, up to two epochs far. The rows of
that epoch that came before the stop and after it, put together, are held to the epoch's order.
"""

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from loader_material import write_dataset

from stages.loading.batches import PADDED, Batches
from stages.loading.dataset import ShardDataset, open_dataset
from stages.loading.torch_loader import Loader

SHARDS, ROWS, SEQ_LEN = 3, 40, 16
LARGEST, RANKS, WORKERS = 5, 4, 2


def resumed(rows: ShardDataset, number: int) -> tuple[int, int, int]:
    """Return the rows compared, those that were wrong, and the state's bytes, of one case."""
    draw = random.Random(number)  # noqa: S311  # cases of a measurement
    before = ranks(rows, draw)
    steps = draw.randrange(2 * len(before[0]))
    state = json.dumps(before[0].state_dict(steps))
    epoch = json.loads(state)["epoch"]
    given = [walk[step] for step in range(epoch * len(before[0]), steps) for walk in before]
    after = ranks(rows, draw)
    for walk in after:
        walk.load_state_dict(json.loads(state))
    workers = draw.randint(0, WORKERS) if number % 10 == 0 else 0  # processes take most of the time
    left = zip(*(Loader(walk, num_workers=workers) for walk in after), strict=True)
    got = [*ids(given), *(row for step in left for row in ids(step))]
    expected = ids([rows.at(epoch, np.arange(len(rows)))])
    assert len(set(expected)) == len(rows), "no two rows are the same"
    wrong = sum(one != other for one, other in zip(got, expected, strict=False))
    return len(expected), wrong + abs(len(got) - len(expected)), len(state)


def ranks(rows: ShardDataset, draw: random.Random) -> list[Batches]:
    """Return the walks of a random number of ranks in batches of a random size."""
    size, world = draw.randint(1, LARGEST), draw.randint(1, RANKS)
    return [Batches(rows, size, rank=rank, world_size=world, last="pad") for rank in range(world)]


def ids(batches: Iterable[Mapping[str, Any]]) -> list[bytes]:
    """Return the ids of each row of batches, padding rows left out."""
    columns = [{name: np.asarray(column) for name, column in batch.items()} for batch in batches]
    return [
        row.tobytes()
        for batch in columns
        for row, padding in zip(
            batch["input_ids"], batch.get(PADDED, np.zeros(len(batch["input_ids"]))), strict=True
        )
        if not padding
    ]


def main() -> int:
    """Measure and print; 1 if any row is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        path = write_dataset(Path(home) / "clm", shards=SHARDS, rows=ROWS, seq_len=SEQ_LEN)
        found = [resumed(open_dataset(path), number) for number in range(arguments.cases)]
    compared, wrong, sizes = zip(*found, strict=True)
    print(
        f"{len(found)} cases, {sum(compared):,} rows compared, {sum(wrong):,} wrong;"
        f" greatest state {max(sizes)} bytes"
    )
    return int(any(wrong))


if __name__ == "__main__":
    sys.exit(main())
