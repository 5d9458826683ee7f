"""What semantic deduplication promises: exact arithmetic on rounded vectors, all pairs of brute force."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from stages.dedup.encoders import open_encoder
from stages.dedup.semantic import (
    SemanticConfig,
    cosines,
    find_centroids,
    nearest_centroids,
    norms,
    num_clusters,
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
    for block in (7, 1_024):
        monkeypatch.setattr("stages.dedup.semantic._BLOCK", block)
        found = [
            pair
            for part in similar_pairs(own, config)
            for pair in zip(*map(np.ndarray.tolist, part), strict=True)
        ]
        assert sorted(found, key=lambda pair: (pair[1], pair[0])) == expected


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
