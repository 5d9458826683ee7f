"""What `inspect` returns of a row: its documents and its tokens, as a person reads them."""

from typing import NotRequired, TypedDict

from pipeline.report.content import JsonObject


class PieceContent(TypedDict):
    """A piece of a document in a row."""

    start: int
    length: int
    doc_offset: int
    own_id: str | None
    id: str
    source: str
    language: str
    path: str
    position: int
    tokens: int
    record: NotRequired[dict[str, str | None]]
    """Of the document's record, what goes along with it, if anything does."""


class TokenContent(TypedDict):
    """A token, and what stood there if it is not what is shown."""

    id: int
    piece: str
    role: str
    loss: NotRequired[bool]
    """Whether it is to be predicted, where labels are the tokens themselves."""
    was_id: NotRequired[int]
    was: NotRequired[str]


class SequenceContent(TypedDict):
    """The tokens of one column, padding left out."""

    name: str
    padding: int
    tokens: list[TokenContent]


class RowContent(TypedDict):
    """A row as a person reads it."""

    dataset: str
    split: str
    row: int
    shard: str
    row_in_shard: int
    epoch: int
    objective: JsonObject
    numbers: dict[str, int]
    """Columns that are one number a row."""
    documents: list[PieceContent]
    sequences: list[SequenceContent]
