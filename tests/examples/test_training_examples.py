"""What the training examples promise: they run as they are, and go on where they stopped.

Those of transformers and Lightning run where these are installed, as `make examples` does.
"""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.stages.loading.test_dataset import EOS, write_dataset

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str | Path) -> str:
    """Run python from the repository's root; give what it prints."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def places(output: str) -> list[tuple[str, ...]]:
    """Give (processes, epoch, row) of each step."""
    return re.findall(r"loss \d+\.\d+  (\d) processes  epoch (\d) row (\d+)", output)


def test_two_processes_stop_and_one_goes_on(tmp_path: Path) -> None:
    rows = [[[10 + number, 11 + number, EOS]] for number in range(40)]
    dataset = write_dataset(tmp_path, (rows[:15], rows[15:]))
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")
    script = ("examples/train_torchrun.py", dataset, "--checkpoint", tmp_path / "run.pt", "--steps")
    first = run(*launch, "2", *script, "3")
    assert places(first) == [("2", "0", "8"), ("2", "0", "16"), ("2", "0", "24")]
    second = run(*launch, "1", *script, "5")
    assert places(second) == [("1", "0", str(row)) for row in (28, 32, 36)] + [
        ("1", "1", "0"),
        ("1", "1", "4"),
    ]


@pytest.mark.skipif(find_spec("lightning") is None, reason="lightning is not installed: make examples")
def test_lightning_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    rows = [[[10 + number, 11 + number, EOS]] for number in range(40)]
    script = ("examples/train_lightning.py", write_dataset(tmp_path, (rows,)))
    checkpoint = ("--checkpoint", tmp_path / "run.ckpt", "--steps")
    seen = [re.findall(r"row (\d+)", run(*script, *checkpoint, steps)) for steps in ("3", "6")]
    assert seen == [["4", "8", "12"], ["16", "20", "24"]]


@pytest.mark.skipif(
    find_spec("transformers") is None, reason="transformers is not installed: make examples"
)
def test_transformers_trains_and_generates(tmp_path: Path) -> None:
    rows = [[[10 + number, 11 + number, EOS]] for number in range(40)]
    output = run("examples/train_transformers.py", write_dataset(tmp_path, (rows,)), "--steps", "3")
    assert re.search(r"clm: loss \d+\.\d+, 12 rows\ngenerated \[", output)
