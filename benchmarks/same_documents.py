"""Whether two runs over the same texts, in other containers, hold the same documents.

    same_documents.py A B      what differs between them; exit 1 if anything does

A document's id comes from its file and its place there, so it changes with the container; the user's own
id does not. Compared by own id, in the order of the run: language, text digest, size, and whether it was
kept; then the removals (which, for which, similarity, method); then the documents in the rows of each
dataset. Which documents are held out, and hence the tokenizer's sample, are drawn by id and may differ.
Needs an `id_column`.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

Document = tuple[str, str, bytes, int, bool]
"""own id, language, digest of the text, bytes of the text, kept"""


def documents(run: Path) -> Iterator[Document]:
    """Yield the documents of a run in its order.

    Raises:
        ValueError: a document has no id of its own.
    """
    for unit in _record(run, "ingest")["units"]:
        table = pq.read_table(
            run / "ingest" / unit["name"] / "documents.parquet",
            columns=["own_id", "language", "digest", "text_bytes"],
        )
        kept = np.load(run / "dedup" / "keep" / f"{unit['name']}.npy")
        if table.column("own_id").null_count:
            raise ValueError(
                f"{run}: documents without an id of their own; give its sources an id_column"
            )
        columns = (column.to_pylist() for column in table.itercolumns())
        yield from zip(*columns, kept.tolist(), strict=True)


def removals(run: Path) -> list[tuple[Any, ...]]:
    """Return what was removed, and for which document that is kept."""
    names = ["own_id", "kept_own_id", "similarity", "method"]
    table = pq.read_table(run / "dedup" / "removed.parquet", columns=names)
    return list(zip(*(column.to_pylist() for column in table.itercolumns()), strict=True))


def in_rows(run: Path, dataset: str) -> Counter[str]:
    """Return how often each document is listed by the shards of a dataset, of all its splits."""
    found: Counter[str] = Counter()
    for path in sorted((run / "datasets" / dataset).glob("*/epoch-0000/*/documents.parquet")):
        found.update(pq.read_table(path, columns=["own_id"]).column("own_id").to_pylist())
    return found


def compare(a: Path, b: Path) -> dict[str, Any]:
    """Return the counts of both runs, and by name what is the same."""
    one, other = list(documents(a)), list(documents(b))
    names = sorted({path.name for run in (a, b) for path in (run / "datasets").glob("*")})
    return {
        "runs": [_counts(a), _counts(b)],
        "same": {
            "documents": sorted(one) == sorted(other),
            "order": one == other,
            "removals": removals(a) == removals(b),
            "languages": _record(a, "dedup")["languages"] == _record(b, "dedup")["languages"],
            "drops": _record(a, "ingest")["drops"] == _record(b, "ingest")["drops"],
            **{f"documents in {name}": in_rows(a, name) == in_rows(b, name) for name in names},
        },
    }


def _counts(run: Path) -> dict[str, Any]:
    ingest, dedup = _record(run, "ingest"), _record(run, "dedup")
    splits = sorted((run / "datasets").glob("*/*/dataset.json"))
    totals = {
        f"{path.parts[-3]}/{path.parts[-2]}": json.loads(path.read_text("utf-8"))["totals"]
        for path in splits
    }
    return {
        "run": str(run),
        **{name: ingest[name] for name in ("read", "cleaned", "drops")},
        **{name: dedup[name] for name in ("kept", "removed", "compared")},
        "datasets": totals,
    }


def _record(run: Path, step: str) -> dict[str, Any]:
    content = json.loads((run / "commits" / step / "_step.json").read_text("utf-8"))
    record: dict[str, Any] = content["record"]
    return record


def main() -> int:
    """Compare two runs and print what is the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", type=Path, nargs=2, metavar="DIR", help="folder of a finished run")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the result there too")
    arguments = parser.parse_args()
    try:
        content = compare(*arguments.runs)
    except ValueError as error:
        parser.error(str(error))
    for run in content["runs"]:
        print(json.dumps(run))
    for name, same in content["same"].items():
        print(f"{name}: {'the same' if same else 'DIFFERENT'}")
    if arguments.json:
        arguments.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0 if all(content["same"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
