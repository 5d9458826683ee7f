"""Open a dataset of many shards with few file descriptors, and read rows from all over it.

    python benchmarks/open_shards.py --shards 10000 --descriptors 1024

The shards are small and hard links of one another (100 MB of folders for 10,000); what opening costs is
their number. It is measured in new processes, wall and CPU seconds, the median of `--repeats`.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from loader_material import write_dataset

from stages.loading.dataset import open_dataset

BATCH, BATCHES = 16, 20


def measure(folder: Path) -> dict[str, Any]:
    """Return what opening took in this process, and how many descriptors reading held."""
    wall, cpu = time.perf_counter(), time.process_time()
    rows = open_dataset(folder)
    opened = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    wall = time.perf_counter()
    for number in range(BATCHES):
        rows.batch(np.arange(number * BATCH, (number + 1) * BATCH))
    held = len(list(Path("/proc/self/fd").iterdir()))
    tokens = BATCH * BATCHES * rows.manifest.seq_len
    reading = time.perf_counter() - wall
    return {**opened, "descriptors": held, "cold_tokens_a_second": tokens / reading}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--shards", type=int, default=10_000)
    parser.add_argument("--descriptors", type=int, default=1024, help="the limit, as `ulimit -n`")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.folder:
        resource.setrlimit(resource.RLIMIT_NOFILE, (arguments.descriptors, arguments.descriptors))
        print(json.dumps(measure(arguments.folder)))
        return 0
    with tempfile.TemporaryDirectory() as home:
        folder = write_dataset(
            Path(home) / "clm", shards=arguments.shards, rows=8, seq_len=128, linked=True
        )
        command = [sys.executable, __file__, "--folder", str(folder)]
        command += ["--descriptors", str(arguments.descriptors)]
        found = [
            json.loads(subprocess.run(command, check=True, capture_output=True).stdout)  # noqa: S603  # us
            for _ in range(arguments.repeats)
        ]
    for name in found[0]:
        values = [each[name] for each in found]
        print(f"{name:24} {statistics.median(values):12,.3f}   {min(values):,.3f} to {max(values):,.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
