"""The copies of documents that a mix has, counted by hand from its table and the definition of bins."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import xxhash

if TYPE_CHECKING:
    from tests.laws.counted_by_hand import Outcome

MIXES: dict[str, dict[str, Any]] = {
    "none": {},
    "under": {"epochs": "0.5"},
    "over": {"epochs": "2.25"},
    "shares": {"share": True},
    "languages": {"epochs": "1", "language_alpha": 0.25},
    "more": {"epochs": "1.5"},
}
"""What datasets take of every source; "more" goes on behind the dataset before it."""
_WORD = (1 << 64) - 1
Copies = Counter[tuple[str, int]]
"""Documents by their ids in hex, and which copy of each."""


def mix_content(number: int, name: str, sources: Sequence[str], *, exact: bool) -> dict[str, Any]:
    """Return what a run file says of the mix of a dataset; nothing if it has none.

    Args:
        number: of the dataset.
        name: one of `MIXES`.
        sources: their names.
        exact: whether its rows are dealt by source.
    """
    chosen, dealt = dict(MIXES[name]), {"interleave": "exact"} if exact else {}
    if not chosen:
        return {"mix": dealt} if dealt else {}
    content: dict[str, Any] = {"missing": "leave_out", "tolerance": 1.0}
    if epochs := chosen.pop("epochs", None):
        own = {"epochs": float(epochs), "max_epochs": 1000.0}
        content["sources"] = dict.fromkeys(sources, own)
    else:
        del chosen["share"]
        parts = [Fraction(1, 1 << place) for place in range(1, len(sources))]
        parts.append(1 - sum(parts, Fraction(0)))
        content["sources"] = {
            name: {"share": float(part), "max_epochs": 1000.0}
            for name, part in zip(sources, parts, strict=True)
        }
    if name == "more" and number:
        content["after"] = f"d{number - 1}"
    return {"mix": {**content, **chosen, **dealt}}


def copies_by_hand(
    run: Path,
    dataset: str,
    left: "Sequence[Outcome]",
    tokens: Mapping[str, int],
    *,
    seed: int,
    borrowed: Mapping[str, str],
) -> Copies:
    """Return the copies that the rows of a dataset must hold.

    Args:
        run: its folder.
        dataset: its name.
        left: the documents that are kept.
        tokens: of each, by its id in hex.
        seed: of the run.
        borrowed: the sources of replayed documents, by their ids in hex.
    """
    every: Copies = Counter((one.id.hex(), 0) for one in left)
    table = run / "mix" / f"{dataset}.parquet"
    if not table.exists():
        return every
    held_out = held_out_of(run, dataset)
    rows = pq.read_table(table).to_pylist()
    intervals = {(row["source"], row["language"]): (row["begin"], row["end"]) for row in rows}
    found: Copies = Counter()
    sums: Counter[tuple[str, str]] = Counter()
    for one in left:
        name = one.id.hex()
        if name in held_out:
            found[name, 0] += 1
            continue
        key = borrowed.get(name, one.written.source), one.language
        begin, end = intervals[key]
        place = _bin(one.id, seed)
        numbers = range(begin // 4096, end // 4096 + 1)
        own = [number for number in numbers if begin <= place + 4096 * number < end]
        found.update((name, number) for number in own)
        sums[key] += len(own) * tokens[name]
    assert sums == Counter({(row["source"], row["language"]): row["tokens"] for row in rows})
    return found


def held_out_of(run: Path, dataset: str) -> set[str]:
    """Return the ids in hex of the documents that a dataset holds out."""
    tables = run.glob(f"datasets/{dataset}/validation/epoch-0000/*/documents.parquet")
    return {name for path in tables for name in pq.read_table(path).column("id").to_pylist()}


def check_order(dataset: Path, *, exact: bool) -> None:
    """Hold the rows of a dataset to be of one source each, where they are dealt; none is held out so."""
    for path in sorted(dataset.glob("*/dataset.json")):
        manifest, dealt = json.loads(path.read_text()), exact and path.parent.name == "train"
        assert manifest.get("interleave", "shuffle") == ("exact" if dealt else "shuffle")
        for shard in manifest["shards"] if dealt else ():
            folder = path.parent / shard["path"]
            sources = pq.read_table(folder / "documents.parquet").column("source").to_pylist()
            ptr, docs = (np.load(folder / "segments" / f"{name}.npy") for name in ("row_ptr", "doc"))
            rows: Counter[str] = Counter()
            for first, last in pairwise(ptr.tolist()):
                (source,) = {sources[number] for number in docs[first:last].tolist()}
                rows[source] += 1
            assert {name: sum(counts) for name, counts in shard["source_rows"].items()} == rows


def _bin(identity: bytes, seed: int) -> int:
    """Return the bin of a document, as docs/format.md defines it."""
    mixed = xxhash.xxh3_64_intdigest(identity + bytes(4) + b"order", seed=seed) ^ 0xA3EC4E93B1F0C2D7
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & _WORD
    return (mixed ^ (mixed >> 31)) >> 52
