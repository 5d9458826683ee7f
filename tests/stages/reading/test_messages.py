"""What messages promise: lists, strings of JSON, prompts and completions give the same turns."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.chat.config import ChatConfig
from stages.chat.dialogue import NoDialogueError, dialogue_of
from stages.columns import Drop, DropReason
from stages.reading.cells import check_columns, read_rows
from stages.reading.fields import document_of
from stages.reading.lines import Line
from stages.reading.messages import messages_of, turns_of
from stages.reading.records import FieldMapping

TALK = [{"role": "user", "content": 'a "b"\n'}, {"role": "assistant", "content": "\u00e9\u4e2d"}]
PAIR = FieldMapping(chat=ChatConfig(template="chatml", column="prompt", completion_column="completion"))
MESSAGES = FieldMapping(chat=ChatConfig(template="chatml"))

talks = st.lists(
    st.builds(
        lambda role, text: {"role": role, "content": text},
        st.sampled_from(["user", "assistant"]),
        st.text(),
    ),
    min_size=1,
    max_size=4,
)


def of_record(record: dict[str, Any], fields: FieldMapping) -> object:
    """Return the turns of a record, or why it has none."""
    found = document_of(record, Line(1, 0, b"", 0), fields, None)
    return (found.reason, found.detail) if isinstance(found, Drop) else found.turns


def of_table(record: dict[str, Any], fields: FieldMapping) -> object:
    """Return the same from a row of a table."""
    batch = pa.RecordBatch.from_pylist([record])
    (found,) = read_rows(batch, fields, first=0, max_bytes=1 << 20)
    return (found.reason, found.detail) if isinstance(found, Drop) else found.turns


@given(talks)
def test_a_string_of_json_gives_the_turns_of_the_list(talk: list[dict[str, str]]) -> None:
    wanted = dialogue_of([*talk])
    for text in (json.dumps(talk), f" \n{json.dumps(talk, ensure_ascii=False, indent=1)}"):
        assert messages_of(text) == talk
        assert of_record({"messages": text}, MESSAGES) == wanted
        assert of_table({"messages": text}, MESSAGES) == wanted
    assert of_table({"messages": talk}, MESSAGES) == wanted


@given(talks, talks)
def test_a_completion_follows_its_prompt_which_is_never_learned(
    prompt: list[dict[str, str]], completion: list[dict[str, str]]
) -> None:
    record = {"prompt": prompt, "completion": completion}
    wanted = (*(turn._replace(weight=0) for turn in dialogue_of([*prompt])), *dialogue_of([*completion]))
    assert of_record(record, PAIR) == of_table(record, PAIR) == wanted
    assert of_record({**record, "prompt": json.dumps(prompt)}, PAIR) == wanted


@pytest.mark.parametrize("text_type", [pa.string(), pa.large_string(), pa.string_view()])
def test_strings_of_all_types_are_read(text_type: pa.DataType) -> None:
    column = pa.array([json.dumps(TALK)], text_type)
    for one in (column, column.cast(pa.string()).dictionary_encode()):
        batch = pa.RecordBatch.from_arrays([one], ["messages"])
        check_columns(batch.schema, MESSAGES, name="x", key="sources.a")
        (found,) = read_rows(batch, MESSAGES, first=0, max_bytes=1 << 20)
        assert not isinstance(found, Drop)
        assert found.turns == dialogue_of([*TALK])


@pytest.mark.parametrize("text_type", [pa.string(), pa.large_string(), pa.string_view()])
def test_a_system_beside_messages_is_noticed_in_strings_of_all_types(text_type: pa.DataType) -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array([TALK] * 3), pa.array(["Be", "", None], text_type)], ["messages", "system"]
    )
    found = read_rows(batch, MESSAGES, first=0, max_bytes=1 << 20)
    assert [one.unread for one in found if not isinstance(one, Drop)] == [("system",), (), ()]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("Hi", "'m': it is a string, not a list of messages"),
        ("[Hi", "begins with '\\[' and is no JSON: .* at character 1"),
        ("[]", "'m': it has no message"),
        ('["Hi"]', "'m': message 1 is of type str, not an object"),
        (None, "'m': it is null, not a list of messages"),
        (7, "'m': it is of type int, not a list"),
        ({"role": "user"}, "'m': it is of type dict"),
        ("[" + "{}," * (2 << 20) + "{}]", "'m': it is JSON that could take .* bytes to parse, over"),
        ("[" * 5000, "is no JSON"),
    ],
)
def test_what_holds_no_dialogue_is_told(value: object, message: str) -> None:
    with pytest.raises(NoDialogueError, match=message):
        turns_of([("m", value)])


def test_what_is_missing_of_a_pair_is_told_by_its_field() -> None:
    assert of_record({"prompt": TALK}, PAIR) == (
        "missing_text",
        "field 'completion' is absent",
    )
    half = pa.RecordBatch.from_pylist([{"prompt": TALK, "completion": TALK}, {"prompt": TALK}])
    whole, drop = read_rows(half, PAIR, first=0, max_bytes=1 << 20)
    assert not isinstance(whole, Drop)
    assert isinstance(drop, Drop)
    assert drop.detail == "column 'completion' is null"


def test_a_pair_is_as_long_as_both_of_it() -> None:
    batch = pa.RecordBatch.from_pylist([{"prompt": json.dumps(TALK), "completion": json.dumps(TALK)}])
    size = len(json.dumps(TALK))
    (found,) = read_rows(batch, PAIR, first=0, max_bytes=size + 20)
    assert isinstance(found, Drop)
    assert found.reason is DropReason.TOO_LARGE
    (found,) = read_rows(batch, PAIR, first=0, max_bytes=3 * size)
    assert not isinstance(found, Drop)
