"""What Gopher's repetition rules promise: each at its bound, in their order, as the plain definition."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.cleaning.text import clean_text
from stages.filtering.filter import Removal
from stages.filtering.gopher_repetition import GopherRepetition
from stages.filtering.words import split_words
from tests.campaign import examples
from tests.stages.filtering.texts import TEXTS, judged, rule

OPEN: dict[str, object] = {
    "max_lines": 1.0,
    "max_paragraphs": 1.0,
    "max_line_characters": 1.0,
    "max_paragraph_characters": 1.0,
    "max_top": [1.0] * 3,
    "max_repeated": [1.0] * 6,
}
"""Bounds that drop nothing."""
REPEATING = st.lists(
    st.sampled_from(
        ["a b c d e f ", "a b c d e ", "x ", "y z ", " ", "\n", "\n\n", "\n\u00a0\n", "\n\t\n"]
    ),
    min_size=1,
    max_size=40,
)


def one(**bounds: object) -> GopherRepetition:
    """Return settings of which only these bounds can drop something."""
    return GopherRepetition.model_validate({**OPEN, **bounds})


def repeats(pieces: list[str]) -> tuple[int, int]:
    """Return how many pieces stand there before, and their characters."""
    seen: set[str] = set()
    found = [piece for piece in pieces if piece in seen or seen.add(piece)]  # type: ignore[func-returns-value]
    return len(found), sum(map(len, found))


def emptied(text: str) -> str:
    """Return a text with nothing in its lines of white space alone."""
    return "\n".join(line if line.strip() else "" for line in text.split("\n"))


def plain_rules(text: str, config: GopherRepetition) -> list[str]:
    """Return the rules that a text breaks, by the definitions."""
    broken = []
    for name, pieces in (
        ("paragraph", re.split("\n{2,}", emptied(text).strip())),
        ("line", re.split("\n+", emptied(text).strip("\n"))),
    ):
        number, characters = repeats(pieces)
        if number / len(pieces) > getattr(config, f"max_{name}s"):
            broken.append(f"{name}s")
        if characters / len(text) > getattr(config, f"max_{name}_characters"):
            broken.append(f"{name}_characters")
    words = split_words(text)
    for size, bound in zip((2, 3, 4), config.max_top, strict=True):
        runs = Counter(" ".join(words[n : n + size]) for n in range(len(words) - size + 1))
        if runs:
            run, number = runs.most_common(1)[0]
            if min(1, len(run) * number / len(text)) > bound:
                broken.append(f"top_{size}")
    for size, bound in zip(range(5, 11), config.max_repeated, strict=True):
        if repeated_characters(words, size) / len(text) > bound:
            broken.append(f"repeated_{size}")
    return broken


def repeated_characters(words: list[str], size: int) -> int:
    """Return the characters of runs that stand there before, looked for from left to right."""
    seen: set[str] = set()
    place = characters = 0
    while place < len(words) - size + 1:
        run = "".join(words[place : place + size])
        if run in seen:
            characters, place = characters + len(run), place + size
        else:
            seen.add(run)
            place += 1
    return characters


@pytest.mark.parametrize(
    ("bounds", "kept", "dropped", "broken"),
    [
        ({"max_paragraphs": 0.3}, "a\n\nb\n\na\n\nc", "a\n\na\n\nb", "paragraphs"),
        (
            {"max_paragraph_characters": 0.2},
            "abcdefghijkl\n\nc\n\nc",
            "abc\n\nabc\n\nb",
            "paragraph_characters",
        ),
        (
            {"max_paragraph_characters": 0.2},
            "a\nb\n\nc\nd\n\ne",
            "a\nb\n\na\nb\n\nc",
            "paragraph_characters",
        ),
        ({"max_lines": 0.3}, "a\nb\na\nc", "a\na\nb", "lines"),
        ({"max_line_characters": 0.2}, "abcdefgh\nc\n\nc", "ab\nab\nb", "line_characters"),
        ({"max_top": [0.5, 1, 1]}, "ab cd ef gh ij", "ab cd ab cd x", "top_2"),
        ({"max_top": [1, 0.5, 1]}, "a b c a b d ef", "a b c a b c", "top_3"),
        ({"max_top": [1, 1, 0.5]}, "a b c d efghijkl", "a b c d a b c d", "top_4"),
        (
            {"max_repeated": [0.3, 1, 1, 1, 1, 1]},
            "a b c d e x a b c d y",
            "abc b c d e abc b c d e",
            "repeated_5",
        ),
    ],
)
def test_each_rule_drops_what_is_past_its_bound_and_nothing_within(
    bounds: dict[str, object], kept: str, dropped: str, broken: str
) -> None:
    assert rule(one(**bounds), kept) is None
    assert rule(one(**bounds), dropped) == broken


def test_the_bounds_of_the_paper_are_the_defaults() -> None:
    config = GopherRepetition()
    assert (config.max_lines, config.max_paragraphs) == (0.30, 0.30)
    assert (config.max_line_characters, config.max_paragraph_characters) == (0.20, 0.20)
    assert (config.max_top, config.max_repeated) == (
        (0.20, 0.18, 0.16),
        (0.15, 0.14, 0.13, 0.12, 0.11, 0.10),
    )


@settings(deadline=None, derandomize=True, max_examples=examples(300))
@given(TEXTS | REPEATING.map("".join).filter(str.strip), st.sampled_from([None, 0.0, 0.1, 0.4]))
def test_verdicts_equal_the_plain_definition(text: str, bound: float | None) -> None:
    every = [GopherRepetition()]
    if bound is not None:
        every = [one(**{name: bound}) for name in OPEN if isinstance(OPEN[name], float)]
        every += [one(max_top=[bound] * 3), one(max_repeated=[bound] * 6)]
    for config in every:
        assert rule(config, text) == next(iter(plain_rules(text, config)), None)


BLANK = [chr(code) for code in range(0x3001) if chr(code).isspace() and clean_text(chr(code)) != "\n"]


@settings(deadline=None, derandomize=True, max_examples=examples(300))
@given(REPEATING.map("".join).filter(str.strip), st.text(st.sampled_from(BLANK), max_size=3))
def test_what_blank_lines_hold_changes_no_verdict_on_pieces(text: str, blank: str) -> None:
    """As in <p>&nbsp;</p> between paragraphs that are all different."""
    lines = text.strip("\n").split("\n")
    filled = "\n".join(line if line.strip() else blank for line in ["", *lines, ""])
    for name in ("max_lines", "max_paragraphs"):
        for bound in (0.0, 0.3, 0.5):
            config = one(**{name: bound})
            assert rule(config, filled) == rule(config, "\n".join(lines))


@pytest.mark.parametrize("blank", BLANK)
def test_different_paragraphs_between_blank_lines_are_no_repeats(blank: str) -> None:
    text = f"\n\n{blank}\n\n".join(
        f"Paragraph {n} says what none of the others says." for n in range(10)
    )
    pieces = {name: value for name, value in OPEN.items() if name.startswith("max_t")}
    config = GopherRepetition.model_validate({**pieces, "max_repeated": OPEN["max_repeated"]})
    assert rule(config, text) is None
    assert rule(config, f"{blank}\n{text}\n{blank}\n") is None


def test_a_list_of_bounds_of_another_length_is_refused() -> None:
    with pytest.raises(ValidationError, match="must hold 3 shares, for runs of 2 to 4 words"):
        GopherRepetition(max_top=(0.1, 0.2))
    with pytest.raises(ValidationError, match=r"must hold shares, from 0\.0 to 1\.0"):
        GopherRepetition(max_repeated=(0.1, 0.2, 0.3, 0.4, 0.5, 1.6))


@pytest.mark.parametrize("text", ["!" * 1_000, "! " * 1_000, "a b\n" * 1_000, "x\n\n" * 1_000, "a"])
def test_bounds_of_1_drop_nothing(text: str) -> None:
    assert rule(one(), text) is None
    assert rule(GopherRepetition(), text) is not None or text == "a"


def test_a_share_is_at_most_1_though_top_runs_overlap() -> None:
    verdict = judged(one(max_top=[0.5, 1, 1]), "!" * 1_000)
    assert verdict == Removal("top_2", "share of characters: 1; max_top = 0.5")
