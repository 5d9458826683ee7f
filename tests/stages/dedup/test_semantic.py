"""What semantic deduplication promises: exact sums of rounded vectors, all pairs of brute force."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from stages.dedup.encoders import MAX_CHARS, embedded, open_encoder
from stages.dedup.semantic import (
    RankedVectors,
    SemanticConfig,
    cosines,
    find_centroids,
    nearest_centroids,
    norms,
    num_clusters,
    products,
    rounded,
    similar_pairs,
)
from stages.errors import ConfigError, DataError


def vectors(count: int, *, seed: int, dimensions: int = 24) -> NDArray[np.int8]:
    """Return rounded vectors in a few bunches, some of them equal, one of zeros."""
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(6, dimensions))
    found = centres[draw.integers(6, size=count)] + draw.normal(size=(count, dimensions)) * 0.3
    found[count // 2] = found[0]
    found[count // 3] = 0.0
    return rounded(found)


def cosine(a: list[int], b: list[int]) -> float:
    """Return the similarity of two vectors in whole numbers."""
    lengths = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0


@pytest.mark.parametrize("seed", range(5))
def test_similarities_are_those_of_whole_numbers(seed: int) -> None:
    own = vectors(40, seed=seed)
    expected = [[cosine(a, b) for b in own.tolist()] for a in own.tolist()]
    assert cosines(own, own).tolist() == expected
    assert norms(own).tolist() == [math.sqrt(sum(x * x for x in row)) for row in own.tolist()]


def test_the_largest_products_are_exact_in_any_order() -> None:
    top = np.full((2, 256), 127, np.int8)
    assert cosines(top, -top).tolist() == [[-1.0, -1.0]] * 2
    assert 127 * 127 * 256 < 1 << 24


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("most", [1, 2, 64])
def test_pairs_are_those_of_brute_force(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    own = vectors(70, seed=seed)
    config = SemanticConfig(threshold=0.9, max_candidates=most)
    expected = []
    for worse in range(len(own)):
        over = [
            (better, worse, found)
            for better in range(worse)
            if (found := cosine(own[better].tolist(), own[worse].tolist())) >= config.threshold
        ]
        expected += over[:most]
    assert len(expected) > 20
    ranks = np.arange(len(own)) * 3
    for columns, rows in ((7, 5), (4_096, 70)):
        monkeypatch.setattr("stages.dedup.semantic._COLUMNS", columns)
        pairs: list[tuple[int, int, float]] = []
        for start in range(0, len(own), rows):
            block = RankedVectors(own[start : start + rows], ranks[start : start + rows])
            heads, places, scores = similar_pairs(RankedVectors(own, ranks), block, config)
            pairs += zip(heads.tolist(), (places + start).tolist(), scores.tolist(), strict=True)
        assert pairs == expected


def test_heads_alone_are_compared_with_and_none_outranks_itself() -> None:
    own = rounded(np.ones((6, 4)))
    ranks = np.array([0, 2, 3, 5, 8, 9])
    heads, block = RankedVectors(own[:2], ranks[:2]), RankedVectors(own[1:], ranks[1:])
    better, worse, similarity = similar_pairs(heads, block, SemanticConfig(threshold=1.0))
    assert list(zip(better.tolist(), worse.tolist(), strict=True)) == [
        (0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 3), (0, 4), (1, 4),
    ]  # fmt: skip
    assert set(similarity.tolist()) == {1.0}
    assert not len(similar_pairs(heads, RankedVectors(own[:1], ranks[:1]), SemanticConfig())[0])


@pytest.mark.parametrize("dimensions", [1_040, 1_041, 8_192])
def test_products_of_many_dimensions_are_exact(dimensions: int) -> None:
    draw = np.random.default_rng(dimensions)
    own = draw.choice(np.array([-127, 126, 127], np.int8), (9, dimensions), p=(0.05, 0.05, 0.9))
    expected = own.astype(np.int64) @ own.astype(np.int64).T
    assert products(own, own).astype(np.int64).tolist() == expected.tolist()
    assert products(own, own).dtype == (np.float32 if dimensions <= 1_040 else np.float64)


@pytest.mark.parametrize("columns", [3, 4_096])
def test_the_two_nearest_centroids_do_not_depend_on_blocks(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, centroids = vectors(50, seed=1), vectors(11, seed=2)
    near = cosines(own, centroids)
    expected = [sorted(range(11), key=lambda c: (-row[c], c))[:2] for row in near.tolist()]
    monkeypatch.setattr("stages.dedup.semantic._COLUMNS", columns)
    assert nearest_centroids(own, centroids).tolist() == expected


def test_vectors_are_assigned_to_the_nearest_centroids() -> None:
    own = vectors(200, seed=3)
    centroids = find_centroids(own, 6)
    assert centroids.shape == (6, 24)
    near = cosines(own, centroids)
    found = nearest_centroids(own, centroids)
    assert found[:, 0].tolist() == near.argmax(axis=1).tolist()
    for row, (first, second) in enumerate(found.tolist()):
        rest = [near[row, other] for other in range(6) if other != first]
        assert near[row, second] == max(rest)
    assert (nearest_centroids(own, centroids[:1]) == 0).all()
    assert len(find_centroids(own[:3], 6)) == 3
    assert num_clusters(10_000, SemanticConfig()) == 5
    assert num_clusters(10, SemanticConfig(clusters=3)) == 3


def test_centroids_are_the_means_of_what_is_nearest_to_them() -> None:
    own = np.array([(127, 0), (127, 20), (0, 127), (20, 127)], np.int8)
    assert find_centroids(own, 2).tolist() == [[127, 10], [10, 127]]
    assert find_centroids(own[:2], 1).tolist() == [[127, 0]]


def test_what_is_no_number_is_nothing() -> None:
    found = rounded(np.array([[np.nan, 1.0], [np.inf, 0.0], [0.0, 0.0], [-2.0, 1.0]]))
    assert found.tolist() == [[0, 127], [0, 0], [0, 0], [-127, 64]]


def ragged(texts: list[str]) -> list[list[float]]:
    """An encoder that forgets texts."""
    return [[1.0, 2.0]] * (len(texts) - 1)


def failing(texts: list[str]) -> NDArray[np.float64]:
    """An encoder that fails."""
    raise RuntimeError(f"no {texts[0]}")


@pytest.mark.parametrize("function", ["ragged", "failing"])
def test_an_encoder_that_fails_is_named(function: str) -> None:
    encode = open_encoder(f"{__name__}:{function}")
    with pytest.raises(DataError, match=function):
        encode(["a", "b", "c"])


def test_an_encoder_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="no_such_module_at_all"):
        open_encoder("no_such_module_at_all:encode")
    with pytest.raises(ConfigError, match="no_such"):
        open_encoder(f"{__name__}:no_such")


def test_static_embeddings_know_what_texts_are_about() -> None:
    encode = open_encoder("wordllama")
    texts = [
        "The cat sat on the warm windowsill and slept all afternoon.",
        "All afternoon the cat slept, sitting on the warm windowsill.",
        "Interest rates rose again as the central bank fought inflation.",
        "",
    ]
    found = rounded(encode(texts))
    near = cosines(found, found)
    assert near[0, 1] > 0.9
    assert near[0, 2] < 0.5
    assert not found[3].any()
    assert np.array_equal(rounded(encode(texts[:1])), found[:1])


def test_texts_in_scripts_without_words_have_no_vector() -> None:
    """Sums of letters are alike: of such articles of the UDHR 97% went for another article."""
    unknown = [
        "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்",
        "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน",
        "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι",
        "12.5 11.2 5.21 2110 1021",
        "ཨ་མ་ལགས།",
    ]
    known = [
        "All human beings are born free and equal",
        "Alle Menschen sind frei geboren",
        "Все люди рождаются свободными",
        "人人生而自由,在尊严和权利上一律平等",
        "모든 인간은 태어날 때부터 자유로우며",
        "def add(left, right):\n    return left + right",
    ]
    found = open_encoder("wordllama")([*unknown, *known]).any(axis=1)
    assert found.tolist() == [False] * len(unknown) + [True] * len(known)


def test_a_text_of_which_only_the_beginning_would_be_read_has_no_vector() -> None:
    def ones(texts: list[str]) -> NDArray[np.float64]:
        assert max(map(len, texts)) <= MAX_CHARS
        return np.ones((len(texts), 2))

    texts = ["a", "a" * MAX_CHARS, "a" * (MAX_CHARS + 1)]
    assert embedded(ones, texts).tolist() == [[1, 1], [1, 1], [0, 0]]
