"""Stop after a random step and go on with other batch sizes, ranks and workers: each row comes once.

    python benchmarks/resumed_walks.py --cases 200

Each case walks over a dataset of 3 shards in the order of an epoch, up to two epochs far. The rows of
that epoch that came before the stop and after it, put together, are held to the epoch's order. A trial
is one case, drawn by its number alone.
"""

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from loader_material import write_dataset
from trial_lines import Trials, add_trial_options, conduct

from stages.loading.batches import PADDED, Batches
from stages.loading.dataset import ShardDataset, open_dataset
from stages.loading.torch_loader import Loader

SHARDS, ROWS, SEQ_LEN = 3, 40, 16
LARGEST, RANKS, WORKERS = 5, 4, 2
RARELY = 10
"""One case in so many has processes, which take most of the time."""
FIGURES = ("compared", "wrong", "state bytes")
"""Of a case."""


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
    workers = 0 if (number + 1) % RARELY else draw.randint(0, WORKERS)
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


def campaign(trials: Trials, *, number: int) -> int:
    """Do the cases, print the figures and return the exit code: 1 if any row is wrong."""
    with tempfile.TemporaryDirectory() as home:

        @cache
        def path() -> Path:
            return write_dataset(Path(home) / "clm", shards=SHARDS, rows=ROWS, seq_len=SEQ_LEN)

        def do(one: int) -> dict[str, Any]:
            return dict(zip(FIGURES, resumed(open_dataset(path()), one), strict=True))

        found = [
            trials.trial(str(one), partial(do, one), failed=lambda result: bool(result["wrong"]))
            for one in range(number)
        ]
    compared, wrong = (sum(one[name] for one in found) for name in FIGURES[:2])
    print(
        f"{len(found)} cases, {compared:,} rows compared, {wrong:,} wrong;"
        f" greatest state {max(one['state bytes'] for one in found)} bytes"
    )
    return int(bool(wrong))


def main() -> int:
    """Measure and print; 1 if any row is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    add_trial_options(parser)
    given = parser.parse_args()
    return conduct(lambda trials: campaign(trials, number=given.cases), given, {"cases": given.cases})


if __name__ == "__main__":
    sys.exit(main())
