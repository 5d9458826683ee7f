"""What deduplication promises beyond 2^31 documents: numbers, pairs and decisions are as of fewer."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.engine.tasks import Workspace
from pipeline.steps.dedup.edges import PLAIN, PairCode, expanded, pair_code
from stages.dedup import survivors
from stages.dedup.survivors import Edges, decide, final_clusters, link_repeats, undecided
from stages.errors import DataError
from stages.store.arrays import write_array

MANY = 10**11
RUN = 50_000_000


def test_pairs_of_a_hundred_thousand_million_documents_are_numbers_in_their_order() -> None:
    code = pair_code(MANY - RUN, MANY, documents=MANY)
    better = np.array([0, 7, 7, 1 << 32, MANY - RUN, MANY - 2], np.int64)
    worse = np.array([MANY - 1, MANY - RUN, MANY - 9, MANY - RUN + 1, MANY - 1, MANY - 1], np.int64)
    numbers = code.join(better, worse)
    assert np.array_equal(numbers, np.sort(numbers))
    assert np.array_equal(code.better(numbers), better)
    assert np.array_equal(code.worse(numbers), worse)


def test_pairs_of_fewer_documents_hold_their_numbers() -> None:
    assert pair_code(5, 10, documents=1 << 32) is PLAIN
    assert PLAIN.join(np.array([3]), np.array([4])).tolist() == [(3 << 32) + 4]
    assert pair_code(5, 10, documents=(1 << 32) + 1) == PairCode(5, 3)


def test_documents_that_no_pair_can_hold_are_refused() -> None:
    with pytest.raises(DataError, match="200,000,000 lie in one run of units"):
        pair_code(0, 200_000_000, documents=MANY)


@pytest.mark.parametrize("first", [0, MANY - RUN])
def test_candidates_are_expanded_whatever_their_numbers(first: int, tmp_path: Path) -> None:
    members = np.array(
        [[first, 0, 0], [first + 3, 0, 1], [first + 5, 0, 2], [first + 5, 3, 1]], np.int64
    )
    heads = np.array([first, first + 3, first + 5, first + 1], np.int64)
    write_array(tmp_path / "band/members.npy", members)
    write_array(tmp_path / "band/heads.npy", heads)
    code = pair_code(first, first + RUN, documents=first + RUN)
    (pairs,) = expanded(Workspace(tmp_path, tmp_path), ["band"], first, first + 9, code=code)
    found = np.column_stack([code.better(pairs), code.worse(pairs)]) - first
    assert found.tolist() == [[0, 3], [0, 5], [1, 5], [3, 5]]


@pytest.mark.parametrize("narrow", [1 << 20, 1])
def test_decisions_do_not_depend_on_how_wide_numbers_are(
    narrow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survivors, "NARROW", narrow)
    decisions = undecided(8)
    assert decisions.witness.dtype == decisions.cluster.dtype == (np.int32 if narrow > 8 else np.int64)
    link_repeats(decisions, 0, np.array([[2, 0], [7, 5]], np.int64))
    better, worse = np.array([0, 1, 3], np.int64), np.array([1, 3, 5], np.int64)
    edges = Edges(better, worse, np.array([0.9, 0.8, 0.85]), np.ones(3, np.uint8))
    decide(decisions, 0, 8, edges=edges)
    assert decisions.witness.tolist() == [-1, 0, 0, -1, -1, 3, -1, 3]
    assert final_clusters(decisions).tolist() == [0, 0, 0, 0, 4, 0, 6, 0]
