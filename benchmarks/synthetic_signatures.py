"""Deduplication of synthetic documents, of which signatures, digests and few words are made: no corpus.

    synthetic_signatures.py FOLDER [--documents 10000000] [--limit 2GiB] [--json synthetic.json]

Every document counts as 2,000 bytes of text. Of 20 documents, one has the text of one of the first
32,768, and two have its words but the last one, and a signature that differs from its own in 8 of 128
values. The tasks are those of a run, one after the other in this process: digests, band keys, buckets,
shingles, pairs, the decision. Memory is anonymous and shared memory, every tenth of a second. With
`--limit`, the exit code is 1 if the peak is over it.
"""

import argparse
import json
import os
import shutil
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from process_memory import mib, private_bytes
from pydantic import ByteSize, TypeAdapter

from pipeline.engine.tasks import Task, Worker
from pipeline.run_file.deduplication import Dedup
from pipeline.state.worker_place import FolderPlace
from pipeline.steps.dedup.band_keys import cut_keys, find_candidates
from pipeline.steps.dedup.edges import FoundEdges
from pipeline.steps.dedup.equal import (
    EXACT,
    cut_digests,
    find_exact,
    repeats_folder,
)
from pipeline.steps.dedup.hashing import (
    PAIRS_FOLDER,
    hash_candidates,
    verify_pairs,
)
from pipeline.steps.dedup.members import MembersRecord, MembersWork, describe_members
from pipeline.steps.dedup.method import Corpus, GroupWork, PartitionWork
from pipeline.steps.dedup.minhash import NEAR
from pipeline.steps.dedup.removals import (
    EvidenceTables,
    JoinWork,
    Table,
    join_rows,
    rows_works,
    write_rows,
)
from pipeline.steps.dedup.resolve import Resolution, resolve
from pipeline.steps.dedup.unit_groups import unit_groups
from pipeline.steps.selection import KeptCounts
from pipeline.steps.units import Unit, fixed_array
from stages.columns import DOCUMENTS
from stages.dedup.lsh import MinHashConfig, num_partitions
from stages.store.arrays import write_array

UNIT, TEXT_BYTES, WORDS, CHANGED = 1 << 15, 2_000, 60, 8
SEED = 11
CONFIG = MinHashConfig()
COUNTED_BY: dict[Table, str] = {"removed": "removed", "clusters": "members"}
"""Of each table, what of the decision's record counts its rows."""
Phase = tuple[str, Callable[..., Any], list[Any]]


def units_of(documents: int) -> tuple[Unit, ...]:
    """Return the units of a corpus."""
    starts = range(0, documents, UNIT)
    return tuple(
        Unit(
            name=f"s/{start // UNIT:06d}",
            source="s",
            label=f"{start // UNIT}",
            first=start,
            documents=min(UNIT, documents - start),
            text_bytes=TEXT_BYTES * min(UNIT, documents - start),
        )
        for start in starts
    )


def text_of(family: int, change: str = "") -> str:
    """Return the text of a document that others are like."""
    words = [f"w{family}x{word}" for word in range(WORDS)]
    return " ".join([*words[:-1], change] if change else words)


def write_unit(root: Path, unit: Unit, bases: NDArray[np.uint32]) -> None:
    """Write what ingest would leave of a unit."""
    rng = np.random.default_rng((SEED, unit.first))
    count = unit.documents
    signatures = rng.integers(1 << 32, size=(CONFIG.num_perm, count), dtype=np.uint32)
    digests = rng.integers(256, size=(count, 16), dtype=np.uint8)
    texts = ["-"] * count
    families = rng.integers(bases.shape[1], size=count)
    kinds = rng.integers(20, size=count)
    if unit.first == 0:
        signatures, kinds = bases[:, :count].copy(), np.full(count, 19)
        texts = [text_of(family) for family in range(count)]
        digests = family_digests(np.arange(count))
    repeats = np.flatnonzero(kinds == 0)
    digests[repeats] = family_digests(families[repeats])
    for row in repeats.tolist():
        texts[row] = text_of(int(families[row]))
    near = np.flatnonzero((kinds == 1) | (kinds == 2))  # noqa: PLR2004
    copies = bases[:, families[near]].copy()
    lanes = rng.integers(CONFIG.num_perm, size=(CHANGED, len(near)))
    copies[lanes, np.arange(len(near))] = signatures[lanes, near]
    signatures[:, near] = copies
    for row in near.tolist():
        texts[row] = text_of(int(families[row]), f"changed{unit.first + row}")
    write_array(root / unit.signatures, signatures)
    ids = rng.integers(256, size=(count, 16), dtype=np.uint8)
    columns = {
        "id": fixed_array(ids),
        "own_id": pa.nulls(count, pa.string()),
        "language": pa.array(["en"] * count),
        "path": pa.array(["a"] * count).dictionary_encode().cast(DOCUMENTS.field("path").type),
        "position": pa.array(np.arange(count)),
        "text_bytes": pa.array(np.full(count, TEXT_BYTES)),
        "digest": fixed_array(digests),
        "text": pa.array(texts, pa.large_string()),
    }
    path = root / unit.table
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns, schema=DOCUMENTS), path, row_group_size=1 << 13, compression="zstd")


