"""What `shardmill compare --from` promises: models of one start, trained on what datasets give in order.

The same numbers for the same seed; a call that was stopped goes on; what cannot be compared is refused.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pipeline import cli
from pipeline.tools.compare.command import SHOWN_DEFAULTS
from pipeline.tools.compare.continued import compare_continued
from pipeline.tools.compare.evaluation_sets import heldout_rows, read_asked
from stages.comparing.budget import tokens_read
from stages.continuing.causal_model import CausalModel
from stages.continuing.settings import ContinueSettings
from stages.continuing.supply import plan_stages, training_steps
from stages.continuing.training import MeasuredSet
from stages.errors import ConfigError, DataError
from stages.loading.dataset import open_dataset
from stages.verify.rows import count_labelled
from stages.verify.training import CPU
from tests.conftest import run_small
from tests.stages.continuing.checkpoints import write_checkpoint, write_config

pytestmark = pytest.mark.slow

VOCAB = 1536
DATASETS: list[dict[str, Any]] = [
    {"name": "clm"},
    {"name": "again", "objective": {"kind": "fim"}},
    {"name": "mlm", "objective": {"kind": "mlm"}},
]
COMMON: dict[str, Any] = {
    "tokenizer": {"train": {"vocab_size": VOCAB, "sample_size": "1MiB"}},
    "validation": {"fraction": 0.2},
    "packing": {"seq_len": 64, "shards": 2},
}
SETTINGS = ContinueSettings(
    tokens=4_000, step_tokens=512, learning_rate=0.01, evaluations=2, evaluation_tokens=1_500, seeds=2
)


@pytest.fixture(scope="module")
def finished(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose datasets models go on with."""
    output = tmp_path_factory.mktemp("continued") / "run"
    run_small(small_corpus, output, datasets=DATASETS, **COMMON)
    return output


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("start"), vocab_size=VOCAB)


def compared(finished: Path, start: Path, output: Path, **options: Any) -> Any:
    whole = {"datasets": ("clm",), "sequences": (("clm", "again"),), "settings": SETTINGS, **options}
    return compare_continued([finished], start=start, output=output, **whole)


