r"""Templates: how a dialogue becomes one text, in sections that say what each is.

    <|im_start|>user\n   Hi        <|im_end|>\n<|im_start|>assistant\n   Hello     <|im_end|>   \n
    markup                content   markup                                content   markup       markup
    .                     .         .                                     learned   learned      .

What is learned is what a model is to say: the content of a chosen turn, and the markup that closes the
turn; not its header, which it is given. A template leaves out what the framing of the run puts around
every document: the piece that begins a text, and one that the framing closes documents with.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stages.chat.dialogue import ChatTurn

LEARNED, MARKUP, SPOKEN, BY_ITSELF = 1, 2, 4, 8
"""Bits of a section's flags: it is learned; it is markup; it is a content of a role that is learned,
whether its turn is or not, told for Jinja templates alone; it is encoded as a text by itself."""


class ChatSection(NamedTuple):
    """A stretch of a dialogue's text."""

    text: str
    flags: int


class RefusedError(ValueError):
    """A template cannot write a dialogue; the message says why."""


Render = Callable[[Sequence[ChatTurn]], list[ChatSection]]
"""Writes a dialogue; raises `RefusedError`."""


@dataclass(frozen=True)
class ChatTemplate:
    """A template that is known by name."""

    name: str
    pieces: tuple[str, ...]
    """What of its markup a tokenizer has an id for."""
    parts: Callable[[Sequence[ChatTurn], Collection[str]], Iterable[ChatSection]]
    """Returns the text of a dialogue, given the roles that are learned."""
    begins: str | None = None
    """The piece that begins a text, which the framing puts there."""
    closes: str | None = None
    """The piece that closes an answer; behind the last one the framing puts it."""
    version: int = 1
    """Raised when it writes a dialogue in another way."""

    def render(self, turns: Sequence[ChatTurn], learn: Collection[str]) -> list[ChatSection]:
        """Return a dialogue as sections, none of them empty.

        Raises:
            RefusedError: the format has no place for one of its turns.
        """
        return merged(self.parts(turns, learn))


def merged(parts: Iterable[ChatSection]) -> list[ChatSection]:
    """Return sections without the empty ones; neighbours of the same flags are one."""
    found: list[ChatSection] = []
    for part in parts:
        if found and part.text and found[-1].flags == part.flags:
            found[-1] = ChatSection(found[-1].text + part.text, part.flags)
        elif part.text:
            found.append(part)
    return found


def with_spaces(sections: Sequence[ChatSection]) -> list[ChatSection]:
    """Return sections in which the spaces that markup ends with belong to the content behind it.

    A tokenizer writes a space and the word behind it as one token, which a model is to say as one.

    "[/INST] " "Paris" -> "[/INST]" " Paris"
    """
    found: list[ChatSection] = []
    for section in sections:
        if found and found[-1].flags & MARKUP and not section.flags & MARKUP:
            last = found.pop()
            bare = last.text.rstrip(" ")
            spaces = last.text[len(bare) :]
            found.append(ChatSection(bare, last.flags))
            found.append(ChatSection(spaces + section.text, section.flags))
        else:
            found.append(section)
    return merged(found)


def is_learned(turn: ChatTurn, learn: Collection[str]) -> bool:
    """Say whether a turn is learned, given the roles that are."""
    return turn.role in learn and turn.weight > 0


def markup(text: str) -> ChatSection:
    """Return markup that is not learned."""
    return ChatSection(text, MARKUP)


def turn_of(content: str, closing: str, *, learned: bool, flags: int = 0) -> Iterable[ChatSection]:
    """Return what of a turn a model says, if it is that of the model: its content and what closes it.

    Args:
        content: of the turn.
        closing: markup behind it.
        learned: whether the turn is.
        flags: further ones, of the content.
    """
    learns = LEARNED if learned else 0
    return ChatSection(content, learns | flags), ChatSection(closing, MARKUP | learns)
