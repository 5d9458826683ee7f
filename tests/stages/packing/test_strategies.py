"""What the strategies `document` and `full` promise.

Every token of every document lies in the rows once, room to grow is left. Of `document` no row holds
two documents, and only the last row of each is short. Of `full` the stream is the documents' in order,
as in `concat`, and a row is cut within a sentence only if the sentence is longer than a row.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.packing.concat import pack_concat
from stages.packing.document import pack_document
from stages.packing.full import pack_full
from stages.packing.layout import Layout, Strategy
from stages.packing.strategies import PACKINGS
from stages.ragged import Ragged, ragged_of
from tests.campaign import examples
from tests.stages.packing.test_packing import drawn, fill, segments

QUICK = settings(deadline=None, derandomize=True, max_examples=examples(100))
ROW_LENGTHS = st.integers(2, 24)
GROWTHS = st.sampled_from([0, 0, 1, 3])
DOCUMENTS = st.lists(st.lists(st.integers(1, 15), max_size=8), max_size=20)
"""Tokens of the sentences of each document; one without sentences is a single token."""


def lengths_of(documents: list[list[int]]) -> list[int]:
    """Return the tokens of each document."""
    return [sum(sentences) or 1 for sentences in documents]


def ends_of(documents: list[list[int]]) -> Ragged:
    """Return where the sentences of each document end."""
    return ragged_of([np.cumsum(sentences, dtype=np.int64).tolist() for sentences in documents])


def packed(strategy: Strategy, documents: list[list[int]], row_length: int, growth: int = 0) -> Layout:
    """Pack documents of some sentences."""
    lengths = np.array(lengths_of(documents), np.int64)
    pack = PACKINGS[strategy].packer()
    return pack(lengths, row_length=row_length, growth=growth, sentences=ends_of(documents))


def plain_full(documents: list[list[int]], row_length: int, growth: int) -> list[list[tuple[int, int]]]:
    """Lay sentences end to end by a plain loop: (document, tokens) of each segment of each row."""
    rows: list[list[tuple[int, int]]] = [[]]

    def free(doc: int) -> int:
        used = sum(tokens + growth for _, tokens in rows[-1])
        opened = bool(rows[-1]) and rows[-1][-1][0] == doc
        return row_length - used - (0 if opened else growth)

    for doc, sentences in enumerate(documents):
        for sentence in sentences or [1]:
            left = sentence
            while left:
                if free(doc) < 1 or free(doc) < left <= row_length - growth:
                    rows.append([])
                taken = min(left, free(doc))
                if rows[-1] and rows[-1][-1][0] == doc:
                    rows[-1][-1] = doc, rows[-1][-1][1] + taken
                else:
                    rows[-1].append((doc, taken))
                left -= taken
    return rows if rows[-1] else rows[:-1]


@pytest.mark.parametrize("strategy", list(Strategy))
@QUICK
@given(documents=DOCUMENTS, room=ROW_LENGTHS, growth=GROWTHS)
def test_every_token_lies_in_the_rows_once_with_room_to_grow(
    strategy: Strategy, documents: list[list[int]], room: int, growth: int
) -> None:
    layout = packed(strategy, documents, room + growth, growth)
    found = [
        (doc, offset + token)
        for _, _, length, doc, offset in segments(layout)
        for token in range(length)
    ]
    assert sorted(found) == [
        (doc, token) for doc, n in enumerate(lengths_of(documents)) for token in range(n)
    ]
    place = [0] * layout.num_rows
    for row, start, length, _, _ in segments(layout):
        assert start == place[row]
        assert length > 0
        place[row] += length
    grown = np.array(place, np.int64) + growth * np.diff(layout.row_ptr)
    assert (grown <= room + growth).all()
    assert (np.array(place, np.int64) > 0).all()


@QUICK
@given(documents=DOCUMENTS, row_length=ROW_LENGTHS)
def test_document_gives_each_document_rows_of_its_own_of_which_the_last_alone_is_short(
    documents: list[list[int]], row_length: int
) -> None:
    layout = packed(Strategy.DOCUMENT, documents, row_length)
    assert (np.diff(layout.row_ptr) == 1).all()
    wanted = [
        (doc, min(length - offset, row_length))
        for doc, length in enumerate(lengths_of(documents))
        for offset in range(0, length, row_length)
    ]
    assert list(zip(layout.doc.tolist(), layout.length.tolist(), strict=True)) == wanted


@QUICK
@given(documents=DOCUMENTS, row_length=ROW_LENGTHS, growth=GROWTHS)
def test_full_lays_sentences_as_the_plain_loop_does(
    documents: list[list[int]], row_length: int, growth: int
) -> None:
    row_length += growth
    layout = packed(Strategy.FULL, documents, row_length, growth)
    rows: list[list[tuple[int, int]]] = [[] for _ in range(layout.num_rows)]
    for row, _, length, doc, _ in segments(layout):
        rows[row].append((doc, length))
    assert rows == plain_full(documents, row_length, growth)


@QUICK
@given(documents=DOCUMENTS, row_length=ROW_LENGTHS)
def test_full_keeps_the_order_and_tears_no_sentence_that_a_row_can_hold(
    documents: list[list[int]], row_length: int
) -> None:
    layout = packed(Strategy.FULL, documents, row_length)
    order = [(doc, offset) for _, _, _, doc, offset in segments(layout)]
    assert order == sorted(order)
    for doc, sentences in enumerate(documents):
        cuts = set(layout.doc_offset[layout.doc == doc].tolist()) - {0}
        for begin, end in pairwise(np.cumsum([0, *sentences]).tolist()):
            assert end - begin > row_length or not cuts & set(range(begin + 1, end))


@QUICK
@given(documents=DOCUMENTS, row_length=ROW_LENGTHS)
def test_full_ends_no_row_before_it_must(documents: list[list[int]], row_length: int) -> None:
    layout = packed(Strategy.FULL, documents, row_length)
    firsts = layout.row_ptr[1:-1]
    for row, first in enumerate(firsts.tolist()):
        doc, offset = int(layout.doc[first]), int(layout.doc_offset[first])
        ends = [*np.cumsum(documents[doc] or [1]).tolist()]
        following = next(end for end in ends if end > offset) - offset
        assert fill(layout)[row] + min(following, row_length + 1) > row_length


@QUICK
@given(st.lists(st.integers(1, 40), max_size=30), ROW_LENGTHS)
def test_full_is_concat_where_every_token_is_a_sentence(lengths: list[int], row_length: int) -> None:
    words = [[1] * length for length in lengths]
    one, two = (
        packed(Strategy.FULL, words, row_length),
        pack_concat(np.array(lengths, np.int64), row_length=row_length),
    )
    assert segments(one) == segments(two)


@pytest.mark.parametrize(
    ("pack", "documents", "row_length", "growth", "picture"),
    [
        (pack_document, [[3], [6], [1]], 4, 0, "A A A . | B B B B | B B . . | C . . ."),
        (pack_document, [[3], [6], [1]], 4, 1, "A A A . | B B B . | B B B . | C . . ."),
        (pack_document, [[4], [5]], 4, 0, "A A A A | B B B B | B . . ."),
        (pack_document, [], 4, 0, ""),
        (pack_full, [[2, 3], [1, 2]], 4, 0, "A A . . | A A A B | B B . ."),
        (pack_full, [[9], [2]], 4, 0, "A A A A | A A A A | A B B ."),
        (pack_full, [[2], [7], [1]], 4, 0, "A A B B | B B B B | B C . ."),
        (pack_full, [[], []], 4, 0, "A B . ."),
        (pack_full, [[2, 2], [2]], 6, 2, "A A A A . . | B B . . . ."),
        (pack_full, [], 4, 0, ""),
    ],
)
def test_layouts_are_as_drawn(
    pack: Callable[..., Layout],
    documents: list[list[int]],
    row_length: int,
    growth: int,
    picture: str,
) -> None:
    lengths, ends = np.array(lengths_of(documents), np.int64), ends_of(documents)
    layout = pack(lengths, row_length=row_length, growth=growth, sentences=ends)
    assert drawn(layout) == picture


def test_every_strategy_of_a_run_file_is_in_the_table() -> None:
    assert list(PACKINGS) == list(Strategy)
