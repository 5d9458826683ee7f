r"""Mistral, the format of its tokenizer v3.

    [INST]Hi[/INST]Hello</s>[INST]And?[/INST]Yes</s>

User and assistant take turns, behind one system message at most, which stands before the content of the
last user: [INST]system\n\ncontent[/INST]. The content of an assistant stands without the spaces
behind it. Each content is encoded as a text by itself, so that a tokenizer that puts a space before
texts puts one there, and tekken none. <s> is left to the framing, and so is the </s> behind the last
answer.

Source: mistral-common 1.4, instruct tokenizers v3 and v3-tekken. We leave the template of
Mistral-7B-Instruct-v0.3 in this: it writes the system message only where a dialogue ends with a user, so
that it would be lost wherever an answer follows; mistral-common writes it before the last user's in any
case.
"""

from collections.abc import Collection, Iterator, Sequence

from stages.chat.dialogue import ChatTurn
from stages.chat.template import (
    BY_ITSELF,
    LEARNED,
    MARKUP,
    ChatSection,
    ChatTemplate,
    RefusedError,
    is_learned,
    markup,
    turn_of,
)

_BEGIN, _END, _CLOSE = "[INST]", "[/INST]", "</s>"
_SYSTEM, _SPEAKERS = "system", ("user", "assistant")


def _parts(turns: Sequence[ChatTurn], learn: Collection[str]) -> Iterator[ChatSection]:
    system, spoken = (turns[0], turns[1:]) if turns[0].role == _SYSTEM else (None, turns)
    for number, turn in enumerate(spoken):
        if turn.role != _SPEAKERS[number % 2]:
            raise RefusedError(
                f"message {number + 1 + (system is not None):,} is of role {turn.role!r}, and"
                f" {_SPEAKERS[number % 2]!r} must come: after one system message at most, user and"
                " assistant take turns"
            )
    if not spoken:
        raise RefusedError("there is no message of role 'user'")
    last_user = (len(spoken) - 1) // 2 * 2
    for number, turn in enumerate(spoken):
        learned = is_learned(turn, learn)
        if number % 2:
            ends = number == len(spoken) - 1
            closing = "" if ends else _CLOSE
            yield from turn_of(turn.content.rstrip(" "), closing, learned=learned, flags=BY_ITSELF)
            continue
        yield markup(_BEGIN)
        content = ChatSection(turn.content, (LEARNED if learned else 0) | BY_ITSELF)
        if system is not None and system.content and number == last_user:
            yield from _with_system(system, content, learned=is_learned(system, learn))
        else:
            yield content
        yield ChatSection(_END, MARKUP | content.flags & LEARNED)


def _with_system(system: ChatTurn, content: ChatSection, *, learned: bool) -> Iterator[ChatSection]:
    """Yield a system message and the content behind it: one text, if both are learned or none is."""
    flags = (LEARNED if learned else 0) | BY_ITSELF
    if flags == content.flags:
        yield ChatSection(f"{system.content}\n\n{content.text}", flags)
    else:
        yield ChatSection(system.content, flags)
        yield ChatSection(f"\n\n{content.text}", content.flags & LEARNED)


MISTRAL = ChatTemplate("mistral", (_BEGIN, _END, _CLOSE), _parts, begins="<s>", closes=_CLOSE, version=2)
