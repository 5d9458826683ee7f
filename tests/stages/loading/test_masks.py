"""What masks promise.

Each says exactly what the definition says, pair by pair, on any rows; nobody attends to padding but
padding itself, and everybody to something; variable-length attention gets the same documents.
"""

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.errors import ConfigError, DataError
from stages.loading.masks import (
    PADDING,
    SelfAttention,
    cross_grid,
    cu_seqlens,
    masks_of,
    padding_mask,
    position_ids,
    self_grid,
)
from tests.campaign import examples
from tests.stages.loading.rows import LENGTH, ROWS, segments_of

ROOT = Path(__file__).resolve().parents[3]
QUICK = settings(deadline=None, derandomize=True, max_examples=examples(60))
WITHIN = (
    SelfAttention.CAUSAL_WITHIN_DOCUMENT,
    SelfAttention.PREFIX_WITHIN_DOCUMENT,
    SelfAttention.BIDIRECTIONAL_WITHIN_DOCUMENT,
)
BOTH_WAYS = (SelfAttention.BIDIRECTIONAL_WITHIN_DOCUMENT, SelfAttention.BIDIRECTIONAL)


def may_attend(
    kind: SelfAttention, row: list[int], prefix: int, shown: list[int], *, query: int, key: int
) -> bool:
    """Say by the words of the definition whether one position may attend to another."""
    if row[query] == PADDING or row[key] == PADDING:
        return query == key
    if kind in WITHIN and row[query] != row[key]:
        return False
    if kind is SelfAttention.PREFIX:
        return key <= query or key < prefix
    if kind is SelfAttention.PREFIX_WITHIN_DOCUMENT:
        return key <= query or shown[key] == 1
    return kind in BOTH_WAYS or key <= query


def picture(mask: NDArray[np.bool_]) -> list[str]:
    return ["".join(".#"[int(seen)] for seen in row) for row in mask]


def attention_mask(
    kind: SelfAttention,
    segment_ids: NDArray[np.int64],
    *,
    prefix_length: NDArray[np.int64] | None = None,
    in_prefix: NDArray[np.int64] | None = None,
) -> NDArray[np.integer]:
    grid = self_grid(kind, segment_ids, prefix_length=prefix_length, in_prefix=in_prefix)
    return grid.mask(np.arange)


@pytest.mark.parametrize(
    ("kind", "prefix", "expected"),
    [
        ("causal_within_document", None, ["#....", "##...", "..#..", "..##.", "....#"]),
        ("bidirectional_within_document", None, ["##...", "##...", "..##.", "..##.", "....#"]),
        ("causal", None, ["#....", "##...", "###..", "####.", "....#"]),
        ("bidirectional", None, ["####.", "####.", "####.", "####.", "....#"]),
        ("prefix", 0, ["#....", "##...", "###..", "####.", "....#"]),
        ("prefix", 1, ["#....", "##...", "###..", "####.", "....#"]),
        ("prefix", 2, ["##...", "##...", "###..", "####.", "....#"]),
        ("prefix", 3, ["###..", "###..", "###..", "####.", "....#"]),
        ("prefix", 4, ["####.", "####.", "####.", "####.", "....#"]),
        ("prefix", 9, ["####.", "####.", "####.", "####.", "....#"]),
    ],
)
def test_masks_written_out(kind: str, prefix: int | None, expected: list[str]) -> None:
    prefix_length = None if prefix is None else np.array([prefix])
    rows = np.array([[0, 0, 1, 1, PADDING]])
    mask = attention_mask(SelfAttention(kind), rows, prefix_length=prefix_length)
    assert picture(mask[0]) == expected


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ([1, 0, 1, 0, 0, 0], ["#.....", "##....", "..#...", "..##..", "..###.", ".....#"]),
        ([1, 1, 1, 1, 0, 0], ["##....", "##....", "..##..", "..##..", "..###.", ".....#"]),
        ([1, 1, 1, 1, 1, 0], ["##....", "##....", "..###.", "..###.", "..###.", ".....#"]),
    ],
)
def test_prefixes_of_packed_documents_written_out(shown: list[int], expected: list[str]) -> None:
    rows = np.array([[0, 0, 1, 1, 1, PADDING]])
    kind = SelfAttention.PREFIX_WITHIN_DOCUMENT
    assert picture(attention_mask(kind, rows, in_prefix=np.array([shown]))[0]) == expected


