"""What packing promises.

Every token of every document lies in the rows once; best-fit cuts only what is longer than a row and
needs as many rows as the textbook's loop; concat pads the last row alone; shuffling moves whole rows.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.packing.best_fit import pack_best_fit
from stages.packing.concat import pack_concat
from stages.packing.layout import Layout, PackingConfig, shuffle_rows, stack_layouts
from stages.packing.single import pack_single
from stages.seeding import Key, OrderTag, permutation
from stages.store.ranges import copy_ranges
from tests.campaign import examples

Packer = Callable[..., Layout]
PACKERS = [pack_best_fit, pack_concat]
GROWTH = 3
LENGTHS = st.lists(st.integers(1, 40), max_size=60)
ROW_LENGTHS = st.integers(2, 24)
KEY = Key(7, 0, 3, OrderTag.ROWS)
QUICK = settings(deadline=None, derandomize=True, max_examples=examples(50))


def packed(packer: Packer, lengths: list[int], row_length: int) -> Layout:
    """Pack documents of some lengths."""
    return packer(np.array(lengths, np.int64), row_length=row_length)


def shuffled(layout: Layout, key: Key) -> Layout:
    """Return the layout with its rows in a random order."""
    return shuffle_rows(layout, permutation(key, layout.num_rows))


def drawn(layout: Layout) -> str:
    """Draw a layout as the docstrings do: documents A, B, ... and dots for padding."""
    rows = [["."] * layout.row_length for _ in range(layout.num_rows)]
    for row, start, length, doc, _ in segments(layout):
        for place in range(start, start + length):
            assert rows[row][place] == "."
            rows[row][place] = chr(ord("A") + doc)
    return " | ".join(" ".join(row) for row in rows)


def segments(layout: Layout) -> list[tuple[int, int, int, int, int]]:
    """List (row, start, length, doc, doc_offset)."""
    rows = np.repeat(np.arange(layout.num_rows), np.diff(layout.row_ptr))
    columns = (rows, layout.start, layout.length, layout.doc, layout.doc_offset)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def fill(layout: Layout) -> list[int]:
    """Return the tokens in each row."""
    return [int(layout.length[first:last].sum()) for first, last in pairwise(layout.row_ptr.tolist())]


def plain_best_fit(lengths: list[int], row_length: int) -> list[list[int]]:
    """Pack by the textbook: longest first, into the fullest row that has room, the first to get so."""
    pieces = [
        min(length - offset, row_length) for length in lengths for offset in range(0, length, row_length)
    ]
    rows: list[list[int]] = []
    since: list[int] = []
    for turn, piece in enumerate(sorted(pieces, reverse=True)):
        fitting = [n for n, row in enumerate(rows) if row_length - sum(row) >= piece]
        if not fitting:
            rows.append([])
            since.append(turn)
            fitting = [len(rows) - 1]
        best = min(fitting, key=lambda n: (row_length - sum(rows[n]), since[n]))
        rows[best].append(piece)
        since[best] = turn
    return rows


@pytest.mark.parametrize(
    ("packer", "lengths", "row_length", "picture"),
    [
        (pack_best_fit, [3, 6, 1, 2], 4, "B B B B | A A A C | B B D D"),
        (pack_best_fit, [4, 4], 4, "A A A A | B B B B"),
        (pack_best_fit, [1, 1, 1], 4, "A B C ."),
        (pack_best_fit, [9], 4, "A A A A | A A A A | A . . ."),
        (pack_best_fit, [3, 2, 2, 1], 4, "A A A D | B B C C"),
        (pack_best_fit, [], 4, ""),
        (pack_concat, [3, 3], 4, "A A A B | B B . ."),
        (pack_concat, [4, 4], 4, "A A A A | B B B B"),
        (pack_concat, [9], 4, "A A A A | A A A A | A . . ."),
        (pack_concat, [1, 1, 1], 2, "A B | C ."),
        (pack_concat, [], 4, ""),
    ],
)
def test_layouts_are_as_drawn(packer: Packer, lengths: list[int], row_length: int, picture: str) -> None:
    assert drawn(packed(packer, lengths, row_length)) == picture


def test_a_layout_lists_its_segments_as_the_docstring_draws() -> None:
    layout = packed(pack_concat, [3, 3], 4)
    assert segments(layout) == [(0, 0, 3, 0, 0), (0, 3, 1, 1, 0), (1, 0, 2, 1, 1)]
    assert layout.row_ptr.tolist() == [0, 2, 3]


@pytest.mark.parametrize("packer", PACKERS)
@QUICK
@given(LENGTHS, ROW_LENGTHS)
def test_every_token_lies_in_the_rows_once(packer: Packer, lengths: list[int], row_length: int) -> None:
    layout = packed(packer, lengths, row_length)
    found = [
        (doc, offset + token)
        for _, _, length, doc, offset in segments(layout)
        for token in range(length)
    ]
    assert sorted(found) == [(doc, token) for doc, n in enumerate(lengths) for token in range(n)]


@pytest.mark.parametrize("packer", PACKERS)
@QUICK
@given(LENGTHS, ROW_LENGTHS)
def test_segments_fill_their_row_from_its_start_without_gap(
    packer: Packer, lengths: list[int], row_length: int
) -> None:
    layout = packed(packer, lengths, row_length)
    place = [0] * layout.num_rows
    for row, start, length, _, _ in segments(layout):
        assert start == place[row]
        assert length > 0
        place[row] += length
    assert all(0 < filled <= row_length for filled in place)
    assert layout.num_rows == len(layout.row_ptr) - 1


@pytest.mark.parametrize("packer", PACKERS)
@QUICK
@given(LENGTHS, st.integers(GROWTH + 1, 24))
def test_room_to_grow_is_left_for_every_segment_and_no_token_is_lost(
    packer: Packer, lengths: list[int], row_length: int
) -> None:
    layout = packer(np.array(lengths, np.int64), row_length=row_length, growth=GROWTH)
    found = [
        (doc, offset + token)
        for _, _, length, doc, offset in segments(layout)
        for token in range(length)
    ]
    assert sorted(found) == [(doc, token) for doc, n in enumerate(lengths) for token in range(n)]
    place = [0] * layout.num_rows
    for row, start, length, _, _ in segments(layout):
        assert start == place[row]
        place[row] += length
    grown = np.array(place) + GROWTH * np.diff(layout.row_ptr)
    assert (grown <= row_length).all()


def test_layouts_with_room_to_grow_are_as_drawn() -> None:
    lengths = np.array([3, 3])
    assert drawn(pack_concat(lengths, row_length=4, growth=1)) == "A A A . | B B B ."
    assert drawn(pack_best_fit(np.array([5, 2, 1]), row_length=6, growth=2)) == (
        "A A A A . . | B B . . . . | A C . . . ."
    )


@QUICK
@given(LENGTHS, ROW_LENGTHS)
def test_single_gives_each_piece_a_row_and_an_eos_never_stands_alone(
    lengths: list[int], row_length: int
) -> None:
    layout = packed(pack_single, lengths, row_length)
    found = [
        (doc, offset + token)
        for _, _, length, doc, offset in segments(layout)
        for token in range(length)
    ]
    assert sorted(found) == [(doc, token) for doc, n in enumerate(lengths) for token in range(n)]
    assert layout.num_rows == len(layout.start)
    for doc, total in enumerate(lengths):
        sizes = layout.length[layout.doc == doc]
        bodies = sizes - np.append(np.zeros(len(sizes) - 1, np.int64), 1)
        assert len(sizes) == max(1, -(-(total - 1) // (row_length - 1)))
        assert bodies.max() - bodies.min() <= 1, "pieces are of like length"
        assert total == 1 or bodies.min() >= 1


def test_single_is_as_drawn() -> None:
    layout = packed(pack_single, [3, 0, 7, 1], 4)
    assert drawn(layout) == "A A A . | C C C . | C C C C | D . . ."


def test_stacked_layouts_keep_their_rows_and_name_documents_among_all() -> None:
    parts = [packed(pack_single, [3, 2], 4), packed(pack_best_fit, [2, 2], 4)]
    layout = stack_layouts(parts, [np.array([0, 3]), np.array([1, 2])], row_length=4)
    assert drawn(layout) == "A A A . | D D . . | B B C C"


@QUICK
@given(LENGTHS, ROW_LENGTHS)
def test_best_fit_cuts_only_documents_longer_than_a_row(lengths: list[int], row_length: int) -> None:
    layout = packed(pack_best_fit, lengths, row_length)
    pieces = np.bincount(layout.doc, minlength=len(lengths)).tolist()
    assert pieces == [-(-length // row_length) for length in lengths]


@QUICK
@given(LENGTHS, ROW_LENGTHS)
def test_best_fit_fills_rows_as_the_plain_loop_does(lengths: list[int], row_length: int) -> None:
    layout = packed(pack_best_fit, lengths, row_length)
    rows = [layout.length[first:last].tolist() for first, last in pairwise(layout.row_ptr.tolist())]
    assert rows == plain_best_fit(lengths, row_length)


@pytest.mark.parametrize("packer", PACKERS)
@QUICK
@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), ROW_LENGTHS)
def test_documents_of_whole_rows_fill_every_row_and_leave_none_over(
    packer: Packer, rows: list[int], row_length: int
) -> None:
    layout = packed(packer, [number * row_length for number in rows], row_length)
    assert fill(layout) == [row_length] * sum(rows)
    assert layout.length.tolist() == [row_length] * sum(rows)
    one_more = packed(packer, [rows[0] * row_length + 1], row_length)
    assert one_more.length.tolist() == [row_length] * rows[0] + [1]


@pytest.mark.parametrize("packer", PACKERS)
@QUICK
@given(st.integers(1, 60), ROW_LENGTHS)
def test_documents_of_an_eos_alone_share_rows_without_a_gap(
    packer: Packer, count: int, row_length: int
) -> None:
    layout = packed(packer, [1] * count, row_length)
    assert layout.num_rows == -(-count // row_length)
    assert sorted(layout.doc.tolist()) == list(range(count))
    assert sum(filled < row_length for filled in fill(layout)) <= 1


def test_best_fit_holds_its_laws_on_a_large_shard() -> None:
    lengths = np.random.default_rng(1).geometric(0.004, 20_000).astype(np.int64)
    layout = pack_best_fit(lengths, row_length=512)
    assert (np.bincount(layout.doc, weights=layout.length) == lengths).all()
    assert layout.num_rows * 512 < lengths.sum() * 1.01
    assert max(fill(layout)) == 512


@QUICK
@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), ROW_LENGTHS)
def test_concat_pads_the_last_row_alone_and_keeps_the_order(lengths: list[int], row_length: int) -> None:
    layout = packed(pack_concat, lengths, row_length)
    *whole, last = fill(layout)
    assert whole == [row_length] * (sum(lengths) // row_length - (sum(lengths) % row_length == 0))
    assert last == (sum(lengths) - 1) % row_length + 1
    order = [(doc, offset) for _, _, _, doc, offset in segments(layout)]
    assert order == sorted(order)


@pytest.mark.parametrize("packer", PACKERS)
@QUICK
@given(LENGTHS, ROW_LENGTHS)
def test_shuffling_moves_whole_rows(packer: Packer, lengths: list[int], row_length: int) -> None:
    layout = packed(packer, lengths, row_length)
    before = rows_of(layout)
    order = permutation(KEY, layout.num_rows)
    assert rows_of(shuffle_rows(layout, order)) == [before[n] for n in order]
    assert rows_of(layout) == before


def rows_of(layout: Layout) -> list[list[tuple[int, int, int, int]]]:
    """Return the segments of each row."""
    rows: list[list[tuple[int, int, int, int]]] = [[] for _ in range(layout.num_rows)]
    for row, *segment in segments(layout):
        start, length, doc, offset = segment
        rows[row].append((start, length, doc, offset))
    return rows


def test_shuffling_changes_the_order_by_shard_and_seed() -> None:
    layout = packed(pack_concat, [400], 4)
    keys = [KEY, Key(8, 0, 3, OrderTag.ROWS), Key(7, 0, 4, OrderTag.ROWS)]
    orders = {tuple(shuffled(layout, key).doc_offset.tolist()) for key in keys}
    assert len(orders) == 3
    assert tuple(layout.doc_offset.tolist()) not in orders


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("dtype", ["<u2", "<i4"])
@settings(deadline=None, derandomize=True, max_examples=examples(25))
@given(LENGTHS, ROW_LENGTHS)
def test_laying_out_equals_the_plain_loop(
    packer: Packer, dtype: str, lengths: list[int], row_length: int
) -> None:
    layout = shuffled(packed(packer, lengths, row_length), KEY)
    tokens = np.arange(100, 100 + sum(lengths)).astype(dtype)
    document_ptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
    rows = np.full((layout.num_rows, row_length), 3, dtype)
    copy_ranges(
        tokens,
        rows.reshape(-1),
        document_ptr[layout.doc] + layout.doc_offset,
        layout.segment_rows() * row_length + layout.start,
        layout.length.astype(np.int64),
    )
    plain = [[3] * row_length for _ in range(layout.num_rows)]
    for row, start, length, doc, offset in segments(layout):
        for token in range(length):
            plain[row][start + token] = int(tokens[sum(lengths[:doc]) + offset + token])
    assert rows.tolist() == plain
    assert sorted(rows[rows != 3].tolist()) == tokens.tolist()


@pytest.mark.parametrize(
    "wrong", [{"seq_len": 1}, {"strategy": "first_fit"}, {"shards": 0}, {"shard_size": "1KiB"}]
)
def test_a_packing_out_of_bounds_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        PackingConfig.model_validate(wrong)
