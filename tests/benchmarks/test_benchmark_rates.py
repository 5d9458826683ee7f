"""What benchmarks/rates.py promises: a sound run passes every law, and no law passes what is off."""

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rates
from numpy.typing import NDArray
from rates import parts_of
from trial_lines import read_lines

from stages.loading.dataset import open_dataset
from stages.objectives.kind import nothing_drawn
from stages.objectives.laws.draws import Draws
from stages.objectives.laws.shown import ShownRows
from stages.objectives.rows import IGNORED, Columns
from stages.objectives.table import KINDS, components_of, kind_of, read_objective
from stages.objectives.traits import Objective
from stages.store.drawn import DrawnManifest, write_drawn
from stages.store.manifest import Manifest, write_manifest
from stages.tokenizer.special import special_ids
from tests.conftest import run_datasets
from tests.laws.sectioned import SOURCES
from tests.material.every_kind import with_every_kind

_FORMS: dict[str, dict[str, Any]] = {
    "mlm": {"kind": "mlm"},
    "exact": {"kind": "mlm", "selection": "exact"},
    "words": {"kind": "mlm", "selection": "whole_word"},
    "ngrams": {"kind": "mlm", "selection": "ngram"},
    "electra": {"kind": "electra"},
    "unigram": {"kind": "electra", "generator": "unigram"},
    "fim": {"kind": "fim"},
    "text-fim": {
        "kind": "fim",
        "level": "character",
        "fim_rate": 0.9,
        "document_fraction": 0.5,
        "sources": {"sections": {"fim_spm_rate": 0.2}},
    },
    "prefix": {"kind": "prefix_lm", "split": "source"},
    "t5": {"kind": "span_corruption", "pack_rows": True},
    "bart": {"kind": "bart", "delete_ratio": 0.1, "pack_rows": True},
    "mixture": {
        "kind": "mixture",
        "components": [
            {"objective": {"kind": "bart"}},
            {"objective": {"kind": "prefix_lm", "architecture": "encoder_decoder"}},
        ],
    },
    "ul2": {"kind": "ul2", "preset": "ul2r"},
    "nsp": {"kind": "nsp"},
    "sop": {"kind": "sop"},
    "simcse": {"kind": "simcse"},
    "crops": {"kind": "simcse", "views": "cropped"},
    "triples": {"kind": "simcse", "views": "triples"},
}
OBJECTIVES = with_every_kind(_FORMS)
BEYOND_ROWS = ("text-fim", "nsp", "sop")
DATASETS = [
    {"name": name, "objective": objective, "materialized_epochs": 2 * (name in BEYOND_ROWS)}
    for name, objective in OBJECTIVES.items()
]
Change = Callable[[Columns], Mapping[str, NDArray[np.integer]]]


