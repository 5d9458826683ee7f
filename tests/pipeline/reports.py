"""Reports of runs that have nothing to tell but what a test gives them."""

from typing import Any

from pipeline.report.report import Report

DOCUMENTS: dict[str, Any] = {"read": 0, "dropped": {}, "named_drops": [], "cleaned": 0, "text_bytes": 0}
EMPTY: dict[str, Any] = {
    "name": "small",
    "output": "run",
    "sources": {},
    "passed": None,
    "stopped": None,
    "audit": None,
    "ledger": {},
    "skipped": {},
    "documents": DOCUMENTS,
    "tokenizer": None,
    "warnings": [],
    "languages": [],
    "split": None,
    "datasets": {},
    "packing": {},
    "epochs_on_disk": {},
    "verify": {},
    "steps": [],
}
"""The JSON of a report."""
STEP: dict[str, Any] = {
    "step": "ingest",
    "units": 1,
    "documents": 1,
    "bytes": 1,
    "tokens": 1,
    "began": 0.0,
    "ended": 1.0,
    "wall_seconds": 1.0,
    "worker_seconds": 1.0,
    "cpu_seconds": 1.0,
    "peak_memory": 1,
    "bytes_per_second": 1,
}
"""The JSON of what a step cost."""


def report_with(**fields: Any) -> Report:
    """Return a report that has some fields, as JSON."""
    return Report.model_validate({**EMPTY, **fields})
