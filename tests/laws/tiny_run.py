"""A run of a second over fourteen documents, for laws that need many runs."""

import tomllib
from pathlib import Path
from typing import Any

from pipeline.run_file.config import RunFile
from tests.conftest import bundled_lines

TINY = """
name = "tiny"
seed = 3
ingest = { unit_size = "64KiB", min_chars = 20 }
dedup = { near = false }
validation = { fraction = 0.2 }
packing = { seq_len = 64, shards = 2 }
verify = { learning = false }

[[sources]]
name = "s"
paths = ["*.jsonl"]
language = { column = "lang" }

[tokenizer.train]
vocab_size = 1200
sample_size = "1MiB"

[[datasets]]
name = "mlm"
materialized_epochs = 1
objective = { kind = "mlm" }
"""


def write_tiny_corpus(folder: Path) -> None:
    """Write fourteen bundled documents and a copy of the first."""
    folder.mkdir()
    lines = bundled_lines("text/*", 14)[:14]
    (folder / "a.jsonl").write_bytes(b"\n".join([*lines, lines[0], b""]))


def tiny_run(**changes: Any) -> RunFile:
    """Return a run that writes an epoch out and learns nothing; `changes` replace whole sections."""
    return RunFile.model_validate({**tomllib.loads(TINY), **changes})
