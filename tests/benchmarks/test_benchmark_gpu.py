"""What checking datasets on a GPU promises, shown on a CPU: a verdict for every kind, honest figures.

The program is the same on both; what only a GPU can show, its speed, no test is about.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gpu_check
import numpy as np
import pytest
import torch
from gpu_check import main
from gpu_models import (
    Model,
    Part,
    Question,
    Sizes,
    count_tokens,
    loss_of,
    step_flops,
    targets_of,
    training_flops,
)
from gpu_speed import EveryEpoch, Plan, Speed, Work, measure, supply
from torch.nn import functional

from stages.loading.attention import dense_masks
from stages.loading.dataset import open_dataset
from stages.loading.losses import causal_lm_loss, masked_lm_loss, seq2seq_loss
from stages.loading.torch_loader import Tensors, as_tensors
from stages.objectives.table import KINDS
from tests.campaign import FULL
from tests.conftest import run_datasets

ROOT = Path(__file__).resolve().parents[2]
SMALL = Sizes(layers=2, width=16, heads=2, vocabulary=4096)
OBJECTIVES: dict[str, dict[str, Any]] = {
    **{kind: {"kind": kind} for kind in KINDS},
    "mixture": {
        "kind": "mixture",
        "components": [
            {"objective": {"kind": "mlm", "mask_probability": 0.4}},
            {"objective": {"kind": "mlm", "selection": "whole_word"}},
        ],
    },
}
QUICKLY = [
    *("--device", "cpu", "--warmup", "1", "--steps", "2", "--windows", "2"),
    *("--set", "labelled_tokens=400", "--set", "min_labelled_tokens=50", "--set", "max_ids=64"),
    *("--set", "min_heldout_tokens=4", "--set", "heldout_rows=20", "--set", "row_length=16"),
]
_FEW = ("labelled_tokens=20000", "min_labelled_tokens=10000", "max_ids=512", "heldout_rows=100")
LEARNED = [word for setting in _FEW for word in ("--set", setting)]
TINY_SHAPE = [
    *("--batch-tokens", "512", "--layers", "2", "--width", "16", "--heads", "2"),
    *("--vocabulary", "4096"),
]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Compute on one thread: two that share a busy core with others wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def run(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a dataset of every kind; in the slice, of two."""
    output = tmp_path_factory.mktemp("gpu") / "run"
    datasets = [
        {"name": kind, "objective": objective, "materialized_epochs": int(kind in {"nsp", "sop"})}
        for kind, objective in OBJECTIVES.items()
        if FULL or kind in {"clm", "nsp"}
    ]
    run_datasets(small_corpus, output, datasets=datasets)
    return output


