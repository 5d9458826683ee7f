"""What spans promise: the words, lines and paragraphs of a text, known by what they say alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.dedup.shingles import split_tokens
from stages.dedup.spans import Spans, lines_of, paragraphs_of, substrings_of, words_of

TEXTS = st.text(alphabet=" \n\tab,.é猫が\u3000\u00a0ไ", max_size=120)


def data_of(text: str) -> NDArray[np.uint8]:
    """Return a text in UTF-8."""
    return np.frombuffer(text.encode(), np.uint8)


def said(text: str, spans: Spans) -> list[str]:
    """Return what spans say, without white space at the ends."""
    data = text.encode()
    return [data[start:end].decode() for start, end in zip(spans.starts, spans.ends, strict=True)]


@settings(deadline=None)
@given(TEXTS)
def test_words_are_the_tokens_of_shingles_at_their_places(text: str) -> None:
    words, data = words_of(data_of(text)), text.encode()
    found = [data[start:end].decode() for start, end in zip(words.starts, words.ends, strict=True)]
    assert found == split_tokens(text)
    hashes = dict(zip(found, words.hashes.tolist(), strict=True))
    assert [hashes[word] for word in found] == words.hashes.tolist()
    assert len(set(hashes.values())) == len(hashes)


@settings(deadline=None)
@given(TEXTS)
def test_lines_and_paragraphs_are_those_of_plain_loops(text: str) -> None:
    lines = [line.strip() for line in text.split("\n")]
    assert said(text, lines_of(data_of(text), min_chars=1)) == [line for line in lines if line]
    blocks, block = list[list[str]](), list[str]()
    for line in [*lines, ""]:
        if line:
            block.append(line)
        elif block:
            blocks.append(block)
            block = []
    found = paragraphs_of(data_of(text), min_chars=1)
    stripped = [[line.strip() for line in one.split("\n")] for one in said(text, found)]
    assert stripped == blocks
    keys = dict(zip(map(tuple, blocks), found.keys.tolist(), strict=True))
    assert [keys[tuple(one)] for one in blocks] == found.keys.tolist()
    assert len(set(keys.values())) == len(keys)


@pytest.mark.parametrize(("least", "count"), [(1, 3), (2, 2), (4, 1), (5, 0)])
def test_short_lines_are_none_counted_in_characters(least: int, count: int) -> None:
    assert len(lines_of(data_of("猫が座る\n  é \nab "), min_chars=least).keys) == count


@settings(deadline=None)
@given(st.lists(st.sampled_from("ab"), min_size=0, max_size=40), st.integers(1, 6))
def test_windows_are_equal_where_their_words_are(words: list[str], size: int) -> None:
    spans = substrings_of(words_of(data_of(" ".join(words))), min_words=size)
    windows = [tuple(words[start : start + size]) for start in range(len(words) - size + 1)]
    assert len(spans.keys) == len(windows)
    known = dict(zip(windows, zip(spans.keys.tolist(), spans.checks.tolist(), strict=True), strict=True))
    pairs = [*zip(spans.keys.tolist(), spans.checks.tolist(), strict=True)]
    assert [known[window] for window in windows] == pairs
    assert len({key for key, _ in known.values()}) == len(known)
