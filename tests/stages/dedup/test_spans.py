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


def thue_morse(size: int, letters: str) -> list[str]:
    """Return a word of which two forms, with letters exchanged, have one hash modulo any power of 2."""
    return [letters[place.bit_count() % 2] for place in range(size)]


@pytest.mark.parametrize("letters", ["ab", "Zq"])
def test_lines_that_defeat_polynomials_modulo_a_power_of_two_are_told_apart(letters: str) -> None:
    one, other = ("".join(thue_morse(2048, form)) for form in (letters, letters[::-1]))
    found = lines_of(data_of(f"{one}\n{other}\n{one}"), min_chars=1)
    assert len(set(found.keys.tolist())) == 1  # which is why there is a check
    assert found.checks[0] == found.checks[2] != found.checks[1]


def test_windows_that_defeat_polynomials_modulo_a_power_of_two_are_told_apart() -> None:
    one, other = (" ".join(thue_morse(2048, form)) for form in ("ab", "ba"))
    checks = [substrings_of(words_of(data_of(text)), min_words=2048).checks[0] for text in (one, other)]
    assert checks[0] != checks[1]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["a", "b", "猫", "\U0001f600"]), min_size=30, max_size=60),
    st.integers(1, 30),
)
def test_a_window_has_one_hash_wherever_it_stands(words: list[str], size: int) -> None:
    found = substrings_of(words_of(data_of(" ".join(words))), min_words=size)
    for place in range(len(found.keys)):
        alone = substrings_of(words_of(data_of(" ".join(words[place : place + size]))), min_words=size)
        assert (alone.keys[0], alone.checks[0]) == (found.keys[place], found.checks[place])
