"""What weighing a JSON line promises.

What parsing a line makes, beside its text, is never more than what was said before it was parsed; lines
that could make too much are dropped, and a text may hold whatever characters it likes.
"""

import json
import sys

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.columns import DropReason
from stages.reading.lines import Line
from stages.reading.structure import COSTS, _cost, _count_structure, parse_limit, too_costly
from tests.campaign import examples

CHARACTERS = np.frombuffer(b"".join(COSTS), np.uint8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False)
    | st.text(st.sampled_from('ab",:[{}]\\é猫\U00020000'), max_size=5),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text("ab", max_size=3), inner),
    max_leaves=30,
)  # fmt: skip
FILLERS = [b"[]", b"[[]]", b"{}", b'{"":0}', b"1", b"300", b"0.5", b'""', b'"ab"', b"null"]


def weight(data: bytes) -> int:
    """Return the cost of the characters outside of strings."""
    counts = _count_structure(np.frombuffer(data, np.uint8), CHARACTERS)
    return int(counts @ np.array(list(COSTS.values())))


def size_of(value: object) -> int:
    """Return what a parsed value holds in Python, the characters of its strings left out."""
    if isinstance(value, dict):
        return sys.getsizeof(value) + sum(size_of(part) for item in value.items() for part in item)
    if isinstance(value, list):
        return sys.getsizeof(value) + sum(map(size_of, value))
    if isinstance(value, str):
        return sys.getsizeof(value) - 4 * len(value)
    return 0 if value is None or isinstance(value, bool) else sys.getsizeof(value)


def line(data: bytes) -> Line:
    """Return a line that stands at byte 9 as line 4."""
    return Line(4, 9, data, len(data))


@settings(deadline=None, derandomize=True, max_examples=examples(300))
@given(VALUES)
def test_a_parsed_value_holds_no_more_than_was_said(value: object) -> None:
    data = orjson.dumps({"text": value})
    assert size_of(orjson.loads(data)) <= weight(data) <= _cost(data)


@settings(deadline=None, derandomize=True, max_examples=examples(200))
@given(VALUES)
def test_characters_inside_of_strings_are_not_counted(value: object) -> None:
    data = json.dumps(value, ensure_ascii=False)
    strings = 0

    def emptied(part: object) -> object:
        nonlocal strings
        if isinstance(part, str):
            strings += 1
            return ""
        if isinstance(part, list):
            return list(map(emptied, part))
        if isinstance(part, dict):
            return {f"{emptied(name)}{number}": emptied(item) for number, (name, item) in
                    enumerate(part.items())}  # fmt: skip
        return part

    plain = json.dumps(emptied(value), ensure_ascii=False).encode()
    counts = _count_structure(np.frombuffer(data.encode(), np.uint8), CHARACTERS)
    expected = [plain.count(character) for character in COSTS]
    assert dict(zip(COSTS, counts.tolist(), strict=True)) == dict(zip(COSTS, expected, strict=True))


@pytest.mark.parametrize("filler", FILLERS, ids=bytes.decode)
def test_a_line_of_objects_in_a_field_that_nobody_reads_is_dropped_by_name(filler: bytes) -> None:
    most = 4 << 20
    count = (most - 40) // (len(filler) + 1)
    data = b'{"text": "a", "unread": [' + (filler + b",") * count + b"0]}"
    assert len(data) <= most
    assert weight(data) > parse_limit(most), "or it is no test"
    drop = too_costly(line(data), max_bytes=most)
    assert drop is not None
    assert (drop.line, drop.position, drop.reason) == (4, 9, DropReason.TOO_LARGE)
    assert f"could take {weight(data):,} bytes to parse, over {parse_limit(most):,}" in drop.detail


@pytest.mark.parametrize("text", [",", '["', "{", '\\"', '":'])
def test_a_text_of_nothing_but_such_characters_is_kept(text: str) -> None:
    data = orjson.dumps({"text": text * ((1 << 20) // len(text))})
    assert _cost(data) > parse_limit(1 << 20)
    assert too_costly(line(data), max_bytes=1 << 20) is None
