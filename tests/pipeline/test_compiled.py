"""What `make setup` promises: it calls the kernels of later runs, so their code is on disk by then."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SETUP = ROOT / "benchmarks" / "compiled.toml"
COUNTED = """
import json, sys
from multiprocessing import get_context
from numba.core.dispatcher import Dispatcher
from pipeline.commands import api

def counted(run):
    report = api.run(*run, workers=0)
    kernels = {
        f"{module}.{name}": kernel
        for module, content in list(sys.modules.items())
        if module.startswith("stages.")
        for name, kernel in vars(content).items()
        if isinstance(kernel, Dispatcher)
    }
    called = sorted(f"{name} {types}" for name, one in kernels.items() for types in one.signatures)
    return {"called": called, "dropped": sorted(report["documents"]["dropped"])}

runs = list(zip(sys.argv[1::2], sys.argv[2::2]))
with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
    print(json.dumps(pool.map(counted, runs, chunksize=1)))
"""
"""Does each run in a process of its own, forked from one that has imported all and called no kernel."""
OTHER = """
name = "other"
filters = [
  { kind = "c4" }, { kind = "fineweb" }, { kind = "gopher_repetition" }, { kind = "gopher_quality" },
]
tokenizer.train.vocab_size = 700
packing.shards = 1
verify.learning = false
datasets = [{ name = "clm" }, { name = "mlm", objective = { kind = "mlm" } }]

[[sources]]
name = "objects"
paths = ["*.json"]
"""


def run(*runs: tuple[Path, Path]) -> list[dict[str, list[str]]]:
    """Return which kernels each run called, with what types, and why documents went."""
    words = [str(path) for run_file, output in runs for path in (run_file, output)]
    command = [sys.executable, "-c", COUNTED, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, list[str]]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_run_calls_no_kernel_that_the_run_of_setup_has_not_called(tmp_path: Path) -> None:
    (text,) = (record["text"] for record in json.loads(SETUP.with_suffix(".json").read_text()))
    objects = [{"text": f"{text} This is number {number}."} for number in range(40)]
    (tmp_path / "a.json").write_text("\n".join(json.dumps(one, indent=1) for one in objects))
    (tmp_path / "b.json").write_text(json.dumps(objects[:3]))
    (tmp_path / "run.toml").write_text(OTHER)
    made, found = run((SETUP, tmp_path / "setup"), (tmp_path / "run.toml", tmp_path / "other"))
    assert not [reason for reason in made["dropped"] if reason.startswith(("gopher", "fineweb", "c4"))]
    assert set(found["called"]) <= set(made["called"])
    asked = {name.split(".")[1] for name in found["called"]}
    assert {"reading", "filtering", "dedup", "tokenizer", "packing"} <= asked
