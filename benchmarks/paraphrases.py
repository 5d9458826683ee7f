"""What semantic deduplication finds of rewritten texts, by threshold.

    python -m benchmarks.paraphrases OLD.whl NEW.whl

The wheels are two versions of one Python package. The texts are the docstrings, of 30 words and more, of
its functions and classes. Those that were rewritten between the versions, so that MinHash finds them
unlike, are paraphrases. The corpus is all of the old version and the rewritten ones of the new one.
Recall is the share of the rewritten ones that a run removes for their own old text. Precision is the share
of what the method removes of the new version that goes for its own old text.
"""

import argparse
import ast
import json
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from pipeline.run_file.config import RunFile
from pipeline.session.session import RunRequest, run_session
from stages.dedup.shingles import shingle_set, split_tokens

WORDS = 30
ALIKE = 0.8
THRESHOLDS = (0.85, 0.9, 0.95, 0.97, 0.98, 0.99)


def docstrings(wheel: Path) -> Iterator[tuple[str, str]]:
    """Yield the docstrings of a package with their names."""
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            if not name.endswith(".py") or "/tests/" in name:
                continue
            try:
                tree = ast.parse(archive.read(name))
            except SyntaxError:
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and (
                    text := ast.get_docstring(node)
                ):
                    yield f"{name}:{node.name}", text


def jaccard(a: str, b: str) -> float:
    """Return the similarity of two texts on strings of 5 words."""
    first, second = shingle_set(a, size=5), shingle_set(b, size=5)
    shared = len(np.intersect1d(first, second))
    return shared / max(1, len(first) + len(second) - shared)


def rewritten(old: dict[str, str], new: dict[str, str]) -> dict[str, str]:
    """Return the texts of the new version that are unlike their own old ones."""
    both = {name: text for name, text in new.items() if name in old}
    return {name: text for name, text in both.items() if jaccard(old[name], text) < ALIKE}


def removed(documents: dict[str, str], threshold: float, folder: Path) -> list[tuple[str, str]]:
    """Return the documents that a run removes as semantic duplicates, each with the kept one."""
    folder.mkdir()
    lines = [json.dumps({"id": name, "text": text}) + "\n" for name, text in documents.items()]
    (folder / "texts.jsonl").write_text("".join(lines), encoding="utf-8")
    source = {"name": "texts", "paths": ["texts.jsonl"], "id_column": "id", "language": "en"}
    dedup = {"semantic": {"threshold": threshold}, "max_removed_fraction": 1.0}
    file = {"sources": [source], "datasets": [{"name": "clm"}], "dedup": dedup}
    request = RunRequest(RunFile.model_validate(file), folder, folder / "run", 0, until="dedup")
    run_session(request, stream=None)
    rows = pq.read_table(folder / "run" / "dedup" / "removed.parquet").to_pylist()
    return [(row["own_id"], row["kept_own_id"]) for row in rows if row["method"] == "semantic"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args()
    old, new = (
        {name: text for name, text in docstrings(wheel) if len(split_tokens(text)) >= WORDS}
        for wheel in (options.old, options.new)
    )
    again = rewritten(old, new)
    documents = {f"old {name}": text for name, text in old.items()}
    documents |= {f"new {name}": text for name, text in again.items()}
    print(f"{len(old):,} old texts, {len(again):,} rewritten ones\n")
    print(
        "| threshold | rewritten texts found | of what is removed of the new version, for its own old text |"
    )
    print("|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for threshold in THRESHOLDS:
            gone = removed(documents, threshold, Path(temporary) / str(threshold))
            of_new = [(name, kept) for name, kept in gone if name.startswith("new ")]
            right = sum(name[4:] == kept[4:] for name, kept in of_new)
            shares = right / max(1, len(again)), right / max(1, len(of_new))
            print(f"| {threshold} | {shares[0]:.1%} | {shares[1]:.1%} of {len(of_new):,} |", flush=True)


if __name__ == "__main__":
    main()
