"""What reading JSON files promises: the records that Python's json module finds, each where it begins.

A list is read value by value, so no more than a value is held; bytes are cut into chunks anywhere. Of a
broken file each good record is read and each bad one is a drop, or reading stops and says where and why.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.columns import Drop, DropReason
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.faults import REPAIR, ContentError
from stages.reading.json_values import json_values
from stages.reading.jsonl import JSON
from stages.reading.lines import Line
from stages.reading.records import FieldMapping, RawDocument, Record

FIELDS = FieldMapping(id_column="id")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.text(
    st.sampled_from('[]{}",\\:\n a'), max_size=8
)
OBJECTS = st.fixed_dictionaries({"text": TEXTS}, optional={"more": st.lists(TEXTS) | st.none()})
LAYOUTS = st.sampled_from([None, 0, 2])


def chunked(data: bytes, size: int) -> list[bytes]:
    """Cut bytes into chunks."""
    return [data[start : start + size] for start in range(0, len(data), size)]


def read(data: bytes, *, size: int = 1 << 20, max_bytes: int = 1 << 20) -> list[Record]:
    """Return what a JSON file gives."""
    stream, columns = JSON.open(FIELDS, max_bytes), ColumnsSeen(FIELDS)
    return [stream.parse(piece, columns) for piece in stream.lines(chunked(data, size))]


def texts(records: list[Record]) -> list[str | None]:
    """Return the text of each document, None for a drop."""
    return [record.text if isinstance(record, RawDocument) else None for record in records]


def test_the_values_of_the_docstring() -> None:
    found = list(json_values([b'[{"a": 1},\n 7] {}'], max_bytes=99))
    assert found == [Line(1, 1, b'{"a": 1}', 8), Line(2, 12, b"7", 1), Line(2, 15, b"{}", 2)]


@given(st.lists(OBJECTS, max_size=5), LAYOUTS, st.booleans(), st.integers(1, 40))
def test_a_list_gives_its_objects_where_they_begin(
    objects: list[dict[str, Any]],
    indent: int | None,
    ascii_only: bool,  # noqa: FBT001  # a parameter of the test
    size: int,
) -> None:
    data = json.dumps(objects, indent=indent, ensure_ascii=ascii_only).encode()
    found = read(data, size=size)
    assert texts(found) == [one["text"] for one in objects]
    for record in found:
        assert record.line == 1 + data[: record.position].count(b"\n")
        assert data[record.position : record.position + 1] == b"{"


@given(
    st.lists(OBJECTS, min_size=1, max_size=4),
    LAYOUTS,
    st.sampled_from([b"\n", b" ", b"\r\n"]),
    st.integers(1, 40),
)
def test_objects_one_after_the_other_are_read_however_they_are_laid_out(
    objects: list[dict[str, Any]], indent: int | None, between: bytes, size: int
) -> None:
    data = between.join(json.dumps(one, indent=indent).encode() for one in objects)
    assert texts(read(data, size=size)) == [one["text"] for one in objects]


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b'{"text": "a", "id": 7}', ["a"]),
        (b'{\n "text": "a",\n "id": 7\n}\n', ["a"]),
        (b'{"text": "a"}\n{"text": "b"}\n', ["a", "b"]),
        (b'\xef\xbb\xbf[{"text": "a"}]', ["a"]),
        (b'\xef\xbb\xbf{"text": "a"}\n{"text": "b"}', ["a", "b"]),
        (b" \n [\n]\n", []),
        (b"", []),
        (b" \n", []),
        (b'[{"text": "a"},]', ["a"]),
        (b'[{"text": "a"}, {"text": "b"}]\n\xef\xbb\xbf[{"text": "c"}]', ["a", "b", "c"]),
        (b'[{"text": "a"}\n{"text": "b"} {"text": "c"}]', ["a", "b", "c"]),
        (b'{"text": "a", "more": [\n{"text": "b"}\n]}', ["a"]),
        (b'[{"text": "a"}][{"text": "b"}]', ["a", "b"]),
    ],
)
def test_each_form_of_a_json_file_is_told_from_the_others(
    data: bytes, wanted: list[str], size: int
) -> None:
    assert texts(read(data, size=size)) == wanted


BROKEN = {
    b'{"text": "b"': "no bracket",
    b'{"text": "b},': "no quote",
    b'{"text": b"},': "no first quote",
    b'{"text": "say "b"},': "a quote too many",
    b'{"text": "say "b" again"},': "two quotes too many",
    b'{"text": "b\\"},': "an escaped end",
    b'{"text": "b"}},': "a bracket too many",
    b'{"text": "b",},': "a comma too many",
    b'{"text" "b"},': "no colon",
    b'{"text": "b", "more": [{"c": 2}},': "an inner bracket",
    b'{"text": NaN},': "no number",
    b'{"text": "\\x"},': "no escape",
    b'{"text": "\xff"},': "no UTF-8",
    b'{"text": "b\tb"},': "a tab",
    b'["text"],': "a list",
    b"7,": "a number",
    b'"text",': "a string",
    b"{},": "nothing",
}
"""Lines of one bad record."""


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("bad", BROKEN, ids=BROKEN.values())
def test_a_bad_record_on_a_line_of_its_own_is_one_drop_and_all_others_are_read(
    bad: bytes, size: int
) -> None:
    good = [f'{{"text": "{number}"}}'.encode() for number in range(5)]
    for before in range(5):
        lines = [line + b"," for line in good[:before]] + [bad] + [line + b"," for line in good[before:]]
        for begin, end in ((b"[\n", b"\n]\n"), (b"[", b"]"), (b"[\n  ", b"\n]")):
            found = read(begin + b"\n  ".join(lines) + end, size=size)
            wanted: list[str | None] = [str(number) for number in range(5)]
            wanted.insert(before, None)
            assert texts(found) == wanted, (before, begin)
            drop = found[before]
            assert drop.line == before + (1 if begin == b"[" else 2)


@pytest.mark.parametrize("bad", [bad for bad in BROKEN if bad.endswith(b",")])
def test_so_is_the_last_of_a_list(bad: bytes) -> None:
    data = b'[\n{"text": "a"},\n' + bad.removesuffix(b",") + b"\n]\n"
    assert texts(read(data)) == ["a", None]


def test_every_good_record_of_a_list_stands_though_many_are_bad() -> None:
    def line(number: int) -> str:
        quote, bracket = "" if number % 3 == 0 else '"', "" if number % 5 == 0 and number % 3 else "}"
        return f'{{"text": "{number}{quote}{bracket}'

    found = read(("[\n" + ",\n".join(map(line, range(1, 300))) + "\n]").encode(), size=100)
    assert texts(found) == [
        str(number) if number % 3 and number % 5 else None for number in range(1, 300)
    ]


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("data", "says"),
    [
        (
            b'[{"text": "a"}, {"text": "b}, {"text": "c"}]',
            "its record 2, .* line 1 at byte 16, is broken at",
        ),
        (b'[{"text": "a", {"text": "b"}]', "a name in quotes must come, not {"),
        (b'[\n{"text": "a"},\n{\n"text": "b",\n},\n{"text": "c"}]', "must come, not }"),
        (
            b'[\n{"text": "a"},\n{"text": "b}, {"text": "c"},\n{"text": "d"}\n]',
            "record 2.*broken at byte 33",
        ),
        (b'[\n{"text": "b", {"text": "c"},\n{"text": "d"}\n]', "a name in quotes must come"),
        (b'[\n{"text": "b"\n,{"text": "c"}, {"text": "d"}\n]', "a name in quotes must come"),
        (b'[\n{"text": "one\nline"},\n{"text": "b"}]', "a line feed is not written as"),
        (b'[\n {"text": "a},\n  "id": 7},\n {"text": "b"}\n]', "a quote is missing"),
        (b'[\n{"text" "a", "more":\n{"text": "b"}},\n{"text": "c"}\n]', "a colon must come"),
        (b'["text", 7, [{"text": "a"}], {"text": "b"}]', "record 3.*a list inside of the list holds"),
        (b'[[{"text": "a"}, {"text": "b"}]]', "a list inside of the list holds objects"),
        (b'[{"text": "a"}, [{"text": "b"}, {"text": "c"}]', "one of the brackets is too many"),
        (b'[{"text": "a"} 7]', "a comma, or the end of what is open, must come, not 7"),
        (b'[{"text": "a"}] and, more', "outside of a list , begins no value"),
        (b'[{"text": "a"}]}', "outside of a list } begins no value"),
        (b'{"text": "a"},\n{"text": "b"}', "outside of a list , begins no value"),
        (b"[" * 2000 + b"]" * 2000, "more than 1,024 brackets"),
        (b'[{"text": "a"}, \xff]', "not 0xff"),
    ],
)
def test_where_records_could_be_lost_reading_stops(data: bytes, says: str, size: int) -> None:
    with pytest.raises(ContentError, match=says) as caught:
        read(data, size=size)
    assert caught.value.way_out == REPAIR


@given(
    st.lists(OBJECTS, min_size=2, max_size=5),
    LAYOUTS,
    st.data(),
    st.sampled_from(list(b'[]{}",\\:\n a')),
)
def test_one_wrong_byte_loses_no_good_record_unseen(
    objects: list[dict[str, Any]], indent: int | None, draw: st.DataObject, byte: int
) -> None:
    lines = [json.dumps(one, indent=indent) for one in objects]
    between = draw.draw(st.sampled_from([",\n", ", ", ","]))
    data = ("[\n" + between.join(lines) + "\n]").encode()
    number = draw.draw(st.integers(0, len(objects) - 1))
    start = len("[\n") + sum(len(line) + len(between) for line in lines[:number])
    place = start + draw.draw(st.integers(0, len(lines[number]) - 1))
    kind = draw.draw(st.sampled_from(["put", "taken", "added"]))
    new = b"" if kind == "taken" else bytes([byte])
    try:
        found = read(data[:place] + new + data[place + (kind != "added") :], size=50)
    except ContentError:
        return
    good = [one["text"] for other, one in enumerate(objects) if other != number]
    rest = texts(found)
    assert rest[:number] == good[:number]
    assert rest[len(rest) - len(good) + number :] == good[number:]
    assert len(rest) > len(good) or kind != "taken"


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b'["text", 7, null, ["a"], {"text": "b"}]', [None, None, None, None, "b"]),
        (b'[{"text": "\xff"}, {"text": "b"}]', [None, "b"]),
        (b'{"text": "a\n{"text": "b"}\n{"text": "c"}\n', [None, "b", "c"]),
        (b'{"text": "a"}\n{"text": "b\n{"text": "c"}\n', ["a", None, "c"]),
        (b"some words\nand more", [None, None, None, None]),
        (b'[{"text": 7}]', [None]),
    ],
)
def test_what_is_no_record_is_a_drop_and_the_next_is_read(
    data: bytes, wanted: list[str | None], size: int
) -> None:
    found = read(data, size=size)
    assert texts(found) == wanted
    assert all(isinstance(one, RawDocument) or one.detail for one in found)


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_a_list_that_is_cut_anywhere_stops(size: int) -> None:
    data = b'[{"text": "a"}, {"text": "b"},\n {"text": "c"}]'
    assert texts(read(data, size=size)) == ["a", "b", "c"]
    cuts = 0
    for length in range(1, len(data)):
        with pytest.raises(ContentError, match=f"not closed at the end, byte {length}.*was cut"):
            read(data[:length], size=size)
        cuts += 1
    assert cuts == len(data) - 1
    with pytest.raises(ContentError, match="after 1 records"):
        read(b'[{"text": "a"},', size=size)
    with pytest.raises(ContentError, match=r"its record 1, .* is not closed"):
        read(b'{"text": "a", ', size=size)


def test_a_broken_value_over_the_bound_stops() -> None:
    long = b'[\n{"text": "' + b"a" * 500
    with pytest.raises(ContentError, match="is broken at byte"):
        read(long + b'},\n{"text": "b"}\n]', max_bytes=100)


@pytest.mark.parametrize("size", [7, 1 << 20])
def test_a_value_over_the_bound_keeps_its_size_alone(size: int) -> None:
    data = b'[{"text": "' + b"a" * 500 + b'"}, {"text": "b"}]'
    long, short = read(data, size=size, max_bytes=100)
    assert long == Drop(1, 1, DropReason.TOO_LARGE, "512 bytes, over ingest.max_document_bytes")
    assert texts([short]) == ["b"]
    data = b'{"text": "' + b"a" * 500 + b'"}\n{"text": "b"}'
    assert texts(read(data, size=size, max_bytes=100)) == [None, "b"]


@pytest.mark.parametrize("text", ['[{"text": "a"}]', '{"text": "a"}\n{"text": "b"}\n'])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_utf_16_is_named(text: str, encoding: str) -> None:
    with pytest.raises(ContentError, match="set encoding = 'utf-16") as caught:
        read(text.encode(encoding))
    assert caught.value.setting == "encoding"
