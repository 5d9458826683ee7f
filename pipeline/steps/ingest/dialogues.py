"""Dialogues: a record's turns, cleaned and written out as a text of sections.

Contents are cleaned before a template sees them, so that what a template strips is stripped of clean
text. A dialogue that the template cannot write is a counted drop.
"""

from collections import Counter
from dataclasses import replace

from stages.chat.config import ChatConfig
from stages.chat.rendering import open_template
from stages.chat.template import RefusedError
from stages.cleaning.text import clean_text, cleaned
from stages.columns import Drop
from stages.filtering.length import EMPTY
from stages.reading.records import RawDocument

REFUSED = "template_refuses"
"""Why a dialogue gives no document that its template has no place for."""


class DialogueWriter:
    """Writes the dialogues of a source.

    Args:
        chat: of the source.
    """

    def __init__(self, chat: ChatConfig) -> None:
        self._render = open_template(chat)
        self.roles: Counter[str] = Counter()
        """Of the turns of the dialogues that were written."""
        self.cleaned = 0
        """Dialogues of which cleaning changed a content."""

    def write(self, record: RawDocument) -> RawDocument | Drop:
        """Return a record with its sections, or the reason why it has none."""
        contents = [cleaned(turn.content) for turn in record.turns]
        turns = [
            turn._replace(content=content.data.decode())
            for turn, content in zip(record.turns, contents, strict=True)
        ]
        if not any(turn.content.strip() for turn in turns):
            return Drop(
                record.line, record.position, EMPTY, "no message has a character but white space"
            )
        try:
            sections = self._render(turns)
        except RefusedError as error:
            return Drop(record.line, record.position, REFUSED, str(error))
        self.roles.update(turn.role for turn in turns)
        self.cleaned += any(content.changed for content in contents)
        written = [(clean_text(section.text), section.flags) for section in sections]
        (first, *rest), flags = zip(*(part for part in written if part[0]), strict=True)
        return replace(record, text=first, sections=tuple(rest), flags=flags, turns=())
