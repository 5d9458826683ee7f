"""What `shardmill tokenizer sweep` promises.

Each tokenizer is the one that the run would train; Ray changes nothing; the texts of a run are only
read; what cannot be trained is said; the table, the picture and the kept folder show the same numbers.
"""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from typer.testing import CliRunner, Result

from pipeline import cli
from pipeline.session.request import RunRequest
from pipeline.tools.tokenizer.sweep import SweptSettings, _tokens, sweep_tokenizers
from pipeline.tools.tokenizer.sweep_tables import SweepContent, draw_sweep, print_sweep
from stages.cleaning.text import clean_text
from stages.errors import ConfigError
from stages.store.folders import files_below
from tests.conftest import run_small, small_run

pytestmark = pytest.mark.slow

SENTENCES = {
    "en": ["All human beings are born free.", "Everyone has the right to life.", ""],
    "de": ["Alle Menschen sind frei geboren.", "Jeder hat das Recht auf Leben.", "x"],
    "ru": ["Все люди рождаются свободными.", "Каждый имеет право на жизнь.", "y"],
}
MODEL = Path("tokenizer/tokenizer.model")
TRAINED = {"train": {"vocab_size": 2048, "sample_size": "1MiB"}}
TOO_SMALL = 600
"""Pieces: fewer than the special ids, the bytes and the characters of the sample."""
Sweep = partial[SweepContent]
"""Sweeps what most tests do; options may be changed."""


