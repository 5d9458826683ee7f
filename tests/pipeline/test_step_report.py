"""What the report of steps promises: sums over units, no time between attempts, real rates."""

import json
from pathlib import Path
from typing import Any

from pipeline.report.steps import step_metrics
from pipeline.steps.ingest.step import IngestRecord
from pipeline.steps.step import Records
from pipeline.steps.units import UnitSize


def write_log(folder: Path, events: list[dict[str, Any]]) -> None:
    """Write a run's log."""
    (folder / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


def event(kind: str, time: float, attempt: str = "a", **fields: Any) -> dict[str, Any]:
    """Return one event of step ingest."""
    return {"event": kind, "time": time, "attempt": attempt, "step": "ingest", **fields}


def test_units_and_seconds_add_up_over_attempts_and_the_time_between_them_is_nobodys(
    tmp_path: Path,
) -> None:
    write_log(
        tmp_path,
        [
            {"event": "start", "time": 5.0, "attempt": "a"},
            event("begin", 10.0, title="read", tasks=2),
            event("commit", 12.0, unit="x", seconds=2.0, cpu_seconds=1.5, peak_rss=1.0),
            event("begin", 1_000.0, "b", title="read", tasks=1),
            event("commit", 1_004.0, "b", unit="y", seconds=3.5, cpu_seconds=3.0, peak_rss=1.0),
            event("end", 1_004.0, "b", title="read", peak_memory=700),
        ],
    )
    unit = UnitSize(name="s/a-0", source="s", label="a", documents=8, text_bytes=600, sections=1)
    records = Records()
    records.put("ingest", IngestRecord(read=9, drops={}, named=(), cleaned=0, units=(unit,)))
    assert [row.model_dump() for row in step_metrics(tmp_path, records)] == [
        {
            "step": "ingest",
            "units": 2,
            "documents": 9,
            "bytes": 600,
            "tokens": None,
            "began": 5.0,
            "ended": 11.0,
            "wall_seconds": 6.0,
            "worker_seconds": 5.5,
            "cpu_seconds": 4.5,
            "peak_memory": 700,
            "bytes_per_second": 100,
        }
    ]


def test_what_is_made_again_counts_as_it_was_made_last(tmp_path: Path) -> None:
    made = [
        event("begin", 1.0, title="read", tasks=2),
        event("commit", 2.0, unit="x", seconds=1.0, cpu_seconds=1.0),
        event("commit", 3.0, unit="y", seconds=1.0, cpu_seconds=1.0),
    ]
    again = [
        {"event": "start", "time": 90.0, "attempt": "b"},
        event("begin", 100.0, "b", title="read", tasks=2),
        event("commit", 104.0, "b", unit="x", seconds=4.0, cpu_seconds=4.0),
        event("commit", 105.0, "b", unit="y", seconds=1.0, cpu_seconds=1.0),
    ]
    nothing = [{"event": kind, "time": 50.0, "attempt": "none"} for kind in ("start", "stop")]
    write_log(tmp_path, [*made, *nothing, *again])
    (row,) = step_metrics(tmp_path, Records())
    assert (row.units, row.wall_seconds, row.cpu_seconds) == (2, 5.0, 5.0)
    assert (row.began, row.ended) == (2.0 + 10.0, 2.0 + 15.0)
    write_log(tmp_path, [*made, event("replace", 50.0, "b", units=["y"]), *again[:3]])
    (row,) = step_metrics(tmp_path, Records())
    assert (row.units, row.wall_seconds, row.cpu_seconds) == (1, 4.0, 4.0)
    write_log(tmp_path, [*made, event("replace", 50.0, "b"), *again[3:]])
    (row,) = step_metrics(tmp_path, Records())
    assert (row.units, row.cpu_seconds) == (1, 1.0)


def test_a_real_run_reports_every_step_with_what_went_through_it(reference: Path) -> None:
    report = json.loads((reference / "report" / "report.json").read_text())
    steps = {row["step"]: row for row in report["steps"]}
    assert list(steps) == ["scan", "ingest", "dedup", "tokenizer", "split", "tokenize", "shard-clm"]
    documents = report["documents"]
    assert steps["ingest"]["documents"] == documents["read"]
    assert steps["dedup"]["bytes"] == documents["text_bytes"]
    stored = sum(row["tokens"] for row in report["languages"])
    assert steps["tokenize"]["tokens"] == steps["shard-clm"]["tokens"] == stored > 0
    for row in report["steps"]:
        assert row["units"] > 0
        assert row["cpu_seconds"] > 0 or row["step"] == "scan"  # of so few files, below a hundredth
        assert row["peak_memory"] > 1 << 20
