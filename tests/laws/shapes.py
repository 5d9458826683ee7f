"""Shapes: what documents are made of, one text or several or the turns of a dialogue."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from stages.reading.reader import StreamReader
from tests.laws.given_records import MESSAGES, SECTIONS, Fault, Given, with_messages
from tests.laws.written_dialogues import (
    TEMPLATES,
    Template,
    messages_of,
    parts_of,
    said_at_all,
    turns_of,
)
from tests.laws.written_records import BAD_BYTES, FORMATS, Format, json_line

_TALK = (("user", "Hello"), ("assistant", "a text"))
_UNSAID = [{"role": "user", "content": " \n"}]
_BAD: tuple[tuple[Any, str], ...] = (
    (None, "missing_text"),
    ([], "bad_dialogue"),
    ([{"role": "us er", "content": "x"}], "bad_dialogue"),
    ([{"role": "user", "content": None}], "bad_dialogue"),
    (_UNSAID, "empty"),
)
_BAD_OF_JSON: tuple[tuple[Any, str], ...] = (("hello", "missing_text"), ([7], "bad_dialogue"))
"""What a table has no type for."""


@dataclass(frozen=True)
class Shape:
    """What the text of a document is made of."""

    sections: int
    """Fields that it is made of; 0 of dialogues."""
    template: Template | None = None
    """Of dialogues."""

    @property
    def learns(self) -> tuple[tuple[str, ...], ...]:
        """What a source may be told to learn; () is nothing of the kind."""
        return ((),) if self.template is None else self.template.learns


SHAPES: dict[str, Shape] = {
    "text": Shape(1),
    "prompt and target": Shape(2),
    "triple": Shape(3),
    **{name: Shape(0, template) for name, template in TEMPLATES.items()},
}
DIALOGUES = frozenset(name for name, shape in SHAPES.items() if shape.template is not None)


def fits_shape(form: str, shape: str) -> bool:
    """Say whether a format can hold a shape."""
    if shape in DIALOGUES:
        return FORMATS[form].has_lists
    return FORMATS[form].has_columns or SHAPES[shape].sections == 1


def sectioned(text: str, shape: str) -> tuple[str, ...]:
    """Return a text in as many parts as a shape has sections."""
    count = SHAPES[shape].sections
    ends = [len(text) * number // count for number in range(count + 1)]
    return tuple(text[first:last] for first, last in pairwise(ends))


def record_of(number: int, text: str, which: int, shape: str, learn: tuple[str, ...]) -> Given:
    """Return a record that holds a text.

    Args:
        number: of the record among all of the run.
        text: what it holds.
        which: of all texts; equal ones give equal documents.
        shape: of its source.
        learn: roles that are learned.
    """
    template = SHAPES[shape].template
    if template is None:
        return Given(number, sectioned(text, shape))
    turns = turns_of(text, which)
    parts = parts_of(template, turns, learn) if said_at_all(turns) else []
    flags = tuple(part.learned + 2 * part.markup + 4 * part.answers + 8 * part.alone for part in parts)
    return Given(number, tuple(part.text for part in parts), turns, flags, column_of(template))


def column_of(template: Template) -> str:
    """Return the column of the messages of a source."""
    return template.chat.get("column", MESSAGES)


def learned_roles(wanted: tuple[str, ...], texts: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """Return those of the roles to learn that some turn of a source has; all of them if it has no turn.

    Args:
        wanted: the roles.
        texts: of its dialogues, and which they are of all.
    """
    talks = [turns for turns in (turns_of(*one) for one in texts) if said_at_all(turns)]
    there = {role for turns in talks for role, _ in turns}
    if not wanted or not there:
        return wanted
    return tuple(role for role in wanted if role in there) or ("assistant",)


def source_fields(shape: str, learn: tuple[str, ...]) -> dict[str, Any]:
    """Return what the run file says of the texts of a source."""
    template = SHAPES[shape].template
    if template is None:
        return {"section_columns": SECTIONS[1 : SHAPES[shape].sections]}
    return {"chat": {**template.chat, **({"learn": learn} if learn else {})}}


def faults_of(form: str, shape: str) -> tuple[Fault, ...]:
    """Return the faults that records of a format and a shape may have."""
    known, template = FORMATS[form], SHAPES[shape].template
    return known.faults if template is None else _bad_dialogues(known, template)


def _bad_dialogues(form: Format, template: Template) -> tuple[Fault, ...]:
    column = column_of(template)
    row = Given(0, (), _TALK, column=column).row
    bad = [*_BAD]
    if template.refused is not None:
        bad.append((messages_of(template.refused, 0), "template_refuses"))
    if not isinstance(form.reader, StreamReader):
        spoilt = [{"role": "user", "content": BAD_BYTES}]
        bad.append((spoilt, "bad_utf8"))
        return tuple(Fault(with_messages(row, column, one), why) for one, why in bad)
    bad += _BAD_OF_JSON
    return (
        *(Fault(json_line(with_messages(row, column, one)), why) for one, why in bad),
        Fault(json_line(row).replace(b"a text", BAD_BYTES), "bad_utf8"),
        *(fault for fault in form.faults if fault.reason == "bad_json"),
    )
