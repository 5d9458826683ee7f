"""A reader with few file descriptors: it maps fewer files at a time, and reads all rows."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from stages.loading.lru_cache import RESERVED, affordable
from tests.stages.loading.test_dataset import EOS, write_dataset

SHARDS = 40
READ = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]),) * 2)
import shardmill
for workers in (0, 2):
    rows = shardmill.open_dataset(sys.argv[1])
    loader = shardmill.Loader(shardmill.Batches(rows, 5), num_workers=workers)
    print(sum(len(batch["input_ids"]) for batch in loader))
    loader.close()
    rows.release()
"""


@pytest.mark.parametrize(
    ("allowed", "wanted"),
    [
        (resource.RLIM_INFINITY, 128),
        (1 << 20, 128),
        (1024, 128),
        (256, (256 - RESERVED) // 6),
        (RESERVED + 12, 2),
        (RESERVED + 6, 1),
        (RESERVED, 1),
        (10, 1),
    ],
)
def test_some_descriptors_are_left_to_the_rest_of_the_process(
    monkeypatch: pytest.MonkeyPatch, allowed: int, wanted: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (allowed, resource.RLIM_INFINITY))
    assert affordable(128, files=6) == wanted


@pytest.mark.slow
def test_all_rows_are_read_with_few_descriptors_by_workers_or_without(tmp_path: Path) -> None:
    shards = tuple([[[10 + number, EOS]]] * 2 for number in range(SHARDS))
    path = write_dataset(tmp_path, shards)
    command = [sys.executable, "-c", READ, str(path), "100"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{2 * SHARDS}\n" * 2), done.stderr[-3000:]