@pytest.fixture(scope="module")
def trained(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that has trained its tokenizer."""
    output = tmp_path_factory.mktemp("trained") / "run"
    run_small(small_corpus, output, until="tokenizer", tokenizer=TRAINED)
    return output


@pytest.fixture(scope="module")
def parallel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of parallel text."""
    folder = tmp_path_factory.mktemp("parallel")
    for language, lines in SENTENCES.items():
        (folder / f"{language}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def sweep(small_corpus: Path, trained: Path, parallel: Path) -> Sweep:
    """Sweep sizes and alphas, the run's own among them, and a size that is too small."""
    run = RunRequest(small_run(tokenizer=TRAINED), small_corpus, trained, 0)
    settings = SweptSettings(sizes=(2048, TOO_SMALL), alphas=(1, 0.3))
    return partial(sweep_tokenizers, run=run, settings=settings, has_texts=True, parallel=parallel)


@pytest.fixture(scope="module")
def swept(sweep: Sweep, tmp_path_factory: pytest.TempPathFactory) -> tuple[SweepContent, Path]:
    """Return what a sweep found, and the folder where its tokenizers were kept."""
    folder = tmp_path_factory.mktemp("kept") / "tokenizers"
    return sweep(save=folder), folder


def test_the_tokenizer_of_the_runs_own_settings_is_the_runs(
    swept: tuple[SweepContent, Path], trained: Path
) -> None:
    _, folder = swept
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["2048-0.3", "2048-1", "sweep.json"]
    for file in (MODEL, MODEL.with_name("special_ids.json"), MODEL.with_name("fairness.json")):
        own = (folder / "2048-0.3" / file).read_bytes()
        assert own == (trained / file).read_bytes()
    assert len({(folder / name / MODEL).read_bytes() for name in names[:2]}) == 2


def test_tokens_are_those_of_the_library(swept: tuple[SweepContent, Path]) -> None:
    found, folder = swept
    assert found["parallel"]["sentences"] == 2
    assert found["parallel"]["left_out"] == 1
    at_one = 0
    for point in reversed(found["tokenizers"]):  # alpha 1 comes before 0.3
        name = f"{point['vocab_size']}-{point['alpha']:g}"
        library = sentencepiece.SentencePieceProcessor(model_file=str(folder / name / MODEL))
        tokens = {
            language: sum(len(library.encode(clean_text(line))) for line in lines[:2])
            for language, lines in SENTENCES.items()
        }
        assert {name: one["tokens"] for name, one in point["languages"].items()} == tokens
        assert point["tokens"] == sum(tokens.values())
        assert point["parity"] == pytest.approx(
            (tokens["de"] + tokens["ru"]) / 2 / tokens["en"], abs=1e-3
        )
        at_one = at_one or tokens["en"]
        increase = tokens["en"] / at_one - 1
        assert point["reference_increase"] == pytest.approx(increase, abs=1e-4)
        assert point["folder"] == str(folder / name)
    assert len(found["tokenizers"]) == 2
    assert json.loads((folder / "sweep.json").read_text(encoding="utf-8")) == found


def test_a_size_that_cannot_be_trained_is_said(
    swept: tuple[SweepContent, Path], sweep: Sweep, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = swept
    assert [(one["vocab_size"], one["alpha"]) for one in found["refused"]] == [
        (TOO_SMALL, 0.3),
        (TOO_SMALL, 1.0),
    ]
    print_sweep(found, as_json=False)
    printed = capsys.readouterr().out
    assert "600-0.3: not trained: tokenizer.train.vocab_size = 600: the special ids" in printed
    assert "vocab_size = 2048\nalpha = " in printed
    print_sweep(found, as_json=True)
    assert json.loads(capsys.readouterr().out) == found
    with pytest.raises(ConfigError, match="no tokenizer could be trained"):
        sweep(settings=SweptSettings((TOO_SMALL,), (1.0,)))


def test_ray_changes_nothing_and_the_run_is_only_read(
    swept: tuple[SweepContent, Path],
    sweep: Sweep,
    trained: Path,
    tmp_path: Path,
    ray_session: None,
) -> None:
    del ray_session
    before = {path: path.stat().st_mtime_ns for path in files_below(trained)}
    run = replace(sweep.keywords["run"], workers=1)
    sweep(run=run, settings=SweptSettings((2048,), (0.3,)), save=tmp_path / "kept")
    _, folder = swept
    compared = [path.relative_to(folder) for path in files_below(folder / "2048-0.3")]
    assert len(compared) == 3
    for path in compared:
        assert (tmp_path / "kept" / path).read_bytes() == (folder / path).read_bytes()
    assert {path: path.stat().st_mtime_ns for path in files_below(trained)} == before


def test_the_picture_has_a_line_a_size_and_a_mark_an_alpha(swept: tuple[SweepContent, Path]) -> None:
    small = swept[0]["tokenizers"]
    large = [one.copy() for one in small]
    for one in large:
        one["vocab_size"], one["tokens"] = 8192, one["tokens"] - 5
    found: SweepContent = {**swept[0], "tokenizers": [*small, *large]}
    root = ET.fromstring(draw_sweep(found))  # noqa: S314  # our own
    space = "{http://www.w3.org/2000/svg}"
    titles = [title.text for title in root.iter(f"{space}title")]
    assert len(titles) == 4
    for point in found["tokenizers"]:
        start = f"{point['vocab_size']:,}, alpha {point['alpha']:g}: {point['tokens']:,} tokens"
        assert sum(str(title).startswith(start) for title in titles) == 1
    lines = [path for path in root.iter(f"{space}path") if path.get("fill") == "none"]
    assert len(lines) == 2
    alone: SweepContent = {**found, "tokenizers": small[:1]}
    ET.fromstring(draw_sweep(alone))  # noqa: S314  # a single point has a scale, too


def called(*arguments: str | Path) -> Result:
    """Call the command."""
    return CliRunner().invoke(cli.app, ["tokenizer", "sweep", *map(str, arguments)])


def test_what_cannot_be_swept_is_refused_before_anything_is_done(sweep: Sweep, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    run = sweep.keywords["run"]
    adopting = small_run(tokenizer={"path": "x.model"})
    changes: list[tuple[dict[str, Any], str]] = [
        ({"settings": SweptSettings((100,), (0.3,))}, "--sizes 100: must be more than"),
        ({"settings": SweptSettings((4096.5,), (0.3,))}, "--sizes 4096.5: must be a whole number"),
        ({"settings": SweptSettings((2048,), (2.0,))}, "--alphas 2.0: must be at most"),
        ({"settings": SweptSettings((2048,), (float("nan"),))}, "--alphas nan"),
        ({"settings": SweptSettings((2048,), (1.0,), "words")}, "--model words"),
        ({"settings": SweptSettings((), (1.0,))}, "give at least one of each"),
        ({"save": tmp_path / "full"}, "is there already"),
        ({"save": Path("s3://x/y")}, "is a URL"),
        ({"reference": "xx"}, "has no such language"),
        ({"run": replace(run, output=tmp_path / "fresh")}, "step ingest is new; run"),
        ({"run": replace(run, file=adopting)}, "remove it from a copy"),
    ]
    for change, said in changes:
        with pytest.raises(ConfigError) as refused:
            sweep(**change)
        assert said in str(refused.value)
    assert not (tmp_path / "fresh").exists()
    assert "numbers with commas" in called("run.toml", "--alphas", "a,b").output


def test_without_a_run_the_texts_are_made_in_a_temporary_folder(
    small_corpus: Path, parallel: Path, tmp_path: Path
) -> None:
    run_file = tmp_path / "run.toml"
    run_file.write_text(
        f"""
        [[sources]]
        name = "a"
        paths = ["{small_corpus / "a.jsonl"}"]
        language = {{ column = "lang" }}
        [tokenizer.train]
        vocab_size = 2000
        [[datasets]]
        name = "clm"
        """
    )
    picture = tmp_path / "sweep.svg"
    options: list[str | Path] = [
        "--sizes",
        "1500,2048",
        "--alphas",
        "0.3",
        "--workers",
        "0",
        "--parallel",
        parallel,
    ]
    result = called(run_file, *options, "--picture", picture)
    assert result.exit_code == 0, result.output
    assert "For 2048-0.3, the run file has:" in result.stdout
    assert "Add alpha 1 to --alphas" in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.toml", "sweep.svg"]
    assert picture.read_text(encoding="utf-8").startswith("<svg")


def test_tokens_of_all_text_follow_the_rate_of_each_language() -> None:
    measured = {"en": {"tokens": 5, "bytes": 20}, "xx": {"tokens": 0, "bytes": 0}}
    assert list(_tokens(measured, {"en": 400, "xx": 7, "de": 9})) == [100, 0]
