"""What faults are planted into: a small run over bundled texts with datasets of every objective."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

from pipeline.run_file.config import RunFile
from pipeline.run_file.dataset import Dataset
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.ingest.step import IngestRecord
from pipeline.steps.split.choice import SplitRecord
from pipeline.steps.units import Unit, units_of
from stages.reading.decompress import stream_chunks
from stages.reading.lines import split_lines
from tests.material.every_kind import with_every_kind

T5 = {"kind": "span_corruption"}
SEQ2SEQ = {"kind": "prefix_lm", "architecture": "encoder_decoder"}
EXAMPLES = Path(__file__).parents[2] / "examples"
_GENERATOR = "tests.laws.tiny_generator:make_generator"
CHARACTERS = {"kind": "fim", "level": "character"}
WORDS = {"kind": "mlm", "selection": "whole_word"}
_FORMS: dict[str, dict[str, Any]] = {
    "clm": {"kind": "clm"},
    "clm-first": {"kind": "clm", "mask_first_token": True},
    "clm-targets": {"kind": "clm", "loss": "targets"},
    "mlm": {"kind": "mlm"},
    "exact": {"kind": "mlm", "selection": "exact"},
    "whole-word": WORDS,
    "ngram": {"kind": "mlm", "selection": "ngram"},
    "electra": {"kind": "electra"},
    "unigram": {"kind": "electra", "generator": "unigram", "selection": "exact"},
    "model": {"kind": "electra", "generator": "model", "model": _GENERATOR},
    "fim": {"kind": "fim", "fim_rate": 0.7},
    "fim-silent": {"kind": "fim", "train_on_sentinels": False},
    "fim-middle": {"kind": "fim", "loss": "middle", "fim_rate": 0.9},
    "text-fim": {**CHARACTERS, "fim_rate": 0.8, "sources": {"mixed": {"fim_spm_rate": 0.2}}},
    "document-fim": {**CHARACTERS, "unit": "document", "document_fraction": 0.5, "fim_rate": 1.0},
    "prefix": {"kind": "prefix_lm"},
    "prompts": {"kind": "prefix_lm", "split": "source"},
    "prompts-packed": {"kind": "prefix_lm", "split": "source", "pack_documents": True},
    "seq2seq": {**SEQ2SEQ, "pack_rows": True},
    "prompts-seq2seq": {**SEQ2SEQ, "split": "source"},
    "t5": T5,
    "t5-packed": {**T5, "pack_rows": True, "mode_token": "mode_r"},
    "ul2": {"kind": "ul2"},
    "ul2r-packed": {"kind": "ul2", "preset": "ul2r", "pack_rows": True},
    "bart": {"kind": "bart", "delete_ratio": 0.1, "rotate_probability": 0.5},
    "sentences": {"kind": "bart", "permute_probability": 0.8},
    "mixed": {
        "kind": "mixture",
        "components": [
            {"weight": 2, "objective": {"kind": "bart"}},
            {"objective": {**T5, "noise_density": 0.5}},
            {"objective": SEQ2SEQ},
        ],
    },
    "masks": {
        "kind": "mixture",
        "components": [{"objective": {"kind": "mlm", "mask_probability": 0.4}}, {"objective": WORDS}],
    },
    "nsp": {"kind": "nsp", "mask": {"selection": "whole_word"}},
    "sop": {"kind": "sop"},
    "simcse": {"kind": "simcse"},
    "crops": {"kind": "simcse", "views": "cropped"},
    "pairs": {"kind": "simcse", "views": "pairs"},
    "triples": {"kind": "simcse", "views": "triples"},
}
OBJECTIVES = with_every_kind(_FORMS)
"""Every kind, in every form that is laid out or drawn in its own way."""
EPOCHS = 2
LANGUAGE = {"column": "lang"}
KEPT = {"mixed": ["url"], "pairs": ["id", "url"]}
"""Fields whose values go along, by source."""
TEXTS, SECTIONED, CODE = 10, 4, 4
"""Lines of each bundled file."""
TOKENIZER = {"vocab_size": 1500, "sample_size": "256KiB", "character_coverage": 0.98}
_LEAST, _MOST = 80, 800
"""Characters of a text: enough to be cut into sections, and to fill some rows."""


@dataclass(frozen=True)
class Material:
    """A finished run, up to its datasets."""

    root: Path
    run: RunFile
    units: tuple[Unit, ...]
    train: int
    """Shards of the training split."""
    validation: int

    def dataset(self, name: str) -> Dataset:
        """Return what the run file says of a dataset."""
        return next(dataset for dataset in self.run.datasets if dataset.name == name)


def make_material(
    folder: Path, *, seed: int, names: Iterable[str] | None = None, unit_size: str = "30KiB"
) -> Material:
    """Run over a small corpus in this process: all datasets, or some.

    Args:
        folder: gets `corpus`, unless it is there, and the run's own folder.
        seed: the run's.
        names: of `OBJECTIVES`.
        unit_size: of what is read at once; each shard reads all units.
    """
    corpus, output = folder / "corpus", folder / f"run-{seed}"
    if not corpus.exists():
        _write_corpus(corpus)
    file = _run_file(seed, OBJECTIVES if names is None else names, unit_size)
    written_out = any(dataset.epochs_on_disk for dataset in file.datasets)
    for step in ("shard", "draw") if written_out else ("shard",):
        run_session(RunRequest(file, corpus, output, 0, until=step), stream=None)
    return read_material(output, file)


def read_material(output: Path, file: RunFile) -> Material:
    """Return a run that is there."""
    steps = {step: dict(Commits(LocalStorage(output)).all(step)) for step in ("ingest", "split")}
    units = units_of(steps["ingest"][STEP_COMMIT].read(IngestRecord).units)
    return Material(output, file, units, **steps["split"][STEP_COMMIT].read(SplitRecord).shards)


def _run_file(seed: int, names: Iterable[str], unit_size: str) -> RunFile:
    def source(name: str, *sections: str) -> dict[str, Any]:
        found = {"name": name, "paths": [f"{name}.jsonl"], "id_column": "id", "language": LANGUAGE}
        found["keep_columns"] = KEPT.get(name, [])
        return {**found, "section_columns": list(sections)} if sections else found

    return RunFile.model_validate(
        {
            "seed": seed,
            "sources": [
                source("mixed"),
                source("pairs", "target"),
                source("triples", "target", "other"),
            ],
            "ingest": {"unit_size": unit_size, "min_chars": 20},
            "tokenizer": {"train": TOKENIZER},
            "validation": {"fraction": 0.05},
            "packing": {"seq_len": 128, "shards": 2},
            "datasets": [
                {"name": name, "objective": OBJECTIVES[name], "materialized_epochs": EPOCHS}
                for name in names
            ],
        }
    )


def _write_corpus(folder: Path) -> None:
    """Write texts as they are, and others in two and in three sections."""
    folder.mkdir(parents=True)
    texts = [_records(path) for path in sorted((EXAMPLES / "corpus" / "text").glob("*.jsonl*"))]
    code = [_records(path) for path in sorted((EXAMPLES / "corpus" / "code").glob("*.jsonl*"))]
    mixed = [*chain(*(lines[:TEXTS] for lines in texts)), *chain(*(lines[:CODE] for lines in code))]
    rest = [line for lines in texts for line in lines[TEXTS:] if len(line["text"]) > _LEAST]
    _write(folder / "mixed.jsonl", mixed)
    _write(folder / "pairs.jsonl", [_cut(line, 2) for line in rest[0::2]])
    _write(folder / "triples.jsonl", [_cut(line, 3) for line in rest[1::2]])


def _records(path: Path) -> list[dict[str, Any]]:
    lines = split_lines(stream_chunks(path), max_bytes=1 << 24)
    records = [json.loads(line.data) for line in islice(lines, TEXTS + SECTIONED)]
    return [
        {**record, "text": record["text"][:_MOST], "url": f"https://example.org/{record['id']}"}
        for record in records
    ]


def _cut(record: dict[str, Any], count: int) -> dict[str, Any]:
    """Cut a record's text into sections, a short one first."""
    text = record["text"]
    ends = [len(text) // 8, len(text) // 2, len(text)]
    places = [0, *ends[:1], *ends[3 - count + 1 :]]
    parts = [text[first:last] for first, last in pairwise(places)]
    return {**record, **dict(zip(("text", "target", "other"), parts, strict=False))}


def _write(path: Path, records: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
