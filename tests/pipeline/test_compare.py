"""What `shardmill compare` promises: models of one budget, asked the same; a table, a page, JSON keys.

The same numbers for the same seed, whatever order datasets and runs are named in; what cannot be
compared is named with its reason, and does not stop the others.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipeline import cli
from pipeline.tools.compare.compare import JSON_NAME, PAGE_NAME, compare_datasets
from pipeline.tools.compare.page import COLUMNS, comparison_table
from stages.comparing.settings import CompareSettings
from stages.errors import ConfigError
from tests.campaign import FULL
from tests.conftest import bundled_lines, run_datasets, run_small

pytestmark = pytest.mark.slow

OBJECTIVES: dict[str, dict[str, Any]] = {
    "clm": {"kind": "clm"},
    "mlm": {"kind": "mlm"},
    "fim": {"kind": "fim"},
    "prefix": {"kind": "prefix_lm"},
    "t5": {"kind": "span_corruption"},
    "electra": {"kind": "electra"},
    "nsp": {"kind": "nsp"},
    "simcse": {"kind": "simcse"},
}
if not FULL:  # how each kind is asked is what `stages/comparing` promises
    OBJECTIVES = {name: OBJECTIVES[name] for name in ("clm", "mlm", "t5", "nsp", "simcse")}
DATASETS = [{"name": name, "objective": objective} for name, objective in OBJECTIVES.items()]
SETTINGS = CompareSettings(
    tokens=2_000, step_tokens=512, heldout_tokens=500, documents=120, places=1, max_ids=256
)
COMMON: dict[str, Any] = {
    "tokenizer": {"train": {"vocab_size": 1536, "sample_size": "1MiB"}},
    "validation": {"fraction": 0.4},
    "packing": {"seq_len": 64, "shards": 2},
}
KEYS = {"run", "dataset", "name", "objective", "fingerprint"}
NUMBERS = {
    "labelled_tokens",
    "passes",
    "unigram_entropy",
    "loss",
    "gain",
    "frequencies",
    "going_on",
    "filling_in",
    "accuracy",
    "untrained_accuracy",
    "repeated",
    "once",
    "fresh",
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some bundled texts, a third of them twice."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = bundled_lines("text/*", 22)
    (folder / "a.jsonl").write_bytes(b"\n".join([*lines, *lines[::3]]) + b"\n")
    return folder


@pytest.fixture(scope="module")
def finished(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of datasets to compare; epochs of pairs are written out."""
    output = tmp_path_factory.mktemp("compare") / "clean"
    run_datasets(corpus, output, datasets=DATASETS, **COMMON)
    return output


@pytest.fixture(scope="module")
def raw(corpus: Path, finished: Path) -> Path:
    """The same corpus with its duplicates."""
    output = finished.with_name("raw")
    dedup = {"exact": False, "near": False}
    run_small(corpus, output, datasets=DATASETS[:1], dedup=dedup, **COMMON)
    return output


@pytest.fixture(scope="module")
def report(finished: Path) -> Any:
    return compare_datasets([finished], SETTINGS)


def of(report: dict[str, Any], name: str) -> dict[str, Any]:
    (record,) = [record for record in report["datasets"] if record["name"] == name]
    return dict(record)


@pytest.mark.campaign
def test_every_dataset_is_measured_or_says_why_not(report: dict[str, Any]) -> None:
    assert [record["name"] for record in report["datasets"]] == sorted(OBJECTIVES)
    for record in report["datasets"]:
        assert record.keys() >= KEYS
        assert ("reason" in record) == (record["name"] == "simcse")
        if "reason" not in record:
            assert record["mean"].keys() == NUMBERS
            assert [model["seed"] for model in record["models"]] == [1]
    assert "no labels" in of(report, "simcse")["reason"]


def test_all_models_read_as_many_tokens_whatever_is_labelled(report: dict[str, Any]) -> None:
    models = [model for record in report["datasets"] for model in record.get("models", ())]
    assert len(models) == len(OBJECTIVES) - 1
    assert all(SETTINGS.tokens <= model["tokens"] < SETTINGS.tokens + 200 for model in models)
    assert len({model["curve"][-1][0] for model in models}) == 1, "as many steps"
    labelled = {name: of(report, name)["mean"]["labelled_tokens"]["mean"] for name in ("clm", "mlm")}
    assert labelled["mlm"] < 0.25 * labelled["clm"]


def test_models_are_asked_what_rows_of_their_objective_ask(report: dict[str, Any]) -> None:
    asked = {
        name: tuple(of(report, name)["mean"][key] is not None for key in ("going_on", "filling_in"))
        for name in sorted(OBJECTIVES.keys() - {"simcse"})
    }
    wanted = {
        "clm": (True, False),
        "electra": (False, False),
        "fim": (True, True),
        "mlm": (True, True),
        "nsp": (True, True),
        "prefix": (True, False),
        "t5": (True, True),
    }
    assert asked == {name: wanted[name] for name in asked}
    for name in asked:
        mean = of(report, name)["mean"]
        assert 0 <= mean["accuracy"]["mean"] <= 1
        for key in ("going_on", "filling_in"):
            assert mean[key] is None or 1 < mean[key]["mean"] < 12
    assert report["classes"]
    assert 0 < report["majority"] < 1