@pytest.mark.parametrize("kind", SelfAttention)
@QUICK
@given(rows=ROWS, data=st.data())
def test_any_rows_equal_the_plain_double_loop(
    kind: SelfAttention, rows: list[list[int]], data: st.DataObject
) -> None:
    segment_ids = segments_of(rows)
    prefixes = data.draw(st.lists(st.integers(0, LENGTH), min_size=len(rows), max_size=len(rows)))
    shown = data.draw(
        st.lists(
            st.lists(st.integers(0, 1), min_size=LENGTH, max_size=LENGTH),
            min_size=len(rows),
            max_size=len(rows),
        )
    )
    before = segment_ids.copy()
    in_prefix = np.array(shown, np.int64).reshape(len(rows), LENGTH)
    mask = attention_mask(kind, segment_ids, prefix_length=np.array(prefixes), in_prefix=in_prefix)
    places = range(LENGTH)
    expected = [
        [[may_attend(kind, row, prefix, some, query=q, key=k) for k in places] for q in places]
        for row, prefix, some in zip(segment_ids.tolist(), prefixes, shown, strict=True)
    ]
    assert mask.dtype == np.bool_
    assert mask.tolist() == expected
    assert np.array_equal(segment_ids, before)


@pytest.mark.parametrize("kind", SelfAttention)
@QUICK
@given(rows=ROWS)
def test_padding_is_seen_by_itself_alone_and_everybody_sees_something(
    kind: SelfAttention, rows: list[list[int]]
) -> None:
    segment_ids = segments_of(rows)
    mask = attention_mask(kind, segment_ids, prefix_length=np.full(len(rows), 3))
    row, place = np.nonzero(segment_ids == PADDING)
    alone = np.eye(LENGTH, dtype=np.bool_)[place]
    assert np.array_equal(mask[row, place], alone)
    assert np.array_equal(mask[row, :, place], alone)
    assert mask.any(axis=2).all()


@pytest.mark.parametrize("kind", WITHIN)
@QUICK
@given(rows=ROWS)
def test_a_packed_row_is_the_blocks_of_its_documents(kind: SelfAttention, rows: list[list[int]]) -> None:
    for lengths, mask in zip(rows, attention_mask(kind, segments_of(rows)), strict=True):
        left = mask.copy()
        start = 0
        for length in lengths:
            block = slice(start, start + length)
            alone = np.zeros((1, length), np.int64)
            assert np.array_equal(left[block, block], attention_mask(kind, alone)[0])
            left[block, block] = False
            start += length
        assert left.sum() == LENGTH - start


def test_lengths_are_taken_before_segments_where_the_row_is_one_text() -> None:
    batch = {
        "input_ids": np.zeros((3, 3), np.int64),
        "input_length": np.array([0, 2, 3]),
        "segment_ids": np.zeros((3, 3), np.int64),
    }
    masks = masks_of(batch, "causal")["attention_mask"]
    assert [picture(mask) for mask in masks] == [
        ["#..", ".#.", "..#"],
        ["#..", "##.", "..#"],
        ["#..", "##.", "###"],
    ]
    within = masks_of(batch, "causal_within_document")["attention_mask"]
    assert [picture(mask) for mask in within] == [["#..", "##.", "###"]] * 3


def test_the_columns_of_a_batch_decide() -> None:
    batch = {
        "input_ids": np.zeros((1, 3), np.int64),
        "segment_ids": np.array([[0, 1, PADDING]]),
        "prefix_length": np.array([2]),
        "in_prefix": np.array([[1, 1, 0]]),
    }
    expected = {
        "causal_within_document": ["#..", ".#.", "..#"],
        "bidirectional_within_document": ["#..", ".#.", "..#"],
        "causal": ["#..", "##.", "..#"],
        "bidirectional": ["##.", "##.", "..#"],
        "prefix_within_document": ["#..", ".#.", "..#"],
        "prefix": ["##.", "##.", "..#"],
    }
    assert expected.keys() == set(SelfAttention)
    for attention, drawn in expected.items():
        masks = masks_of(batch, attention)
        assert masks.keys() == {"attention_mask"}
        assert picture(masks["attention_mask"][0]) == drawn


