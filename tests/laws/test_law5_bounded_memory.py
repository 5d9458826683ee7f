"""Law 5, bounded memory: what a run's processes hold stays below `resources.memory`, whatever the input.

Seen from outside, as in benchmarks/adversarial_memory.py, of which this is a slice: inputs that took two
gigabytes, or never came to an end, with the least memory that a run may be given.
"""

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from adversarial_memory import run_case

from tests.material.adversarial_inputs import ADVERSARIES

MIB = 1 << 20
BY_NAME = {adversary.name: adversary for adversary in ADVERSARIES}
DROPPED = {"over ingest.max_document_bytes": 1, "bytes to parse, over": 4}
"""What is said of the one line and of the others, and how often."""


def write_both(folder: Path, scale: float) -> None:
    """Write a line of 1 GB in a .zst of 41 kB, and lines of 32 MiB that are deeply or finely divided."""
    BY_NAME["zstd_line"].write(folder, scale / 2)
    BY_NAME["nested"].write(folder, scale)


def test_ingest_holds_no_more_than_it_is_given_and_says_what_it_dropped(tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    both = replace(BY_NAME["nested"], write=write_both)
    both.write(tmp_path / "input", 1.0)
    case = run_case(both, tmp_path, workers=0, memory="1GiB", until="ingest", keep=True)
    (attempt,) = case.attempts
    assert (attempt.exit_code, attempt.message) == (0, "")
    assert 64 * MIB < attempt.peak < 512 * MIB
    output = tmp_path / "output"
    drops = pa.concat_tables(map(pq.read_table, output.glob("ingest/adversary/*/drops.parquet")))
    reasons = Counter(drops.column("reason").to_pylist())
    assert reasons == {"too_large": sum(DROPPED.values())}
    details = drops.column("detail").to_pylist()
    assert {said: sum(said in detail for detail in details) for said in DROPPED} == DROPPED
    record = json.loads((output / "commits/ingest/_step.json").read_text())["record"]
    assert record["drops"] == reasons