@pytest.fixture(scope="module")
def run(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run of every kind."""
    folder = tmp_path_factory.mktemp("rates")
    corpus = folder / "corpus"
    (corpus / "sections").mkdir(parents=True)
    lines = (small_corpus / "a.jsonl").read_text().splitlines()[:40]
    (corpus / "few.jsonl").write_text("\n".join(lines) + "\n")
    texts = [json.loads(line)["text"] for line in lines[:20]]
    triples = [
        {"id": f"s{n}", "lang": "en", "text": text[:90], "target": text[90:150], "other": text[150:200]}
        for n, text in enumerate(texts)
    ]
    (corpus / "sections" / "triples.jsonl").write_text("\n".join(map(json.dumps, triples)) + "\n")
    run_datasets(
        corpus,
        folder / "run",
        sources=SOURCES,
        datasets=DATASETS,
        tokenizer={"train": {"vocab_size": 2500}},
        packing={"seq_len": 64, "shards": 2},
        validation={"fraction": 0.0},
    )
    return folder / "run"


@pytest.fixture(scope="module")
def parts(run: Path) -> dict[str, list[ShownRows]]:
    """The rows of every dataset in two epochs."""
    return {
        name: list(parts_of(open_dataset(run / "datasets" / name, shuffle=False))) for name in OBJECTIVES
    }


def objective_of(name: str, **claims: Any) -> Objective:
    """Return the objective of a dataset with other settings."""
    content = {**OBJECTIVES[name], **claims}
    return read_objective(content)


def wrong_laws(parts: list[ShownRows], objective: Objective) -> set[str]:
    return {line.law for line in rates.measure(parts, objective) if not line.passed}


def changed(part: ShownRows, change: Change) -> ShownRows:
    """Return rows of which the last epoch shows something else."""
    last = {**part.epochs[-1], **change(part.epochs[-1])}
    return replace(part, epochs=(*part.epochs[:-1], last))


def test_every_kind_is_counted() -> None:
    assert {objective["kind"] for objective in OBJECTIVES.values()} == KINDS.keys()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_sound_dataset_passes_every_law(parts: dict[str, list[ShownRows]], name: str) -> None:
    lines = rates.measure(parts[name], objective_of(name))
    assert {len(part.epochs) for part in parts[name]} == {2}
    assert [line for line in lines if not line.passed] == []
    drawn = components_of(objective_of(name)) or kind_of(objective_of(name)).draws is not nothing_drawn
    assert bool(lines) is bool(drawn)
    assert not lines or sum(line.n for line in lines) > 100


CLAIMS: list[tuple[str, dict[str, Any], str]] = [
    ("mlm", {"mask_probability": 0.17}, "selected of eligible tokens"),
    ("mlm", {"mask_probability": 0.2}, "selected in both epochs"),
    ("mlm", {"mask_share": 0.7}, "mask shown of selected"),
    ("mlm", {"random_share": 0.15}, "another id shown of selected"),
    ("exact", {"mask_probability": 0.17}, "tokens selected in a row"),
    ("exact", {"mask_probability": 0.3}, "selected in both epochs"),
    ("words", {"mask_probability": 0.2}, "selected of words"),
    ("words", {"mask_probability": 0.25}, "selected in both epochs"),
    ("ngrams", {"mask_probability": 0.2}, "n-grams are whole and fill the row's share"),
    ("electra", {"mask_probability": 0.2}, "selected of eligible tokens"),
    ("unigram", {"generator": "uniform"}, "rank of another id, of all"),
    ("fim", {"fim_rate": 0.7}, "transformed of segments"),
    ("fim", {"fim_rate": 0.8}, "transformed in both epochs"),
    ("fim", {"fim_spm_rate": 0.3}, "suffix first of transformed"),
    ("fim", {"train_on_sentinels": False}, "labels are the inputs"),
    ("text-fim", {"document_fraction": 1.0}, "transformed of segments"),
    ("text-fim", {"fim_spm_rate": 0.1}, "suffix first of transformed"),
    ("prefix", {"target_density": 0.3}, "prefix, mean within its bounds"),
    ("prefix", {"target_density": 0.1}, "drawn prefixes within bounds"),
    ("t5", {"noise_density": 0.18}, "tokens of inputs"),
    ("t5", {"noise_density": 0.18}, "tokens of targets"),
    ("t5", {"mean_noise_span_length": 2.0}, "sentinels"),
    ("bart", {"mask_ratio": 0.35}, "tokens hidden and deleted"),
    ("bart", {"delete_ratio": 0.15}, "tokens hidden and deleted"),
    ("bart", {"poisson_lambda": 4.0}, "masks of what there is room for"),
    ("mixture", {"components": [{"weight": 50}, {"weight": 1}]}, "0 bart: share of documents"),
    ("ul2", {"weights": [1, 1, 50]}, "s: share of documents"),
    ("ul2", {"mode_tokens": False}, "r_3_15: tokens of inputs"),
    ("ul2", {"s_density": 0.5}, "s: prefix, mean within its bounds"),
    ("nsp", {"mask": {"mask_probability": 0.2}}, "selected of eligible tokens"),
    ("sop", {"mask": {"mask_share": 0.7}}, "mask shown of selected"),
    ("sop", {"swap_rate": 0.3}, "swapped of pairs"),
    ("sop", {"swap_rate": 0.8}, "swapped in both epochs"),
    ("simcse", {"views": "cropped"}, "tokens of a view"),
    ("crops", {"crop_ratio": 0.6}, "tokens of a view"),
]


@pytest.mark.parametrize(("name", "claims", "law"), CLAIMS)
def test_rows_do_not_pass_for_those_of_other_settings(
    parts: dict[str, list[ShownRows]], name: str, claims: dict[str, Any], law: str
) -> None:
    if "components" in claims:
        given = OBJECTIVES[name]["components"]
        both = zip(given, claims["components"], strict=True)
        claims = {"components": [{**one, **claim} for one, claim in both]}
    assert law in wrong_laws(parts[name], objective_of(name, **claims))


def shifted(name: str) -> Change:
    return lambda columns: {name: np.roll(columns[name], 1, axis=-1)}


def opposite(name: str) -> Change:
    return lambda columns: {name: np.where(columns[name] < 0, columns[name], 1 - columns[name])}


def one_more(name: str) -> Change:
    return lambda columns: {name: columns[name] + 1}


def constant(name: str, value: int) -> Change:
    return lambda columns: {name: np.full_like(columns[name], value)}


def half_selected(columns: Columns) -> Columns:
    """Leave out every other selected token."""
    selected = columns["labels"] != IGNORED
    drop = selected & (np.cumsum(selected, axis=1) % 2 == 0)
    labels = np.where(drop, IGNORED, columns["labels"])
    return {"labels": labels, "input_ids": np.where(drop, columns["labels"], columns["input_ids"])}


def swapped(name: str, symbol: str, *, behind: str | None = None, places: int = 1) -> Change:
    """Move the first of an id in each row forward, to so far behind another: they change places."""
    ids = special_ids()

    def change(columns: Columns) -> Columns:
        column = columns[name].copy()
        rows = np.arange(len(column))
        here = np.argmax(column == ids[symbol], axis=1)
        first = 0 if behind is None else np.argmax(column == ids[behind], axis=1)
        there = np.minimum(first + places, here)
        column[rows, here], column[rows, there] = column[rows, there], column[rows, here]
        return {name: column}

    return change


def mask_last(columns: Columns) -> Columns:
    """Let every row end in a mask."""
    ids, rows = columns["input_ids"].copy(), np.arange(len(columns["input_ids"]))
    ids[rows, columns["input_length"] - 2] = special_ids()["mask"]
    return {"input_ids": ids}


def without_masks(columns: Columns) -> Columns:
    return {
        "input_ids": np.where(columns["input_ids"] == special_ids()["mask"], 999, columns["input_ids"])
    }


def longer_segment(columns: Columns) -> Columns:
    """Let padding be a part of the last segment of each row."""
    padding, last = columns["segment_ids"] < 0, columns["segment_ids"].max(axis=1, keepdims=True)
    return {
        "segment_ids": np.where(padding, last, columns["segment_ids"]),
        "position_ids": np.where(padding, 1, columns["position_ids"]),
    }


def lent_by_the_first(columns: Columns) -> Columns:
    return {"borrowed_doc": np.minimum(columns["borrowed_doc"], 0)}


CHANGES: list[tuple[str, Change, str]] = [
    ("mlm", shifted("labels"), "labels and inputs together are the row"),
    ("mlm", lambda columns: {"labels": columns["input_ids"]}, "nothing special is selected"),
    ("mlm", constant("input_ids", 0), "no special id is drawn"),
    ("mlm", constant("input_ids", 2499), "rank of another id, of all"),
    ("words", half_selected, "words are selected wholly or not"),
    ("electra", opposite("labels"), "labels say what was replaced"),
    ("electra", shifted("original_ids"), "original_ids are the row"),
    ("electra", shifted("selected"), "nothing else is replaced"),
    ("fim", shifted("input_ids"), "special ids of a row"),
    ("fim", constant("segment_ids", 0), "segments of a row"),
    ("fim", longer_segment, "tokens of a segment"),
    ("fim", swapped("input_ids", "fim_middle", behind="fim_suffix"), "greater cut of n"),
    ("fim", swapped("input_ids", "fim_middle", behind="fim_suffix"), "greater cut of n, squared"),
    (
        "fim",
        swapped("input_ids", "fim_suffix", behind="fim_prefix", places=2),
        "lesser cut of n, above 0",
    ),
    (
        "fim",
        swapped("input_ids", "fim_suffix", behind="fim_prefix", places=2),
        "lesser cut of n, above 0, squared",
    ),
    ("text-fim", swapped("input_ids", "fim_middle", behind="fim_suffix"), "greater cut of n"),
    ("t5", swapped("input_ids", "sentinel_0"), "first text of all its tokens, mean"),
    ("t5", swapped("input_ids", "sentinel_0"), "first text, squared distance from it"),
    ("t5", swapped("labels", "sentinel_1", places=2), "first span of all its tokens, mean"),
    ("bart", swapped("input_ids", "mask"), "a mask comes first"),
    ("bart", mask_last, "a mask comes last"),
    ("bart", without_masks, "masks only where anything is hidden"),
    ("nsp", lent_by_the_first, "number of the lender, of all others"),
    ("prefix", one_more("prefix_length"), "prefixes as the source has them"),
    ("prefix", constant("prefix_length", 1), "prefix, variance within them"),
    ("prefix", one_more("prefix_length"), "labels are the rest"),
    ("bart", constant("labels", 5), "labels are the row"),
    ("mixture", one_more("label_length"), "1 prefix_lm: labels are as many as the rest"),
    ("mixture", opposite("objective_id"), "objective_id is as laid out"),
    ("nsp", opposite("next_sentence_label"), "rows with room borrow, no others do"),
    ("nsp", opposite("token_type_ids"), "halves are as long as they must be"),
    ("nsp", one_more("borrowed_doc"), "lenders are other documents"),
    ("sop", opposite("sentence_order_label"), "halves stand as labelled"),
    ("sop", constant("sentence_order_label", 3), "pairs have a label, no others do"),
    ("simcse", shifted("input_ids"), "views are the row"),
    ("simcse", constant("input_length", 3), "views are padded"),
    ("triples", one_more("input_length"), "views are the document's sections"),
]


@pytest.mark.parametrize(("name", "change", "law"), CHANGES)
def test_columns_that_were_changed_are_found(
    parts: dict[str, list[ShownRows]], name: str, change: Change, law: str
) -> None:
    assert law in wrong_laws([changed(part, change) for part in parts[name]], objective_of(name))


def test_a_document_of_two_components_is_found(run: Path, tmp_path: Path) -> None:
    for name in ("datasets/mixture", "tokenizer"):
        shutil.copytree(run / name, tmp_path / name)
    path = tmp_path / "datasets" / "mixture" / "train" / "epoch-0000" / "00000" / "objective_id.npy"
    components = np.load(path)
    components[::2] = 1
    np.save(path, components)
    dataset = open_dataset(tmp_path / "datasets" / "mixture", shuffle=False, check="size")
    assert "documents have one component" in wrong_laws(list(parts_of(dataset)), dataset.objective)


REPEATED = {
    "mlm": "selected in both epochs",
    "exact": "selected in both epochs",
    "words": "selected in both epochs",
    "electra": "selected in both epochs",
    "fim": "transformed in both epochs",
    "prefix": "the same prefix in both epochs",
    "t5": "the same spans in both epochs",
    "bart": "a mask comes first in both epochs",
    "ul2": "r_3_15: the same spans in both epochs",
    "mixture": "1 prefix_lm: the same prefix in both epochs",
    "nsp": "the same lender in both epochs",
    "sop": "swapped in both epochs",
}


@pytest.mark.parametrize("name", REPEATED)
def test_an_epoch_that_repeats_another_is_found(parts: dict[str, list[ShownRows]], name: str) -> None:
    repeated = [replace(part, epochs=(part.epochs[0], part.epochs[0])) for part in parts[name]]
    assert REPEATED[name] in wrong_laws(repeated, objective_of(name))


def test_sigmas_are_those_of_many_draws_and_forgive_one_rare_event() -> None:
    draws = Draws()
    draws.share("many", 1_000_000, 501_000, 0.5)
    draws.share("rare", 100, 1, 0.0001)
    draws.share("never", 100, 1, 0.0)
    draws.share("always", 100, 100, 1.0)
    many, rare, never, always = draws.lines()
    assert many.sigmas == pytest.approx(2.0, abs=0.01)
    assert rare.passed
    assert (never.passed, never.sigmas, always.passed) == (False, np.inf, True)


def test_draws_of_a_group_count_as_one() -> None:
    draws, groups = Draws(), np.repeat(np.arange(36), 100)
    draws.grouped("law", groups, groups < 24, np.ones(3600), number=40, chance=0.5)
    draws.close_shard()
    (line,) = draws.lines()
    assert (line.n, line.expected) == (36, 0.5)
    assert line.found == pytest.approx(2 / 3)
    assert line.sigmas == pytest.approx(6 / np.sqrt(9 + 6 / 3))


def main(run: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    monkeypatch.setattr(sys, "argv", ["rates.py", str(run), *options])
    return rates.main()


def test_a_sound_run_gives_0_and_writes_its_laws(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--dataset", "mlm", "sop", "--rows", "40", "--json", str(tmp_path / "rates.jsonl"))
    assert main(run, monkeypatch, *options) == 0
    lines = read_lines(tmp_path / "rates.jsonl")
    laws = {line["trial"]: line["result"]["laws"] for line in lines if "trial" in line}
    assert laws.keys() == {"mlm", "sop"}
    assert {law["n"] for law in laws["mlm"] if law["sigmas"] is None} <= {78, 80}
    assert f"{len(laws['mlm'] + laws['sop'])} laws, 0 wrong" in (said := capsys.readouterr().out)
    monkeypatch.setattr(rates, "measure", None)
    assert main(run, monkeypatch, *options, "--continue") == 0
    assert capsys.readouterr().out == said


def test_a_manifest_that_claims_another_rate_gives_1(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run / "datasets" / "sop", tmp_path / "datasets" / "sop")
    split = tmp_path / "datasets" / "sop" / "train"
    manifest = Manifest.model_validate_json((split / "dataset.json").read_text())
    manifest.objective["swap_rate"] = 0.2
    write_manifest(split / "dataset.json", manifest.signed())
    drawn = DrawnManifest.model_validate_json((split / "drawn.json").read_text())
    drawn = drawn.model_copy(update={"dataset": manifest.content_fingerprint()})
    write_drawn(split / "drawn.json", drawn.signed())
    assert main(tmp_path, monkeypatch) == 1
    assert "swapped of pairs" in next(
        line for line in capsys.readouterr().out.splitlines() if line.endswith("WRONG")
    )
    with pytest.raises(SystemExit, match="2"):
        main(run, monkeypatch, "--dataset", "absent")
