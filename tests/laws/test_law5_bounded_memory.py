"""Law 5, bounded memory: what a run's processes hold stays below `resources.memory`, whatever the input.

Seen from outside, as in benchmarks/adversarial_memory.py, of which this is a slice: inputs that took two
gigabytes, or never came to an end, with the least memory that a run may be given.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from adversarial_memory import run_case

from tests.material.adversarial_inputs import ADVERSARIES

MIB = 1 << 20
BY_NAME = {adversary.name: adversary for adversary in ADVERSARIES}
DROPPED = {"zstd_line": "over ingest.max_document_bytes", "nested": "bytes to parse, over"}


@pytest.mark.parametrize("name", DROPPED)
def test_ingest_holds_no_more_than_it_is_given_and_says_what_it_dropped(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "input").mkdir()
    BY_NAME[name].write(tmp_path / "input", 1.0)
    case = run_case(BY_NAME[name], tmp_path, workers=0, memory="1GiB", until="ingest", keep=True)
    (attempt,) = case.attempts
    assert (attempt.exit_code, attempt.message) == (0, "")
    assert 64 * MIB < attempt.peak < 512 * MIB
    output = tmp_path / "output"
    drops = pa.concat_tables(map(pq.read_table, output.glob("ingest/adversary/*/drops.parquet")))
    reasons = Counter(drops.column("reason").to_pylist())
    assert reasons == {"too_large": reasons.total()}
    assert all(DROPPED[name] in detail for detail in drops.column("detail").to_pylist())
    record = json.loads((output / "commits/ingest/_step.json").read_text())["record"]
    assert record["drops"] == reasons
    assert reasons.total() == {"zstd_line": 1, "nested": 4}[name]
