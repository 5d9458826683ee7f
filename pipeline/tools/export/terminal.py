"""What a terminal shows of an export."""

from typing import TypedDict

from pipeline.report.plain import JsonObject, PlainConsole, print_json
from pipeline.report.report import Report, RunReport
from pipeline.report.terminal import print_documents, print_verdict


class ExportReport(TypedDict):
    """What an export holds, and how it is read."""

    dataset: str
    format: str
    client: str
    to: str
    already: bool
    epoch: int | None
    splits: dict[str, JsonObject]
    contents: list[str]
    bytes: int
    files: dict[str, JsonObject]
    read: str
    notes: list[str]


class StagesReport(TypedDict):
    """What an export of stages holds, and what its trainer has for stages."""

    format: str
    client: str
    to: str
    already: bool
    contents: list[str]
    stages: list[ExportReport]
    notes: list[str]
    lines: str


class QuickReport(TypedDict):
    """What `quick` made: a run and its export."""

    work: str
    run: RunReport
    export: ExportReport


def print_export(report: ExportReport, *, as_json: bool) -> None:
    """Print what an export holds, and the lines that read it."""
    if as_json:
        print_json(report)
        return
    size = f"{len(report['files']):,} files, {report['bytes']:,} bytes"
    console = _print_contents(report, size)
    console.line()
    console.line(f"How {report['client']} reads it:")
    console.line()
    console.lines(report["read"])


def print_stages(report: StagesReport, *, as_json: bool) -> None:
    """Print what each stage holds, and how the trainer goes from one to the next."""
    if as_json:
        print_json(report)
        return
    stages = report["stages"]
    size = f"{len(stages)} stages, {sum(stage['bytes'] for stage in stages):,} bytes"
    console = _print_contents(report, size)
    if report["lines"]:
        console.line()
        console.lines(report["lines"])


def _print_contents(report: ExportReport | StagesReport, size: str) -> PlainConsole:
    """Print what lies where, and what is to be known of it."""
    console = PlainConsole()
    for line in report["contents"]:
        console.line(line)
    state = "is whole already; nothing was done" if report["already"] else "is whole"
    console.line(f"{report['to']}: {size}, {state}")
    for note in report["notes"]:
        console.line(f"- {note}")
    return console


def print_quick(report: QuickReport, *, as_json: bool) -> None:
    """Print what was read, what was checked, what was exported and where the run is."""
    if as_json:
        print_json(report)
        return
    console = PlainConsole()
    run = Report.model_validate(report["run"])
    print_documents(console, run.documents.model_copy(update={"removed": None}))  # nothing is compared
    for warning in run.warnings:
        if not warning.startswith("validation."):  # which is said below, as an option
            console.line(f"warning: {warning}")
    for name, verdict in run.verify.items():
        print_verdict(console, name, verdict, run.output)
    if "validation" not in report["export"]["splits"]:
        console.line("no document was held out: raise --validation, or validation has 0 rows")
    console.line(f"the run is in {report['work']}; delete it once you need no other format")
    console.line()
    print_export(report["export"], as_json=False)
