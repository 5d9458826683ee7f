r"""Llama 3, the format of its instruct models.

    <|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>

A content stands without the white space around it. Any role may stand anywhere. <|begin_of_text|> is
left to the framing.

Source: Meta 2024, "Llama 3 model card: prompt format", and the template of its tokenizer.
"""

from collections.abc import Collection, Iterator, Sequence

from stages.chat.dialogue import ChatTurn
from stages.chat.template import ChatSection, ChatTemplate, is_learned, markup, turn_of

_BEGIN, _END, _CLOSE = "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"


def _parts(turns: Sequence[ChatTurn], learn: Collection[str]) -> Iterator[ChatSection]:
    for turn in turns:
        yield markup(f"{_BEGIN}{turn.role}{_END}\n\n")
        yield from turn_of(turn.content.strip(), _CLOSE, learned=is_learned(turn, learn))


LLAMA3 = ChatTemplate("llama3", (_BEGIN, _END, _CLOSE), _parts, begins="<|begin_of_text|>")
