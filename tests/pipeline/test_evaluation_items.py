"""What evaluation sets promise: their items are cleaned as documents are, and much that goes is told."""

import gzip
import json
from pathlib import Path

import numpy as np

from pipeline.inputs.evaluation_sets import read_items, resolve_sets
from pipeline.run_file.config import RunFile
from pipeline.steps.decontaminate.gather import SetCounts
from pipeline.steps.decontaminate.step import losses
from stages.cleaning.text import clean_text
from stages.decontamination.config import EvaluationSet


def test_all_items_of_a_compressed_set_are_read_wherever_it_is_dense(tmp_path: Path) -> None:
    letters = np.random.default_rng(3).integers(97, 123, (8_000, 200), np.uint8)
    texts = ["x" * 200] * 8_000 + [bytes(row).decode() for row in letters]
    rows = "".join(json.dumps({"text": f"{text} and more"}) + "\n" for text in texts)
    (tmp_path / "e.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
    file = RunFile.model_validate(
        {
            "sources": [{"name": "s", "paths": ["a.jsonl"]}],
            "datasets": [{"name": "clm"}],
            "decontamination": {"sets": [{"name": "e", "paths": ["e.jsonl.gz"]}], "min_words": 2},
        }
    )
    resolved = resolve_sets(file, tmp_path).decontamination
    assert resolved is not None
    assert sum(1 for _ in read_items(resolved.sets[0])) == len(texts)


def test_items_are_cleaned_as_documents_are(tmp_path: Path) -> None:
    marks = (
        "mo\u0302\u0323t nu\u031bo\u031b\u0301c o\u031b\u0309 ph\u00eda \u0111o\u0302ng can\x08dle burns"
    )
    (tmp_path / "e.jsonl").write_text(json.dumps({"q": marks, "more": [marks]}))
    wanted = EvaluationSet(name="e", paths=("e.jsonl",), text_columns=("q", "more"))
    file = RunFile.model_validate(
        {
            "sources": [{"name": "s", "paths": ["a.jsonl"]}],
            "datasets": [{"name": "clm"}],
            "decontamination": {"sets": [wanted]},
        }
    )
    resolved = resolve_sets(file, tmp_path).decontamination
    assert resolved is not None
    (item,) = read_items(resolved.sets[0])
    assert item.fields == (clean_text(marks), clean_text(marks)) != (marks, marks)


def test_a_run_warns_of_a_set_that_many_documents_are_dropped_for() -> None:
    counts = SetCounts(items=9, unused=0, found=9, common=0, dropped=100, reported=0)
    (said,) = losses({"e": counts}, 1_000)
    assert said.startswith("decontamination.sets.e: 100 of 1,000 documents, 10.00%, are dropped")
    assert list(losses({"e": counts}, 10_000)) == []
    assert list(losses({"e": counts.model_copy(update={"dropped": 99})}, 1_000)) == []
