"""Ranks and workers that train from a store with a small cache: each row once, a kill included.

    store_ranks.py WORK --trials 10 --ranks 8 --workers 2 --left 6 --window 2 --cache 0.33 --continue

A run over the bundled corpus is made in a folder and in a store. In each trial ranks begin an epoch by
`Loader`, forked workers included. A drawn rank is killed at a drawn step of the first half, and others
read the rest from the last state, all through a new cache. Rows are held to those of the folder, read by
one process.
"""

import argparse
import functools
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import time
import uuid
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from trial_lines import Trials, add_trial_options, conduct, has_faults

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


@dataclass(frozen=True)
class Readers:
    """Who reads, and how: the settings of a campaign."""

    ranks: int
    workers: int
    left: int
    """Ranks that go on after the kill."""
    window: int
    cache: float
    """As a share of the dataset."""


@dataclass(frozen=True)
class Material:
    """The run, and what its rows must be."""

    place: str
    """The URL of the dataset."""
    order: list[int]
    """Digests of the rows of the epoch."""
    shards: int
    size: int
    """Bytes of the dataset."""


def prepare(work: Path, window: int) -> Material:
    """Do the run in a folder and in a store, and read its rows from the folder."""
    file = work / "run.toml"
    file.write_text(RUN.format(corpus=ROOT / "examples" / "corpus"))
    server = shared_server(work / "server", parent=os.getpid())
    os.environ.update(server.environment, SHARDMILL_CACHE=str(work / "cache"))
    url = f"s3://{BUCKET}/{uuid.uuid4().hex}/run"
    for output in (str(work / "out"), url):
        command = [sys.executable, "-m", "pipeline.main", "run", str(file), "--output", output]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run([*command, "--workers", "0", "--quiet"], check=True, env=environment, stdout=-3)  # noqa: S603
    local = work / "out/datasets/clm"
    rows = shardmill.open_dataset(local, window=window)
    order = [zlib.crc32(row.tobytes()) for row in rows.batch(np.arange(len(rows)))["input_ids"]]
    size = sum(path.stat().st_size for path in (local / "train").rglob("*.npy"))
    return Material(f"{url}/datasets/clm", order, len(rows.shard_rows), size)


def try_one(work: Path, made: Material, readers: Readers, *, seed: int, number: int) -> dict[str, Any]:
    """Kill a rank, let others go on, and return what came of it."""
    draws = random.Random(seed * 10_000 + number)  # noqa: S311  # moments, not secrets
    whole = len(made.order) // (readers.ranks * BATCH)
    killed, after = draws.randrange(readers.ranks), draws.randrange(1, whole // 2 + 1)
    shutil.rmtree(work / "cache", ignore_errors=True)
    os.environ["SHARDMILL_CACHE_BYTES"] = str(int(readers.cache * made.size))
    began, folder = time.monotonic(), work / f"trial-{number}"
    folder.mkdir()
    first = _read_all(
        readers, made.place, readers.ranks, None, whole, folder / "first", kill=(killed, after)
    )
    steps = min(len(one) for one in first)
    state = first[killed][steps - 1]["state"] if steps else None
    taken = steps * readers.ranks * BATCH
    left = (len(made.order) - taken) // (readers.left * BATCH)
    rest = _read_all(readers, made.place, readers.left, state, left, folder / "rest", kill=None)
    faults = [
        f"rank {n} read {len(one)} of {left} steps" for n, one in enumerate(rest) if len(one) < left
    ]
    found = [row for step in range(steps) for one in first for row in one[step]["rows"]]
    found += [
        row
        for step in range(left)
        for one in rest
        for said in one[step : step + 1]
        for row in said["rows"]
    ]
    wrong = sum(a != b for a, b in zip(found, made.order, strict=False))
    faults += [f"{wrong:,} rows are others"] if wrong else []
    shutil.rmtree(folder)
    return {
        "faults": faults,
        "killed": killed,
        "read before the kill": taken,
        "read after it": len(found) - taken,
        "rows not read at the end": len(made.order) - len(found),
        "rows a second": round(len(found) / (time.monotonic() - began)),
    }


def campaign(trials: Trials, *, number: int, seed: int, readers: Readers) -> int:
    """Do all trials, and print their sums."""
    work = trials.new_folder()
    made = functools.cache(lambda: prepare(work, readers.window))  # not if all trials are there
    about = trials.fact(
        "run",
        lambda: {"rows": len(made().order), "shards": made().shards, "dataset bytes": made().size},
    )
    found = [
        trials.trial(
            f"kill {one}",
            lambda one=one: try_one(work, made(), readers, seed=seed, number=one),  # type: ignore[misc]
            failed=has_faults,
        )
        for one in range(number)
    ]
    faults = [f"kill {one}: {fault}" for one, result in enumerate(found) for fault in result["faults"]]
    sums = {
        name: sum(result[name] for result in found)
        for name in ("read before the kill", "read after it", "rows not read at the end")
    }
    print(json.dumps({"seed": seed, **about, "trials": number, **sums, "faults": faults}, indent=1))
    return int(bool(faults))


def main() -> int:
    """Do the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder")
    counts = {"trials": 1, "ranks": 8, "workers": 2, "left": 6, "window": 2}
    for name, value in counts.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"[default: {value}]")
    parser.add_argument("--cache", type=float, default=0.33, help="as a share of the dataset")
    parser.add_argument("--seed", type=int, default=1, help="of the moments [default: 1]")
    add_trial_options(parser)
    given = parser.parse_args()
    chosen = {name: getattr(given, name) for name in (*counts, "cache", "seed")}
    readers = Readers(given.ranks, given.workers, given.left, given.window, given.cache)
    return conduct(
        lambda trials: campaign(trials, number=given.trials, seed=given.seed, readers=readers),
        given,
        chosen,
        work=given.work.resolve(),
    )


def _read_all(
    readers: Readers,
    place: str,
    ranks: int,
    state: dict[str, Any] | None,
    steps: int,
    folder: Path,
    *,
    kill: tuple[int, int] | None,
) -> list[list[dict[str, Any]]]:
    """Have ranks read, and return the lines of each; `kill` is a rank, and the steps of all before."""
    folder.mkdir()
    context = multiprocessing.get_context("spawn")
    files = [folder / f"{rank}.jsonl" for rank in range(ranks)]
    started = [
        context.Process(
            target=read,
            args=(place, readers.window, rank, ranks, readers.workers, state, steps, files[rank]),
        )
        for rank in range(ranks)
    ]
    try:
        for process in started:
            process.start()
        if kill is not None:
            rank, after = kill
            while started[rank].is_alive() and min(len(_lines(one)) for one in files) < after:
                time.sleep(0.05)
            started[rank].kill()
            for process in started[:rank] + started[rank + 1 :]:
                process.terminate()
        for process in started:
            process.join()
    finally:  # a signal came: nobody reads on
        for process in started:
            if process.pid is not None:
                process.kill()
    return [[json.loads(line) for line in _lines(path)] for path in files]


def _lines(path: Path) -> list[str]:
    """Return the whole lines of a file."""
    text = path.read_text() if path.exists() else ""
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]


if __name__ == "__main__":
    sys.exit(main())
