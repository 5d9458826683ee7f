"""Contamination: what reports hold of evaluation sets, and of the documents that hold their items."""

from typing import TypedDict


class ContaminationContent(TypedDict):
    """A document that holds an item of an evaluation set."""

    set: str
    item: str
    id: str
    own_id: str | None
    """Of the document, as its `id`."""
    source: str
    words: int
    share: float
    matched: str


class EvaluationSetContent(TypedDict):
    """What was found of an evaluation set."""

    items: int
    unused: int
    found: int
    common: int
    dropped: int
    reported: int
    samples: list[ContaminationContent]
