"""What deduplication found, against pairs of documents that are known to be alike.

    python benchmarks/recall.py PAIRS.jsonl DIR --json recall.json

PAIRS.jsonl names two documents a line by the ids that the input gave them: {"a": ID, "b": ID}. Their
similarity is computed here, exactly, from the texts that DIR (a run's folder) ingested. By bins of it:
how many of the pairs lost a document, beside the share that theory has compared, 1 - (1 - s^r)^b for b
bands of r rows. A document may go for the sake of a third, so more pairs can lose one than theory says;
pairs under the threshold lose one for no other reason.

Then every removal of DIR is checked from the texts, in random blocks of rows until `--seconds` are over:
the similarity with the kept document is at or above the threshold, texts removed as equal are equal, and
the kept document is kept. Exit 1 if one is not.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.steps.run_folder import RunFolder
from stages.dedup.jaccard import jaccard
from stages.dedup.lsh import MinHashConfig, band_shape
from stages.dedup.shingles import shingle_set
from tests.material.run_documents import RunDocuments

EDGES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.0)
"""Lower ends of the bins, the first of which holds equal sets of shingles only."""
BLOCK_BYTES = 64 << 20
"""Text that is held at a time, about."""


@dataclass(frozen=True)
class Pair:
    """A known pair and what became of it."""

    similarity: float
    removed: int
    """How many of the two were removed."""
    same_cluster: bool


@dataclass(frozen=True)
class Fate:
    """What a run decided, by document id in hex."""

    removed: frozenset[str]
    clusters: dict[str, str]

    @classmethod
    def of(cls, run: Path) -> "Fate":
        """Read a run's decisions."""
        removed = pq.read_table(run / "dedup" / "removed.parquet", columns=["id"])
        clusters = pq.read_table(run / "dedup" / "clusters.parquet", columns=["id", "cluster"])
        names = (clusters.column(name).to_pylist() for name in ("id", "cluster"))
        return cls(frozenset(removed.column("id").to_pylist()), dict(zip(*names, strict=True)))


def theoretical(similarity: float, bands: int, rows: int) -> float:
    """Return the chance that two documents agree on a band."""
    return float(1.0 - (1.0 - similarity**rows) ** bands)


def bin_of(similarity: float) -> int:
    """Return the number of the bin of a similarity."""
    return next(number for number, edge in enumerate(EDGES) if similarity >= edge)


def bin_name(number: int) -> str:
    """Return what people read."""
    return "1.00" if number == 0 else f"{EDGES[number]:.2f}-{EDGES[number - 1]:.2f}"


def table_of(pairs: Iterable[Pair], *, bands: int, rows: int) -> list[dict[str, Any]]:
    """Return one row for each bin that holds pairs."""
    bins: list[list[Pair]] = [[] for _ in EDGES]
    for pair in pairs:
        bins[bin_of(pair.similarity)].append(pair)
    return [
        {
            "jaccard": bin_name(number),
            "pairs": len(found),
            "both_kept": sum(pair.removed == 0 for pair in found),
            "one_removed": sum(pair.removed == 1 for pair in found),
            "both_removed": sum(pair.removed > 1 for pair in found),
            "same_cluster": sum(pair.same_cluster for pair in found),
            "recall": round(sum(pair.removed > 0 for pair in found) / len(found), 4),
            "theory": round(
                sum(theoretical(pair.similarity, bands, rows) for pair in found) / len(found), 4
            ),
        }
        for number, found in enumerate(bins)
        if found
    ]


def blocks(sizes: NDArray[np.int64], limit: int) -> Iterator[slice]:
    """Cut rows into runs of at most so many bytes each, or of one row."""
    start, held = 0, 0
    for row, size in enumerate(sizes):
        if held + size > limit and row > start:
            yield slice(start, row)
            start, held = row, 0
        held += int(size)
    if start < len(sizes):
        yield slice(start, len(sizes))


def measure_pairs(
    documents: RunDocuments, fate: Fate, named: Sequence[tuple[str, str]], *, size: int
) -> list[Pair]:
    """Return the similarity and the fate of the pairs whose two documents were ingested."""
    known = [pair for pair in named if all(name in documents.numbers for name in pair)]
    numbers = np.array([[documents.numbers[name][0] for name in pair] for pair in known], np.int64)
    numbers = numbers.reshape(-1, 2)
    pairs = []
    for block in blocks(documents.text_bytes[numbers].sum(axis=1), BLOCK_BYTES):
        sets = {n: shingle_set(text, size=size) for n, text in documents.texts(numbers[block])}
        for a, b in numbers[block].tolist():
            names = [documents.hex_id(number) for number in (a, b)]
            clusters = [fate.clusters.get(name, name) for name in names]
            pairs.append(
                Pair(
                    similarity=jaccard(sets[a], sets[b], threshold=0.0),
                    removed=sum(name in fate.removed for name in names),
                    same_cluster=clusters[0] == clusters[1],
                )
            )
    return pairs


