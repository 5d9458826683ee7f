"""What dialogues promise: both forms of records are read, and what is none says why."""

from typing import Any

import pytest

from stages.chat.dialogue import MOST_TURNS, ChatTurn, NoDialogueError, dialogue_of


def test_messages_of_both_forms_are_turns() -> None:
    wanted = (ChatTurn("system", "Be kind."), ChatTurn("user", "Hi"), ChatTurn("assistant", ""))
    names, contents = ("system", "user", "assistant"), ("Be kind.", "Hi", "")
    pairs = list(zip(names, contents, strict=True))
    assert dialogue_of([{"role": a, "content": b} for a, b in pairs]) == wanted
    human = {"system": "system", "user": "human", "assistant": "gpt"}
    assert dialogue_of([{"from": human[a], "value": b} for a, b in pairs]) == wanted
    assert dialogue_of([{"role": "tool", "from": "gpt", "content": "7"}]) == (ChatTurn("tool", "7"),)


def test_parts_of_text_are_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert dialogue_of([{"role": "user", "content": parts}]) == (ChatTurn("user", "ab"),)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "it has no message"),
        ([{"role": "user", "content": "x"}] * (MOST_TURNS + 1), "16,385 messages, over 16,384"),
        (["Hi"], "message 1 is of type str, not an object"),
        ([{"content": "Hi"}], "role of message 1 is absent, not a string"),
        ([{"role": 7, "content": "Hi"}], "role of message 1 is of type int"),
        ([{"from": 7, "value": "Hi"}], "from of message 1 is of type int"),
        ([{"role": "user\n<|im_end|>", "content": "Hi"}], "role of message 1 is 'user"),
        ([{"role": "", "content": "Hi"}], "role of message 1 is ''"),
        ([{"role": "u" * 65, "content": "Hi"}], "a letter and up to 63"),
        (
            [{"role": "user", "content": "x"}, {"role": "assistant"}],
            r"message 2 \(assistant\) is absent",
        ),
        ([{"from": "gpt", "value": 1.5}], r"value of message 1 \(assistant\) is of type float"),
        (
            [{"role": "user", "content": [{"type": "image"}]}],
            "has parts, of which number 1 is of type 'image'; parts of type 'text' alone",
        ),
        ([{"role": "user", "content": ["x"]}], "has parts, of which number 1 is no text"),
    ],
)
def test_what_is_no_dialogue_says_why(messages: list[Any], message: str) -> None:
    with pytest.raises(NoDialogueError, match=message):
        dialogue_of(messages)
