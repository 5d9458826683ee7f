"""A few bundled texts, and settings for small runs over them that are verified but train no model."""

from pathlib import Path
from typing import Any

from tests.conftest import bundled_lines

FEW: dict[str, Any] = {
    "tokenizer": {"train": {"vocab_size": 800, "sample_size": "1MiB"}},
    "packing": {"seq_len": 64, "shards": 2},
    "verify": {"learning": False},
}


def write_few_texts(folder: Path) -> None:
    """Write five texts of each bundled file, and one of them twice."""
    folder.mkdir(exist_ok=True)
    lines = bundled_lines("text/*", 5)
    (folder / "a.jsonl").write_bytes(b"\n".join([*lines, lines[0]]) + b"\n")
