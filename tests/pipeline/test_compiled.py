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
from pathlib import Path
from numba.core.dispatcher import Dispatcher
from pipeline.commands import api

report = api.run(sys.argv[1], sys.argv[2], workers=0)
kernels = {
    f"{module}.{name}": kernel
    for module, content in list(sys.modules.items())
    if module.startswith("stages.")
    for name, kernel in vars(content).items()
    if isinstance(kernel, Dispatcher)
}
print(json.dumps({
    "called": sorted(f"{name} {types}" for name, one in kernels.items() for types in one.signatures),
    "dropped": sorted(report["documents"]["dropped"]),
}))
"""
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


def run(run_file: Path, output: Path) -> dict[str, list[str]]:
    """Return which kernels a run in a new process called, with what types, and why documents went."""
    command = [sys.executable, "-c", COUNTED, str(run_file), str(output)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_run_calls_no_kernel_that_the_run_of_setup_has_not_called(tmp_path: Path) -> None:
    made = run(SETUP, tmp_path / "setup")
    assert not [reason for reason in made["dropped"] if reason.startswith(("gopher", "fineweb", "c4"))]
    (text,) = (record["text"] for record in json.loads(SETUP.with_suffix(".json").read_text()))
    objects = [{"text": f"{text} This is number {number}."} for number in range(40)]
    (tmp_path / "a.json").write_text("\n".join(json.dumps(one, indent=1) for one in objects))
    (tmp_path / "b.json").write_text(json.dumps(objects[:3]))
    (tmp_path / "run.toml").write_text(OTHER)
    found = run(tmp_path / "run.toml", tmp_path / "other")
    assert set(found["called"]) <= set(made["called"])
    asked = {name.split(".")[1] for name in found["called"]}
    assert {"reading", "filtering", "dedup", "tokenizer", "packing"} <= asked
