"""Measures of a text: the numbers that the docstring names, of the beginning of a long text."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from stages.filtering.characters import MEASURED_CHARACTERS, TextMeasures, measure_text
from tests.campaign import examples


def test_a_text_is_measured_as_a_reader_counts_it() -> None:
    text = "One two.\nOne two.\n\nTHREE 44"
    found = measure_text(text)
    assert found.characters == len(text) == 27
    assert found.word_characters == (3 + 4 + 3 + 4 + 5 + 2) / 6
    assert found.line_characters == (8 + 8 + 8) / 3
    assert found.letters == (6 + 6 + 5) / 27
    assert found.capitals == (1 + 1 + 5) / 17
    assert found.digits == 2 / 27
    assert found.spaces == 6 / 27
    assert found.marks == 2 / 27
    assert found.repeated_lines == 8 / 24
    assert found.different_words == 4 / 6


def test_vowel_signs_are_letters() -> None:
    assert measure_text("\u0939\u093f\u0902\u0926\u0940").letters == 1.0  # "Hindi" in Hindi


def test_a_text_of_nothing_has_no_shares() -> None:
    assert measure_text("") == TextMeasures(0, *[0.0] * 9)
    assert measure_text(" \n ").line_characters == 0


def test_of_a_long_text_all_but_its_length_is_of_the_beginning() -> None:
    text = "a" * MEASURED_CHARACTERS + "1" * 10
    found = measure_text(text)
    assert found.characters == len(text)
    assert (found.letters, found.digits) == (1.0, 0.0)


@given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("aA1 \n."), max_size=60))
@settings(max_examples=examples(100))
def test_classes_of_characters_are_those_of_python(text: str) -> None:
    found, size = measure_text(text), max(len(text), 1)
    assert math.isclose(found.digits * size, sum(one.isdecimal() for one in text), abs_tol=1e-9)
    assert math.isclose(found.spaces * size, sum(one.isspace() for one in text), abs_tol=1e-9)
    assert found.letters + found.digits + found.spaces + found.marks <= 1 + 1e-9
    assert all(0 <= one <= 1 for one in found[3:])
