"""The summary of a run: what every step reported, added up, and refused where it does not add up."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.config import RunFile
from pipeline.plan import section_loss
from pipeline.report.page import render_page
from pipeline.report.steps import step_metrics
from stages.errors import VerificationError
from stages.tokenizer.normalization import normalization_loss

REPORT = "report"


def write_report(output: Path, file: RunFile, records: Mapping[str, Any]) -> dict[str, Any]:
    """Sum up a run; write DIR/report/report.json and report.html, and the verdicts.

    Raises:
        VerificationError: documents or tokens do not add up.
    """
    report = summarise(file, records, output)
    folder = output / REPORT
    folder.mkdir(exist_ok=True)
    text = json.dumps(report, indent=1, ensure_ascii=False)
    (folder / "report.json").write_text(text + "\n", encoding="utf-8")
    (folder / "report.html").write_text(render_page(report), encoding="utf-8")
    for name, verdict in (report["verify"] or {}).items():
        place = output / "verify" / name / "verdict.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(verdict, indent=1) + "\n", encoding="utf-8")
    return report


def summarise(file: RunFile, records: Mapping[str, Any], output: Path) -> dict[str, Any]:
    """Give the report of a run that has come as far as its records."""
    verify = records.get("verify")
    report: dict[str, Any] = {
        "name": file.name,
        "output": str(output),
        "sources": {s.name: {"license": s.license} for s in file.sources},
        "passed": _passed(records),
        "audit": audit.model_dump(mode="json") if (audit := records.get("audit")) else None,
        "ledger": _ledger(records),
        "documents": _documents(records),
        "tokenizer": records.get("tokenizer"),
        "warnings": list(filter(None, _warnings(file, records))),
        "languages": _languages(records),
        "split": records.get("split"),
        "datasets": {name: record["splits"] for name, record in records.get("shard", {}).items()},
        "epochs_on_disk": {
            name: record["splits"] for name, record in records.get("draw", {}).items() if record
        },
        "verify": verify,
        "steps": step_metrics(output, records),
    }
    _require_conservation(report, records)
    return report


def _passed(records: Mapping[str, Any]) -> bool | None:
    """Say whether all checks of a run passed; None if it was not verified."""
    verify, audit = records.get("verify"), records.get("audit")
    if not verify:
        return None
    return all(verdict["passed"] for verdict in verify.values()) and not (audit and audit.findings)


def _ledger(records: Mapping[str, Any]) -> dict[str, Any]:
    """Return what went through each step, by its name in the plan."""
    flows = {}
    for name, record in records.items():
        if name in ("shard", "draw"):
            of_datasets = {f"{name}-{dataset}": own for dataset, own in record.items()}
        else:
            of_datasets = {name: record}
        for step, own in of_datasets.items():
            if isinstance(own, Mapping) and "ledger" in own:
                flows[step] = own["ledger"]
    return flows


def _warnings(file: RunFile, records: Mapping[str, Any]) -> Iterator[str | None]:
    """Give what settings and the tokenizer cost."""
    yield section_loss(file)
    yield from records.get("ingest", {}).get("warnings", ())
    if file.tokenizer.path is None:
        yield normalization_loss(file.tokenizer.train.normalization)
        return
    yield records.get("tokenizer", {}).get("warning")
    rows = [row for row in _languages(records) if row.get("unknown")]
    if rows:
        unknown, tokens = (sum(row[key] for row in _languages(records)) for key in ("unknown", "tokens"))
        worst = max(rows, key=lambda row: row["unknown"] / row["tokens"])
        yield (
            f"tokenizer: {unknown:,} tokens are unknown, {unknown / tokens:.2%} of all, and in"
            f" {worst['language']} {worst['unknown'] / worst['tokens']:.2%}: it has no piece for these"
            " characters, and rows do not have them"
        )


def _documents(records: Mapping[str, Any]) -> dict[str, Any]:
    nothing: dict[str, Any] = {"read": 0, "drops": {}, "named": [], "cleaned": 0, "units": []}
    ingest = records.get("ingest", nothing)  # of a run that only scanned
    documents = {
        "read": ingest["read"],
        "dropped": ingest["drops"],
        "named_drops": ingest["named"],
        "cleaned": ingest["cleaned"],
        "text_bytes": sum(unit["text_bytes"] for unit in ingest["units"]),
    }
    if "dedup" in records:
        documents |= {"removed": records["dedup"]["removed"], "kept": records["dedup"]["kept"]}
    return documents


def _languages(records: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give documents, bytes and tokens by language, most tokens first."""
    counts = records.get("tokenize", {}).get("languages", {})
    rows = [{"language": name, **values} for name, values in counts.items()]
    return sorted(rows, key=lambda row: (-row["tokens"], row["language"]))


def _require_conservation(report: Mapping[str, Any], records: Mapping[str, Any]) -> None:
    """Documents and tokens add up, or the run fails."""
    documents = report["documents"]
    if "kept" in documents:
        gone = sum(documents["dropped"].values()) + sum(documents["removed"].values())
        if documents["read"] != documents["kept"] + gone:
            raise VerificationError(
                f"documents do not add up: {documents['read']:,} read, {documents['kept']:,} kept,"
                f" {gone:,} dropped or removed; this is a bug, please report it with the log"
            )
    for name, splits in report["datasets"].items():
        made = sum(split["tokens"] + split["tokens_cut"] for split in splits.values())
        stored = records["tokenize"]["tokens"]
        if made != stored:
            raise VerificationError(
                f"tokens of {name} do not add up: {stored:,} stored, {made:,} in rows or cut; this"
                " is a bug, please report it with the log"
            )
