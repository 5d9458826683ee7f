"""Flow: how many documents and tokens come into each step of a run, and what becomes of them.

read and clean      1,012 documents  ##########           12 not JSON
remove duplicates   1,000            #########            80 nearly the same as a kept document
encode                920            ########

Dropped records as people read of them: where each stands, and which of many are shown.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pipeline.report.report import DocumentCounts, Report
from pipeline.report.words import said_of_reason, said_of_step
from stages.ledger import Flow
from stages.reading.reader import StreamReader, TextSplit
from stages.reading.table import reader_of

_OF_STEPS = {("replay", "held_out"): "held out for validation by the earlier run"}
"""What is said of a reason at a step, where it is another than elsewhere."""
_CHECKS = ("decode", "verify", "draw")
_BESIDE = ("tokenizer",)
"""Steps from which the flow does not go on: what they leave out comes back."""


@dataclass(frozen=True)
class FlowStage:
    """One step of the flow."""

    step: str
    said: str
    documents_in: int
    documents_out: int
    tokens_out: int | None
    share: float
    """Of the documents that were read, which are left, from 0 to 1; of copies more than 1."""
    gone: tuple[tuple[str, int, str], ...]
    """Why, how many, and of what: documents or tokens."""
    copies: int
    """Documents that a mix adds: further copies of those that come in."""
    is_beside: bool
    held_out: str
    """How many documents this step sets apart for validation; empty if none."""


def flow_stages(report: Report) -> list[FlowStage]:
    """Return the steps of a run through which documents went, in the order of the flow."""
    read = max(report.documents.read, 1)
    return [
        _stage(name, flow, read, held_out=held_out(report) if name == "split" else "")
        for name, flow in report.ledger.items()
        if not name.startswith(_CHECKS)
    ]


def held_out(report: Report) -> str:
    """Say how many documents are held out for validation: those in rows, or the least that it can be.

    What is held out are clusters of duplicates, and of some more than one document is kept.
    """
    splits = [one["validation"].documents for one in report.datasets.values() if "validation" in one]
    if splits:
        return f"{max(splits):,}"
    clusters = 0 if report.split is None else report.split.clusters
    return f"{clusters:,} or more" if clusters else ""


def _stage(name: str, flow: Flow, read: int, *, held_out: str) -> FlowStage:
    gone = [
        (
            _OF_STEPS.get((name, reason)) or said_of_reason(reason),
            tally.documents or tally.tokens or 0,
            "documents" if tally.documents else "tokens",
        )
        for reason, tally in flow.gone.items()
        if tally.documents or tally.tokens
    ]
    left = flow.output.documents
    return FlowStage(
        step=name,
        said=said_of_step(name),
        documents_in=flow.input.documents,
        documents_out=left,
        tokens_out=flow.output.tokens,
        share=left / read,
        gone=tuple(gone),
        copies=sum(tally.documents for tally in flow.added.values()),
        is_beside=name in _BESIDE,
        held_out=held_out,
    )


SHOWN = 5
"""Reasons of which the terminal shows an example."""
_RECORD = re.compile(r", (?:line|row) (\d+)(?=: |$)")


def shown_place(text: str, splits: Mapping[str, TextSplit]) -> str:
    """Return a place, and what follows it, without the line if the document is its whole file.

    "plain: a.txt, line 1: empty: ..." -> "plain: a.txt: empty: ..."; "web: b.jsonl, line 1" as it is

    Args:
        text: begins with a source, a path and the number of a record.
        splits: what a document of plain text is, by source.
    """
    source, _, rest = text.partition(": ")
    found = _RECORD.search(rest)
    if found is None or found[1] != "1":
        return text
    reader = reader_of(rest[: found.start()], splits.get(source, TextSplit.FILE))
    if not isinstance(reader, StreamReader) or not reader.is_whole:
        return text
    return f"{source}: {rest[: found.start()]}{rest[found.end() :]}"


def example_drops(documents: DocumentCounts) -> Iterator[str]:
    """Yield an example of each main reason, the most frequent first, of whichever source has it."""
    frequent = sorted(documents.dropped.items(), key=lambda item: -item[1])
    for reason, _ in frequent[:SHOWN]:
        lines = [
            f"{sample.place}: {reason}: {sample.detail}"
            for sample in documents.samples
            if sample.reason == reason
        ]
        lines += [line for line in documents.named_drops if f": {reason}: " in line]
        yield from lines[:1]
