"""What windows of bytes promise: none that stands twice is lost; what goes is what plain loops say."""

from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.dedup.byte_cuts import (
    WindowRanges,
    readable_bytes,
    repeated_bytes,
    with_taken,
    without_taken,
)
from stages.dedup.byte_windows import byte_windows, stretches_of

SIZE = 8
TEXTS = st.lists(
    st.one_of(
        st.text("ab", max_size=60),
        st.text("abcdefgh é猫", max_size=60),
        st.builds(lambda part, times: part * times, st.text("abc", max_size=9), st.integers(0, 12)),
    ),
    min_size=1,
    max_size=6,
)


def data_of(text: str) -> NDArray[np.uint8]:
    """Return a text in UTF-8."""
    return np.frombuffer(text.encode(), np.uint8)


def windows(text: str, size: int = SIZE) -> list[bytes]:
    """Return the strings of some bytes of a text."""
    data = text.encode()
    return [data[start : start + size] for start in range(len(data) - size + 1)]


@settings(deadline=None)
@given(TEXTS)
def test_each_window_is_in_one_stretch_and_those_that_stand_twice_in_shared_ones(
    texts: list[str],
) -> None:
    every = [stretches_of(data_of(text), min_bytes=SIZE) for text in texts]
    shared = Counter(key for one in every for key in one.minimizers.tolist())
    counts = Counter(window for text in texts for window in windows(text))
    for text, found in zip(texts, every, strict=True):
        pairs = zip(found.starts.tolist(), found.counts.tolist(), strict=True)
        covered = [window for start, count in pairs for window in range(start, start + count)]
        assert covered == list(range(len(windows(text))))
        keys = np.repeat(found.minimizers, found.counts).tolist()
        for window, key in zip(windows(text), keys, strict=True):
            assert counts[window] == 1 or shared[key] > 1


def test_few_stretches_are_made_and_few_are_shared_of_text_without_repeats() -> None:
    chance = Random(1)  # noqa: S311  # any text
    text = data_of("".join(chance.choices("abcdefghij ", k=100_000)))
    found = stretches_of(text, min_bytes=200)
    assert len(found.starts) < 100_000 / 40
    assert len(set(found.minimizers.tolist())) == len(found.starts)
    even = stretches_of(np.zeros(100_000, np.uint8), min_bytes=200)
    assert even.counts.tolist() == [1, 100_000 - 200]


@settings(deadline=None)
@given(st.text("ab", max_size=60), st.data())
def test_windows_are_equal_where_their_bytes_are(text: str, data: st.DataObject) -> None:
    every = windows(text)
    chosen = sorted(data.draw(st.sets(st.integers(0, max(0, len(every) - 1)), max_size=len(every))))
    starts = np.array(chosen if every else [], np.int64)
    found = byte_windows(data_of(text), starts=starts, counts=np.ones_like(starts), min_bytes=SIZE)
    assert found.starts.tolist() == starts.tolist()
    known = dict(
        zip((every[n] for n in starts), zip(found.keys, found.checks, strict=True), strict=True)
    )
    assert [known[every[n]] for n in starts] == [*zip(found.keys, found.checks, strict=True)]
    assert len(set(known.values())) == len(known)


Byte = tuple[int, int]


