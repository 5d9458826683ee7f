"""Rates of ranks that train from a store, beside those from local files; what a small model waits for.

    store_rates.py WORK --ranks 2 --workers 1 --turns 3

Each rank reads an epoch by `Loader`, with forked workers, and does nothing with its batches. A turn
reads local files, then the store with an empty cache, then the store with what the cache has by then. At
the end a small model trains from each, without workers.
"""

import argparse
import multiprocessing
import os
import shutil
import statistics
import sys
import time
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from loader import MEGA, SEQ_LEN, waiting
from loader_material import write_dataset

import shardmill
from stages.stores.objects import ObjectStore
from stages.stores.url import StoreUrl
from tests.material.store_server import BUCKET, shared_server

BATCH, SHARDS = 16, 16
PLACES = ("local files", "store, empty cache", "store, full cache")


def read(place: str, rank: int, given: argparse.Namespace, gate: Any, found: Any) -> None:
    """Read the batches of a rank once all ranks are ready, and tell the rows and the seconds."""
    gate.wait()
    began = time.monotonic()
    rows = shardmill.open_dataset(place)
    batches = shardmill.Batches(rows, BATCH, rank=rank, world_size=given.ranks, last="drop")
    loader = shardmill.Loader(
        batches, num_workers=given.workers, start="fork" if given.workers else None
    )
    count = 0
    for _, batch in zip(range(len(rows) // BATCH // given.ranks), loader, strict=False):
        count += len(batch["input_ids"])
    found.put((count, time.monotonic() - began))


def rate(place: str, given: argparse.Namespace) -> float:
    """Return the million tokens a second of all ranks together, the opening of the dataset included."""
    context = multiprocessing.get_context("spawn")
    gate, found = context.Barrier(given.ranks), context.Queue()
    ranks = [
        context.Process(target=read, args=(place, rank, given, gate, found))
        for rank in range(given.ranks)
    ]
    for process in ranks:
        process.start()
    results = [found.get(timeout=600) for _ in ranks]
    for process in ranks:
        process.join()
    rows, seconds = sum(count for count, _ in results), max(seconds for _, seconds in results)
    return float(rows * SEQ_LEN / MEGA / seconds)


def main() -> int:
    """Print the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder")
    for name, value in (("ranks", 2), ("workers", 1), ("turns", 3), ("rows", 32_768)):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"[default: {value}]")
    given = parser.parse_args()
    given.work.mkdir(parents=True)
    local = write_dataset(given.work / "clm", shards=SHARDS, rows=given.rows, seq_len=SEQ_LEN)
    server = shared_server(given.work / "server", parent=os.getpid())
    cache = given.work / "cache"
    os.environ.update(server.environment, SHARDMILL_CACHE=str(cache))
    store = ObjectStore(StoreUrl("s3", BUCKET, f"{uuid.uuid4().hex}/clm"))
    files = sorted(path for path in local.rglob("*") if path.is_file())
    for path in files:
        store.put(path.relative_to(local).as_posix(), path)
    size = sum(path.stat().st_size for path in files)
    print(f"{given.rows:,} rows of {SEQ_LEN:,}, {len(files):,} files, {size / 1e6:,.0f} MB\n")
    found: dict[str, list[float]] = {name: [] for name in PLACES}
    for _ in range(given.turns):
        shutil.rmtree(cache, ignore_errors=True)
        for name in PLACES:
            found[name].append(rate(str(local) if name == PLACES[0] else store.place, given))
    print("| from | million tokens a second | of local files | a small model waits |\n|---|---|---|---|")
    best = statistics.median(found[PLACES[0]])
    shutil.rmtree(cache)
    for name, rates in found.items():
        place = str(local) if name == PLACES[0] else store.place
        share, own = waiting(shardmill.open_dataset(place)), statistics.median(rates)
        print(f"| {name} | {own:,.1f} | {own / best:.2f} | {share:.2%} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
