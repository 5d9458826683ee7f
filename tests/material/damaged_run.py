"""What files are damaged in: a run over some 60 short texts, with a dataset of every kind, learning off.

The texts hold what each table of evidence speaks of: records that are dropped, texts that repeat others
or nearly do, documents that are held out, and documents of two sections.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from stages.reading.decompress import stream_chunks
from stages.reading.lines import split_lines
from tests.material.every_kind import with_every_kind

EXAMPLES = Path(__file__).parents[2] / "examples"
_FORMS: dict[str, dict[str, Any]] = {
    "clm": {"kind": "clm"},
    "mlm": {"kind": "mlm", "selection": "whole_word"},
    "electra": {"kind": "electra", "generator": "unigram"},
    "fim": {"kind": "fim"},
    "prompts": {"kind": "prefix_lm", "split": "source"},
    "spans": {"kind": "span_corruption"},
    "ul2": {"kind": "ul2"},
    "bart": {"kind": "bart"},
    "mixture": {
        "kind": "mixture",
        "components": [{"objective": {"kind": "mlm"}}, {"objective": {"kind": "mlm"}}],
    },
    "nsp": {"kind": "nsp"},
    "sop": {"kind": "sop"},
    "pairs": {"kind": "simcse", "views": "pairs"},
}
OBJECTIVES = with_every_kind(_FORMS)
"""Every kind, in the form that has most files."""
WRITTEN = {"spans": 1, "nsp": 1, "sop": 1}
"""Datasets of which an epoch is written out."""
_LANGUAGE = {"column": "lang"}
_SOURCES = [
    {"name": "mixed", "paths": ["*.jsonl"], "id_column": "id", "language": _LANGUAGE},
    {
        "name": "pairs",
        "paths": ["sections/*.jsonl"],
        "section_columns": ["target"],
        "id_column": "id",
        "language": _LANGUAGE,
    },
]
_TEXTS, _PAIRS = 45, 12
_CHARACTERS = 200
"""Of a text: a row or two of 64 tokens."""
_DROPPED = (b'{"text": 7}', b"{", b'{"text": " "}', b'{"text": "short", "lang": "en"}')


def request_of(folder: Path, *, seed: int) -> RunRequest:
    """Return the request of the run with a seed; its texts are written unless they are there."""
    corpus = folder / "corpus"
    if not corpus.exists():
        _write_corpus(corpus)
    return RunRequest(run_file(seed), corpus, folder / f"run-{seed}", workers=0)


def make_run(folder: Path, *, seed: int) -> RunRequest:
    """Do the run to its end in this process.

    Raises:
        AssertionError: it did not pass.
    """
    request = request_of(folder, seed=seed)
    report = run_session(request, stream=None)
    assert report["passed"], {name: v["findings"] for name, v in report["verify"].items()}
    return request


def run_file(seed: int) -> RunFile:
    """Return the run file."""
    return RunFile.model_validate(
        {
            "name": "damaged",
            "seed": seed,
            "sources": _SOURCES,
            "ingest": {"min_chars": 20, "max_bad_fraction": 0.2},
            "dedup": {"minhash": {"threshold": 0.7}},
            "tokenizer": {
                "train": {"vocab_size": 1200, "sample_size": "64KiB", "character_coverage": 0.98}
            },
            "validation": {"fraction": 0.3, "max_tokens": 1000},
            "packing": {"seq_len": 64, "shards": 1},
            "datasets": [
                {"name": name, "objective": objective, "materialized_epochs": WRITTEN.get(name, 0)}
                for name, objective in OBJECTIVES.items()
            ],
            "verify": {"learning": False},
        }
    )


def _write_corpus(folder: Path) -> None:
    records = _records()
    texts, rest = records[:_TEXTS], records[_TEXTS : _TEXTS + _PAIRS]
    (folder / "sections").mkdir(parents=True)
    half = len(texts) // 2
    alike = [{**text, "text": f"{text['text']} and so on"} for text in texts[:3]]
    _write(folder / "a.jsonl", [*texts[:half], *texts[:2]], _DROPPED)
    _write(folder / "b.jsonl", [*texts[half:], *alike, texts[4]], _DROPPED[:2])
    cut = [{**text, "text": text["text"][:100], "target": text["text"][100:]} for text in rest]
    _write(folder / "sections" / "c.jsonl", cut, _DROPPED[:1])


def _records() -> list[dict[str, Any]]:
    """Return short texts, some of each bundled file."""
    found = []
    for path in sorted((EXAMPLES / "corpus" / "text").glob("*.jsonl*")):
        lines = split_lines(stream_chunks(path), max_bytes=1 << 24)
        for line, _ in zip(lines, range(12), strict=False):
            record = json.loads(line.data)
            if len(record["text"]) > _CHARACTERS:
                found.append({**record, "text": record["text"][:_CHARACTERS]})
    return found


def _write(path: Path, records: Iterable[dict[str, Any]], dropped: Iterable[bytes]) -> None:
    lines = [json.dumps(record, ensure_ascii=False).encode() for record in records]
    path.write_bytes(b"".join(line + b"\n" for line in (*lines, *dropped)))
