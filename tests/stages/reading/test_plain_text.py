"""What plain text promises.

A file, or a group of lines between blank ones, is a document that stands at its first byte; slices of a
file, together, give each group once; what is too long is counted with its size, never held.
"""

import io
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.columns import Drop, DropReason
from stages.reading.lines import Line, split_lines
from stages.reading.records import FieldMapping, RawDocument
from stages.reading.slices import byte_slices
from stages.reading.text import paragraphs, paragraphs_of_slice, parse_text, whole_text
from tests.campaign import examples
from tests.traced_memory import takes_less

BYTES = st.lists(
    st.sampled_from([b"\n", b"\n\n", b"a", b"bc", b" ", b"\r\n", b"\t\n", b"\xc3\xa9", b"defgh"]),
    max_size=40,
).map(b"".join)


def groups(data: bytes, max_bytes: int = 1 << 20) -> list[Line]:
    """Return the groups of a text from front to back."""
    return list(paragraphs(split_lines([data], max_bytes=max_bytes), max_bytes=max_bytes))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\n \n\t\r\n", []),
        (b"a", [Line(1, 0, b"a", 1)]),
        (b"a\nb\n\n\nc\n", [Line(1, 0, b"a\nb", 3), Line(5, 6, b"c", 1)]),
        (b"\n\n  a\n b\n", [Line(3, 2, b"  a\n b", 6)]),
        (b"a\r\nb\r\n\r\nc\r\n", [Line(1, 0, b"a\r\nb", 4), Line(4, 8, b"c", 1)]),
        (b"a\n \t \nb", [Line(1, 0, b"a", 1), Line(3, 6, b"b", 1)]),
    ],
)
def test_groups_are_as_written_out(data: bytes, expected: list[Line]) -> None:
    assert groups(data) == expected


@settings(deadline=None, derandomize=True, max_examples=examples(100))
@given(BYTES)
def test_groups_are_those_of_a_plain_split(data: bytes) -> None:
    lines = data.split(b"\n")
    runs = [list(run) for blank, run in groupby(lines, lambda line: not line.strip()) if not blank]
    assert [line.data for line in groups(data)] == [b"\n".join(r).removesuffix(b"\r") for r in runs]
    for line in groups(data):
        assert data[line.position : line.position + line.size] == line.data
        assert data[: line.position].count(b"\n") == line.number - 1


@settings(deadline=None, derandomize=True, max_examples=examples(150))
@given(BYTES, st.integers(1, 50), st.integers(1, 12))
def test_slices_of_any_size_give_every_group_once_as_it_is_in_the_whole(
    data: bytes, unit: int, max_bytes: int
) -> None:
    starts = range(0, max(len(data), 1), unit)
    slices = byte_slices(len(data), unit, [data[s : s + unit].count(b"\n") for s in starts])
    found = [
        line
        for part in slices
        for line in paragraphs_of_slice(io.BytesIO(data), part, max_bytes=max_bytes)
    ]
    assert found == groups(data, max_bytes)


@pytest.mark.parametrize("last", range(13))
def test_a_group_is_of_the_slice_in_which_it_starts(last: int) -> None:
    lines = list(split_lines([b"a\nb\n\n\nc\n\nde\n"], max_bytes=9))
    starts = [line.position for line in paragraphs(lines, max_bytes=9)]
    assert starts == [0, 6, 9]
    before = list(paragraphs(lines, max_bytes=9, last=last))
    after = list(paragraphs(lines, max_bytes=9, first=last))
    assert [line.position for line in before] == [start for start in starts if start < last]
    assert [line.position for line in after] == [start for start in starts if start >= last]


def test_a_group_or_a_line_of_it_that_is_too_long_is_passed_over_with_its_size() -> None:
    found = groups(b"ab\ncd\n\nabcdefghi\n\nab\nabcdefghi\nab\n\nok", 5)
    assert found == [
        Line(1, 0, b"ab\ncd", 5),
        Line(4, 7, b"", 9),
        Line(6, 18, b"", 15),
        Line(10, 35, b"ok", 2),
    ]


def test_a_whole_file_is_one_piece_even_if_it_is_empty() -> None:
    assert list(whole_text([], max_bytes=5)) == [Line(1, 0, b"", 0)]
    assert list(whole_text([b"a\n", b"\nb"], max_bytes=5)) == [Line(1, 0, b"a\n\nb", 4)]
    assert list(whole_text([b"abc", b"def", b"g"], max_bytes=5)) == [Line(1, 0, b"", 7)]


def test_a_group_of_short_lines_takes_little_more_than_its_text() -> None:
    def read() -> None:
        lines = split_lines((b"ab\n" * 1_000 for _ in range(50)), max_bytes=1 << 11)
        (group,) = paragraphs(lines, max_bytes=1 << 24)
        assert len(group.data) == 150_000 - 1

    assert takes_less(4 * 150_000, read)


def test_what_is_too_long_is_never_held() -> None:
    def read() -> None:
        whole = list(whole_text((bytes(1 << 16) for _ in range(400)), max_bytes=1 << 10))
        assert whole == [Line(1, 0, b"", 400 << 16)]
        lines = split_lines((b"a" * 1023 + b"\n" for _ in range(4_000)), max_bytes=1 << 11)
        (group,) = paragraphs(lines, max_bytes=1 << 14)
        assert group == Line(1, 0, b"", (4_000 << 10) - 1)

    assert takes_less(4 << 16, read)


def test_a_piece_gives_its_document_or_the_reason_why_it_is_none() -> None:
    fields = FieldMapping(language="de")
    assert parse_text(Line(3, 9, "é\n".encode(), 3), fields) == RawDocument(3, 9, "é\n", None, "de")
    assert parse_text(Line(3, 9, b"", 7), fields) == Drop(
        3, 9, DropReason.TOO_LARGE, "7 bytes, over ingest.max_document_bytes"
    )
    bad = parse_text(Line(3, 9, b"ab\xff", 3), fields)
    assert bad == Drop(3, 9, DropReason.BAD_UTF8, "byte 2 of the record, 0xff: invalid start byte")


@pytest.mark.parametrize(("most", "data"), [(3, b""), (4, b"abcd"), (5, b"abcd")])
def test_a_whole_file_of_the_most_bytes_is_held(most: int, data: bytes) -> None:
    assert list(whole_text([b"ab", b"cd"], max_bytes=most)) == [Line(1, 0, data, 4)]
