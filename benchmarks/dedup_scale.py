"""What deduplication of very many documents takes, by arithmetic from two measured sizes.

    dedup_scale.py SMALL.json LARGE.json [--documents 1000000000 100000000000] [--keys 1048576]

The files are those that `synthetic_signatures.py --json` writes. The cost of a phase has two parts: one
for each document, and one for each file of another task that a task opens. Two sizes give both. Bytes
follow the documents. `--keys` is `resources.keys_per_partition`.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.steps.dedup.decided_parts import MAX_PARTS, PART_BYTES
from pipeline.steps.dedup.unit_groups import GROUP_BYTES, MAX_GROUPS
from stages.dedup.lsh import KEYS_PER_PARTITION, MinHashConfig, band_shape, num_partitions
from stages.dedup.survivors import NARROW

TEXT_BYTES = 2_000
HELD_BYTES, WIDE_BYTES = 31, 16
"""Of a document in mapped files while one task decides, and more if numbers are int64: four of them."""
KEY_BYTES = 100
"""Of a key of the partition that a task works on."""
SIGNATURE_BYTES = 4 * MinHashConfig().num_perm
BANDS, _ = band_shape(MinHashConfig().threshold, MinHashConfig().num_perm)


class Size(NamedTuple):
    """How much there is of a corpus."""

    documents: int
    runs: int
    """Of units."""
    pieces: int
    parts: int
    """That the evidence is written in."""


def size_of(documents: int, keys: int = KEYS_PER_PARTITION) -> Size:
    """Return how a corpus is cut, and its keys."""
    text = documents * TEXT_BYTES
    return Size(
        documents,
        min(MAX_GROUPS, -(-text // GROUP_BYTES)),
        num_partitions(documents, keys=keys),
        min(MAX_PARTS, -(-text // PART_BYTES)),
    )


def opened(phase: str, size: Size) -> int:
    """Return how many files of other tasks the tasks of a phase open, or ranges of these."""
    return {
        "sort digests": 0,
        "find exact duplicates": size.pieces * size.runs,
        "sort band keys": size.pieces * size.runs,
        "find candidates in buckets": BANDS * size.pieces * size.runs,
        "hash candidates": BANDS * size.pieces * size.runs,
        "verify candidate pairs": BANDS * size.pieces * size.runs + size.runs**2 // 2,
        "decide": size.pieces + size.runs,
        "count, name": 0,
        "write the evidence": 2 * size.parts**2,
        "join the evidence": 2 * size.parts,
    }[phase]


def tasks_of(phase: str, size: Size) -> int:
    """Return the number of a phase's tasks."""
    if phase == "find candidates in buckets":
        return BANDS * size.pieces
    if phase == "find exact duplicates":
        return size.pieces
    others = {"decide": 1, "count, name": size.parts, "write the evidence": 2 * size.parts}
    return {**others, "join the evidence": 2}.get(phase, size.runs)


def fitted(small: dict[str, Any], large: dict[str, Any], phase: int) -> tuple[float, float]:
    """Return the CPU seconds of a document and of an opened file; none is below zero."""
    title = small["phases"][phase]["phase"]
    one, other = size_of(small["documents"]), size_of(large["documents"])
    costs = small["phases"][phase]["cpu_seconds"], large["phases"][phase]["cpu_seconds"]
    files = opened(title, one), opened(title, other)
    determinant = one.documents * files[1] - other.documents * files[0]
    each_file = (
        (one.documents * costs[1] - other.documents * costs[0]) / determinant if determinant else 0
    )
    each_file = max(0.0, each_file)
    each = max(0.0, (costs[1] - each_file * files[1]) / other.documents)
    return each, each_file


def markdown(small: dict[str, Any], large: dict[str, Any], documents: int, *, keys: int) -> str:
    """Return the table of one corpus."""
    size = size_of(documents, keys)
    lines = [
        f"{documents:,} documents: {size.runs:,} runs of units and {size.pieces:,} partitions\n",
        "| phase | tasks | CPU h | of it for opening files | a task, CPU s | TB written |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    total, disk = 0.0, 0.0
    for number, phase in enumerate(large["phases"]):
        title = phase["phase"]
        each, each_file = fitted(small, large, number)
        files, tasks = each_file * opened(title, size), tasks_of(title, size)
        cpu = each * size.documents + files
        written = phase["written_bytes"] / large["documents"] * size.documents
        total, disk = total + cpu, disk + written
        lines.append(
            f"| {title} | {tasks:,} | {cpu / 3600:,.2f} | {files / max(cpu, 1e-9):.0%}"
            f" | {cpu / tasks:,.0f} | {written / 1e12:.3f} |"
        )
    lines.append(f"| all | | {total / 3600:,.1f} | | | {disk / 1e12:.2f} |")
    signatures = SIGNATURE_BYTES * size.documents / 1e12
    held = (HELD_BYTES + (WIDE_BYTES if documents > NARROW else 0)) * size.documents / 1e9
    lines.append(f"\nsignatures {signatures:.2f} TB; mapped while deciding {held:,.0f} GB")
    lines.append(f"a task of a partition holds {KEY_BYTES * min(keys, documents) / 1e9:.1f} GB")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("small", type=Path, metavar="SMALL.json")
    parser.add_argument("large", type=Path, metavar="LARGE.json")
    parser.add_argument("--documents", type=int, nargs="+", default=[10**9, 10**11])
    parser.add_argument("--keys", type=int, default=KEYS_PER_PARTITION)
    arguments = parser.parse_args(argv)
    small, large = (json.loads(path.read_bytes()) for path in (arguments.small, arguments.large))
    tables = [markdown(small, large, number, keys=arguments.keys) for number in arguments.documents]
    print("\n\n".join(tables))
    return 0


if __name__ == "__main__":
    sys.exit(main())
