"""Planning of a mix over synthetic units of the token store, of which only what is counted is made.

    mix_planning.py FOLDER [--documents 10000000] [--sources 5] [--languages 40] [--json planning.json]

Three mixes are planned: shares and epochs; these with a temperature over languages; these with a weight
for each document. The tasks are those of a run, one after the other in this process: every unit is
counted, then the driver's task plans. Units have 32,768 documents in 65 row groups, as 64 training
shards and one for validation have them. Memory is anonymous and shared memory, every tenth of a second.
With `--limit` and `--seconds`, the exit code is 1 if a mix takes more. CPU seconds are compared, and
those of counting are divided by `--workers`.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from process_memory import mib
from pydantic import ByteSize, TypeAdapter
from synthetic_signatures import PeakWatch, keep

from pipeline.engine.tasks import Task, Worker
from pipeline.steps.mix.choose import MixChoice, MixRecord, choose_mix
from pipeline.steps.mix.count import MixUnit, count_unit
from pipeline.steps.units import Unit, fixed_array
from stages.columns import STORED_DOCUMENTS, with_kept
from stages.mixing.config import DatasetMix, SourceMix
from stages.store.arrays import write_array
from stages.store.tables import write_tables

UNIT, GROUPS, SHARDS = 1 << 15, 65, 64
WEIGHT = "quality"
SEED = 11


def units_of(documents: int, sources: int) -> tuple[Unit, ...]:
    """Return the units of a corpus; sources have parts of 1, 1/2, 1/3, ... of it."""
    parts = np.array([1 / (number + 1) for number in range(sources)])
    sizes = (parts / parts.sum() * documents).astype(np.int64)
    sizes[0] += documents - sizes.sum()
    units, first = list[Unit](), 0
    for number, size in enumerate(sizes.tolist()):
        for start in range(0, size, UNIT):
            name, count = f"s{number}", min(UNIT, size - start)
            units.append(
                Unit(
                    f"{name}/{start // UNIT:06d}",
                    name,
                    f"{start}",
                    first,
                    count,
                    0,
                    keep_columns=(WEIGHT,),
                )
            )
            first += count
    return tuple(units)


def write_unit(root: Path, unit: Unit, languages: int) -> None:
    """Write what is read of a unit of the token store.

    Languages follow a power law; lengths and weights are log-normal.
    """
    rng = np.random.default_rng((SEED, unit.first))
    folder, count = root / unit.tokens, unit.documents
    parts = 1 / np.arange(1, languages + 1) ** 1.5
    names = np.array([f"l{number:02d}" for number in range(languages)])
    tokens = np.exp(rng.normal(6, 1, count)).astype(np.int64) + 1
    borders = np.linspace(0, count, GROUPS + 1).astype(np.int64)
    order = np.sort(rng.integers(1 << 64, size=count, dtype=np.uint64))
    columns = {
        "id": fixed_array(rng.integers(256, size=(count, 16), dtype=np.uint8)),
        "own_id": pa.nulls(count, pa.string()),
        "language": pa.array(names[rng.choice(languages, count, p=parts / parts.sum())]),
        "path": pa.array(["a"] * count).dictionary_encode().cast(STORED_DOCUMENTS.field("path").type),
        "position": pa.array(np.arange(count)),
        "digest": fixed_array(rng.integers(256, size=(count, 16), dtype=np.uint8)),
        "order": pa.array(order),
        "tokens": pa.array(tokens),
        f"record.{WEIGHT}": pa.array([f"{weight:.4g}" for weight in np.exp(rng.normal(0, 1, count))]),
    }
    table = pa.table(columns, schema=with_kept(STORED_DOCUMENTS, unit.keep_columns))
    groups = (table.slice(a, b - a) for a, b in pairwise(borders.tolist()))
    write_tables(folder / "documents.parquet", table.schema, groups)
    offsets = np.concatenate([[0], np.cumsum(tokens)])
    np.lib.format.open_memmap(folder / "ids.npy", "w+", "<u2", (int(offsets[-1]),))  # a sparse file
    write_array(folder / "offsets.npy", offsets.astype("<i8"))
    write_array(folder / "group_ptr.npy", borders.astype("<i8"))


def mixes(sources: int) -> Iterator[tuple[str, DatasetMix, str | None]]:
    """Yield the mixes: title, settings, and the field of the weights."""
    amounts = {f"s{number}": SourceMix(epochs=1 + number / 2) for number in range(sources)}
    amounts["s0"] = SourceMix(epochs=0.5)
    amounts[f"s{sources - 1}"] = SourceMix(share=0.15)
    plain = DatasetMix(sources=amounts)
    yield "shares and epochs", plain, None
    yield "and language_alpha = 0.3", plain.model_copy(update={"language_alpha": 0.3}), None
    yield "and weights", plain.model_copy(update={"language_alpha": 0.3}), WEIGHT


def measure(root: Path, units: Sequence[Unit], sources: int) -> list[dict[str, Any]]:
    """Count and plan each mix; return what it took."""
    worker, watch, figures = Worker(root, root / "tmp/a"), PeakWatch(), []
    watch.start()
    for number, (title, mix, weights) in enumerate(mixes(sources)):
        name = f"d{number}"
        work = tuple(MixUnit(unit, name, SHARDS, weights) for unit in units)
        watch.take()
        start, cpu = time.monotonic(), time.process_time()
        for one in work:
            keep(root, worker.run(Task("mix", one.unit.commit_name, count_unit, one, "")).folder)
        counting, counting_cpu, peak = time.monotonic() - start, time.process_time() - cpu, watch.take()
        start, cpu = time.monotonic(), time.process_time()
        outcome = worker.run(Task("mix", "choose", choose_mix, MixChoice(name, work, mix, None, 0), ""))
        keep(root, outcome.folder)
        figures.append(
            {
                "mix": title,
                "classes": len(MixRecord.model_validate(outcome.record).classes),
                "count_seconds": counting,
                "count_cpu_seconds": counting_cpu,
                "count_peak_mib": mib(peak),
                "plan_seconds": time.monotonic() - start,
                "plan_cpu_seconds": time.process_time() - cpu,
                "plan_peak_mib": mib(watch.take()),
            }
        )
        print(json.dumps(figures[-1]), flush=True)
    watch.end()
    return figures


def main() -> int:
    """Make the units, plan, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, default=10_000_000)
    parser.add_argument("--sources", type=int, default=5)
    parser.add_argument("--languages", type=int, default=40)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--limit", type=TypeAdapter(ByteSize).validate_python)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    shutil.rmtree(asked.folder, ignore_errors=True)
    units = units_of(asked.documents, asked.sources)
    for unit in units:
        write_unit(asked.folder, unit, asked.languages)
    print(f"{asked.documents:,} documents in {len(units):,} units are written", flush=True)
    figures = measure(asked.folder, units, asked.sources)
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=1) + "\n")
    peak = max(max(one["count_peak_mib"], one["plan_peak_mib"]) for one in figures)
    seconds = max(one["count_cpu_seconds"] / asked.workers + one["plan_cpu_seconds"] for one in figures)
    print(f"at most {seconds:.1f} CPU s and {peak:,.0f} MiB")
    over = asked.limit is not None and peak > mib(asked.limit)
    return int(over or (asked.seconds is not None and seconds > asked.seconds))


if __name__ == "__main__":
    sys.exit(main())
