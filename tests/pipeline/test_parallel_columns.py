"""What parallel columns promise: two texts of a record stay together, from every format to the rows.

`translation.en` is the text, `translation.fr` its section. A translation's prompt is the first and its
target the second, for both architectures and packed; a pair of views shows the two side by side.
"""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.cleaning.text import clean_text
from stages.loading.dataset import ShardDataset, open_dataset
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.encode import load_trained
from tests.conftest import bundled_lines, run_small

pytestmark = pytest.mark.slow

PAIRS = 120
SHORT = 120
"""Characters of a text: both fit in a row."""
TEXTS = [json.loads(line)["text"][:SHORT] for line in bundled_lines("text/*", 60)][: 2 * PAIRS]
ROWS = [
    {"id": f"p{n}", "translation": {"en": en, "fr": fr}}
    for n, (en, fr) in enumerate(zip(TEXTS[0::2], TEXTS[1::2], strict=True))
]
WANTED = {
    row["id"]: [clean_text(row["translation"][side]) for side in ("en", "fr")]  # type: ignore[index]
    for row in ROWS
}
SOURCE = {
    "name": "pairs",
    "paths": ["a.*"],
    "text_column": "translation.en",
    "section_columns": ["translation.fr"],
    "id_column": "id",
    "language": "en-fr",
    "keep_columns": ["id"],
}
PREFIX = {"kind": "prefix_lm", "split": "source"}
DATASETS = [
    {"name": "decoder", "objective": PREFIX},
    {"name": "packed", "objective": {**PREFIX, "pack_documents": True}},
    {"name": "seq2seq", "objective": {**PREFIX, "architecture": "encoder_decoder"}},
    {"name": "views", "objective": {"kind": "simcse", "views": "pairs"}},
]
SETTINGS: dict[str, Any] = {
    "sources": [SOURCE],
    "datasets": DATASETS,
    "dedup": {"exact": False, "near": False},
    "tokenizer": {"train": {"vocab_size": 2048, "sample_size": "128KiB"}},
    "validation": {"fraction": 0.0},
    "packing": {"seq_len": 256, "shards": 1},
    "ingest": {"unit_size": "8KiB"},
    "verify": {"learning": False},
}


def write_jsonl(folder: Path) -> None:
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))


def write_json(folder: Path) -> None:
    (folder / "a.json").write_text(json.dumps(ROWS, indent=1))