@pytest.fixture(scope="module")
def figures(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the program writes of all of them, with a large model that is small."""
    file = tmp_path_factory.mktemp("figures") / "gpu.json"
    main([str(run), *QUICKLY, "--large", *TINY_SHAPE, "--json", str(file)])
    return json.loads(file.read_text())


def columns_of(run: Path, kind: str, rows: int = 12) -> tuple[Tensors, Question]:
    """Some rows of a dataset, and what they ask."""
    dataset = open_dataset(run / "datasets" / kind)
    length = max(dataset.widths.inputs, dataset.widths.labels)
    question = Question(dataset.manifest.attention, dataset.manifest.label_convention, length)
    return as_tensors(dataset.batch(np.arange(rows))), question


@pytest.mark.campaign
def test_every_kind_has_a_verdict_with_its_numbers(figures: Any) -> None:
    records = figures["datasets"]
    assert {record["kind"] for record in records} == KINDS.keys()
    for record in records:
        found = record["check"]
        assert record["errors"] == []
        assert record["passed"] is found["passed"] is all(gate["passed"] for gate in found["gates"])
        measured = found["contrast"] if record["kind"] == "simcse" else found
        assert 0 < measured["loss"] < 20
        assert record["kind"] == "simcse" or {"resume", "finite_share"} <= {
            gate["name"] for gate in found["gates"]
        }
        assert record["kind"] == "simcse" or min(found["control_loss"], found["unigram_entropy"]) > 0
    assert {record["passed"] for record in records} == {True, False}, "400 labels teach little"


@pytest.mark.parametrize("model", ["verifying", "large"])
@pytest.mark.campaign
def test_every_kind_has_a_rate_a_wait_share_and_losses(figures: Any, model: str) -> None:
    for record in figures["datasets"]:
        pace = record[model]
        assert 0 < pace["least_tokens_per_second"] <= pace["tokens_per_second"]
        assert pace["tokens_per_second"] <= pace["most_tokens_per_second"]
        assert 0 < pace["wait_share"] < 1
        assert pace["finite"]
        assert pace["steps"] == pace["windows"] == 2
        assert pace["mfu"] is None, "no data sheet says what a CPU could do"


@pytest.mark.campaign
def test_correct_labels_pass_and_labels_shifted_by_one_do_not(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(run / "datasets" / "clm"), *QUICKLY[:8], *LEARNED]
    assert main(arguments) == 0
    assert "passed 1 of 1" in capsys.readouterr().out
    assert main([*arguments, "--shift-labels", "1"]) == 1
    verdict = capsys.readouterr().out.splitlines()[3].split()
    assert verdict[0] == "clm"
    assert verdict[5] == "NO"
    assert verdict[7:] == ["order_ablation"]


class Machine:
    """A clock that moves where a loader reads and a model steps, and nowhere else."""

    def __init__(self, reading: float, step: float) -> None:
        self.now = 0.0
        self.reading, self.step_seconds = reading, step

    def batches(self) -> Iterator[Tensors]:
        """Batches of eight tokens."""
        while True:
            self.now += self.reading
            yield {"input_ids": torch.zeros(8)}

    def step(self, _batch: Tensors) -> float:
        """Train."""
        self.now += self.step_seconds
        return 1.0

    def speed(self, plan: Plan) -> Speed:
        """Measure it; preparing takes a minute, which must not count."""

        def prepare(batch: Tensors) -> Tensors:
            self.now += 60.0
            return batch

        work = Work[Tensors](prepare, self.step, lambda batch: len(batch["input_ids"]), lambda _: 40.0)
        return measure(self.batches(), work, plan, clock=lambda: self.now)


def test_a_slower_loader_is_waited_for_longer() -> None:
    speeds = [Machine(reading, 4.0).speed(Plan(steps=10)) for reading in (0.0, 1.0, 4.0)]
    assert [speed.wait_share for speed in speeds] == [0.0, 0.2, 0.5]
    assert [speed.tokens_per_second for speed in speeds] == [2.0, 1.6, 1.0]
    assert [speed.flops_per_second for speed in speeds] == [10.0, 8.0, 5.0]


def test_windows_end_with_the_seconds_and_one_is_always_measured() -> None:
    plan = Plan(warmup=3, windows=5, steps=20, seconds=40.0)
    assert plan.window_steps == 4
    speed = Machine(1.0, 4.0).speed(plan)
    assert (speed.windows, speed.steps) == (2, 8)
    assert Machine(1.0, 4.0).speed(Plan(seconds=0.0)).windows == 1


def test_a_step_that_warms_up_is_in_no_figure_but_the_first_loss() -> None:
    machine = Machine(1.0, 1.0)
    losses, seconds = itertools.count(), itertools.chain([500.0, 500.0], itertools.repeat(3.0))

    def step(_batch: Tensors) -> float:
        machine.now += next(seconds)
        return float(next(losses))

    work = Work[Tensors](lambda batch: batch, step, lambda _: 8, lambda _: 1.0)
    speed = measure(
        machine.batches(), work, Plan(warmup=2, windows=2, steps=4), clock=lambda: machine.now
    )
    assert (speed.tokens_per_second, speed.wait_share) == (2.0, 0.25)
    assert (speed.first_loss, speed.last_loss) == (0.0, 5.0)


def test_figures_are_medians_of_windows_and_a_loss_that_is_no_number_is_told() -> None:
    machine = Machine(0.0, 0.0)
    seconds = itertools.chain([1.0, 1.0, 100.0, 2.0])

    def step(_batch: Tensors) -> float:
        machine.now += next(seconds)
        return float("nan") if machine.now == 2.0 else 1.0

    work = Work[Tensors](lambda batch: batch, step, lambda _: 8, lambda _: 1.0)
    plan = Plan(warmup=1, windows=3, steps=3, seconds=999)
    speed = measure(machine.batches(), work, plan, clock=lambda: machine.now)
    assert speed.tokens_per_second == 4.0
    assert (speed.least_tokens_per_second, speed.most_tokens_per_second) == (0.08, 8.0)
    assert not speed.finite


def test_operations_are_those_of_a_calculation_by_hand() -> None:
    body = Part(tokens=1_024, weights=85_056_000, attended=12 * 1_024)
    # 1,024 tokens x (6 x 85,056,000 + 12 x 768 x 12,288) + 6 x 38,633,472 x 1,023 labels
    expected = 1_024 * (510_336_000 + 113_246_208) + 6 * 38_633_472 * 1_023
    assert expected == 875_680_432_128
    found = training_flops([body], width=768, output=50_304 * 768, labels=1_023)
    assert found == expected
    # a step a millisecond at a peak of 989 x 10^12: 88.5 %
    assert round(found / 1e-3 / 989e12, 3) == 0.885


def test_the_model_has_the_parameters_of_gpt_2_small() -> None:
    with torch.device("meta"):
        model = Model(Sizes(), Question("causal_within_document", "unshifted", 512))
    heads = 2 * 769 + 769
    assert sum(weight.numel() for weight in model.parameters()) - heads == 124_439_808 + 47 * 768
    assert sum(weight.numel() for weight in model.encoder.parameters()) == 85_056_000


@pytest.mark.campaign
def test_a_batch_counts_the_weights_that_its_tokens_and_labels_meet(run: Path) -> None:
    columns, question = columns_of(run, "span_corruption")
    model = Model(SMALL, question)
    inputs, targets = int(columns["input_length"].sum()), int(columns["label_length"].sum())
    assert count_tokens(columns) == (inputs, targets)
    assert model.decoder is not None
    # each of the two halves has a layer: 12 x 16 x 16 weights, 13 x 16 biases and norms, and a last norm
    layer = 12 * 256 + 13 * 16
    read = 2 * 256 + 2 * 16  # what of the encoder's tokens the decoder reads
    decoder = layer + 2 * 256 + 4 * 16 + 2 * 16  # the query, what is read, a norm, and the last norm
    length, width = columns["input_ids"].shape[1], columns["labels"].shape[1]
    expected = inputs * (6 * (layer + 2 * 16) + 12 * 16 * length)
    expected += inputs * 6 * read + targets * (6 * decoder + 12 * 16 * (length + width))
    assert step_flops(model, columns) == expected + 6 * 4096 * 16 * int((columns["labels"] >= 0).sum())


ORACLES: dict[str, Callable[[torch.Tensor, Tensors], torch.Tensor]] = {
    "clm": lambda logits, c: causal_lm_loss(logits, c["labels"], segment_ids=c["segment_ids"]).value,
    "prefix_lm": lambda logits, c: (
        causal_lm_loss(logits, c["labels"], segment_ids=c["segment_ids"]).value
    ),
    "mlm": lambda logits, c: masked_lm_loss(logits, c["labels"]).value,
    "span_corruption": lambda logits, c: seq2seq_loss(logits, c["labels"]).value,
}
"""The losses that trainers are told to take."""


@pytest.mark.campaign
@pytest.mark.parametrize("kind", ORACLES)
def test_the_loss_is_the_one_that_trainers_are_told_to_take(run: Path, kind: str) -> None:
    columns, question = columns_of(run, kind)
    model = Model(SMALL, question)
    known = model(columns, dense_masks(columns, question.attention))
    logits = functional.linear(known, model.embedding.weight)
    expected = ORACLES[kind](logits, columns)
    torch.testing.assert_close(loss_of(model, known, columns), expected)
    assert targets_of(columns, question).shape == known.shape[:2]


@pytest.mark.campaign
def test_documents_of_a_row_do_not_see_each_other(run: Path) -> None:
    columns, question = columns_of(run, "mlm", rows=48)
    model = Model(SMALL, question).eval()
    masks = dense_masks(columns, question.attention)
    first = columns["segment_ids"] == 0
    assert (~first & (columns["segment_ids"] >= 0)).any()
    changed = {**columns, "input_ids": torch.where(first, 9, columns["input_ids"])}
    before, after = (model(one, masks) for one in (columns, changed))
    assert torch.equal(before[~first], after[~first])
    assert not torch.equal(before[first], after[first])


@pytest.mark.campaign
@pytest.mark.parametrize(("kind", "repeats"), [("nsp", True), ("mlm", False)])
def test_epochs_go_on_and_those_on_disk_come_again(run: Path, kind: str, *, repeats: bool) -> None:
    rows = EveryEpoch(open_dataset(run / "datasets" / kind))
    place = np.arange(4)
    first, later = rows.at(0, place)["input_ids"], rows.at(3, place)["input_ids"]
    assert np.array_equal(first, later) is repeats


@pytest.mark.campaign
def test_processes_that_read_ahead_change_no_batch(run: Path) -> None:
    dataset = open_dataset(run / "datasets" / "mlm")
    steps = 2 + len(dataset) // 8
    alone, together = (
        [batch["input_ids"].tolist() for batch in supply(dataset, 8, steps=steps, processes=processes)]
        for processes in (0, 2)
    )
    assert len(alone) == steps
    assert alone == together


@pytest.mark.campaign
def test_a_peak_that_is_given_makes_a_utilisation(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    main([str(run / "datasets" / "mlm"), *QUICKLY, "--peak-tflops", "2", "--json", str(file)])
    pace = json.loads(file.read_text())["datasets"][0]["verifying"]
    assert pace["mfu"] == pace["flops_per_second"] / 2e12 > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "cuda"], "--device cuda: torch finds no GPU on this machine; take --device cpu"),
        (["--steps", "0"], "--steps 0: must be at least 1"),
        (["--width", "10", "--heads", "3"], "--width 10: must be a multiple of --heads 3"),
        (["--set", "labelled_tokens=few"], "--set labelled_tokens: "),
        (["--set", "labels=7"], "--set labels: "),
        (["--json", "/nowhere/gpu.json"], "/nowhere/gpu.json"),
    ],
)
@pytest.mark.campaign
def test_what_cannot_be_is_refused_in_one_line(
    run: Path,
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main([str(run / "datasets" / "clm"), *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("gpu_check: ")
    assert message in line


def test_a_folder_that_is_no_run_is_refused_with_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 2
    assert f"{tmp_path}: neither a dataset nor a run" in capsys.readouterr().err


def test_without_a_gpu_the_large_model_is_left_out_unless_it_is_asked_for_and_that_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(gpu_check, "datasets_in", lambda _: [])
    for device, said in (([], True), (["--device", "cpu"], False)):
        assert main(["run", "--large", *device]) == 0
        line = "large: left out, since torch finds no GPU; --device cpu trains it"
        assert (line in capsys.readouterr().out) == said


@pytest.mark.campaign
def test_a_model_with_too_few_ids_is_refused_and_the_verdict_stays(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(run / "datasets" / "clm")
    assert main([path, *QUICKLY, "--large", *TINY_SHAPE[:-1], "100"]) == 1
    told = capsys.readouterr().out
    assert all(said in told for said in ("--vocabulary 100: clm has 4096 ids", "verifying"))
