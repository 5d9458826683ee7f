"""What a terminal shows of an export."""

from pipeline.report.content import ExportReport, StagesReport
from pipeline.report.plain import PlainConsole, print_json


def print_export(report: ExportReport, *, as_json: bool) -> None:
    """Print what an export holds, and the lines that read it."""
    if as_json:
        print_json(report)
        return
    console = PlainConsole()
    for line in report["contents"]:
        console.line(line)
    state = "is whole already; nothing was done" if report["already"] else "is whole"
    count = f"{len(report['files']):,} files, {report['bytes']:,} bytes"
    console.line(f"{report['to']}: {count}, {state}")
    for note in report["notes"]:
        console.line(f"- {note}")
    console.line()
    console.line(f"How {report['client']} reads it:")
    console.line()
    console.lines(report["read"])


def print_stages(report: StagesReport, *, as_json: bool) -> None:
    """Print what each stage holds, and how the trainer goes from one to the next."""
    if as_json:
        print_json(report)
        return
    console = PlainConsole()
    for line in report["contents"]:
        console.line(line)
    state = "is whole already; nothing was done" if report["already"] else "is whole"
    size = sum(stage["bytes"] for stage in report["stages"])
    console.line(f"{report['to']}: {len(report['stages'])} stages, {size:,} bytes, {state}")
    for note in report["notes"]:
        console.line(f"- {note}")
    if report["lines"]:
        console.line()
        console.lines(report["lines"])
