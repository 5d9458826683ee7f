"""What checking datasets on a GPU needs of its machine: numpy, xxhash, pydantic and torch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.test_benchmark_gpu import QUICKLY, ROOT, TINY_SHAPE
from tests.conftest import run_datasets

NAMES = ("clm", "nsp", "simcse", "span_corruption")
WITHOUT = """
import sys
class Without:
    def __init__(self, finder): self.finder = finder
    def find_spec(self, name, *rest):
        return None if name.split(".")[0] in BLOCKED else self.finder.find_spec(name, *rest)
BLOCKED = {"ray", "pyarrow", "numba", "sentencepiece", "zstandard", "tokenizers", "pipeline"}
sys.meta_path[:] = map(Without, sys.meta_path)
sys.path.insert(0, "benchmarks")
from gpu_check import main
code = main(sys.argv[1:])
assert not BLOCKED & {name.split(".")[0] for name in sys.modules}
sys.exit(code)
"""
"""A program that has none of those libraries, as the machine of a GPU may not."""


@pytest.fixture
def run(small_corpus: Path, tmp_path: Path) -> Path:
    """A run with datasets of four kinds."""
    datasets = [
        {"name": kind, "objective": {"kind": kind}, "materialized_epochs": int(kind == "nsp")}
        for kind in NAMES
    ]
    run_datasets(small_corpus, tmp_path / "run", datasets=datasets)
    return tmp_path / "run"


@pytest.mark.campaign
def test_it_needs_no_library_but_numpy_xxhash_pydantic_and_torch(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    names = list(NAMES)
    paths = [str(run / "datasets" / name) for name in names]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *paths, *QUICKLY, "--large", *TINY_SHAPE, "--json", file],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 1, "400 labels teach little"
    content = json.loads(file.read_text())
    assert content["numba"] is False
    assert [record["dataset"] for record in content["datasets"]] == names
    assert all(record["errors"] == [] for record in content["datasets"])