def family_digests(families: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the digests of documents that others repeat."""
    whole = np.zeros((len(families), 2), np.uint64)
    whole[:, 0] = families.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return whole.view(np.uint8).reshape(-1, 16)


def phases(units: tuple[Unit, ...], records: Mapping[str, list[Any]]) -> Iterator[Phase]:
    """Yield the phases of exact and near-deduplication with their tasks.

    Args:
        units: of the corpus.
        records: of the tasks of earlier phases, by phase.
    """
    runs, pieces = unit_groups(units), num_partitions(units[-1].last)
    firsts, documents = tuple(run.first for run in runs), units[-1].last
    corpus = Corpus(firsts, documents, pieces, Dedup(minhash=CONFIG))
    works = [GroupWork(corpus, run) for run in runs]
    found = (FoundEdges(EXACT, repeats_folder(), equal=True), FoundEdges(NEAR, PAIRS_FOLDER))
    yield "sort digests", cut_digests, works
    yield "find exact duplicates", find_exact, [PartitionWork(corpus, n) for n in range(pieces)]
    yield "sort band keys", cut_keys, works
    each = [PartitionWork(corpus, n, band) for band in range(corpus.shape[0]) for n in range(pieces)]
    yield "find candidates in buckets", find_candidates, each
    yield "hash candidates", hash_candidates, works
    yield "verify candidate pairs", verify_pairs, works
    work = Resolution(units, pieces, found)
    yield "decide", resolve, [work]
    yield "count, name", describe_members, [MembersWork(part, work.methods) for part in work.parts]
    firsts = tuple(part.first for part in work.parts)
    known = EvidenceTables(firsts, 0, work.methods, work.unmeasured)
    (counts,) = records["decide"]
    tables = [rows_works(known, table, counts[name]) for table, name in COUNTED_BY.items()]
    yield "write the evidence", write_rows, [one for works in tables for one in works]
    joined = [JoinWork(works[0].table, tuple(one.key for one in works)) for works in tables]
    yield "join the evidence", join_rows, [one for one in joined if len(one.keys) > 1]


class PeakWatch(threading.Thread):
    """Holds the highest memory of this process since it was last asked."""

    def __init__(self) -> None:
        super().__init__(name="memory", daemon=True)
        self._peak = 0
        self._ended = threading.Event()

    def run(self) -> None:
        """Look every tenth of a second."""
        while not self._ended.wait(0.1):
            self._peak = max(self._peak, private_bytes(os.getpid()))

    def take(self) -> int:
        """Return the peak, and begin anew."""
        found, self._peak = max(self._peak, private_bytes(os.getpid())), 0
        return found

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()
        self.join()


def keep(root: Path, folder: Path) -> None:
    """Move what a task left to its place, as a commit does."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            target = root / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)


def measure(root: Path, units: tuple[Unit, ...]) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Do all phases; return what each took, and how many documents go by each method."""
    worker, watch = Worker(FolderPlace(root, root / "tmp/a")), PeakWatch()
    records = defaultdict[str, list[Any]](list)
    watch.start()
    figures = []
    for title, function, payloads in phases(units, records):
        watch.take()
        wall, cpu, largest, nbytes = time.monotonic(), time.process_time(), 0.0, 0
        for number, payload in enumerate(payloads):
            outcome = worker.run(Task("dedup", f"t-{number}", function, payload, ""))
            nbytes += sum(file.stat().st_size for file in outcome.folder.rglob("*") if file.is_file())
            keep(root, outcome.folder)
            largest = max(largest, outcome.metrics["cpu_seconds"])
            records[title].append(outcome.record)
        figures.append(
            {
                "phase": title,
                "tasks": len(payloads),
                "cpu_seconds": time.process_time() - cpu,
                "longest_task_cpu_seconds": largest,
                "wall_seconds": time.monotonic() - wall,
                "peak_mib": mib(watch.take()),
                "written_bytes": nbytes,
            }
        )
        print(json.dumps(figures[-1]), flush=True)
    watch.end()
    counts = KeptCounts(units)
    counts.include(MembersRecord.model_validate(one) for one in records["count, name"])
    return figures, {name: tally.documents for name, tally in counts.total.gone.items()}


def markdown(figures: Sequence[dict[str, Any]], documents: int) -> str:
    """Return a table of the phases."""
    lines = [
        "| phase | tasks | CPU s | us a document | longest task, CPU s | peak MiB | bytes a document |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in figures:
        cpu = row["cpu_seconds"]
        lines.append(
            f"| {row['phase']} | {row['tasks']:,} | {cpu:,.1f} | {1e6 * cpu / documents:.2f}"
            f" | {row['longest_task_cpu_seconds']:.2f} | {row['peak_mib']:,.0f}"
            f" | {row['written_bytes'] / documents:.1f} |"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Make the documents, deduplicate them, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="for what is made, replaced; 900 bytes a document")
    parser.add_argument("--documents", type=int, default=10_000_000)
    parser.add_argument("--limit", metavar="SIZE", help="the most memory that is allowed")
    parser.add_argument("--json", type=Path, metavar="PATH")
    arguments = parser.parse_args(argv)
    shutil.rmtree(arguments.folder, ignore_errors=True)
    units = units_of(arguments.documents)
    rng = np.random.default_rng(SEED)
    bases = rng.integers(
        1 << 32, size=(CONFIG.num_perm, min(UNIT, arguments.documents)), dtype=np.uint32
    )
    for unit in units:
        write_unit(arguments.folder, unit, bases)
    del bases
    figures, removed = measure(arguments.folder, units)
    peak = max(row["peak_mib"] for row in figures)
    print(markdown(figures, arguments.documents))
    print(f"\n{arguments.documents:,} documents; removed: {removed}; peak {peak:,.0f} MiB")
    if arguments.json:
        content = {"documents": arguments.documents, "peak_mib": peak, "removed": removed}
        arguments.json.write_text(json.dumps({**content, "phases": figures}) + "\n")
    limit = TypeAdapter(ByteSize).validate_python(arguments.limit) if arguments.limit else None
    if limit is not None and peak * (1 << 20) > limit:
        print(f"over the limit of {arguments.limit}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
