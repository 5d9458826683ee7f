"""The copies of documents that a mix has, counted by hand from its table and the definition of bins."""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


def mix_of(number: int, seed: int) -> str:
    """Return which mix a dataset of a combination has."""
    return list(MIXES)[(number + seed) % len(MIXES)]


def mix_content(number: int, seed: int, sources: Sequence[str]) -> dict[str, Any]:
    """Return what a run file says of the mix of a dataset; nothing if it has none."""
    chosen = dict(MIXES[(name := mix_of(number, seed))])
    if not chosen:
        return {}
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
    return {"mix": {**content, **chosen}}


def copies_by_hand(
    run: Path, dataset: str, left: "Sequence[Outcome]", tokens: Mapping[str, int], *, seed: int
) -> Copies:
    """Return the copies that the rows of a dataset must hold.

    Args:
        run: its folder.
        dataset: its name.
        left: the documents that are kept.
        tokens: of each, by its id in hex.
        seed: of the run.
    """
    every: Copies = Counter((one.id.hex(), 0) for one in left)
    table = run / "mix" / f"{dataset}.parquet"
    if not table.exists():
        return every
    held_out: set[str] = set()
    for path in run.glob(f"datasets/{dataset}/validation/epoch-0000/*/documents.parquet"):
        held_out |= set(pq.read_table(path).column("id").to_pylist())
    rows = pq.read_table(table).to_pylist()
    intervals = {(row["source"], row["language"]): (row["begin"], row["end"]) for row in rows}
    found: Copies = Counter()
    sums: Counter[tuple[str, str]] = Counter()
    for one in left:
        name = one.id.hex()
        if name in held_out:
            found[name, 0] += 1
            continue
        key = one.written.source, one.language
        begin, end = intervals[key]
        place = _bin(one.id, seed)
        numbers = range(begin // 4096, end // 4096 + 1)
        own = [number for number in numbers if begin <= place + 4096 * number < end]
        found.update((name, number) for number in own)
        sums[key] += len(own) * tokens[name]
    assert sums == Counter({(row["source"], row["language"]): row["tokens"] for row in rows})
    return found


def _bin(identity: bytes, seed: int) -> int:
    """Return the bin of a document, as docs/format.md defines it."""
    mixed = xxhash.xxh3_64_intdigest(identity + bytes(4) + b"order", seed=seed) ^ 0xA3EC4E93B1F0C2D7
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & _WORD
    return (mixed ^ (mixed >> 31)) >> 52
