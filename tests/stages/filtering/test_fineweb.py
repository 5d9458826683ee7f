"""What FineWeb's rules promise: each at its bound, in their order, as the plain definition."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.filtering.fineweb import FineWeb
from stages.filtering.words import split_words
from tests.campaign import examples
from tests.stages.filtering.texts import TEXTS, rule

OPEN: dict[str, float] = {
    "min_ended_lines": 0.0,
    "max_short_lines": 1.0,
    "max_repeated_characters": 1.0,
    "max_lines_per_word": 1000.0,
}
STOPS = (".", "!", "?", "。", "।")


def one(**bounds: float) -> FineWeb:
    """Return settings of which only these bounds can drop something."""
    return FineWeb.model_validate({**OPEN, **bounds})


def plain_rule(text: str, config: FineWeb) -> str | None:
    """Return the first rule that a text breaks, by the definitions."""
    lines = [line for line in text.split("\n") if line.strip()]
    if sum(line.endswith(STOPS) for line in lines) / len(lines) < config.min_ended_lines:
        return "unended_lines"
    if sum(len(line) <= config.short_line for line in lines) / len(lines) > config.max_short_lines:
        return "short_lines"
    repeated = sum(len(line) for place, line in enumerate(lines) if line in lines[:place])
    if repeated / len(text.replace("\n", "")) > config.max_repeated_characters:
        return "repeated_characters"
    over = text.count("\n") / len(split_words(text)) > config.max_lines_per_word
    return "many_lines" if over else None


@pytest.mark.parametrize(
    ("bounds", "kept", "dropped", "broken"),
    [
        ({"min_ended_lines": 0.5}, "a.\nb\n \n", "a.\nb\nc", "unended_lines"),
        ({"min_ended_lines": 1.0}, "नमस्ते।\n猫。", "नमस्ते।\n猫", "unended_lines"),
        ({"max_short_lines": 0.5}, "a" * 31 + "\n" + "b" * 30, "a" * 31 + "\nb\nc", "short_lines"),
        ({"max_repeated_characters": 0.2}, "abc\na\na", "abc\na\na\na", "repeated_characters"),
        ({"max_lines_per_word": 0.5}, "a b\nc d\n", "a\nb\nc", "many_lines"),
    ],
)
def test_each_rule_drops_what_is_past_its_bound_and_nothing_at_it(
    bounds: dict[str, float], kept: str, dropped: str, broken: str
) -> None:
    assert rule(one(**bounds), kept) is None
    assert rule(one(**bounds), dropped) == broken


def test_the_bounds_of_the_paper_are_the_defaults() -> None:
    config = FineWeb()
    bounds = (config.min_ended_lines, config.max_short_lines, config.short_line)
    assert (*bounds, config.max_repeated_characters) == (0.12, 0.67, 30, 0.01)
    assert config.max_lines_per_word == 0.3


@settings(deadline=None, derandomize=True, max_examples=examples(300))
@given(
    TEXTS, st.sampled_from(sorted(OPEN)), st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0]), st.integers(0, 12)
)
def test_verdicts_equal_the_plain_definition(text: str, name: str, bound: float, short: int) -> None:
    for config in (one(**{name: bound, "short_line": short}), FineWeb(short_line=short)):
        assert rule(config, text) == plain_rule(text, config)
