r"""Mistral, the format of its tokenizer v3.

    [INST] Hi[/INST] Hello</s>[INST] And?[/INST] Yes</s>

User and assistant take turns, behind one system message at most, which stands before the content of the
last user: [INST] system\n\ncontent[/INST]. The content of an assistant stands without the white space
around it. A space before a content is of its section, because tokenizers write it into the first token;
it is learned if the content is. <s> is left to the framing, and so is the </s> behind the last answer.

Source: mistral-common 1.4, instruct tokenizer v3, and the template of Mistral-7B-Instruct-v0.3. We leave
the template in this: it writes the system message only where a dialogue ends with a user, so that it
would be lost wherever an answer follows; mistral-common writes it before the last user's in any case.
"""

from collections.abc import Collection, Iterator, Sequence

from stages.chat.dialogue import ChatTurn
from stages.chat.template import (
    LEARNED,
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
            yield from turn_of(f" {turn.content.strip()}", "" if ends else _CLOSE, learned=learned)
            continue
        yield markup(_BEGIN)
        content = f" {turn.content}"
        if system is not None and number == last_user:
            yield ChatSection(f" {system.content}", LEARNED if is_learned(system, learn) else 0)
            content = f"\n\n{turn.content}"
        yield from turn_of(content, _END, learned=learned)


MISTRAL = ChatTemplate("mistral", (_BEGIN, _END, _CLOSE), _parts, begins="<s>", closes=_CLOSE)
