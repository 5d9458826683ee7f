"""What a terminal shows of an export."""

from pipeline.report.content import ExportReport, StagesReport
from pipeline.report.plain import PlainConsole, print_json


def print_export(report: ExportReport, *, as_json: bool) -> None:
    """Print what an export holds, and the lines that read it."""
    if as_json:
        print_json(report)
        return
    size = f"{len(report['files']):,} files, {report['bytes']:,} bytes"
    console = _print_held(report, size)
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
    console = _print_held(report, size)
    if report["lines"]:
        console.line()
        console.lines(report["lines"])


def _print_held(report: ExportReport | StagesReport, size: str) -> PlainConsole:
    """Print what lies where, and what is to be known of it."""
    console = PlainConsole()
    for line in report["contents"]:
        console.line(line)
    state = "is whole already; nothing was done" if report["already"] else "is whole"
    console.line(f"{report['to']}: {size}, {state}")
    for note in report["notes"]:
        console.line(f"- {note}")
    return console
