"""What a terminal shows of a run file that was written for some folders."""

from shlex import quote
from typing import TypedDict

from rich.table import Table

from pipeline.report.plain import PlainConsole, print_json
from pipeline.tools.init.write import size_said


class InitSource(TypedDict):
    """One source that was found."""

    name: str
    format: str
    files: int
    bytes: int
    documents: int
    text_bytes: int
    text: str
    bad: float
    """Share of the records looked at that give no document."""
    unread: list[str]
    """Fields of its records that hold text and are not read."""


class LeftOut(TypedDict):
    """Files that are not read."""

    why: str
    files: int
    example: str


class InitContent(TypedDict):
    """What was found, and what was written."""

    run_file: str
    sources: list[InitSource]
    left_out: list[LeftOut]
    task: str
    reason: str
    tokens: int
    output: str


def print_init(content: InitContent, *, as_json: bool) -> None:
    """Print what was found, what was chosen, and how to go on."""
    if as_json:
        print_json(content)
        return
    console = PlainConsole()
    table = Table(box=None, pad_edge=False)
    for column in ("source", "format", "files", "documents", "text", "from"):
        right = column in ("files", "documents", "text")
        table.add_column(column, justify="right" if right else "left")
    for source in content["sources"]:
        table.add_row(
            source["name"],
            source["format"],
            f"{source['files']:,}",
            f"{source['documents']:,}",
            size_said(source["text_bytes"]),
            source["text"],
        )
    console.show(table)
    console.line()
    for source in content["sources"]:
        if source["bad"]:
            console.line(
                f"{source['name']}: {source['bad']:.0%} of the records looked at give no document"
            )
        if source["unread"]:
            fields = ", ".join(source["unread"])
            console.line(f"{source['name']}: fields with text that are not read: {fields}")
    for left in content["left_out"]:
        files = f"{left['files']:,} file{'s' * (left['files'] != 1)}"
        console.line(f"not read: {files}, {left['why']}: {left['example']}")
    console.line(f"task {content['task']}: {content['reason']}")
    console.line(f"{content['run_file']}: written, for about {content['tokens']:,} tokens. Next:")
    console.line()
    place = f"{quote(content['run_file'])} --output {quote(content['output'])}"
    console.line(f"  shardmill plan {place} --sample 10%")
    console.line(f"  shardmill run {place}")
