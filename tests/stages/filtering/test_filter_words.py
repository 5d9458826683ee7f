"""What words promise: the kernels find those of the plain statement, with their lengths and hashes."""

import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.filtering.characters import ALPHA, DIGIT, EDGE, LOWER, UPPER, character_flags
from stages.filtering.words import ALPHABETIC, REAL, Words, split_words, word_hash
from tests.campaign import examples
from tests.stages.filtering.texts import TEXTS

DENSE = st.text(st.sampled_from("aB1.,'’-–:/nts \n…ü漢+*(_"), min_size=1, max_size=24)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "It's (no) well-known fact...",
            ["It", "'s", "(", "no", ")", "well", "-", "known", "fact", "..."],
        ),
        ("don't isn’t l’eau o'clock", ["do", "n't", "is", "n’t", "l’eau", "o'clock"]),
        (
            "$3,000.50 red,green 25-38 a-1",
            ["$", "3,000.50", "red", ",", "green", "25", "-", "38", "a-1"],
        ),
        (
            "and/or x=y end.Begin HTML::A",
            ["and", "/", "or", "x", "=", "y", "end", ".", "Begin", "HTML::A"],
        ),
        ("-lc /usr g++ snake_case ==", ["-lc", "/usr", "g++", "snake_case", "=", "="]),
        ("a..b…c --- . 'n't", ["a", "..", "b", "…", "c", "---", ".", "'", "n't"]),
        ("  猫が座る。 हिन्दी में\u00a0x ", ["猫が座る", "。", "हिन्दी", "में", "x"]),
        (" \n", []),
    ],
)
def test_words_are_as_written_out(text: str, words: list[str]) -> None:
    assert split_words(text) == words
    assert Words(text.encode()).hashes.tolist() == [word_hash(word) for word in words]


@settings(deadline=None, derandomize=True, max_examples=examples(500))
@given(TEXTS | DENSE)
def test_the_kernels_find_the_words_of_the_plain_statement(text: str) -> None:
    words, found = split_words(text), Words(text.encode())
    assert found.hashes.tolist() == [word_hash(word) for word in words]
    assert found.lengths.tolist() == [len(word) for word in words]
    letters = [any(character.isalpha() for character in word) for word in words]
    assert [bool(kind & ALPHABETIC) for kind in found.kinds] == letters
    assert "".join(words) == "".join(text.split())


def test_words_of_listed_punctuation_alone_are_no_real_ones() -> None:
    text = "a ... -- ！ • 1 _ €"
    found = dict(zip(split_words(text), Words(text.encode()).kinds.tolist(), strict=True))
    assert {word for word, kind in found.items() if kind & REAL} == {"a", "•", "1", "€"}


def test_the_hash_of_words_put_together_follows_from_theirs() -> None:
    found = Words(b"ab cd")
    joined = (int(found.hashes[0]) * int(found.powers[1]) + int(found.hashes[1])) % (1 << 64)
    assert joined == word_hash("abcd")


def test_classes_of_characters_are_those_of_unicode_s_database_up_to_its_end() -> None:
    names = [unicodedata.category(chr(code)) for code in range(sys.maxunicode + 1)]
    for flag, members in ((ALPHA, "Lu Ll Lt Lm Lo"), (DIGIT, "Nd"), (LOWER, "Ll"), (UPPER, "Lu")):
        wanted = np.isin(names, members.split())
        assert np.array_equal(character_flags() & flag != 0, wanted)
    marks = {chr(code) for code in np.flatnonzero(character_flags() & EDGE).tolist()}
    expected = {chr(code) for code, name in enumerate(names) if name[0] in "PS"}
    assert marks == expected - set("-/@\\|^~+")
