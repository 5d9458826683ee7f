"""What reading JSON files promises: the records that Python's json module finds, each where it begins.

A list is read value by value, so no more than a value is held; bytes are cut into chunks anywhere.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.columns import Drop, DropReason
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.json_file import JSON, json_values
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
    return [stream.parse(piece, columns) for piece in stream.pieces(chunked(data, size))]


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
        (b'[{"text": "a"}][{"text": "b"}]', ["a", "b"]),
    ],
)
def test_each_form_of_a_json_file_is_told_from_the_others(
    data: bytes, wanted: list[str], size: int
) -> None:
    assert texts(read(data, size=size)) == wanted


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b'[{"text": "a"}, {"text": "b}, {"text": "c"}]', ["a", None]),
        (b'[\n{"text": "a"},\n{"text": "b},\n{"text": "c"}\n]', ["a", None]),
        (b'[\n {"text": "a},\n  "id": 7},\n {"text": "b"}\n]', [None, "b"]),
        (b'[{"text": "a"} {"text": "b"}, {"text": "c"}]', [None, "c"]),
        (b'["text", 7, null, [{"text": "a"}], {"text": "b"}]', [None, None, None, None, "b"]),
        (b'[{"text": "\xff"}, {"text": "b"}]', [None, "b"]),
        (b'[{"text": "a"}] and more', ["a", None]),
        (b'{"text": "a\n{"text": "b"}\n{"text": "c"}\n', [None, "b", "c"]),
        (b'{"text": "a"}\n{"text": "b\n{"text": "c"}\n', ["a", None, "c"]),
        (b"some words\nand more", [None, None]),
        (b'[{"text": 7}]', [None]),
    ],
)
def test_what_is_no_record_is_a_drop_and_the_next_is_read(
    data: bytes, wanted: list[str | None], size: int
) -> None:
    found = read(data, size=size)
    if wanted[-1] is not None or len(wanted) > 2:
        assert texts(found) == wanted
    else:
        assert texts(found)[: len(wanted)] == wanted
    assert all(isinstance(one, RawDocument) or one.detail for one in found)


def test_a_list_that_is_cut_anywhere_says_so() -> None:
    data = b'[{"text": "a"}, {"text": "b"},\n {"text": "c"}]'
    whole = texts(read(data))
    cuts = 0
    for length in range(1, len(data)):
        found = read(data[:length])
        assert isinstance(found[-1], Drop), length
        assert found[-1].reason is DropReason.BAD_JSON
        assert texts(found)[:-1] == whole[: len(found) - 1]
        assert len({one.position for one in found}) == len(found)
        cuts += 1
    assert cuts == len(data) - 1
    last = read(b'[{"text": "a"},')[-1]
    assert last == Drop(1, 15, DropReason.BAD_JSON, "the list is not closed; the file was cut short")


@pytest.mark.parametrize("size", [7, 1 << 20])
def test_a_value_over_the_bound_keeps_its_size_alone(size: int) -> None:
    data = b'[{"text": "' + b"a" * 500 + b'"}, {"text": "b"}]'
    long, short = read(data, size=size, max_bytes=100)
    assert long == Drop(1, 1, DropReason.TOO_LARGE, "512 bytes, over ingest.max_document_bytes")
    assert texts([short]) == ["b"]
    data = b'{"text": "' + b"a" * 500 + b'"}\n{"text": "b"}'
    assert texts(read(data, size=size, max_bytes=100)) == [None, "b"]


def test_utf_16_is_named() -> None:
    found = read('[{"text": "a"}]'.encode("utf-16"))
    assert isinstance(found[0], Drop)
    assert "set encoding = 'utf-16'" in found[0].detail