def write_csv(folder: Path) -> None:
    """Write columns whose own names hold the dots."""
    with (folder / "a.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "translation.en", "translation.fr"])
        rows.writerows([row["id"], *row["translation"].values()] for row in ROWS)  # type: ignore[attr-defined]


def write_parquet(folder: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "a.parquet", row_group_size=50)


def write_arrow(folder: Path) -> None:
    table = pa.Table.from_pylist(ROWS)
    with pa.ipc.new_file(folder / "a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=50)


WRITERS = [write_jsonl, write_json, write_csv, write_parquet, write_arrow]


@pytest.mark.parametrize("write", WRITERS)
def test_every_format_gives_both_texts_of_a_record(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    write(tmp_path)
    report = run_small(tmp_path, tmp_path / "run", **{**SETTINGS, "until": "ingest"})
    assert report["documents"]["dropped"] == {}
    seen = {}
    for path in (tmp_path / "run").glob("ingest/*/*/documents.parquet"):
        for row in pq.read_table(path).to_pylist():
            first, last = row["section_ends"]
            assert last == len(row["text"])
            seen[row["own_id"]] = [row["text"][:first], row["text"][first:]]
            assert row["record.id"] == row["own_id"]
    assert seen == WANTED
    assert len(seen) == len(ROWS) == PAIRS


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over Parquet to its end."""
    folder = tmp_path_factory.mktemp("parallel")
    write_parquet(folder)
    report = run_small(folder, folder / "run", until=None, **SETTINGS)
    for name in ("decoder", "packed", "seq2seq", "views"):
        assert report["verify"][name]["findings"] == []
    assert {row["language"] for row in report["languages"]} == {"en-fr"}
    return folder / "run"


@pytest.mark.campaign
def test_models_learn_from_them(tmp_path: Path) -> None:
    write_parquet(tmp_path)
    learning = {"labelled_tokens": 1_500, "heldout_rows": 30, "max_ids": 256}
    report = run_small(tmp_path, tmp_path / "run", until=None, **{**SETTINGS, "verify": learning})
    for name in ("decoder", "packed", "seq2seq", "views"):
        assert report["verify"][name]["findings"] == []


def opened(run: Path, name: str) -> tuple[ShardDataset, Tokenizer, list[str], dict[str, Any]]:
    """Return a dataset with the tokenizer, the own ids of its documents and its segments."""
    shard = run / "datasets" / name / "train" / "epoch-0000" / "00000"
    segments = {path.stem: np.load(path) for path in (shard / "segments").glob("*.npy")}
    own_ids = pq.read_table(shard / "documents.parquet").column("own_id").to_pylist()
    tokenizer = load_trained(run / "tokenizer" / "tokenizer.model")
    return open_dataset(run / "datasets" / name, shuffle=False), tokenizer, own_ids, segments


def whole_rows(own_ids: list[str], segments: dict[str, Any]) -> list[tuple[int, str]]:
    """Return the rows that hold one whole document, each with its own id."""
    docs = segments["doc"][segments["row_ptr"][:-1]]
    rows_of = np.bincount(docs, minlength=len(own_ids))
    return [(row, own_ids[doc]) for row, doc in enumerate(docs.tolist()) if rows_of[doc] == 1]


def test_a_decoder_reads_one_text_and_says_the_other(finished: Path) -> None:
    dataset, tokenizer, own_ids, segments = opened(finished, "decoder")
    rows = whole_rows(own_ids, segments)
    for row, name in rows:
        item = dataset[row]
        prefix, filled = int(item["prefix_length"]), int((item["segment_ids"] >= 0).sum())
        parts = [item["input_ids"][:prefix], item["input_ids"][prefix:filled]]
        assert tokenizer.decode(parts) == WANTED[name]
        assert (item["labels"][:prefix] < 0).all()
        assert (item["labels"][prefix:filled] >= 0).all()
    assert len(rows) > PAIRS * 0.9


def test_packed_pairs_have_a_prompt_each(finished: Path) -> None:
    dataset, tokenizer, own_ids, segments = opened(finished, "packed")
    prompts, seen = segments["prompt"], set()
    for row, (first, last) in enumerate(
        zip(segments["row_ptr"][:-1], segments["row_ptr"][1:], strict=True)
    ):
        ids = dataset[row]["input_ids"]
        for segment in range(first, last):
            start, length = int(segments["start"][segment]), int(segments["length"][segment])
            name = own_ids[segments["doc"][segment]]
            cut = start + int(prompts[segment])
            if tokenizer.decode([ids[start : start + length]]) == ["".join(WANTED[name])]:
                assert tokenizer.decode([ids[start:cut], ids[cut : start + length]]) == WANTED[name]
                seen.add(name)
    assert len(seen) > PAIRS * 0.9
    assert len(dataset) < PAIRS * 0.75


def test_an_encoder_gets_one_text_and_its_decoder_the_other(finished: Path) -> None:
    dataset, tokenizer, own_ids, segments = opened(finished, "seq2seq")
    rows = whole_rows(own_ids, segments)
    for row, name in rows:
        item = dataset[row]
        inputs = item["input_ids"][: int(item["input_length"])]
        said = item["labels"][item["labels"] >= 0]
        assert tokenizer.decode([inputs, said]) == WANTED[name]
    assert len(rows) > PAIRS * 0.9


def test_views_are_the_two_texts_of_a_record(finished: Path) -> None:
    dataset, tokenizer, own_ids, segments = opened(finished, "views")
    rows = whole_rows(own_ids, segments)
    for row, name in rows:
        assert tokenizer.decode(list(dataset[row]["input_ids"])) == WANTED[name]
    assert len(rows) > PAIRS * 0.9
