"""Records for the tests of whole runs: what each of them holds, before a format writes it and after."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.laws.written_dialogues import Turn, messages_of

SECTIONS = ("text", "target", "other")
"""Columns that the text of a document may be made of."""
COLUMNS = (*SECTIONS, "id", "lang", "url", "score")
MESSAGES, META = "messages", "meta"
"""The column of dialogues if a source names no other, and one that holds others."""
INNER = ("url", "tags", "note", "number")
KEPT = ("url", "score", "lang", *(f"{META}.{name}" for name in INNER))
"""Columns that may go along with a document."""
MOST_KEPT = 4096
"""Bytes of a value that goes along."""
_LANGUAGES = ("en", "de", None, "", "fr", "en", "de")
_URLS = (
    None,
    "https://good.org/a",
    "http://sub.blocked.example/x",
    "http://good.org/b",
    "good.org",
    "",
    "https://ok.org/casino?p=1",
    "https://unblocked.example/",
)
_SCORES = (0.5, None, 0.9, 0.1, 0.7)
_TAGS: tuple[list[str] | None, ...] = (["a", 'b "c"'], [], None, ["\u00e9\n"])
_NOTES = (None, " not\tcleane\u0301d\u2028\r\n", "n" * (MOST_KEPT + 1), '"a", b ', "n" * MOST_KEPT)
Row = Mapping[str, Any]
"""A record by its columns; a text in bytes may be no UTF-8."""


@dataclass(frozen=True)
class Given:
    """A record that holds a document."""

    number: int
    """Among all of the run."""
    texts: tuple[str, ...]
    """Of its sections."""
    turns: tuple[Turn, ...] = ()
    """Of a dialogue, whose sections follow from them."""
    flags: tuple[int, ...] = ()
    """What each section of a dialogue is: 1 if it is learned, plus 2 if it is markup."""
    column: str = MESSAGES
    """Of its messages: this one, or one in `META`."""

    @property
    def row(self) -> Row:
        """Its columns."""
        number = self.number
        texts = () if self.turns else self.texts
        row = {
            **dict(zip(SECTIONS, (*texts, *[""] * (len(SECTIONS) - len(texts))), strict=True)),
            "id": f"r{number}",
            "lang": _LANGUAGES[number % len(_LANGUAGES)],
            "url": _URLS[number % len(_URLS)],
            "score": _SCORES[number % len(_SCORES)],
            META: {
                "url": _URLS[-1 - number % len(_URLS)],
                "tags": _TAGS[number % len(_TAGS)],
                "note": _NOTES[number % len(_NOTES)],
                "number": None if number % 4 == 1 else 10 ** (number % 30) + number,
            },
        }
        return with_messages(row, self.column, messages_of(self.turns, number)) if self.turns else row


@dataclass(frozen=True)
class Fault:
    """A record that holds none."""

    content: Row | bytes
    reason: str
    """Why it is dropped."""


@dataclass(frozen=True)
class Written:
    """A record as it stands in its file."""

    source: str
    path: str
    position: int
    end: int
    """Where the next record begins, or the file ends: bytes of its text, or rows."""
    reason: str | None
    """Why it is dropped unread; None if it is a document."""
    texts: tuple[str, ...] = ()
    flags: tuple[int, ...] = ()
    own_id: str | None = None
    language: str = "und"
    values: Row | None = None
    """Of its columns, as the format has them."""
    kept: Mapping[str, str | None] | None = None
    """What of its columns may go along, as a run writes it."""


def with_messages(row: Row, column: str, messages: Any) -> Row:
    """Return a record that has something in its column of messages."""
    outer, _, inner = column.partition(".")
    return {**row, outer: {**row[outer], inner: messages} if inner else messages}


def value_at(row: Row, column: str) -> Any:
    """Return what a record has in one of `KEPT`."""
    outer, _, inner = column.partition(".")
    return row[outer][inner] if inner else row[outer]


def kept_text(value: Any) -> str | None:
    """Return a value as it goes along: a string as it is, others as JSON, nothing if it is too long."""
    if value is None:
        return None
    text = (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    )
    return text if len(text.encode()) <= MOST_KEPT else None