def test_an_encoder_with_a_decoder_has_three_masks() -> None:
    batch = {
        "input_ids": np.zeros((2, 4), np.int64),
        "labels": np.zeros((2, 3), np.int64),
        "input_length": np.array([3, 1]),
        "label_length": np.array([2, 0]),
    }
    masks = masks_of(batch, "encoder_decoder")
    assert [picture(row) for row in masks["encoder_mask"]] == [
        ["###.", "###.", "###.", "...#"],
        ["#...", ".#..", "..#.", "...#"],
    ]
    assert [picture(row) for row in masks["decoder_mask"]] == [
        ["#..", "##.", "..#"],
        ["#..", ".#.", "..#"],
    ]
    assert [picture(row) for row in masks["cross_mask"]] == [["###."] * 3, ["#..."] * 3]
    assert picture(padding_mask(batch["input_length"], 4)) == ["###.", "#..."]


def test_a_decoder_without_inputs_still_sees_something() -> None:
    assert picture(padding_mask(np.array([0]), 3)) == ["..."]
    assert picture(cross_grid(np.array([0]), width_in=3, width_out=2).mask(np.arange)[0]) == [
        "#..",
        "#..",
    ]


def test_views_of_a_row_count_as_rows() -> None:
    views = np.zeros((2, 2, 3), np.int64)
    lengths = np.array([[1, 2], [3, 0]])
    flat = {"input_ids": views.reshape(4, 3), "input_length": lengths.reshape(4)}
    mask = masks_of({"input_ids": views, "input_length": lengths}, "bidirectional")["attention_mask"]
    assert mask.shape == (4, 3, 3)
    assert np.array_equal(mask, masks_of(flat, "bidirectional")["attention_mask"])
    shared = {"input_ids": views, "segment_ids": segments_of([[1], [2]], 3)}
    mask = masks_of(shared, "bidirectional")["attention_mask"]
    assert np.array_equal(mask[::2], mask[1::2])
    assert [picture(row) for row in mask[::2]] == [["#..", ".#.", "..#"], ["##.", "##.", "..#"]]
    assert np.array_equal(
        mask,
        masks_of({"input_ids": views, "input_length": np.array([1, 2])}, "bidirectional")[
            "attention_mask"
        ],
    )


@QUICK
@given(rows=ROWS)
def test_variable_length_attention_gets_every_segment_once(rows: list[list[int]]) -> None:
    segment_ids = segments_of(rows)
    bounds, longest = cu_seqlens(segment_ids)
    lengths = [length for row in rows for length in row]
    assert bounds.dtype == np.int32
    assert bounds.tolist() == [sum(lengths[:number]) for number in range(len(lengths) + 1)]
    assert longest == max(lengths, default=0)
    expected = [list(range(length)) for length in lengths]
    flat = position_ids(segment_ids)[segment_ids != PADDING]
    assert [flat[a:b].tolist() for a, b in itertools.pairwise(bounds)] == expected
    assert not position_ids(segment_ids)[segment_ids == PADDING].any()


def test_neighbouring_rows_with_equal_segment_numbers_do_not_run_together() -> None:
    assert cu_seqlens(np.array([[0, 0], [0, 0]])).cu_seqlens.tolist() == [0, 2, 4]
    assert cu_seqlens(np.array([[0, 0, 1, PADDING], [0, 0, 0, PADDING]])).cu_seqlens.tolist() == [
        0,
        2,
        3,
        6,
    ]
    assert position_ids(np.array([[0, 0, 1, 1, 1, PADDING]])).tolist() == [[0, 1, 0, 1, 2, 0]]


def test_no_rows_have_no_masks() -> None:
    none = np.empty((0, 5), np.int64)
    assert attention_mask(SelfAttention.CAUSAL, none).shape == (0, 5, 5)
    assert cu_seqlens(none).cu_seqlens.tolist() == [0]
    assert cu_seqlens(none).max_seqlen == 0
    assert position_ids(none).shape == (0, 5)


def test_what_does_not_follow_from_the_batch_is_refused() -> None:
    batch = {"input_ids": np.zeros((1, 3), np.int64)}
    with pytest.raises(
        ConfigError, match=r"'sliding': this reader knows causal_within.*encoder_decoder"
    ):
        masks_of(batch, "sliding")
    with pytest.raises(DataError, match=r"'causal_within_document' .* segment_ids.* has input_ids;"):
        masks_of(batch, "causal_within_document")
    with pytest.raises(DataError, match="column prefix_length"):
        masks_of(batch, "prefix")
    with pytest.raises(DataError, match="column input_length"):
        masks_of(batch, "encoder_decoder")


def test_masks_need_no_torch() -> None:
    program = "import sys; sys.modules['torch'] = None; import stages.loading.masks; print('loaded')"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "loaded\n"
