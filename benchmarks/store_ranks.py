"""Ranks and workers that train from a store with a small cache: each row once, a kill included.

    store_ranks.py WORK --ranks 8 --workers 2 --left 6 --window 2 --cache 0.33

A run over the bundled corpus is made in a folder and in a store. Ranks read half an epoch by `Loader`,
forked workers included; then a rank is killed, and others read the rest from the last state. Rows are
held to those of the folder, read by one process.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
import zlib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import shardmill
from tests.material.store_server import BUCKET, shared_server

ROOT = Path(__file__).resolve().parents[1]
BATCH = 4
RUN = """
name = "ranks"
seed = 5
resources = {{ memory = "4GiB" }}
ingest = {{ unit_size = "4MiB" }}
packing = {{ seq_len = 256, shard_size = "512KiB" }}
verify = {{ learning = false }}

[[sources]]
name = "bundled"
paths = ["{corpus}/text/*.jsonl.*"]
language = {{ column = "lang" }}

[tokenizer.train]
vocab_size = 4096
sample_size = "2MiB"

[[datasets]]
name = "clm"
"""


def read(  # noqa: PLR0913  # what a rank is told
    place: str,
    window: int,
    rank: int,
    ranks: int,
    workers: int,
    state: dict[str, Any] | None,
    steps: int,
    found: Path,
) -> None:
    """Read some steps of a rank, and write the digest of each row and the state after each step."""
    rows = shardmill.open_dataset(place, window=window)
    batches = shardmill.Batches(rows, BATCH, rank=rank, world_size=ranks, last="drop")
    loader = shardmill.Loader(batches, num_workers=workers, start="fork" if workers else None)
    if state is not None:
        loader.load_state_dict(state)
    with found.open("a", encoding="utf-8") as file:
        for step, batch in enumerate(loader):
            if step >= steps:
                break
            digests = [zlib.crc32(row.numpy().tobytes()) for row in batch["input_ids"]]
            file.write(json.dumps({"step": step, "rows": digests, "state": loader.state_dict()}) + "\n")
            file.flush()


def main() -> int:
    """Print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder")
    for name, value in (("ranks", 8), ("workers", 2), ("left", 6), ("window", 2)):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"[default: {value}]")
    parser.add_argument("--cache", type=float, default=0.33, help="as a share of the dataset")
    given = parser.parse_args()
    given.work.mkdir(parents=True)
    file = given.work / "run.toml"
    file.write_text(RUN.format(corpus=ROOT / "examples" / "corpus"))
    server = shared_server(given.work / "server", parent=os.getpid())
    os.environ.update(server.environment, SHARDMILL_CACHE=str(given.work / "cache"))
    url = f"s3://{BUCKET}/{uuid.uuid4().hex}/run"
    for output in (str(given.work / "out"), url):
        command = [sys.executable, "-m", "pipeline.main", "run", str(file), "--output", output]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run([*command, "--workers", "0", "--quiet"], check=True, env=environment, stdout=-3)  # noqa: S603
    shutil.rmtree(given.work / "cache")
    local = f"{given.work}/out/datasets/clm"
    files = list(Path(local, "train").rglob("*.npy"))
    size = sum(path.stat().st_size for path in files)
    os.environ["SHARDMILL_CACHE_BYTES"] = str(int(given.cache * size))
    rows = shardmill.open_dataset(local, window=given.window)
    order = [zlib.crc32(row.tobytes()) for row in rows.batch(np.arange(len(rows)))["input_ids"]]
    half = len(rows) // (given.ranks * BATCH) // 2
    place = f"{url}/datasets/clm"
    began = time.monotonic()
    first = _read_all(given, place, given.ranks, None, half + 50, given.work / "first", kill_after=half)
    steps = min(len(one) for one in first)
    state = first[0][steps - 1]["state"]
    taken = steps * given.ranks * BATCH
    left = (len(rows) - taken) // (given.left * BATCH)
    rest = _read_all(given, place, given.left, state, left, given.work / "rest", kill_after=None)
    seconds = time.monotonic() - began
    read_rows = [row for step in range(steps) for one in first for row in one[step]["rows"]]
    read_rows += [row for step in range(left) for one in rest for row in one[step]["rows"]]
    wrong = sum(a != b for a, b in zip(read_rows, order, strict=False))
    print(
        json.dumps(
            {
                "rows": len(rows),
                "shards": len(rows.shard_rows),
                "dataset bytes": size,
                "cache bytes": int(given.cache * size),
                "window": given.window,
                "read before the kill": taken,
                "read after it": left * given.left * BATCH,
                "wrong": wrong,
                "rows not read at the end": len(rows) - len(read_rows),
                "rows a second": round(len(read_rows) / seconds),
            },
            indent=1,
        )
    )
    return int(bool(wrong))


def _read_all(
    given: argparse.Namespace,
    place: str,
    ranks: int,
    state: dict[str, Any] | None,
    steps: int,
    folder: Path,
    *,
    kill_after: int | None,
) -> list[list[dict[str, Any]]]:
    folder.mkdir()
    context = multiprocessing.get_context("spawn")
    files = [folder / f"{rank}.jsonl" for rank in range(ranks)]
    started = [
        context.Process(
            target=read,
            args=(place, given.window, rank, ranks, given.workers, state, steps, files[rank]),
        )
        for rank in range(ranks)
    ]
    for process in started:
        process.start()
    if kill_after is not None:
        while not files[0].exists() or len(files[0].read_text().splitlines()) < kill_after:
            time.sleep(0.01)
        os.kill(started[0].pid or 0, signal.SIGKILL)
        for process in started[1:]:
            process.terminate()
    for process in started:
        process.join()
    found = []
    for path in files:
        lines = path.read_text().splitlines(keepends=True)
        found.append([json.loads(line) for line in lines if line.endswith("\n")])
    return found


if __name__ == "__main__":
    sys.exit(main())
