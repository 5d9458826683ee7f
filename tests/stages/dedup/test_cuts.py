"""What cuts promise: one copy of each repeated string stays whole, and what is left reads well."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.dedup.cuts import (
    blank_before,
    line_begin,
    lines_end,
    merged,
    outside,
    readable_cut,
    repeated_words,
    uncovered,
    without,
)
from stages.dedup.repeats import SpanBlock, documents_of, find_repeats, ordinals_of, places_of
from stages.dedup.shingles import split_tokens
from stages.dedup.spans import lines_of, substrings_of, words_of

SIZE = 4
DOCUMENTS = st.lists(
    st.one_of(
        st.lists(st.sampled_from("ab"), max_size=20),  # which repeat themselves
        st.lists(st.sampled_from("abcdefgh"), max_size=30),
    ),
    min_size=1,
    max_size=6,
)


Window = tuple[int, int]
"""A document and the number of a word in it."""


def repeats_of(documents: list[list[str]], ranks: list[int]) -> dict[Window, Window]:
    """Return each window that stands more than once with its first place."""
    blocks = []
    for number, words in enumerate(documents):
        text = np.frombuffer(" ".join(words).encode(), np.uint8)
        spans = substrings_of(words_of(text), min_words=SIZE)
        places = places_of(number, np.arange(len(spans.keys)))
        order = np.full(len(places), ranks[number], np.int64)
        blocks.append(SpanBlock(spans.keys, spans.checks, places, order))
    every = np.concatenate([np.empty((0, 2), np.uint64), *find_repeats(lambda: blocks, min_documents=1)])
    windows = [[*zip(documents_of(side), ordinals_of(side), strict=True)] for side in every.T]
    return {place: first for place, first in zip(*windows, strict=True) if place != first}


def cut_words(documents: list[list[str]], repeats: dict[Window, Window]) -> set[Window]:
    """Return the words that go."""
    found = set()
    for number, words in enumerate(documents):
        own = sorted(place for place in repeats if place[0] == number)
        firsts = [repeats[place][1] if repeats[place][0] == number else -1 for place in own]
        ranges = repeated_words(
            len(words),
            repeats=np.array([start for _, start in own], np.int64),
            firsts=np.array(firsts, np.int64),
            min_words=SIZE,
        )
        found |= {(number, word) for low, high in ranges.tolist() for word in range(low, high)}
    return found


@settings(deadline=None)
@given(DOCUMENTS, st.randoms())
def test_what_goes_is_what_plain_loops_say_and_a_copy_of_each_word_stays(
    documents: list[list[str]], random: Random
) -> None:
    ranks = list(range(len(documents)))
    random.shuffle(ranks)
    firsts: dict[tuple[str, ...], Window] = {}
    repeats: dict[Window, Window] = {}
    for number in sorted(range(len(documents)), key=ranks.__getitem__):
        for start in range(len(documents[number]) - SIZE + 1):
            window = tuple(documents[number][start : start + SIZE])
            first = firsts.setdefault(window, (number, start))
            if first != (number, start):
                repeats[number, start] = first
    goes, stays = set[Window](), set[Window]()
    copies: dict[Window, Window] = {}
    for (number, start), (there, begin) in repeats.items():
        for offset in range(SIZE):
            goes.add((number, start + offset))
            copies[number, start + offset] = there, begin + offset
        if there == number and start - begin < SIZE:
            stays |= {(there, begin + offset) for offset in range(SIZE)}
    assert repeats_of(documents, ranks) == repeats
    cut = cut_words(documents, repeats)
    assert cut == goes - stays
    for number, word in cut:
        place = copies[number, word]
        while place in cut:
            place = copies[place]
        assert documents[place[0]][place[1]] == documents[number][word]


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["a", "b.", "c", "猫", "犬。", "\n", "\n\n", " ", "  ", "\n  ", "\u00a0", "\u3000\n"]
        ),
        max_size=80,
    ),
    st.data(),
)
def test_a_readable_cut_joins_no_words_and_keeps_half_of_the_range(
    parts: list[str], data: st.DataObject
) -> None:
    text = "".join(parts).encode()
    words = words_of(np.frombuffer(text, np.uint8))
    count = len(words.hashes)
    if not count:
        return
    low = data.draw(st.integers(0, count - 1))
    high = data.draw(st.integers(low + 1, count))
    cut = readable_cut(text, words, low, high, min_words=8)
    if cut is None:  # the words beside it would be joined
        assert high - low == 1
        assert b" " not in text[words.ends[low - 1] : words.starts[high]]
        return
    assert 0 <= cut.start < cut.end <= len(text)
    gone = split_tokens(text[cut.start : cut.end].decode())
    assert (high - low - 1) / 2 <= len(gone) <= high - low
    left = text[: cut.start] + text[cut.end :]
    every = split_tokens(text.decode())
    first = len(split_tokens(text[: cut.start].decode()))
    assert every[first : first + len(gone)] == gone
    assert low <= first <= first + len(gone) <= high
    assert split_tokens(left.decode()) == every[:first] + every[first + len(gone) :]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("one\n\ngone gone\n\ntwo\n", "one\n\ntwo\n"),
        ("gone gone\n\n\ntwo\n", "two\n"),
        ("one\ngone gone\n  two\n", "one\n  two\n"),
        ("one\n    gone gone\n    two", "one\n    two"),
        ("one gone gone two", "one two"),
        ("one gone gone\ntwo", "one\ntwo"),
        ("one\n  gone gone two", "one\n  two"),
        ("gone gone", ""),
        ("one\n\ngone gone", "one\n\n"),
        ("\u00a0gone gone\n\ntwo", "two"),
        ("one gone gone\u3000", "one\u3000"),
        ("one\n\u3000\ngone gone\n\u00a0\ntwo", "one\n\u3000\ntwo"),
    ],
)
def test_white_space_around_a_cut_is_as_a_writer_would_have_it(text: str, left: str) -> None:
    data = text.encode()
    words = words_of(np.frombuffer(data, np.uint8))
    low = split_tokens(text).index("gone")
    cut = readable_cut(data, words, low, low + 2, min_words=8)
    assert cut is not None
    assert (data[: cut.start] + data[cut.end :]).decode() == left


def test_a_cut_begins_and_ends_with_lines_or_sentences_near_its_ends() -> None:
    text = "of it. Yes\nfirst line here\nsecond line there\nthird one (end). but then"
    words, data = words_of(np.frombuffer(text.encode(), np.uint8)), text.encode()
    cut = readable_cut(data, words, 1, 13, min_words=12)
    assert cut is not None
    assert data[cut.start : cut.end].decode() == "first line here\nsecond line there\nthird one (end). "
    cut = readable_cut(data, words, 1, 3, min_words=12)
    assert cut is not None
    assert data[cut.start : cut.end].decode() == " it. Yes"


def test_lines_are_cut_with_their_ends_and_indentation() -> None:
    data = b"a\n\n  gone\n\n\nb\n"
    spans = lines_of(np.frombuffer(data, np.uint8), min_chars=2)
    start = line_begin(data, int(spans.starts[0]))
    end = lines_end(data, int(spans.ends[0]), blank_before=blank_before(data, start))
    assert data[:start] + data[end:] == b"a\n\nb\n"


RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), max_size=5).map(
    lambda pairs: merged([(start, start + size) for start, size in pairs])
)


@settings(deadline=None)
@given(RANGES, RANGES)
def test_what_is_left_out_and_merged_is_what_sets_say(
    ranges: list[tuple[int, int]], others: list[tuple[int, int]]
) -> None:
    def every(pairs: list[tuple[int, int]]) -> set[int]:
        return {place for low, high in pairs for place in range(low, high)}

    arrays = [np.array(pairs, np.int64).reshape(-1, 2) for pairs in (ranges, others)]
    sizes = [len(every([pair]) - every(others)) for pair in ranges]
    assert uncovered(arrays[0], arrays[1]).tolist() == sizes
    assert every(merged([*ranges, *others])) == every(ranges) | every(others)
    text = np.arange(60, dtype=np.uint8)
    kept = without(text, np.array(ranges, np.int64).reshape(-1, 2))
    assert kept.tolist() == [place for place in range(60) if place not in every(ranges)]


@pytest.mark.parametrize(
    ("text", "low", "high", "left"),
    [
        ("猫abc犬 gone 犬xyz猫", 1, 5, "猫xyz猫"),
        ("abc犬 gone 犬xyz", 1, 4, "abc犬 xyz"),
        ("猫犬猫犬猫犬", 2, 4, "猫犬猫犬"),
    ],
)
def test_in_scripts_without_spaces_no_two_words_become_one(
    text: str, low: int, high: int, left: str
) -> None:
    data = text.encode()
    words = words_of(np.frombuffer(data, np.uint8))
    cut = readable_cut(data, words, low, high, min_words=2)
    assert cut is not None
    assert (data[: cut.start] + data[cut.end :]).decode() == left


def test_a_cut_in_chinese_goes_from_clause_to_clause() -> None:
    text = "人人生而自由，在尊严和权利上一律平等、赋有理性和良心，他们走。"
    words = words_of(np.frombuffer(text.encode(), np.uint8))
    every = split_tokens(text)
    low, high = every.index("由") + 1, every.index("他") + 1
    cut = readable_cut(text.encode(), words, low, high, min_words=12)
    assert cut is not None
    assert text.encode()[cut.start : cut.end].decode() == "在尊严和权利上一律平等、赋有理性和良心，"


WORD_RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), max_size=6).map(
    lambda pairs: [*filter(lambda pair: pair[0] < pair[1], _apart(pairs))]
)


def _apart(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(low, min(high, 40)) for low, high in merged([(low, low + size) for low, size in pairs])]


@settings(deadline=None)
@given(WORD_RANGES, WORD_RANGES)
def test_words_that_are_cut_already_are_no_neighbours(
    ranges: list[tuple[int, int]], gone: list[tuple[int, int]]
) -> None:
    words = words_of(np.frombuffer(b"a " * 40, np.uint8))
    taken = np.array([(2 * low, 2 * high) for low, high in gone], np.int64).reshape(-1, 2)
    left, found, begins = outside(words, np.array(ranges, np.int64).reshape(-1, 2), taken)
    stay = [word for word in range(40) if not any(low <= word < high for low, high in gone)]
    assert left.starts.tolist() == [2 * word for word in stay]
    marked = [any(low <= word < high for low, high in ranges) for word in stay]
    assert [place for low, high in found.tolist() for place in range(low, high)] == [
        place for place, mark in enumerate(marked) if mark
    ]
    assert (found[:, 0] < found[:, 1]).all()
    assert (found[1:, 0] > found[:-1, 1]).all()
    assert begins.tolist() == [stay[low] for low in found[:, 0]]


def test_documents_are_counted_once_however_often_a_line_stands_in_them() -> None:
    def found(documents: list[str], least: int) -> int:
        blocks = []
        for number, text in enumerate(documents):
            spans = lines_of(np.frombuffer(text.encode(), np.uint8), min_chars=1)
            places = places_of(number, np.arange(len(spans.keys)))
            blocks.append(SpanBlock(spans.keys, spans.checks, places, np.full(len(places), number)))
        return sum(len(block) for block in find_repeats(lambda: blocks, min_documents=least))

    assert found(["x\nx\nx", "x"], 3) == 0
    assert found(["x\nx\nx", "x"], 2) == 4
    assert found(["x", "x", "y", "x"], 3) == 3
