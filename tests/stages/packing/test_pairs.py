"""What rows of sentences in two halves promise.

Every token of every document lies in one row, in order; a row holds one document, cut where sentences
end; halves fit with their specials; the shares of rows that borrow are those of the rules.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.objectives.sentence_pairs.config import PairTag
from stages.packing import pairs
from stages.packing.pairs import PairLayout, PairRules, pack_pairs
from stages.ragged import Ragged, ragged_of
from stages.seeding import Key
from tests.campaign import examples
from tests.stages.objectives.built_rows import sigmas

KEY = Key(7, 0, 3, PairTag.CHUNKS)
NSP, SOP = PairRules(0.1, 0.5), PairRules(0.1, 0.0)
rules = st.builds(PairRules, st.sampled_from([0.0, 0.1, 1.0]), st.sampled_from([0.0, 0.5, 1.0]))


def packed(documents: list[list[int]], row_length: int, rules: PairRules) -> PairLayout:
    """Pack documents of sentences of so many tokens, the last one's EOS not counted."""
    ends = [[*np.cumsum(sizes)[:-1].tolist(), sum(sizes) + 1] for sizes in documents]
    lengths = np.array([sum(sizes) + 1 for sizes in documents], np.int64)
    return pack_pairs(lengths, ragged_of(ends), row_length=row_length, rules=rules, key=KEY)


def halves(layout: PairLayout) -> list[list[tuple[int, int, int]]]:
    """Return (document, first token, tokens) of the halves of each row."""
    found, part = [], layout.layout
    for first, last in zip(part.row_ptr[:-1], part.row_ptr[1:], strict=True):
        found.append(
            [
                (int(part.doc[n]), int(part.doc_offset[n]), int(part.length[n]))
                for n in range(first, last)
            ]
        )
    return found


def test_rows_are_written_out() -> None:
    """Without borrowing, four sentences of three tokens in rows of 8: two pairs."""
    found = packed([[3, 3, 3, 3], [2]], 8, PairRules(0.0, 0.0))
    assert halves(found) == [[(0, 0, 3), (0, 3, 3)], [(0, 6, 3), (0, 9, 4)], [(1, 0, 3)]]
    assert found.room.tolist() == [0, 0, 0]


def test_a_sentence_longer_than_half_a_row_is_cut_into_like_pieces() -> None:
    found = packed([[10]], 9, PairRules(0.0, 0.0))
    assert [[length for *_, length in row] for row in halves(found)] == [[3, 3], [5]]


def test_a_last_sentence_is_taken_along_if_it_fits() -> None:
    found = packed([[5, 5, 5]] * 50, 126, PairRules(1.0, 0.0))
    assert found.layout.num_rows == 50
    assert (np.diff(found.layout.row_ptr) == 2).all()


def test_how_many_documents_are_laid_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [[3, 4, 5], [2] * 9, [7], [1, 1]] * 5
    whole = packed(documents, 20, NSP)
    monkeypatch.setattr(pairs, "_AT_ONCE", 4)
    parts = packed(documents, 20, NSP)
    assert parts.room.tolist() == whole.room.tolist()
    assert halves(parts) == halves(whole)


def test_a_last_sentence_is_not_left_alone_if_another_can_be_left_with_it() -> None:
    found = packed([[2, 2, 2, 2]], 7, PairRules(0.0, 0.0))
    assert [len(row) for row in halves(found)] == [2, 2]


@settings(deadline=None, max_examples=examples(200))
@given(
    st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=12), max_size=6),
    st.integers(5, 40),
    rules,
)
def test_every_token_lies_in_one_row(
    documents: list[list[int]], row_length: int, rules: PairRules
) -> None:
    found = packed(documents, row_length, rules)
    part = found.layout
    order = np.lexsort((part.doc_offset, part.doc))
    doc, begin, length = part.doc[order], part.doc_offset[order], part.length[order]
    expected = np.concatenate(
        [np.arange(sum(sizes) + 1) + 1000 * n for n, sizes in enumerate(documents)] or [np.empty(0, int)]
    )
    ranges = [np.arange(b, b + n) + 1000 * d for d, b, n in zip(doc, begin, length, strict=True)]
    assert np.array_equal(np.concatenate([*ranges, np.empty(0, int)]), expected)
    assert (part.length > 0).all()
    assert (part.start + part.length <= row_length).all()
    for row, room in zip(halves(found), found.room.tolist(), strict=True):
        held = sum(length for *_, length in row)
        assert len(row) in (1, 2)
        assert len({document for document, *_ in row}) == 1
        if len(row) == 2:
            assert room == 0
            assert row[0][1] + row[0][2] == row[1][1]
        if room:
            assert rules.borrow_rate
            assert held + room <= row_length
        if rules.borrow_rate == 1.0:
            assert room


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=9), min_size=1, max_size=5), rules)
def test_rows_are_cut_where_sentences_end(documents: list[list[int]], rules: PairRules) -> None:
    for row in halves(packed(documents, 20, rules)):
        for document, begin, _ in row:
            assert begin in {0, *np.cumsum(documents[document]).tolist()}


def counted(rules: PairRules) -> tuple[PairLayout, NDArray[np.int64]]:
    found = packed([[5] * 40] * 2000, 52, rules)
    return found, np.diff(found.layout.row_ptr)


def test_the_share_of_rows_that_borrow_is_that_of_the_rules() -> None:
    found, segments = counted(PairRules(0.0, 0.5))
    alone = found.layout.length[found.layout.row_ptr[:-1]] == 6  # the last sentence of a document
    free = ~((segments == 1) & alone & (found.room == 46))
    assert sigmas(int(np.count_nonzero(found.room[free])), int(free.sum()), 0.5) < 5
    assert len(segments) > 10_000


def test_cuts_are_uniform_over_the_sentences_of_a_chunk() -> None:
    found, _ = counted(PairRules(0.0, 0.0))
    first = found.layout.length[found.layout.row_ptr[:-1]][: 4 * 2000]
    counts = np.bincount(first // 5, minlength=10)[1:10]
    assert counts.sum() == len(first)
    for count in counts.tolist():
        assert sigmas(count, len(first), 1 / 9) < 5


def test_short_targets_are_as_frequent_as_asked_for() -> None:
    plain, _ = counted(PairRules(0.0, 0.0))
    short, _ = counted(PairRules(1.0, 0.0))
    assert short.layout.num_rows > 1.5 * plain.layout.num_rows


def test_no_document_gives_no_row() -> None:
    none = pack_pairs(
        np.empty(0, np.int64),
        Ragged(np.zeros(1, np.int64), np.empty(0, np.int64)),
        row_length=9,
        rules=NSP,
        key=KEY,
    )
    assert none.layout.num_rows == 0
    assert len(none.room) == 0
