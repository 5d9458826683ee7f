"""What shingles and signatures of many texts at once promise: those of each text alone."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.dedup import shingle_sets as module
from stages.dedup.jaccard import similarities
from stages.dedup.minhash import signature, signatures
from stages.dedup.shingle_sets import ShingleSets, shingle_sets, text_slices
from stages.dedup.shingles import shingle_hashes, shingle_set
from tests.campaign import examples

QUICK = settings(deadline=None, derandomize=True, max_examples=examples(60))
REPEATED = "to be or not to be " * 200
LONG = " ".join(f"word{number}" for number in range(3_000))
TEXTS = [
    "",
    " ",
    "one",
    "the cat sat on the mat",
    "猫が座る。ここに",
    REPEATED,
    "a" * 400,
    LONG,
    "x y z",
]
WORDS = st.text(st.sampled_from("ab \n猫é𝔘"), max_size=60)


def joined(texts: list[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return texts end to end, and where each begins."""
    parts = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, parts)]).astype(np.int64)
    return np.frombuffer(b"".join(parts), np.uint8), ends


def found_sets(texts: list[str], size: int) -> list[list[int]]:
    """Return the set of each text, as they are found together."""
    found = []
    for sets in shingle_sets(*joined(texts), size=size):
        assert sets.ptr[0] == 0
        assert sets.ptr[-1] == len(sets.values)
        found += [sets.values[low:high].tolist() for low, high in pairwise(sets.ptr.tolist())]
    return found


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("most", [1, 50, 1 << 20])
def test_sets_and_signatures_are_those_of_each_text(
    most: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONG_TEXT", most)
    monkeypatch.setattr("stages.dedup.minhash.LONG_TEXT", most)
    assert found_sets(TEXTS, size) == [shingle_set(text, size=size).tolist() for text in TEXTS]
    alone = [signature(shingle_hashes(text, size=size), num_perm=16).tolist() for text in TEXTS]
    assert signatures(*joined(TEXTS), size=size, num_perm=16).tolist() == alone


@QUICK
@given(st.lists(WORDS, max_size=12), st.integers(1, 4))
@example(["a b a b a b " * 100, "a b"], 2)
def test_sets_and_signatures_of_any_texts_are_those_of_each(texts: list[str], size: int) -> None:
    assert found_sets(texts, size) == [shingle_set(text, size=size).tolist() for text in texts]
    alone = [signature(shingle_hashes(text, size=size), num_perm=16).tolist() for text in texts]
    assert signatures(*joined(texts), size=size, num_perm=16).tolist() == alone


def test_texts_may_lie_anywhere_in_the_data() -> None:
    data, offsets = joined(TEXTS)
    (sets,) = shingle_sets(data, offsets[3:6], size=2)
    assert sets.values.tolist() == [value for text in TEXTS[3:5] for value in shingle_set(text, size=2)]
    found = signatures(data, offsets[3:6], size=2, num_perm=16)
    assert found.tolist() == signatures(*joined(TEXTS[3:5]), size=2, num_perm=16).tolist()


@QUICK
@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 20))
def test_slices_are_all_texts_in_order_and_bounded(sizes: list[int], most: int) -> None:
    offsets = np.cumsum([0, *sizes]).astype(np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LONG_TEXT", most)
        slices = list(text_slices(offsets))
    assert [number for first, last in slices for number in range(first, last)] == list(range(len(sizes)))
    for first, last in slices:
        assert offsets[last] - offsets[first] <= most or last - first == 1


@pytest.mark.parametrize("threshold", [0.0, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("size", [30, 300])
def test_similarities_are_those_of_python_sets_or_nothing_under_the_threshold(
    size: int, threshold: float
) -> None:
    rng = np.random.default_rng(4)
    whole = rng.integers(0, 1 << 63, size).tolist()
    plain = [set(whole[: rng.integers(0, size)]) for _ in range(60)] + [set(whole)]
    plain += [set(whole) - set(rng.choice(whole, size // 8).tolist()) for _ in range(60)]
    ends = np.cumsum([0, *map(len, plain)]).astype(np.int64)
    values = np.array([value for one in plain for value in sorted(one)], np.uint64)
    sets = ShingleSets(values, ends)
    left, right = rng.integers(0, len(plain), (2, 2000))
    found = similarities(sets, sets, rows=(left, right), threshold=threshold).tolist()
    expected = []
    for one, other in zip(left.tolist(), right.tolist(), strict=True):
        a, b = plain[one], plain[other]
        exact = len(a & b) / len(a | b) if a | b else 0.0
        expected.append(exact if exact >= threshold else 0.0)
    assert found == expected
    assert 0.0 < sum(found) < len(found)


def test_sets_that_are_as_similar_as_the_threshold_are_found() -> None:
    sets = ShingleSets(np.array([*range(100), *range(80)], np.uint64), np.array([0, 100, 180]))
    rows = np.array([0]), np.array([1])
    assert similarities(sets, sets, rows=rows, threshold=0.8).tolist() == [0.8]
