"""What rows of several sections promise: every token once, sections whole, no prompt past its row."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stages.packing.sections import learned_sections, pack_side_by_side, prompt_lengths
from stages.packing.single import pack_single
from stages.ragged import Ragged, ragged_of
from tests.campaign import examples

documents = st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=4), max_size=8)
"""Tokens of each document's sections; the last of them is the EOS."""


def sections_of(sizes: list[list[int]]) -> tuple[np.ndarray, Ragged]:
    lengths = np.array([sum(each) for each in sizes], np.int64)
    return lengths, ragged_of([np.cumsum(each).tolist() for each in sizes])


def plain_prompt(sizes: list[int], offset: int, length: int) -> int:
    """Return the tokens of a piece that are prompt, one at least."""
    if len(sizes) == 1:
        return 0
    inside = sum(offset <= token < sum(sizes[:-1]) for token in range(offset, offset + length))
    return max(inside, 1)


@settings(deadline=None)
@given(documents)
def test_the_last_section_of_a_document_has_a_loss_and_no_other(sizes: list[list[int]]) -> None:
    _, sections = sections_of(sizes)
    wanted = [number == len(each) - 1 for each in sizes for number in range(len(each))]
    assert learned_sections(sections).tolist() == wanted


def test_a_document_without_a_section_has_none_with_a_loss() -> None:
    assert learned_sections(ragged_of([[], [3, 6], [], [4], []])).tolist() == [False, True, True]


@settings(deadline=None, max_examples=examples(300))
@given(documents, st.integers(2, 12))
def test_prompts_are_what_a_plain_count_of_each_piece_gives(
    sizes: list[list[int]], row_length: int
) -> None:
    lengths, sections = sections_of(sizes)
    layout = pack_single(lengths, row_length=row_length)
    wanted = [
        plain_prompt(sizes[doc], offset, length)
        for doc, offset, length in zip(
            layout.doc.tolist(), layout.doc_offset.tolist(), layout.length.tolist(), strict=True
        )
    ]
    found = prompt_lengths(layout, sections)
    assert found.tolist() == wanted
    assert found.dtype == np.int32


@settings(deadline=None, max_examples=examples(300))
@given(documents, st.integers(2, 3), st.integers(2, 32))
@example([[4, 2], [3, 5], [3, 4]], 2, 4)
def test_sections_stand_side_by_side_and_no_token_is_lost(
    sizes: list[list[int]], count: int, row_length: int
) -> None:
    lengths, sections = sections_of(sizes)
    stored = count * (row_length - 1) + 1
    layout = pack_side_by_side(lengths, sections, count=count, row_length=row_length, stored=stored)
    held = [np.zeros(length, np.int64) for length in lengths]
    rows: dict[int, list[tuple[int, int, int, int]]] = {}
    for row, start, length, doc, offset in zip(
        layout.segment_rows().tolist(),
        layout.start.tolist(),
        layout.length.tolist(),
        layout.doc.tolist(),
        layout.doc_offset.tolist(),
        strict=True,
    ):
        held[doc][offset : offset + length] += 1
        rows.setdefault(row, []).append((doc, start, offset, length))
        assert start + length <= stored
    assert all((tokens == 1).all() for tokens in held)
    assert len(rows) == layout.num_rows
    side_by_side = set()
    for segments in rows.values():
        (doc,) = {segment[0] for segment in segments}
        if len(segments) > 1:
            assert [length for *_, length in segments] == sizes[doc]
            assert [start for _, start, *_ in segments] == [offset for _, _, offset, _ in segments]
            side_by_side.add(doc)
        else:
            assert segments[0][3] <= row_length
            assert segments[0][1] == 0
    fitting = {
        number
        for number, each in enumerate(sizes)
        if len(each) == count and all(0 < n < row_length for n in [*each[:-1], each[-1] - 1])
    }
    assert side_by_side == fitting
