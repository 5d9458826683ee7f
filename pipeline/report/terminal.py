"""What the commands print: tables for people, JSON for machines."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pipeline.commits import STEP_COMMIT, Commits
from pipeline.journal import STATUS
from pipeline.memory import MIB
from pipeline.plan import State, StepStatus
from pipeline.report.comparison import comparison_table
from pipeline.storage import LocalStorage

MAX_LANGUAGES = 15
MAX_FINDINGS = 20
_WIDE = 150
"""Characters of a table that is not to lose digits on a narrow terminal."""
_MARKS = {
    State.DONE: "done",
    State.PARTIAL: "resume",
    State.NEW: "run",
    State.STALE: "redo",
    State.DAMAGED: "redo",
}


def _console(*, least_width: int = 0) -> Console:
    console = Console(highlight=False, soft_wrap=True)
    console.width = max(console.width, least_width)
    return console


def print_plan(steps: Sequence[StepStatus], *, as_json: bool) -> None:
    """Print the steps: what is done, what would run, what would be redone and why."""
    rows: list[dict[str, Any]] = [
        {
            "step": status.step.name,
            "state": status.state.value,
            "units_committed": status.commits,
            "why": status.why,
            "warning": status.step.warning,
            "reads": list(status.step.inputs),
            "fingerprint": status.step.fingerprint or None,
        }
        for status in steps
    ]
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    table = Table("step", "reads", "state", "would", "units", "why", box=None, pad_edge=False)
    for status, row in zip(steps, rows, strict=True):
        table.add_row(
            row["step"],
            ", ".join(row["reads"]) or "input files",
            row["state"],
            _MARKS[status.state],
            f"{status.commits:,}",
            status.why,
        )
    _console().print(table)
    for row in rows:
        if row["warning"]:
            _console().print(f"\nwarning: {row['warning']}", markup=False)
    if any(status.state in (State.STALE, State.DAMAGED) for status in steps):
        _console().print("\nA run into this folder needs --replace to redo what is stale or damaged.")


def print_report(report: dict[str, Any], *, as_json: bool) -> None:
    """Print the report of a run."""
    if as_json:
        print(json.dumps(report, indent=1, ensure_ascii=False))
        return
    console = _console()
    console.print()
    console.print(_documents(report["documents"]))
    for line in report["documents"]["named_drops"][:3]:
        console.print(f"  dropped: {line}", markup=False)
    if report["languages"]:
        console.print(_languages(report["languages"]))
    if report["datasets"]:
        console.print(_datasets(report["datasets"]))
    console.print(_steps(report["steps"]))
    for warning in report["warnings"]:
        console.print(f"warning: {warning}", markup=False)
    if report["audit"]:
        _print_audit(console, report["audit"])
    for name, verdict in (report["verify"] or {}).items():
        _print_verdict(console, name, verdict)
    console.print(f"report: {report['output']}/report/report.html", markup=False)


def print_status(folder: Path, names: Iterable[str], *, as_json: bool) -> None:
    """Print how far a run is: what is committed, and what it is doing."""
    path = folder / STATUS
    now = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"state": "unknown"}
    if now["state"] == "running" and not Path(f"/proc/{now['pid']}").exists():
        now["state"] = "killed"  # it could not say so itself
    commits = Commits(LocalStorage(folder))
    steps = {}
    for step in names:
        units = [unit for unit, _ in commits.all(step)]
        whole = STEP_COMMIT in units
        steps[step] = {"units": len(units) - whole, "whole": whole}
    if as_json:
        print(json.dumps({**now, "steps": steps}, indent=1))
        return
    table = Table("step", "units", "whole", box=None, pad_edge=False)
    for name, step_ in steps.items():
        table.add_row(name, f"{step_['units']:,}", "yes" if step_["whole"] else "no")
    console = _console()
    console.print(table)
    doing = f" at {now['step']}, {now['done']}/{now['total']}" if "step" in now else ""
    console.print(f"\n{now['state']}{doing}{': ' + now['error'] if 'error' in now else ''}")


def _documents(documents: dict[str, Any]) -> Table:
    table = Table("documents", "", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    table.add_row("read", f"{documents['read']:,}")
    for reason, count in documents["dropped"].items():
        table.add_row(f"  dropped: {reason}", f"{count:,}")
    for method, count in documents.get("removed", {}).items():
        table.add_row(f"  removed as duplicates: {method}", f"{count:,}")
    if "kept" in documents:
        table.add_row("kept", f"{documents['kept']:,}")
    table.add_row("")
    return table


def _languages(rows: list[dict[str, Any]]) -> Table:
    table = Table("language", "documents", "bytes", "tokens", "bytes/token", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    shown, rest = rows[:MAX_LANGUAGES], rows[MAX_LANGUAGES:]
    if rest:
        keys = ("documents", "bytes", "tokens")
        total = {key: sum(row[key] for row in rest) for key in keys}
        shown = [*shown, {"language": f"{len(rest)} others", **total}]
    for row in shown:
        counts = [f"{row[key]:,}" for key in ("documents", "bytes", "tokens")]
        table.add_row(row["language"], *counts, f"{row['bytes'] / row['tokens']:.2f}")
    table.add_row("")
    return table


def _datasets(datasets: dict[str, Any]) -> Table:
    names = ("rows", "documents", "tokens", "tokens_cut")
    table = Table("dataset", *names, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for dataset, splits in datasets.items():
        for split, totals in splits.items():
            table.add_row(f"{dataset}/{split}", *(f"{totals[name]:,}" for name in names))
    table.add_row("")
    return table


def _steps(rows: list[dict[str, Any]]) -> Table:
    names = ("units", "documents", "MB", "M tokens", "wall s", "CPU s", "MB/s", "MiB held")
    table = Table("step", *names, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        size, rate, tokens = row["bytes"], row["bytes_per_second"], row["tokens"]
        table.add_row(
            row["step"],
            f"{row['units']:,}",
            f"{row['documents']:,}" if row["documents"] else "",
            f"{size / 1e6:,.1f}" if size else "",
            f"{tokens / 1e6:,.2f}" if tokens else "",
            f"{row['wall_seconds']:,.1f}",
            f"{row['cpu_seconds']:,.1f}",
            f"{rate / 1e6:,.2f}" if rate else "",
            f"{row['peak_memory'] / MIB:,.0f}",
        )
    table.add_row("")
    return table


def _print_audit(console: Console, audit: dict[str, Any]) -> None:
    mark = "FAIL" if audit["findings"] else "PASS"
    console.print(f"verify the run's files: {mark}")
    for finding in audit["findings"][:MAX_FINDINGS]:
        line = f"  {finding['file']}: {finding['check']}: {finding['message']}"
        console.print(line, markup=False)
    more = len(audit["findings"]) - MAX_FINDINGS
    if more > 0:
        console.print(f"  and {more:,} more findings, in report/report.json")
    if not audit["findings"]:
        files = f"{audit['files']:,} files, {audit['bytes'] / 1e6:,.1f} MB"
        console.print(f"  files      {files} are as they were committed; the ledger adds up")


def _print_verdict(console: Console, name: str, verdict: dict[str, Any]) -> None:
    checked = verdict["checked"]
    mark = "PASS" if verdict["passed"] else "FAIL"
    console.print(f"verify {name}: {mark}")
    for finding in verdict["findings"][:MAX_FINDINGS]:
        line = f"  {finding['file']}: {finding['check']}: {finding['message']}"
        console.print(line, markup=False)
    more = len(verdict["findings"]) - MAX_FINDINGS
    if more > 0:
        console.print(f"  and {more:,} more findings, in verify/{name}/verdict.json")
    if not verdict["findings"]:
        console.print(
            f"  mechanics  {checked['rows']:,} rows, {_returned(verdict)},"
            f" {checked['tokens']:,} tokens conserved, {checked['padding']:,} padding"
        )
    learning = verdict["learning"]
    if learning is None and verdict["passed"]:
        console.print("  learning   not asked for: the mechanics decide alone")
    elif learning:
        _print_learning(console, learning)


def _returned(verdict: dict[str, Any]) -> str:
    """Say how documents come back from their ids; those of an existing tokenizer may not all do."""
    if "returned" not in verdict:
        return f"{verdict['checked']['documents']:,} documents decode to their texts"
    ways = {
        "text": "documents decode to their texts",
        "normalised": "to their normalised texts",
        "encoded": "are what encoding gives again (what they do not spell, the tokenizer loses)",
    }
    return ", ".join(
        f"{verdict['returned'][way]:,} {said}"
        for way, said in ways.items()
        if way in verdict["returned"]
    )


def _print_learning(console: Console, learning: dict[str, Any]) -> None:
    if "reason" in learning:
        console.print(f"  learning   not proven: {learning['reason']}", markup=False)
        _print_failed_gates(console, learning["gates"])
        return
    if "contrast" in learning:
        loss, chance = (_number(learning["contrast"][key]) for key in ("loss", "chance"))
        console.print(f"  views      loss {loss} nats, guessing {chance}; reported, no gate")
        return
    loss, entropy, control = (
        _number(learning[key]) for key in ("loss", "unigram_entropy", "control_loss")
    )
    console.print(
        f"  learning   loss {loss} nats, label unigram entropy {entropy}, permuted-label control"
        f" {control} ({learning['device']}){'' if learning['gated'] else '; reported, no gate'}"
    )
    supply = learning["resume"]["supply"]
    mfu = "" if supply["mfu"] is None else f", MFU {supply['mfu']:.3f}"
    console.print(
        f"  supply     {supply['wait_share']:.2%} of the time waiting for the loader,"
        f" {supply['tokens_per_second']:,.0f} tokens a second{mfu}"
    )
    _print_failed_gates(console, learning["gates"])


def _print_failed_gates(console: Console, gates: list[dict[str, Any]]) -> None:
    for gate in gates:
        if not gate["passed"]:
            console.print(
                f"  gate {gate['name']}: {_number(gate['value'])}, must be {gate['relation']}"
                f" {_number(gate['bound'])} (docs/config.md, verify)"
            )


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.3f}"


def print_export(report: dict[str, Any], *, as_json: bool) -> None:
    """Print what an export holds, and the lines that read it."""
    if as_json:
        print(json.dumps(report, indent=1))
        return
    console = _console()
    for line in report["contents"]:
        console.print(line, markup=False)
    state = "is whole already; nothing was done" if report["already"] else "is whole"
    count = f"{len(report['files']):,} files, {report['bytes']:,} bytes"
    console.print(f"{report['to']}: {count}, {state}", markup=False)
    for note in report["notes"]:
        console.print(f"- {note}", markup=False)
    console.print(f"\nHow {report['client']} reads it:\n\n{report['read']}", markup=False)


def print_quick(report: dict[str, Any], *, as_json: bool) -> None:
    """Print what was read, what was checked, what was exported and where the run is."""
    if as_json:
        print(json.dumps(report, indent=1, ensure_ascii=False))
        return
    console = _console()
    run = report["run"]
    console.print(_documents({k: v for k, v in run["documents"].items() if k != "removed"}))
    for warning in run["warnings"]:
        console.print(f"warning: {warning}", markup=False)
    for name, verdict in run["verify"].items():
        _print_verdict(console, name, verdict)
    if "validation" not in report["export"]["splits"]:
        console.print("no document was held out: raise --validation if the trainer wants some")
    console.print(
        f"the run is in {report['work']}; delete it once you need no other format\n", markup=False
    )
    print_export(report["export"], as_json=False)


def print_comparison(report: dict[str, Any], *, as_json: bool) -> None:
    """Print what models of one budget came to."""
    if as_json:
        print(json.dumps(report, indent=1, ensure_ascii=False))
        return
    console = _console(least_width=_WIDE)
    console.print(comparison_table(report))
    for record in report["datasets"]:
        if "reason" in record:
            console.print(f"{record['name']}: not compared: {record['reason']}", markup=False)
    texts, settings = report["texts"], report["settings"]
    console.print(
        f"\n{settings['tokens']:,} tokens a model, seeds: {settings['seeds']}; asked about"
        f" {texts['fresh']:,} held-out documents"
    )
    if report["classes"]:
        told = ", ".join(report["classes"])
        console.print(f"probe: {told}; the most frequent alone: {report['majority']:.1%}", markup=False)
    console.print(f"curves: {report['output']}/compare.html", markup=False)