@settings(deadline=None)
@given(TEXTS)
def test_what_goes_is_what_plain_loops_say_and_a_copy_of_each_byte_stays(texts: list[str]) -> None:
    firsts: dict[bytes, Byte] = {}
    goes, stays, copies = set[Byte](), set[Byte](), dict[Byte, Byte]()
    runs: list[list[tuple[int, int, int]]] = [[] for _ in texts]
    for number, text in enumerate(texts):
        for start, window in enumerate(windows(text)):
            there, begin = firsts.setdefault(window, (number, start))
            if (there, begin) == (number, start):
                continue
            runs[number].append((start, begin if there == number else -1, 1))
            goes |= {(number, start + offset) for offset in range(SIZE)}
            copies |= {(number, start + offset): (there, begin + offset) for offset in range(SIZE)}
            if there == number and start - begin < SIZE:
                stays |= {(number, begin + offset) for offset in range(SIZE)}
    cut = set[Byte]()
    for number, (text, own) in enumerate(zip(texts, runs, strict=True)):
        columns = np.array(own, np.int64).reshape(-1, 3)
        ranges = repeated_bytes(data_of(text), WindowRanges(*columns.T), min_bytes=SIZE).tolist()
        cut |= {(number, place) for low, high in ranges for place in range(low, high)}
        for low, high in ranges:
            text.encode()[low:high].decode()
    assert cut <= goes - stays
    assert all(
        texts[n].encode()[place] >= 0x80 for n, place in goes - stays - cut
    )  # halves of characters
    for number, place in cut:
        copy = copies[number, place]
        while copy in cut:
            copy = copies[copy]
        assert texts[copy[0]].encode()[copy[1]] == texts[number].encode()[place]


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(["a", "b.", "c", "猫", "犬。", "、", "\n", "\n\n", " ", "  ", "x;", "\u3000"]),
        max_size=80,
    ),
    st.data(),
)
def test_a_readable_cut_stays_in_its_range_but_for_white_space(
    parts: list[str], data: st.DataObject
) -> None:
    text = "".join(parts)
    if not text:
        return
    low = data.draw(st.integers(0, len(text) - 1))
    high = data.draw(st.integers(low + 1, len(text)))
    first, last = len(text[:low].encode()), len(text[:high].encode())
    cut = readable_bytes(text.encode(), first, last, min_bytes=32)
    if cut is None:
        assert len(text[low:high].split()) <= 1 or high - low < 8
        return
    left, gone, right = (
        part.decode()
        for part in (text.encode()[: cut[0]], text.encode()[slice(*cut)], text.encode()[cut[1] :])
    )
    assert gone.strip()
    assert left + gone + right == text
    assert not text[len(left) : low].strip()
    assert not text[high : high + max(0, len(left + gone) - high)].strip()
    kept, given = ("".join(part.split()).encode() for part in (gone, text[low:high]))
    assert len(kept) * 2 >= len(given) - 2


@pytest.mark.parametrize(
    ("text", "gone", "left"),
    [
        ("one\n\ngone gone\n\ntwo\n", "gone gone", "one\n\ntwo\n"),
        ("one\n  gone gone\n  two\n", "gone gone\n  ", "one\n  two\n"),
        ("one gone gone two", "gone gone ", "one two"),
        ("one gone gone\ntwo", "gone gone", "one\ntwo"),
        ("ze. one two three four five y", "e. one two three four five", "ze. y"),
        ("a=1;gone(gone+gone);b=2;", "1;gone(gone+gone);b", "a=1;b=2;"),
        ("我们走，在那里在那里在那里，他们来。", "走，在那里在那里在那里，他", "我们走，他们来。"),
    ],
)
def test_a_cut_goes_from_the_best_border_to_the_best(text: str, gone: str, left: str) -> None:
    data = text.encode()
    first = data.index(gone.encode())
    cut = readable_bytes(data, first, first + len(gone.encode()), min_bytes=200)
    assert cut is not None
    assert (data[: cut[0]] + data[cut[1] :]).decode() == left


@given(st.sets(st.integers(0, 40), max_size=12), st.sets(st.integers(0, 40), max_size=12))
def test_ranges_come_back_from_what_is_left_of_a_text(one: set[int], other: set[int]) -> None:
    def pairs(edges: set[int]) -> NDArray[np.int64]:
        ordered = sorted(edges)[: len(edges) // 2 * 2]
        return np.array(ordered, np.int64).reshape(-1, 2)

    ranges, taken = pairs(one), pairs(other)
    gone = {place for low, high in taken.tolist() for place in range(low, high)}
    left = [place for place in range(41) if place not in gone]
    wanted = {place for low, high in ranges.tolist() for place in range(low, high)} - gone
    found = without_taken(ranges, taken)
    assert {left[place] for low, high in found for place in range(low, high)} == wanted
    for low, high in found:
        begin, end = with_taken(low, high, taken)
        assert [place for place in range(begin, end) if place not in gone] == left[low:high]
        assert {begin, end - 1} <= wanted