@dataclass
class Removals:
    """What checking removals found."""

    rows: int
    checked: int = 0
    by_minhash: int = 0
    under_threshold: int = 0
    stored_otherwise: int = 0
    """Removals whose stored similarity is not the one computed here."""
    unequal_exact: int = 0
    without_kept: int = 0
    seconds: float = 0.0

    @property
    def sound(self) -> bool:
        """Say whether every removal that was checked is as it should be."""
        wrong = (self.under_threshold, self.stored_otherwise, self.unequal_exact, self.without_kept)
        return not any(wrong)


def check_removals(
    run: Path, documents: RunDocuments, fate: Fate, config: MinHashConfig, *, seconds: float, seed: int
) -> Removals:
    """Check removals from the texts, all of them or as many as the time allows."""
    columns = ["id", "kept_id", "similarity", "method"]
    table = pq.read_table(run / "dedup" / "removed.parquet", columns=columns)
    found = Removals(table.num_rows)
    if not table.num_rows:
        return found
    numbers = np.column_stack(
        [documents.find(table.column(name).to_pylist()) for name in ("id", "kept_id")]
    )
    cut = list(blocks(documents.text_bytes[numbers].sum(axis=1), BLOCK_BYTES))
    random.Random(seed).shuffle(cut)  # noqa: S311  # which rows to look at first
    began = time.monotonic()
    for block in cut:
        if time.monotonic() - began > seconds:
            break
        rows = table.slice(block.start, block.stop - block.start)
        _check_block(rows, numbers[block], documents, fate, config, found)
    found.seconds = round(time.monotonic() - began, 1)
    return found


def _check_block(  # one block of a loop
    rows: pa.Table,
    numbers: NDArray[np.int64],
    documents: RunDocuments,
    fate: Fate,
    config: MinHashConfig,
    found: Removals,
) -> None:
    """Check some removals and count them."""
    texts = dict(documents.texts(numbers))
    for row, (gone, kept) in zip(rows.to_pylist(), numbers.tolist(), strict=True):
        found.checked += 1
        found.without_kept += row["kept_id"] in fate.removed
        if row["method"] == "exact":
            found.unequal_exact += texts[gone] != texts[kept]
            continue
        sets = [shingle_set(texts[number], size=config.size) for number in (gone, kept)]
        similarity = jaccard(*sets, threshold=0.0)
        found.by_minhash += 1
        found.under_threshold += similarity < config.threshold
        found.stored_otherwise += similarity != row["similarity"]


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """Return the ids of the pairs of a file."""
    records = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [(str(record["a"]), str(record["b"])) for record in records]


def print_figures(content: dict[str, Any]) -> None:
    """Print what was found as a table."""
    print(
        f"{content['pairs']:,} pairs, {content['absent']:,} more with a document that was not ingested"
    )
    print(f"bands {content['bands']}, rows {content['rows']}, threshold {content['threshold']}\n")
    head = ("jaccard", "pairs", "both kept", "one gone", "both gone", "cluster", "recall", "theory")
    print("".join(f"{name:>11}" for name in head))
    for row in content["bins"]:
        print("".join(f"{value:>11}" for value in row.values()))
    removals = content["removals"]
    print(f"\nremovals checked: {removals['checked']:,} of {removals['rows']:,}")
    for name in ("by_minhash", "under_threshold", "stored_otherwise", "unequal_exact", "without_kept"):
        print(f"{removals[name]:>10,} {name.replace('_', ' ')}")


def main() -> int:
    """Compare a run with the pairs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("pairs", type=Path, metavar="PAIRS.jsonl", help="known pairs")
    parser.add_argument("run", type=Path, metavar="DIR", help="folder of a run that has its dedup done")
    parser.add_argument(
        "--seconds", type=float, default=300.0, help="for checking removals [default: 300]"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the order in which blocks are checked")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    arguments = parser.parse_args()
    config = RunFolder(arguments.run).file.dedup.minhash
    bands, rows = band_shape(config.threshold, config.num_perm)
    named = read_pairs(arguments.pairs)
    documents = RunDocuments(arguments.run, {name for pair in named for name in pair})
    fate = Fate.of(arguments.run)
    pairs = measure_pairs(documents, fate, named, size=config.size)
    removals = check_removals(
        arguments.run, documents, fate, config, seconds=arguments.seconds, seed=arguments.seed
    )
    content = {
        "documents": len(documents),
        "pairs": len(pairs),
        "absent": len(named) - len(pairs),
        "ambiguous_ids": sum(len(numbers) > 1 for numbers in documents.numbers.values()),
        "threshold": config.threshold,
        "bands": bands,
        "rows": rows,
        "bins": table_of(pairs, bands=bands, rows=rows),
        "removals": {**asdict(removals), "sound": removals.sound},
    }
    print_figures(content)
    if arguments.json:
        arguments.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0 if removals.sound else 1


if __name__ == "__main__":
    sys.exit(main())
