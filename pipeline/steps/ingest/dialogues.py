"""Dialogues: a record's turns, cleaned and written out as a text of sections.

Contents are cleaned before a template sees them, so that what a template strips is stripped of clean
text. A dialogue that the template cannot write is a counted drop.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from operator import ne

from stages.chat.config import ChatConfig
from stages.chat.dialogue import ChatTurn
from stages.chat.rendering import open_left_out, open_template
from stages.chat.template import RefusedError
from stages.cleaning.text import clean_text, cleaned
from stages.columns import Drop
from stages.filtering.length import EMPTY
from stages.reading.notices import LEFT_OUT, MESSAGE_FIELD, RECORD_FIELD
from stages.reading.records import RawDocument

REFUSED = "template_refuses"
"""Why a dialogue gives no document that its template has no place for."""


class DialogueWriter:
    """Writes the dialogues of a source.

    Args:
        chat: of the source.
    """

    def __init__(self, chat: ChatConfig) -> None:
        self._render, self._left_out = open_template(chat), open_left_out(chat)
        self.roles: Counter[str] = Counter()
        """Of the turns of the dialogues that were written."""
        self.cleaned = 0
        """Dialogues of which cleaning changed a content."""
        self.noticed: Counter[str] = Counter()
        """What of them nothing reads, by the names of `stages.reading.notices`."""

    def write(self, record: RawDocument) -> RawDocument | Drop:
        """Return a record with its sections, or the reason why it has none."""
        turns = [_cleaned(turn) for turn in record.turns]
        if not any(turn.content.strip() for turn in turns):
            return Drop(
                record.line, record.position, EMPTY, "no message has a character but white space"
            )
        try:
            sections = self._render(turns)
        except RefusedError as error:
            return Drop(record.line, record.position, REFUSED, str(error))
        self.roles.update(turn.role for turn in turns)
        self.cleaned += any(
            map(ne, (turn.texts for turn in turns), (turn.texts for turn in record.turns))
        )
        self._notice(record, turns)
        cleaned = [(clean_text(section.text), section.flags) for section in sections]
        (first, *rest), flags = zip(*(part for part in cleaned if part[0]), strict=True)
        return replace(record, text=first, sections=tuple(rest), flags=flags, turns=())

    def _notice(self, record: RawDocument, turns: Sequence[ChatTurn]) -> None:
        """Count what of a dialogue that was written nothing reads."""
        self.noticed.update(f"{LEFT_OUT}{name}" for name in self._left_out(turns))
        self.noticed.update(f"{MESSAGE_FIELD}{name}" for turn in turns for name in turn.unread)
        self.noticed.update(f"{RECORD_FIELD}{name}" for name in record.unread)


def _cleaned(turn: ChatTurn) -> ChatTurn:
    """Return a turn with its texts cleaned."""
    reasoning = tuple((name, clean_text(text)) for name, text in turn.reasoning)
    return turn._replace(content=cleaned(turn.content).data.decode(), reasoning=reasoning)
