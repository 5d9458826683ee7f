"""What readers promise of dialogues: lines and tables give the same turns, or a drop that says why."""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from stages.chat.dialogue import MOST_TURNS, ChatTurn
from stages.columns import Drop, DropReason
from stages.errors import ConfigError
from stages.reading.cells import check_columns, read_rows
from stages.reading.jsonl import parse_line
from stages.reading.lines import Line
from stages.reading.records import FieldMapping, RawDocument, Record

FIELDS = FieldMapping.model_validate(
    {"chat": {"template": "chatml", "column": "data.messages"}, "id_column": "id"}
)
TURNS = (ChatTurn("user", "Hé"), ChatTurn("assistant", "yo"))
MESSAGES = [turn.message() for turn in TURNS]
SHARED = [{"from": "human", "value": "Hé"}, {"from": "gpt", "value": "yo"}]
PARTS = [{"role": turn.role, "content": [{"type": "text", "text": turn.content}]} for turn in TURNS]


def from_lines(rows: list[Any]) -> Iterator[Record]:
    """Yield what JSON lines give."""
    for number, row in enumerate(rows):
        data = json.dumps(row).encode()
        yield parse_line(Line(number + 1, number, data, len(data)), FIELDS)


def from_table(rows: list[Any]) -> Iterator[Record]:
    """Yield what a table of the same rows gives."""
    table = pa.Table.from_pylist(rows)
    check_columns(table.schema, FIELDS, name="x", key="sources.a")
    for batch in table.to_batches():
        yield from read_rows(batch, FIELDS, first=0, max_bytes=1 << 20)


@pytest.mark.parametrize("read", [from_lines, from_table])
@pytest.mark.parametrize("messages", [MESSAGES, SHARED, PARTS])
def test_every_form_gives_the_same_turns(read: Any, messages: list[Any]) -> None:
    (found,) = read([{"id": 7, "data": {"messages": messages}}])
    assert isinstance(found, RawDocument)
    assert (found.turns, found.own_id, found.text) == (TURNS, "7", "")


@pytest.mark.parametrize("read", [from_lines, from_table])
@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_and_fields_that_nothing_reads_come_with_the_turns(read: Any, name: str) -> None:
    messages = [
        {"role": "user", "content": "Hé", "loss": False, "train": None, name: None},
        {"role": "assistant", "content": "yo", "loss": True, "train": False, name: "hm"},
    ]
    rows = [
        {"id": n, "data": {"messages": messages}, "system": text} for n, text in enumerate(["Be", ""])
    ]
    first, second = read(rows)
    assert isinstance(first, RawDocument)
    assert isinstance(second, RawDocument)
    assert [turn.reasoning for turn in first.turns] == [(), ((name, "hm"),)]
    assert [turn.unread for turn in first.turns] == [("loss",), ("loss", "train")]
    assert (first.unread, second.unread) == (("system",), ())
    assert first.turns[1].message()[name] == "hm"
    assert name not in first.turns[0].message()


@pytest.mark.parametrize("read", [from_lines, from_table])
def test_reasoning_that_is_no_text_is_a_drop_that_says_so(read: Any) -> None:
    messages = [{"role": "assistant", "content": "yo", "reasoning_content": {"x": 7}}]
    (found,) = read([{"id": 7, "data": {"messages": messages}}])
    assert isinstance(found, Drop)
    assert "reasoning_content of message 1 (assistant) is of type dict, not a string" in found.detail


@pytest.mark.parametrize("read", [from_lines, from_table])
@pytest.mark.parametrize(("value", "unread"), [(True, True), (False, False), (7, True), ([], False)])
def test_a_switch_in_the_place_of_reasoning_is_no_reasoning(
    read: Any, value: object, *, unread: bool
) -> None:
    messages = [{"role": "assistant", "content": "yo", "thinking": value}]
    (found,) = read([{"id": 7, "data": {"messages": messages}}])
    assert [(turn.reasoning, turn.unread) for turn in found.turns] == [((), ("thinking",) * unread)]


@pytest.mark.parametrize("read", [from_lines, from_table])
def test_what_is_no_dialogue_is_a_drop_and_costs_no_other(read: Any) -> None:
    odd: list[Any] = [
        None,
        [],
        [{"role": "no role", "content": "x"}],
        [{"role": "user", "content": None}],
    ]
    odd += [[{"role": "user", "content": "", "tool_calls": [{"id": "x"}]}]]
    odd += [[{"role": "user", "content": "x", "weight": 0.5}]]
    rows = [{"id": 1, "data": {"messages": messages}} for messages in (MESSAGES, *odd, MESSAGES)]
    found = list(read(rows))
    assert [type(one) for one in found] == [RawDocument, *[Drop] * 6, RawDocument]
    assert [one.reason for one in found[1:7]] == [
        DropReason.MISSING_TEXT,
        *[DropReason.BAD_DIALOGUE] * 5,
    ]


@pytest.mark.parametrize("read", [from_lines, from_table])
def test_weights_are_read_and_empty_calls_are_none(read: Any) -> None:
    messages = [
        {"role": "user", "content": "a", "weight": None, "tool_calls": []},
        {"role": "assistant", "content": "b", "weight": 0.0, "tool_calls": None},
        {"role": "assistant", "content": "c", "weight": 1.0, "tool_calls": []},
        {"role": "assistant", "content": "d", "function_call": {"name": None, "arguments": None}},
    ]
    (found,) = read([{"id": 1, "data": {"messages": messages}}])
    assert isinstance(found, RawDocument)
    assert [turn.weight for turn in found.turns] == [1, 0, 1, 1]


def test_too_many_messages_are_a_drop_of_a_table() -> None:
    (found,) = from_table([{"id": 1, "data": {"messages": MESSAGES * (MOST_TURNS // 2 + 1)}}])
    assert isinstance(found, Drop)
    assert "16,386 messages, over 16,384" in found.detail


def test_a_cell_of_bad_utf8_or_too_many_bytes_costs_one_dialogue() -> None:
    offsets, data = (
        pa.py_buffer(b"\0\0\0\0\2\0\0\0\3\0\0\0\x0d\0\0\0"),
        pa.py_buffer(b"hi\xff0123456789"),
    )
    contents = pa.StringArray.from_buffers(3, offsets, data)
    names = pa.array(["user"] * 3)
    messages = pa.StructArray.from_arrays([names, contents], ["role", "content"])
    fields = FieldMapping.model_validate({"chat": {"template": "chatml"}})
    batch = pa.record_batch({"messages": pa.ListArray.from_arrays([0, 1, 2, 3], messages)})
    good, bad, long = read_rows(batch, fields, first=0, max_bytes=24)
    assert isinstance(good, RawDocument)
    assert isinstance(bad, Drop)
    assert isinstance(long, Drop)
    assert (bad.reason, long.reason) == (DropReason.BAD_UTF8, DropReason.TOO_LARGE)


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.list_(pa.string()), pa.list_(pa.struct({"role": pa.string()}))]
)
def test_a_column_of_another_type_is_refused(kind: pa.DataType) -> None:
    schema = pa.schema({"id": pa.string(), "data": pa.struct({"messages": kind})})
    with pytest.raises(ConfigError, match="must hold lists of messages with role and content"):
        check_columns(schema, FIELDS, name="x", key="sources.a")