@pytest.fixture(scope="module")
def report(finished: Path, start: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    evaluations = tuple(f"{name}={finished / 'datasets' / name}" for name in ("clm", "again"))
    return compared(finished, start, tmp_path_factory.mktemp("results"), evaluations=evaluations)


def test_models_learn_and_every_number_is_told(report: Any) -> None:
    assert [record["name"] for record in report["datasets"]] == ["clm", "clm then again"]
    assert report["model"]["rows"] == VOCAB
    assert report["model"]["trained"]
    for record in report["datasets"]:
        assert [model["seed"] for model in record["models"]] == [1, 2]
        assert record["models"][0]["curve"] != record["models"][1]["curve"], "another order of rows"
        for model in record["models"]:
            assert SETTINGS.tokens <= model["tokens"] < SETTINGS.tokens + SETTINGS.step_tokens + 128
            assert [one["step"] for one in model["measurements"]] == [0, 4, 8]
        for name in ("clm", "again"):
            mean = record["mean"][name]
            assert report["before"][name]["nats"]["mean"] == pytest.approx(np.log(VOCAB), rel=0.01)
            assert mean["change"]["mean"] < -0.2
            assert mean["nats"]["deviation"] > 0
            of_bytes = mean["bits"]["mean"] / report["before"][name]["bits"]["mean"]
            assert of_bytes == pytest.approx(
                mean["nats"]["mean"] / report["before"][name]["nats"]["mean"]
            )
    assert report["evaluations"]["clm"]["bytes"] > report["evaluations"]["clm"]["tokens"]


def test_the_files_hold_what_is_reported(report: Any) -> None:
    folder = Path(report["output"])
    written = json.loads((folder / "compare.json").read_text(encoding="utf-8"))
    assert written == {name: value for name, value in report.items() if name != "output"}
    pictures = {path.name for path in folder.glob("*.svg")}
    assert pictures == {"loss-clm.svg", "loss-again.svg", "clm-again.svg"}
    page = (folder / "compare.html").read_text(encoding="utf-8")
    assert page.count("<svg") == len(pictures)
    assert "clm then again" in page


def test_the_same_call_has_the_same_numbers_and_trains_no_model_again(
    finished: Path, start: Path, report: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluations = tuple(f"{name}={finished / 'datasets' / name}" for name in ("clm", "again"))
    settings = SETTINGS.model_copy(update={"seeds": 1})
    options: dict[str, Any] = {"evaluations": evaluations, "settings": settings, "sequences": ()}
    again = compared(finished, start, tmp_path, **options)
    assert again["datasets"][0]["models"] == report["datasets"][0]["models"][:1]
    kept = list((tmp_path / "models").iterdir())
    assert len(kept) == 1
    monkeypatch.setattr("stages.continuing.training.train_on", None)
    assert compared(finished, start, tmp_path, **options) == again
    kept[0].write_bytes(kept[0].read_bytes()[:-20])  # a file that is not whole counts for nothing
    with pytest.raises(TypeError, match="not callable"):
        compared(finished, start, tmp_path, **options)


def test_steps_hold_every_row_of_an_epoch_once_in_the_loaders_order(finished: Path) -> None:
    dataset = open_dataset(finished / "datasets" / "clm", split="train")
    size = dataset.manifest.totals.tokens
    settings = SETTINGS.model_copy(update={"tokens": 2 * size})
    orders = []
    for seed in (1, 2):
        stages = plan_stages([dataset], settings, seed=seed)
        steps = list(training_steps(stages, settings))
        assert len(steps) == stages[0].steps == -(-2 * size // settings.step_tokens)
        sizes = [int(tokens_read(step.rows).sum()) for step in steps]
        assert all(abs(one - settings.step_tokens) < 64 for one in sizes)
        rows = np.concatenate([step.rows.input_ids for step in steps])
        epochs = [stages[0].first_epoch, stages[0].first_epoch + 1]
        expected = [dataset.at(epoch, np.arange(len(dataset)))["input_ids"] for epoch in epochs]
        assert np.array_equal(rows[: 2 * len(dataset)], np.concatenate(expected)[: len(rows)])
        assert steps[-1].read == len(rows)
        orders.append(rows[: len(dataset)])
    first, second = orders
    assert not np.array_equal(first, second)
    assert sorted(map(bytes, first)) == sorted(map(bytes, second))


def test_datasets_in_order_share_the_tokens_as_they_hold_them(finished: Path) -> None:
    both = [open_dataset(finished / "datasets" / name, split="train") for name in ("clm", "again")]
    stages = plan_stages(both, SETTINGS, seed=1)
    assert [stage.steps for stage in stages] == [4, 4]
    order = [step.stage for step in training_steps(stages, SETTINGS)]
    assert order == [0] * 4 + [1] * 4
    short = SETTINGS.model_copy(update={"tokens": 1000, "step_tokens": 1000})
    with pytest.raises(ConfigError, match=r"--tokens 1000: 1 steps leave none for .*raise --tokens"):
        plan_stages(both, short, seed=1)
    with pytest.raises(ConfigError, match=r"--step-tokens 63: rows of .* have up to 64 tokens"):
        plan_stages(both, SETTINGS.model_copy(update={"step_tokens": 63}), seed=1)


def test_a_config_without_weights_starts_from_weights_of_the_seed(
    finished: Path, tmp_path: Path
) -> None:
    start = write_config(tmp_path / "start", vocab_size=VOCAB)
    arguments = ["compare", finished, "--from", start, "--output", tmp_path / "out", "--seeds", "2"]
    arguments += ["--dataset", "clm", "--dataset", "mlm", "--tokens", "1000", "--step-tokens", "500"]
    arguments += ["--evaluation-tokens", "500", "--save"]
    result = CliRunner().invoke(cli.app, list(map(str, arguments)), env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "before training" in result.output
    assert (
        "mlm: not compared: its rows are not for a model that reads from left to right" in result.output
    )
    found = json.loads((tmp_path / "out" / "compare.json").read_text(encoding="utf-8"))
    assert not found["model"]["trained"]
    assert found["before"]["run"]["nats"]["deviation"] > 0
    assert list(found["evaluations"]) == ["run"]
    (of_clm,) = (one for one in found["datasets"] if one["name"] == "clm")
    for seed in (1, 2):
        again = CausalModel(tmp_path / "out" / "weights" / "clm" / f"seed-{seed}", seed=1, machine=CPU)
        asked = read_asked([f"a={finished / 'datasets' / 'clm'}"])["a"]
        rows = heldout_rows(asked, most_tokens=500)
        num_bytes = np.ones(VOCAB, np.int64)
        last = of_clm["models"][seed - 1]["measurements"][-1]["losses"]["run"]
        assert MeasuredSet(rows, num_bytes).loss_of(again).nats == pytest.approx(last["nats"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"evaluations": ("old",)}, r"--evaluate old: write NAME="),
        ({"evaluations": ("a=RUN", "a=y")}, r"--evaluate a=y: a is named twice"),
        ({"evaluations": ("old=nowhere",)}, r"--evaluate old=nowhere: nowhere has no validation split"),
        ({"datasets": ("mlm",), "sequences": ()}, r"dataset mlm: its rows are not for a model"),
        ({"datasets": ("cml",)}, r"no dataset 'cml'; datasets here: again, clm, mlm"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    finished: Path, start: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    if "evaluations" in options:
        place = str(finished / "datasets" / "clm")
        texts = [text.replace("RUN", place) for text in options["evaluations"]]
        options = {"evaluations": tuple(texts)}
    with pytest.raises(ConfigError, match=message):
        compared(finished, start, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_set_of_a_source_or_a_language_has_labels_on_its_documents_alone(finished: Path) -> None:
    place = finished / "datasets" / "clm"
    listed = [pq.read_table(path) for path in place.glob("validation/*/*/documents.parquet")]
    lengths: dict[str, int] = {}
    for table in listed:
        for one in table.select(["language", "tokens"]).to_pylist():  # a first token is no label
            lengths[one["language"]] = lengths.get(one["language"], 0) + one["tokens"] - 1
    languages = sorted(lengths, key=lambda name: lengths[name])

    def labelled(choice: str) -> int:
        rows = heldout_rows(read_asked([f"a={place}{choice}"])["a"], most_tokens=1 << 40)
        return count_labelled(rows)

    total = sum(lengths.values())
    assert total * 0.97 < labelled("") <= total, "documents that are cut have a first token more"
    assert labelled(":source=mixed") == labelled("")
    for name in (languages[0], languages[-1]):
        assert lengths[name] * 0.9 <= labelled(f":language={name}") <= lengths[name]
    with pytest.raises(ConfigError, match=r"no text of language 'xx' \(there are [a-z]"):
        labelled(":language=xx")
    few = heldout_rows(read_asked([f"a={place}:language={languages[-1]}"])["a"], most_tokens=1)
    assert len(few.labels) == 1


def test_a_training_that_diverges_says_so(finished: Path, start: Path, tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"learning_rate": 1e30, "seeds": 1})
    with pytest.raises(
        DataError, match=r"clm: seed 1: the loss of step \d is no number; lower --learning"
    ):
        compared(finished, start, tmp_path, settings=settings, sequences=())


def test_the_help_tells_the_defaults() -> None:
    defaults = ContinueSettings().model_dump()
    assert {name: defaults[name] for name in SHOWN_DEFAULTS} == SHOWN_DEFAULTS


def test_options_of_checkpoints_need_one(finished: Path) -> None:
    result = CliRunner().invoke(cli.app, ["compare", str(finished), "--evaluate", "a=b"])
    assert isinstance(result.exception, ConfigError)
    assert "--evaluate: is for models that go on from a checkpoint" in str(result.exception)


def test_sets_under_another_tokenizer_are_refused(
    finished: Path, reference: Path, start: Path, tmp_path: Path
) -> None:
    evaluations = (f"old={reference / 'datasets' / 'clm'}",)
    with pytest.raises(ConfigError, match="made with another tokenizer than"):
        compared(finished, start, tmp_path, evaluations=evaluations)
