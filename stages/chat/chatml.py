r"""ChatML, the format of many chat models.

    <|im_start|>user\nHi<|im_end|>\n

A content stands as it is. Any role may stand anywhere. The line feed behind <|im_end|> is not learned,
because a model is stopped at <|im_end|>.

Source: ChatML, OpenAI 2023, "Chat Markup Language", without the default system message that templates of
some models add.
"""

from collections.abc import Collection, Iterator, Sequence

from stages.chat.dialogue import ChatTurn
from stages.chat.template import ChatSection, ChatTemplate, is_learned, markup, turn_of

_BEGIN, _END = "<|im_start|>", "<|im_end|>"


def _parts(turns: Sequence[ChatTurn], learn: Collection[str]) -> Iterator[ChatSection]:
    for turn in turns:
        yield markup(f"{_BEGIN}{turn.role}\n")
        yield from turn_of(turn.content, _END, learned=is_learned(turn, learn))
        yield markup("\n")


CHATML = ChatTemplate("chatml", (_BEGIN, _END), _parts)
