"""What lines promise.

Each line stands at its byte offset, however the bytes arrive; one that is too long is counted with its
size, never held, and what follows it is unharmed. Slices of a file, together and in any order, give each
of its lines once, with the number and place that it has in the whole.
"""

import io
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.reading import lines as lines_module
from stages.reading.lines import Line, lines_of_slice, split_lines
from stages.reading.slices import Slice, byte_slices
from tests.campaign import examples
from tests.traced_memory import takes_less

BYTES = st.lists(st.sampled_from([b"\n", b"a", b"bc", b"\r\n", b"\xc3\xa9", b"defgh"]), max_size=30).map(
    b"".join
)


def cut(data: bytes, borders: list[int]) -> list[bytes]:
    """Return the data in chunks with these borders; some may be empty."""
    places = [0, *sorted(border % (len(data) + 1) for border in borders), len(data)]
    return [data[a:b] for a, b in pairwise(places)]


def plain_lines(data: bytes, max_bytes: int) -> list[Line]:
    """Return the lines by Python's own split."""
    parts = data.split(b"\n")
    lines, position = [], 0
    for number, part in enumerate(parts, start=1):
        if part or number < len(parts):
            held = part if len(part) <= max_bytes else b""
            lines.append(Line(number, position, held, len(part)))
        position += len(part) + 1
    return lines


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"ab\ncd", [Line(1, 0, b"ab", 2), Line(2, 3, b"cd", 2)]),
        (b"ab\ncd\n", [Line(1, 0, b"ab", 2), Line(2, 3, b"cd", 2)]),
        (b"\n\na\n", [Line(1, 0, b"", 0), Line(2, 1, b"", 0), Line(3, 2, b"a", 1)]),
        (b"a\r\nb", [Line(1, 0, b"a\r", 2), Line(2, 3, b"b", 1)]),
        (b"longer\nok\n", [Line(1, 0, b"", 6), Line(2, 7, b"ok", 2)]),
        (b"ok\nlonger", [Line(1, 0, b"ok", 2), Line(2, 3, b"", 6)]),
        (b"", []),
        (b"\n", [Line(1, 0, b"", 0)]),
    ],
)
def test_lines_are_as_written_out(data: bytes, lines: list[Line]) -> None:
    assert list(split_lines([data], max_bytes=5)) == lines


@settings(deadline=None, derandomize=True, max_examples=examples(50))
@given(BYTES, st.lists(st.integers(0, 100), max_size=8), st.integers(0, 8))
def test_any_chunks_give_the_same_lines(data: bytes, borders: list[int], max_bytes: int) -> None:
    lines = list(split_lines(cut(data, borders), max_bytes=max_bytes))
    assert lines == plain_lines(data, max_bytes)
    for line in lines:
        place = data[line.position : line.position + line.size]
        assert b"\n" not in place
        assert line.data == (place if line.size <= max_bytes else b"")


def test_every_border_gives_the_same_lines() -> None:
    data = b"ab\n\nlonger than it may be\nc\nlast"
    expected = plain_lines(data, 6)
    assert [line.size for line in expected] == [2, 0, 21, 1, 4]
    for border in range(len(data) + 1):
        assert list(split_lines(cut(data, [border]), max_bytes=6)) == expected
    assert list(split_lines([bytes([byte]) for byte in data], max_bytes=6)) == expected


def test_a_line_that_is_too_long_is_never_held() -> None:
    def read() -> None:
        lines = list(split_lines((bytes(1 << 16) for _ in range(400)), max_bytes=1 << 10))
        assert lines == [Line(1, 0, b"", 400 << 16)]

    assert takes_less(4 << 16, read)


def slices_of(data: bytes, unit: int) -> list[Slice]:
    """Cut a file as planning does: by bytes, each slice with the line feeds before it."""
    starts = range(0, max(len(data), 1), unit)
    return byte_slices(len(data), unit, [data[s : s + unit].count(b"\n") for s in starts])


class Counted(io.BytesIO):
    """A file that counts the bytes read from it."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes."""
        data = super().read(size)
        self.taken += len(data)
        return data


@settings(deadline=None, derandomize=True, max_examples=examples(100))
@given(BYTES, st.integers(1, 40), st.integers(0, 8))
def test_slices_of_any_size_give_every_line_once_as_it_is_in_the_whole(
    data: bytes, unit: int, max_bytes: int
) -> None:
    found = [
        list(lines_of_slice(io.BytesIO(data), part, max_bytes=max_bytes))
        for part in slices_of(data, unit)
    ]
    assert [line for lines in found for line in lines] == plain_lines(data, max_bytes)
    for part, lines in zip(slices_of(data, unit), found, strict=True):
        assert all(part.first <= line.position < part.last for line in lines)


@pytest.mark.parametrize("chunk_bytes", [1, 3, 1 << 20])
def test_slices_give_the_same_lines_however_the_bytes_are_read(
    chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "CHUNK_BYTES", chunk_bytes)
    data = b"ab\n\nlonger than it may be\nc\r\nlast"
    for unit in range(1, len(data) + 2):
        parts = slices_of(data, unit)
        found = [line for part in parts for line in lines_of_slice(io.BytesIO(data), part, max_bytes=6)]
        assert found == plain_lines(data, 6), unit


def test_a_slice_reads_no_further_than_its_last_line_and_a_chunk() -> None:
    data = b"a\n" * 500 + b"x" * (5 << 20) + b"\n" + b"b\n" * (2 << 20)
    middle = Slice(2_000, 3_000, 500)
    file = Counted(data)
    assert list(lines_of_slice(file, middle, max_bytes=10)) == []
    assert file.taken <= (1 << 20) + 1, "a slice inside of one long line stops at its own end"
    file = Counted(data)
    assert len(list(lines_of_slice(file, Slice(0, 1_000, 0), max_bytes=10))) == 500
    assert file.taken == 1 << 20
