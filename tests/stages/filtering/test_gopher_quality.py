"""What Gopher's quality rules promise: each at its bound, in their order, as the plain definition."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.filtering.filter import Removal
from stages.filtering.gopher_quality import GopherQuality
from stages.filtering.words import split_words
from tests.campaign import examples
from tests.stages.filtering.texts import TEXTS, judged, rule

OPEN: dict[str, float] = {
    "min_words": 0,
    "min_mean_word_length": 0.0,
    "max_mean_word_length": 1000.0,
    "max_symbol_ratio": 1000.0,
    "max_bullet_lines": 1.0,
    "max_ellipsis_lines": 1.0,
    "min_alphabetic_words": 0.0,
    "min_stop_words": 0,
}
"""Bounds that drop nothing."""
LISTED = set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~…。")


def one(**bounds: object) -> GopherQuality:
    """Return settings of which only these bounds can drop something."""
    return GopherQuality.model_validate({**OPEN, **bounds})


def plain_rule(text: str, config: GopherQuality) -> str | None:  # noqa: PLR0911  # one for each rule
    """Return the first rule that a text breaks, by the definitions."""
    words = split_words(text)
    real = [word for word in words if not set(word) <= LISTED]
    if len(real) < config.min_words:
        return "too_few_words"
    if len(real) > config.max_words:
        return "too_many_words"
    mean = sum(map(len, real)) / max(1, len(real))
    if mean < config.min_mean_word_length:
        return "short_words"
    if mean > config.max_mean_word_length:
        return "long_words"
    if text.count("#") / len(words) > config.max_symbol_ratio:
        return "hashes"
    if (text.count("...") + text.count("…")) / len(words) > config.max_symbol_ratio:
        return "ellipses"
    lines = text.splitlines()
    if (
        sum(line.lstrip().startswith(("•", "-")) for line in lines) / len(lines)
        > config.max_bullet_lines
    ):
        return "bullet_lines"
    if (
        sum(line.rstrip().endswith(("...", "…")) for line in lines) / len(lines)
        > config.max_ellipsis_lines
    ):
        return "ellipsis_lines"
    letters = sum(any(map(str.isalpha, word)) for word in words)
    if letters / len(words) < config.min_alphabetic_words:
        return "non_alphabetic_words"
    found = set(words) & set(config.stop_words)
    return "few_stop_words" if len(found) < config.min_stop_words else None


@pytest.mark.parametrize(
    ("bounds", "kept", "dropped", "broken"),
    [
        ({"min_words": 3}, "a b c", "a b ...", "too_few_words"),
        ({"max_words": 3}, "a b c !", "a b c d", "too_many_words"),
        ({"min_mean_word_length": 2}, "abc a !!!!", "ab a !!!!", "short_words"),
        ({"max_mean_word_length": 2}, "abc a", "abc ab", "long_words"),
        ({"max_symbol_ratio": 0.25}, "a b c #", "a b ##", "hashes"),
        ({"max_symbol_ratio": 0.25}, "a b c ...", "a b … ...", "ellipses"),
        ({"max_bullet_lines": 0.5}, "• a\nb", "• a\n - b\nc", "bullet_lines"),
        ({"max_ellipsis_lines": 0.5}, "a...\nb. . .", "a... \nb …\nc", "ellipsis_lines"),
        ({"min_alphabetic_words": 0.5}, "a 1", "a 1 2", "non_alphabetic_words"),
        ({"min_stop_words": 2}, "the be", "the the The", "few_stop_words"),
    ],
)
def test_each_rule_drops_what_is_past_its_bound_and_nothing_at_it(
    bounds: dict[str, object], kept: str, dropped: str, broken: str
) -> None:
    assert rule(one(**bounds), kept) is None
    assert rule(one(**bounds), dropped) == broken


def test_punctuation_marks_are_words_without_a_letter() -> None:
    found = judged(one(min_alphabetic_words=0.8), "Yes, he did (I think).")
    assert found == Removal(
        "non_alphabetic_words", f"share with a letter: {5 / 9:.4g}; min_alphabetic_words = 0.8"
    )


def test_the_bounds_of_the_paper_are_the_defaults() -> None:
    sentence = "the cat and the dog sat on a large mat with care"
    assert len(split_words(sentence)) == 12
    assert rule(GopherQuality(), " ".join([sentence] * 5)) is None
    assert judged(GopherQuality(), " ".join([sentence] * 4)) == Removal(
        "too_few_words", "words: 48; min_words = 50"
    )
    assert judged(GopherQuality(), "of the " * 25) == Removal(
        "short_words", "characters a word: 2.5; min_mean_word_length = 3"
    )


@settings(deadline=None, derandomize=True, max_examples=examples(300))
@given(TEXTS, st.sampled_from(sorted(OPEN)), st.sampled_from([0, 0.1, 0.3, 0.5, 1, 2, 5]))
def test_verdicts_equal_the_plain_definition(text: str, name: str, bound: float) -> None:
    if name in {"max_bullet_lines", "max_ellipsis_lines", "min_alphabetic_words"}:
        bound = min(1, bound)
    elif name in {"min_words", "min_stop_words"}:
        bound = int(bound)
    elif name == "max_mean_word_length":
        bound = max(0.1, bound)
    for config in (one(**{name: bound}), GopherQuality(min_words=int(bound), min_stop_words=0)):
        assert rule(config, text) == plain_rule(text, config)


def test_bounds_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValidationError, match="min_words = 5: over max_words = 4"):
        GopherQuality(min_words=5, max_words=4)
    with pytest.raises(
        ValidationError, match=r"min_mean_word_length = 12\.0: over max_mean_word_length = 10\.0"
    ):
        GopherQuality(min_mean_word_length=12)
    with pytest.raises(ValidationError, match="min_stop_words = 3: stop_words has 2"):
        GopherQuality(min_stop_words=3, stop_words=("le", "la", "le"))


@pytest.mark.parametrize("word", ["", " ", " a b", " the", "don't", "well-known", "the\n"])
def test_a_stop_word_that_no_text_can_have_is_refused(word: str) -> None:
    with pytest.raises(ValidationError, match=r"is no single word; words in it: .*; name one an entry"):
        GopherQuality(min_stop_words=1, stop_words=("the", word))


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("'s", "it's"),
        ("n't", "don't"),
        ("हिन्दी", "में हिन्दी"),
        ("aujourd'hui", "aujourd'hui"),
        ("e\u0301te\u0301", "un \xe9t\xe9"),
    ],
)
def test_a_stop_word_of_any_language_is_found(word: str, text: str) -> None:
    assert rule(one(min_stop_words=1, stop_words=[word]), text) is None
    assert rule(one(min_stop_words=1, stop_words=[word]), "of") == "few_stop_words"