def test_the_files_hold_what_is_reported(finished: Path, report: dict[str, Any]) -> None:
    folder = finished / "compare"
    assert report.pop("output", str(folder)) == str(folder)
    assert json.loads((folder / JSON_NAME).read_text(encoding="utf-8")) == report
    page = (folder / PAGE_NAME).read_text(encoding="utf-8")
    assert page.count("<svg") == page.count("Loss by step</text>") == len(OBJECTIVES) - 1
    assert "simcse: not compared" in page


def test_a_dataset_alone_or_in_another_order_has_the_same_numbers(
    finished: Path, report: dict[str, Any], tmp_path: Path
) -> None:
    some = compare_datasets([finished], SETTINGS, datasets=["mlm", "clm"], output=tmp_path)
    assert some["datasets"] == [of(report, "clm"), of(report, "mlm")]


def test_seeds_are_models_of_their_own_and_their_spread_is_told(finished: Path, tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"seeds": 2})
    compared: Any = compare_datasets([finished], settings, datasets=["clm"], output=tmp_path)
    (record,) = compared["datasets"]
    first, second = (model["loss"] for model in record["models"])
    assert first != second
    assert record["mean"]["loss"]["mean"] == pytest.approx((first + second) / 2)
    assert record["mean"]["loss"]["deviation"] == pytest.approx(abs(first - second) / 2)


def test_runs_are_compared_on_texts_of_both_and_in_any_order(
    finished: Path, raw: Path, tmp_path: Path
) -> None:
    both, turned = (
        compare_datasets(folders, SETTINGS, datasets=["clm"], output=tmp_path)
        for folders in ((finished, raw), (raw, finished))
    )
    assert both == turned
    assert [record["name"] for record in both["datasets"]] == ["clean/clm", "raw/clm"]
    assert both["texts"]["repeated"] > 0
    for record in both["datasets"]:
        (model,) = record["models"]
        assert model["memorised"].keys() == {"repeated", "once", "fresh"}
        assert model["memorised"]["fresh"] == model["going_on"]


def test_the_command_prints_the_table_and_says_what_is_not_in_it(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def smaller(*, tokens: int, seeds: int) -> CompareSettings:
        return SETTINGS.model_copy(update={"tokens": tokens, "seeds": seeds})

    monkeypatch.setattr("stages.comparing.settings.CompareSettings", smaller)
    arguments = ["compare", str(finished), "--dataset", "clm", "--dataset", "simcse"]
    arguments += ["--tokens", "1000", "--output", str(tmp_path)]
    result = CliRunner().invoke(cli.app, arguments, env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 0, result.output
    assert "unigram" in result.output
    assert "simcse: not compared: its rows have no labels" in result.output


def test_an_unknown_dataset_is_named_with_those_that_there_are(finished: Path) -> None:
    with pytest.raises(ConfigError, match=r"no dataset 'cml'; datasets here: clm, "):
        compare_datasets([finished], SETTINGS, datasets=["cml"])


def test_results_that_cannot_be_written_are_refused_before_training(finished: Path) -> None:
    output = finished / "run.json" / "results"
    with pytest.raises(ConfigError, match=r"--output .*results: cannot be made"):
        compare_datasets([finished], SETTINGS, datasets=["clm"], output=output)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no run"):
        compare_datasets([tmp_path], SETTINGS)


def test_runs_without_a_heldout_text_in_common_cannot_be_compared(
    finished: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    texts = [f"{n} other words of another text" for n in range(80)]
    lines = [json.dumps({"text": text, "lang": "en", "id": text}) for text in texts]
    (corpus / "texts.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tokenizer = {"train": {"vocab_size": 570, "sample_size": "1MiB"}}
    run_small(corpus, other, **{**COMMON, "tokenizer": tokenizer})
    with pytest.raises(ConfigError, match="no document is held out by every run"):
        compare_datasets([finished, other], SETTINGS, datasets=["clm"])


def test_a_dataset_without_a_validation_split_says_so(finished: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(finished, copy)
    shutil.rmtree(copy / "datasets" / "clm" / "validation")
    (record,) = compare_datasets([copy], SETTINGS, datasets=["clm"])["datasets"]
    assert "no validation split" in record["reason"]


def test_a_spread_of_nothing_is_not_shown_and_one_of_a_mean_of_nothing_is() -> None:
    shown = dict.fromkeys(COLUMNS) | {"labelled_tokens": {"mean": 7.0, "deviation": 0.0}}
    steady = shown | {"loss": {"mean": 2.0, "deviation": 0.0}}
    spread = shown | {"loss": {"mean": 0.0, "deviation": 0.5}}
    report: Any = {"datasets": [{"name": n, "mean": mean} for n, mean in (("a", steady), ("b", spread))]}
    table = comparison_table(report)
    assert table.headings == ["dataset", "labels", "loss"]
    assert table.rows == [["a", "7", "2.00"], ["b", "7", "0.00 ±0.50"]]
