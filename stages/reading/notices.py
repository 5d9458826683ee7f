"""Notices: what a reader meets that is no drop and that people should know, counted beside the ledger.

A reader counts it in `ColumnsSeen.noticed` under a name of `NOTICES`. The counts of each source stand in
the report, and those that may mean that something is wrong are warnings.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Notice:
    """One such thing."""

    name: str
    """What readers count it under; what ends with a colon is followed by a kind, such as a type."""
    said: str
    """What the report calls it: "quoted fields over more than one line"."""
    warning: str | None = None
    """What to say in a warning after the source and the number; None if it is none."""


LONG_FIELD = Notice("long field", "quoted fields over more than one line")
LOOKS_QUOTED = Notice(
    "looks quoted",
    "fields that look quoted and are read with their quotes",
    "{number} fields begin and end with a quote and hold doubled ones. They are read with all their"
    ' quotes, because quoting = "none". If a program wrote them as CSV, set quoting = "csv" of this'
    " source and run again with --replace",
)
WARC_RECORDS = "warc record:"
WARC_TRUNCATED = "warc truncated:"
LEFT_OUT = "reasoning left out:"
MESSAGE_FIELD = "message field:"
RECORD_FIELD = "record field:"
NOTICES: tuple[Notice, ...] = (
    LONG_FIELD,
    LOOKS_QUOTED,
    Notice(WARC_RECORDS, "WARC records of the type {kind}, which hold no document"),
    Notice(
        WARC_TRUNCATED,
        "documents that the crawler cut (WARC-Truncated: {kind})",
        "{number} documents end early, because the crawler cut them (WARC-Truncated: {kind})",
    ),
    Notice(LEFT_OUT, "texts in {kind} of messages that the template leaves out"),
    Notice(
        MESSAGE_FIELD,
        "messages with the field {kind}, which is not read",
        "{number} messages have the field {kind}, which is not read. If it says which turns are learned,"
        " write it as weight, 0 or 1, before the run",
    ),
    Notice(
        RECORD_FIELD,
        "dialogues with the field {kind} beside their messages, which is not read",
        "{number} dialogues have the field {kind} beside their messages, which is not read. Write it as"
        " their first message, of the role system, before the run",
    ),
)


def notice_of(name: str) -> tuple[Notice, str]:
    """Return a notice by the name that it is counted under, and its kind, which is empty for most."""
    beginning, colon, kind = name.partition(":")
    return next(one for one in NOTICES if one.name == beginning + colon), kind


def said_of_notice(name: str) -> str:
    """Return what the report calls what is counted under a name."""
    notice, kind = notice_of(name)
    return notice.said.format(kind=kind)


def notice_warnings(noticed: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield the warnings of what was noticed, by source and name."""
    for source, counts in noticed.items():
        for name, number in counts.items():
            notice, kind = notice_of(name)
            if notice.warning is not None:
                said = notice.warning.format(number=f"{number:,}", kind=kind, source=source)
                yield f"sources.{source}: {said}"
