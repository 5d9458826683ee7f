"""Dropped records as people read of them: where each stands, and which of many are shown."""

import re
from collections.abc import Iterator, Mapping

from pipeline.report.content import DocumentsContent
from stages.reading.reader import StreamReader, TextSplit
from stages.reading.table import reader_of

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


def example_drops(documents: DocumentsContent) -> Iterator[str]:
    """Yield an example of each main reason, the most frequent first, of whichever source has it."""
    frequent = sorted(documents["dropped"].items(), key=lambda item: -item[1])
    for reason, _ in frequent[:SHOWN]:
        lines = [
            f"{sample['place']}: {reason}: {sample['detail']}"
            for sample in documents.get("samples", [])
            if sample["reason"] == reason
        ]
        lines += [line for line in documents["named_drops"] if f": {reason}: " in line]
        yield from lines[:1]
