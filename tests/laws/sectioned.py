"""Documents of several sections for the tests of whole runs, and what datasets must show of them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from stages.cleaning.text import clean_text
from stages.loading.dataset import ShardDataset, open_dataset
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.encode import load_trained
from tests.conftest import bundled_lines

LANGUAGE = {"column": "lang"}
SOURCES = [
    {"name": "mixed", "paths": ["*.jsonl*"], "id_column": "id", "language": LANGUAGE},
    {
        "name": "sections",
        "paths": ["sections/*.jsonl"],
        "section_columns": ["target", "other"],
        "id_column": "id",
        "language": LANGUAGE,
    },
]


def write_sections(folder: Path, literal: list[str], *, each: int = 12) -> None:
    """Write documents of three sections, some of one character, some longer than a row.

    Args:
        folder: gets a file.
        literal: texts that are written too.
        each: texts of each bundled file.
    """
    folder.mkdir()
    others = set(bundled_lines("text/*", 30))
    texts = [json.loads(x)["text"] for x in bundled_lines("text/*", 30 + each) if x not in others]
    with (folder / "triples.jsonl").open("w") as file:
        for number, text in enumerate([*texts, *literal]):
            first, second = len(text) // 3, 2 * len(text) // 3 if number % 3 else len(text) // 3 + 1
            parts = {"text": text[:first], "target": text[first:second], "other": text[second:]}
            file.write(json.dumps({"id": f"s{number}", "lang": "en", **parts}) + "\n")


def sections_shown(corpus: Path, run: Path) -> tuple[set[str], set[str], set[str]]:
    """Return the own ids of the documents whose sections three datasets show as the source has them.

    Those of a document in pieces are not looked at. A document that shows anything else fails.
    """
    lines = (corpus / "sections" / "triples.jsonl").read_text().splitlines()
    wanted = {record["id"]: record for record in map(json.loads, lines)}
    tokenizer = load_trained(run / "tokenizer" / "tokenizer.model")
    prompts, seq2seq, triples = (
        _shown(run / "datasets" / name, wanted, tokenizer)
        for name in ("prompts", "prompts-seq2seq", "triples")
    )
    return prompts, seq2seq, triples


def _shown(path: Path, wanted: dict[str, Any], tokenizer: Tokenizer) -> set[str]:
    shard, dataset = path / "train" / "epoch-0000" / "00000", open_dataset(path, shuffle=False)
    own_ids = pq.read_table(shard / "documents.parquet").column("own_id").to_pylist()
    row_ptr, doc = (np.load(shard / "segments" / f"{part}.npy") for part in ("row_ptr", "doc"))
    rows_of = np.bincount(doc[row_ptr[:-1]], minlength=len(own_ids))
    seen = set()
    for row, number in enumerate(doc[row_ptr[:-1]].tolist()):
        record = wanted.get(own_ids[number])
        if record is not None and rows_of[number] == 1:
            parts = [clean_text(record[key]) for key in ("text", "target", "other")]
            if path.name == "triples":
                _holds_triple(dataset, row, parts, tokenizer)
            else:
                _holds_prompt(dataset, row, parts, tokenizer)
            seen.add(own_ids[number])
    return seen


def _holds_triple(dataset: ShardDataset, row: int, parts: list[str], tokenizer: Tokenizer) -> None:
    item = dataset[row]
    side_by_side = bool((item["input_length"] > 0).all())
    shown = tokenizer.decode(list(item["input_ids"]))
    assert shown == (parts if side_by_side else ["".join(parts)] * 2 + [""])


def _holds_prompt(dataset: ShardDataset, row: int, parts: list[str], tokenizer: Tokenizer) -> None:
    item, ids = dataset[row], dataset.reader.stored(0, np.array([row]), 0)
    assert ids.prompt is not None
    length = int(ids.prompt[0])
    before, behind = ids.input_ids[0, :length], ids.input_ids[0, length:]
    assert tokenizer.decode([before, behind]) == ["".join(parts[:2]), parts[2]]
    if "prefix_length" in item:
        assert item["prefix_length"] == length
    else:
        assert item["input_length"] == length + 1
        said = item["labels"][item["labels"] >= 0]
        assert tokenizer.decode([said]) == [parts[2]]
