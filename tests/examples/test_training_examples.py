"""What the training examples promise: they run as they are, and go on where they stopped."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.called import script_called
from tests.conftest import run_small
from tests.stages.loading.test_dataset import EOS, write_dataset

ROOT = Path(__file__).resolve().parents[2]
TRANSFORMERS = {
    "clm": r"prompt     \S.*\ngoes on    ",
    "mlm": r"filled     .*\[.*\nin truth   .*\[.*\n\d+ of \d+ masks are right; \d+ different",
    "span_corruption": r"text       .*<0>.*\nfilled     .*\nin truth   <0> ",
    "fim": r"before     .*\nafter      .*\nfilled     .*\nin truth   ",
}
"""What is shown of a model of each kind."""


def run(*arguments: str | Path) -> str:
    """Run python from the repository's root; give what it prints."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def places(output: str) -> list[tuple[str, ...]]:
    """Return (processes, epoch, row) of each step."""
    return re.findall(r"loss \d+\.\d+  (\d) processes  epoch (\d) row (\d+)", output)


@pytest.mark.campaign
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


@pytest.mark.campaign
def test_lightning_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    rows = [[[10 + number, 11 + number, EOS]] for number in range(40)]
    script = ("examples/train_lightning.py", write_dataset(tmp_path, (rows,)))
    checkpoint = ("--checkpoint", tmp_path / "run.ckpt", "--steps")
    seen = [re.findall(r"row (\d+)", run(*script, *checkpoint, steps)) for steps in ("3", "6")]
    assert seen == [["4", "8", "12"], ["16", "20", "24"]]


@pytest.fixture(scope="module")
def datasets(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Datasets of a real run, one for each model."""
    output = tmp_path_factory.mktemp("examples") / "run"
    kinds = [{"name": kind, "objective": {"kind": kind}} for kind in TRANSFORMERS]
    tokenizer = {"train": {"vocab_size": 1536, "sample_size": "128KiB"}}
    run_small(small_corpus, output, datasets=kinds, packing={"seq_len": 64}, tokenizer=tokenizer)
    return output / "datasets"


@pytest.mark.parametrize(("kind", "shown"), TRANSFORMERS.items())
def test_transformers_trains_and_shows_texts_in_words(datasets: Path, kind: str, shown: str) -> None:
    script = ("examples/train_transformers.py", str(datasets / kind), "--steps", "3")
    printed = script_called(*script, cwd=ROOT)
    found = re.search(rf"{kind}: loss \d+\.\d+ on average over 3 steps\n(\n.+)\Z", printed, re.DOTALL)
    assert found, printed
    assert len(re.findall(shown, found[1])) == 3, found[1]
