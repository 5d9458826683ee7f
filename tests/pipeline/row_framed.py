"""Runs whose rows are framed, over some bundled texts."""

import json
from pathlib import Path
from typing import Any

from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from stages.packing.layout import Strategy
from tests.stages.tokenizer.existing_files import texts

LENGTH = 64
MASKS = {"kind": "mlm"}
OBJECTIVES: dict[str, dict[str, Any]] = {
    **{f"mlm-{strategy}": MASKS for strategy in Strategy},
    "clm-full": {"kind": "clm"},
    "clm-best_fit": {"kind": "clm", "mask_first_token": True},
    "electra-concat": {"kind": "electra", "generator": "unigram"},
    "words-full": {"kind": "mlm", "selection": "whole_word"},
    "prefix-document": {"kind": "prefix_lm"},
    "prefixes-concat": {"kind": "prefix_lm", "pack_documents": True},
    "mixture-full": {
        "kind": "mixture",
        "components": [{"objective": MASKS}, {"objective": {**MASKS, "mask_probability": 0.3}}],
    },
}
DATASETS = [
    {
        "name": name,
        "objective": objective,
        "packing": {"strategy": name.partition("-")[2]},
        "materialized_epochs": int(name == "clm-full"),
    }
    for name, objective in OBJECTIVES.items()
]
FRAMES = {"bert": ("cls_token_id", "sep_token_id"), "roberta": ("bos_token_id", "eos_token_id")}


def write_texts(folder: Path) -> None:
    """Write the beginnings of some bundled texts, numbered."""
    rows = ({"id": number, "text": text} for number, text in enumerate(texts()))
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def run_file(folder: Path, **changes: Any) -> RunFile:
    """Return a run with framed rows; `changes` replace whole sections."""
    content: dict[str, Any] = {
        "seed": 5,
        "sources": [{"name": "some", "paths": ["a.jsonl"], "id_column": "id", "language": "en"}],
        "dedup": {"exact": False, "near": False},
        "tokenizer": {"path": str(folder / "tokenizer.json")},
        "framing": {"preset": "bert", "per": "row"},
        "validation": {"fraction": 0.05},
        "packing": {"seq_len": LENGTH, "shards": 2},
        "datasets": DATASETS,
        "verify": {"learning": False},
    }
    return RunFile.model_validate({**content, **changes})


def run_it(corpus: Path, output: Path, file: RunFile, **options: Any) -> Any:
    """Run it in this process, or by workers; return its report."""
    request = RunRequest(file, corpus, output, options.pop("workers", 0), **options)
    return run_session(request, stream=None)
