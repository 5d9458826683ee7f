"""What the commands print: tables for people, JSON for machines."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from pipeline.planning.plan import State, StepStatus
from pipeline.report.evidence import evidence_lines, joined_in
from pipeline.report.fairness import mix_table, parity_table, tokenizer_table
from pipeline.report.flow import SHOWN, example_drops
from pipeline.report.mixes import mix_lines
from pipeline.report.packing import by_source
from pipeline.report.plain import JsonObject, PlainConsole, PlainTable, TextTable, print_json, shortened
from pipeline.report.report import (
    DocumentCounts,
    Fairness,
    Report,
    RunReport,
    SplitPacking,
    SplitTotals,
)
from pipeline.report.steps import show_steps
from pipeline.report.verdicts import (
    LEAK,
    UNPROVEN_SAID,
    Learning,
    failed_gates,
    learning_of,
    suspected_leak,
    word_of,
)
from pipeline.steps.decontaminate.gather import SetCounts
from pipeline.steps.records import AuditReport
from pipeline.steps.verify.step import VerdictRecord

MAX_LANGUAGES = 15
MAX_FINDINGS = 20
_MARKS = {
    State.DONE: "done",
    State.PARTIAL: "resume",
    State.NEW: "run",
    State.STALE: "redo",
    State.DAMAGED: "redo",
}


def print_plan(steps: Sequence[StepStatus], *, as_json: bool) -> None:
    """Print the steps: what is done, what would run, what would be redone and why."""
    if as_json:
        print_json([_planned(status) for status in steps])
        return
    console = PlainConsole()
    table = PlainTable("step", "reads", "state", "would", "units", "why")
    for status in steps:
        table.add(
            status.step.name,
            ", ".join(status.step.inputs) or "input files",
            status.state.value,
            _MARKS[status.state],
            f"{status.commits:,}",
            status.why,
        )
    console.show(table)
    for line in (status.plan_line for status in steps if status.plan_line):
        console.line(line)
    for warning in (status.step.warning for status in steps if status.step.warning):
        console.line()
        console.line(f"warning: {warning}")
    if any(status.state in (State.STALE, State.DAMAGED) for status in steps):
        console.line()
        console.line("A run into this folder needs --replace to redo what is stale or damaged.")
        for said in dict.fromkeys(status.replaced for status in steps if status.replaced):
            console.line(f"With --replace, {said}.")
    for said in dict.fromkeys(status.untried for status in steps if status.untried):
        console.line(said)


def _planned(status: StepStatus) -> JsonObject:
    """Return a step of a plan as JSON."""
    return {
        "step": status.step.name,
        "state": status.state.value,
        "units_committed": status.commits,
        "why": status.why,
        "warning": status.step.warning,
        "told": status.plan_line,
        "replaced": status.replaced,
        "untried": status.untried,
        "reads": list(status.step.inputs),
        "fingerprint": status.step.fingerprint or None,
    }


def print_report(report: RunReport, *, as_json: bool) -> None:
    """Print the report of a run."""
    if as_json:
        print_json(report)
        return
    _print_report(Report.model_validate(report))


def _print_report(report: Report) -> None:
    console = PlainConsole()
    console.line()
    print_documents(console, report.documents)
    if report.languages:
        console.show(_texts(mix_table(report, MAX_LANGUAGES)))
    if report.fairness:
        _print_fairness(console, report.fairness)
    if report.datasets:
        console.show(_datasets(report.datasets))
        if line := joined_in(report):
            console.line(line)
        console.show(_packing(report.packing))
        if any(row.learned is not None for _, row in by_source(report.packing)):
            console.show(_losses(report.packing))
    show_steps(console, report.steps)
    for warning in report.warnings:
        console.line(f"warning: {warning}")
    if report.audit:
        _print_audit(console, report.audit)
    _print_verdicts(console, report)
    kept = "/report/index.html" if report.written else " can only be read: not kept"
    console.line(f"report: {report.output}{kept}")
    for name, later in report.generations.items():
        console.line()
        console.line(f"generation {int(name)}, in {later.output}:")
        _print_report(later)


def print_documents(console: PlainConsole, documents: DocumentCounts) -> None:
    """Print how many documents there are, what filters changed, and examples of what was dropped."""
    console.show(_documents(documents))
    if documents.noticed:
        table = PlainTable("noticed while reading, not dropped", "").right()
        for source, counts in documents.noticed.items():
            for said, count in counts.items():
                table.add(f"  {shortened(source)}: {said}", f"{count:,}")
        table.add("")
        console.show(table)
    if documents.evaluation_sets:
        _print_evaluation_sets(console, documents.evaluation_sets)
    if documents.changed:
        table = PlainTable("changed by filters, not dropped", "").right()
        for name, count in documents.changed.items():
            table.add(f"  {name}", f"{count:,}")
        table.add("")
        console.show(table)
    if examples := list(example_drops(documents)):
        console.line("examples of what was dropped, one for each of the main reasons:")
        for line in examples:
            console.line(f"  {line}")
        console.line()


def _print_evaluation_sets(console: PlainConsole, sets: Mapping[str, SetCounts]) -> None:
    """Print what was found of the evaluation sets, and some of it."""
    names = ("items", "not looked for", "found", "common phrases", "documents dropped", "reported")
    table = PlainTable("evaluation set", *names).right()
    for name, found in sets.items():
        counts = (found.items, found.unused, found.found, found.common)
        table.add(shortened(name), *map("{:,}".format, (*counts, found.dropped, found.reported)))
    table.add("")
    console.show(table)
    samples = [sample for found in sets.values() for sample in found.samples][:SHOWN]
    if samples:
        console.line("examples of documents that hold items (all: decontaminate/contaminated.parquet):")
        for one in samples:
            what = f"{one.words:,} words, {one.share:.0%} of an item of {one.set} ({one.item})"
            name = one.own_id or one.id
            console.line(f"  {one.source}, document {name}: {what}: {one.matched}")
        console.line()


def _documents(documents: DocumentCounts) -> PlainTable:
    table = PlainTable("documents", "").right()
    table.add("read", f"{documents.read:,}")
    for reason, count in documents.dropped.items():
        table.add(f"  dropped: {reason}", f"{count:,}")
    for method, count in (documents.removed or {}).items():
        table.add(f"  removed: {method}", f"{count:,}")
    if documents.kept is not None:
        table.add("kept", f"{documents.kept:,}")
    for method, size in (documents.cut_bytes or {}).items():
        table.add(f"  bytes cut as repeated: {method}", f"{size:,}")
    if documents.cut_documents is not None:
        table.add("  documents cut", f"{documents.cut_documents:,}")
    table.add("")
    return table


def _texts(table: TextTable) -> PlainTable:
    plain = replace(table, rows=[(shortened(row[0]), *row[1:]) for row in table.rows]).plain
    plain.add("")
    return plain


def _print_fairness(console: PlainConsole, fairness: Fairness) -> None:
    """Print what each language takes for the same text."""
    table = parity_table(fairness, MAX_LANGUAGES)
    console.line(
        f"the same text in each language; parity: its tokens divided by those of {fairness.reference}"
    )
    console.show(_texts(table))
    if table.left_out:
        console.line(f"{table.left_out:,} languages more, which pay less, are in report/index.html")
    console.show(_texts(tokenizer_table(fairness)))


def _datasets(datasets: Mapping[str, SplitTotals]) -> PlainTable:
    table = PlainTable("dataset", "rows", "documents", "tokens", "in no row").right()
    for dataset, splits in datasets.items():
        for split, totals in splits.items():
            counts = totals.rows, totals.documents, totals.tokens, totals.tokens_cut
            table.add(f"{dataset}/{split}", *map("{:,}".format, counts))
    table.add("")
    return table


def _packing(packing: Mapping[str, Mapping[str, SplitPacking]]) -> PlainTable:
    names = ("source", "padding", "share", "documents cut", "tokens behind cuts")
    table = PlainTable("packing", *names).right()
    for split, row in islice(by_source(packing), MAX_LANGUAGES):
        share = row.padding / max(row.padding + row.tokens, 1)
        counts = (f"{count:,}" for count in (row.cut_documents, row.tokens_behind_cuts))
        table.add(split, shortened(row.name), f"{row.padding:,}", f"{share:.2%}", *counts)
    table.add("")
    return table


def _losses(packing: Mapping[str, Mapping[str, SplitPacking]]) -> PlainTable:
    """Return which share of tokens has a loss, of datasets in which only some have one."""
    names = ("source", "tokens", "with a loss", "share", "pieces without a loss")
    table = PlainTable("losses", *names).right()
    rows = ((split, row) for split, row in by_source(packing) if row.learned is not None)
    for split, row in islice(rows, MAX_LANGUAGES):
        learned = row.learned or 0
        counts = (f"{row.tokens:,}", f"{learned:,}", f"{learned / max(row.tokens, 1):.2%}")
        table.add(split, shortened(row.name), *counts, f"{row.silent_segments:,}")
    table.add("")
    return table


def _print_audit(console: PlainConsole, audit: AuditReport) -> None:
    mark = "FAIL" if audit.findings else "PASS"
    console.line(f"verify the run's files: {mark}")
    for finding in audit.findings[:MAX_FINDINGS]:
        console.line(f"  {finding.file}: {finding.check}: {finding.message}")
    more = len(audit.findings) - MAX_FINDINGS
    if more > 0:
        console.line(f"  and {more:,} more findings, in report/report.json")
    if not audit.findings:
        files = f"{audit.files:,} files, {audit.bytes / 1e6:,.1f} MB"
        console.line(f"  files      {files} are as they were committed; the ledger adds up")


def _print_verdicts(console: PlainConsole, report: Report) -> None:
    for name, verdict in report.verify.items():
        print_verdict(console, name, verdict, report.output)
    for line in (*mix_lines(report), *evidence_lines(report.evidence)):
        console.line(line)


def print_verdict(console: PlainConsole, name: str, verdict: VerdictRecord, output: str) -> None:
    """Print what was found of a dataset."""
    checked = verdict.checked
    console.line(f"verify {name}: {word_of(verdict).upper()}")
    for finding in verdict.findings[:MAX_FINDINGS]:
        line = f"  {finding.file}: {finding.check}: {finding.message}"
        console.line(line)
    more = len(verdict.findings) - MAX_FINDINGS
    if more > 0:
        console.line(f"  and {more:,} more findings, in verify/{name}/verdict.json")
    if not verdict.findings:
        console.line(
            f"  mechanics  {checked.rows:,} rows, {_returned(verdict)},"
            f" {checked.tokens:,} tokens conserved, {checked.padding:,} padding;"
            f" {verdict.by_library:,} documents encoded again by the tokenizer's own library"
        )
    learning = learning_of(verdict)
    if learning is None and verdict.passed:
        console.line("  learning   not asked for: the mechanics decide alone")
    elif learning:
        _print_learning(console, learning)
    if leak := suspected_leak(verdict, output, name):
        console.line(f"  {LEAK}: {leak}")


def _returned(verdict: VerdictRecord) -> str:
    """Say how documents come back from their ids; those of an existing tokenizer may not all do."""
    if not verdict.returned:
        return f"{verdict.checked.documents:,} documents decode to their texts"
    ways = {
        "text": "documents decode to their texts",
        "normalised": "to their normalised texts",
        "encoded": "are what encoding gives again (what they do not spell, the tokenizer loses)",
    }
    return ", ".join(
        f"{verdict.returned[way]:,} {said}" for way, said in ways.items() if way in verdict.returned
    )


def _print_learning(console: PlainConsole, learning: Learning) -> None:
    if learning.reason is not None:
        console.line(f"  learning   could not be judged, {UNPROVEN_SAID}: {learning.reason}")
        _print_failed_gates(console, learning)
        return
    if learning.contrast is not None:
        loss, chance = _number(learning.contrast.loss), _number(learning.contrast.chance)
        console.line(f"  views      loss {loss} nats, guessing {chance}; reported, no gate")
        return
    losses = learning.loss, learning.unigram_entropy, learning.control_loss
    loss, entropy, control = map(_number, losses)
    console.line(
        f"  learning   loss {loss} nats, label unigram entropy {entropy}, permuted-label control"
        f" {control} ({learning.device}){'' if learning.gated else '; reported, no gate'}"
    )
    if learning.resume is not None:
        supply = learning.resume.supply
        mfu = "" if supply.mfu is None else f", MFU {supply.mfu:.3f}"
        console.line(
            f"  supply     {supply.wait_share:.2%} of the time waiting for the loader,"
            f" {supply.tokens_per_second:,.0f} tokens a second{mfu}"
        )
    _print_failed_gates(console, learning)


def _print_failed_gates(console: PlainConsole, learning: Learning) -> None:
    for gate in failed_gates(learning):
        console.line(
            f"  gate {gate.name}: {_number(gate.value)}, must be {gate.relation}"
            f" {_number(gate.bound)} (docs/config.md, verify)"
        )


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.3f}"
