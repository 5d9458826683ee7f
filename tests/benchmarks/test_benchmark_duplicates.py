"""What the contest of deduplicating programs promises: its measure is the rule, by every pair."""

import itertools
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from brute_force import ideal_of, judge, sets_of, similar_pairs
from duplicates import Row, table
from duplicates_picture import draw

from stages.dedup.shingles import shingle_set


def texts_of(seed: int) -> list[str]:
    """Return short texts, many of them alike."""
    rng = np.random.default_rng(seed)
    base = [" ".join(rng.choice(list("abcdefgh"), int(rng.integers(0, 30)))) for _ in range(12)]
    texts = []
    for _ in range(80):
        words = base[rng.integers(len(base))].split()
        if words and rng.integers(2):
            words[int(rng.integers(len(words)))] = "new"
        texts.append(" ".join(words))
    return texts


def plain_similarity(a: str, b: str, size: int) -> float:
    """Return the Jaccard similarity of two texts by Python's sets."""
    one, other = (set(shingle_set(text, size=size).tolist()) for text in (a, b))
    return len(one & other) / len(one | other) if one | other else 0.0


@pytest.mark.parametrize("threshold", [0.5, 0.8, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_every_pair_at_the_threshold_is_found(seed: int, threshold: float) -> None:
    texts = texts_of(seed)
    expected = [
        (a, b)
        for a, b in itertools.combinations(range(len(texts)), 2)
        if plain_similarity(texts[a], texts[b], 2) >= threshold
    ]
    assert expected
    assert similar_pairs(sets_of(texts, size=2), threshold=threshold) == expected


@pytest.mark.parametrize("seed", range(4))
def test_the_ideal_is_the_rule_in_plain_loops(seed: int) -> None:
    texts = texts_of(seed)
    kept: list[int] = []
    seen: set[str] = set()
    for number, text in enumerate(texts):
        alike = any(plain_similarity(texts[other], text, 2) >= 0.6 for other in kept)
        if text not in seen and not alike:
            kept.append(number)
        seen.add(text)
    ideal = ideal_of(texts, size=2, threshold=0.6)
    assert 0 < len(kept) < len(texts)
    assert sorted(ideal.removed) == sorted(set(range(len(texts))) - set(kept))
    judged = judge(ideal, ideal.removed)
    assert (judged.recall, judged.precision, judged.left, judged.unmatched) == (1.0, 1.0, 0, 0)


def test_what_is_removed_alone_and_what_is_left_count() -> None:
    texts = ["a b c d e f", "a b c d e f", "u v w x y z", "a b c d e f g"]
    ideal = ideal_of(texts, size=2, threshold=0.8)
    assert ideal.removed == {1, 3}
    judged = judge(ideal, frozenset({1, 2}))
    assert (judged.found, judged.left, judged.unmatched) == (1, 1, 1)
    assert (judged.recall, judged.precision) == (0.5, 0.5)
    other = judge(ideal, frozenset({0, 1}))  # the last of three is kept in place of the first
    assert (other.left, other.unmatched) == (0, 0)


def test_texts_without_a_word_are_like_no_other() -> None:
    assert ideal_of(["", " ", "\n"], size=5, threshold=0.8).removed == frozenset()


def test_the_picture_has_a_bar_for_each_figure() -> None:
    bars = [("one", (1.0, 0.5, 3.0)), ("<two>", (0.0, 1.0, 6.0))]
    drawn = ET.fromstring(draw({"a & b": bars}))  # noqa: S314  # our own
    tag = "{http://www.w3.org/2000/svg}"
    assert len(drawn.findall(f"{tag}rect")) == 1 + 6
    said = {found.text for found in drawn.findall(f"{tag}text")}
    assert {"a & b", "<two>", "0.5000", "6.0"} <= said


def test_a_program_without_figures_is_a_row() -> None:
    assert "not installed: pip failed" in table([Row("peer", None, error="not installed: pip failed")])
