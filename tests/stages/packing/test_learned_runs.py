"""What the places of losses promise: those of a plain loop over tokens, however rows are cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.packing.layout import Layout, Strategy, shuffle_rows
from stages.packing.sections import learned_ranges, learned_sections
from stages.packing.strategies import PACKINGS
from stages.ragged import Ragged, ragged_of
from tests.campaign import examples

documents = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), max_size=12)
"""Tokens of each document's sections, before the EOS, which goes with the last."""


def sections_of(sizes: list[list[int]]) -> Ragged:
    """Return after how many tokens each section ends, the EOS with the last."""
    return ragged_of([np.cumsum([*each[:-1], each[-1] + 1]).tolist() for each in sizes])


def plainly(layout: Layout, sections: Ragged, learned: np.ndarray) -> list[list[int]]:
    """Mark each token of each row by looking its section up."""
    rows = [[0] * layout.row_length for _ in range(layout.num_rows)]
    for row in range(layout.num_rows):
        for segment in range(layout.row_ptr[row], layout.row_ptr[row + 1]):
            doc = int(layout.doc[segment])
            ends = sections[doc].tolist()
            for place in range(int(layout.length[segment])):
                token = int(layout.doc_offset[segment]) + place
                number = next(n for n, end in enumerate(ends) if token < end)
                flag = learned[int(sections.ptr[doc]) + number]
                rows[row][int(layout.start[segment]) + place] = int(flag)
    return rows


def marked(layout: Layout, sections: Ragged, learned: np.ndarray) -> list[list[int]]:
    """Mark the runs that are found; none of them meets another."""
    flat = np.zeros(layout.num_rows * layout.row_length, np.int64)
    for place, count in zip(*learned_ranges(layout, sections, learned), strict=True):
        assert count >= 0
        flat[place : place + count] += 1
    found: list[list[int]] = flat.reshape(layout.num_rows, layout.row_length).tolist()
    return found


@pytest.mark.parametrize("strategy", list(Strategy))
@settings(deadline=None, derandomize=True, max_examples=examples(60))
@given(sizes=documents, row_length=st.integers(2, 24), data=st.data())
def test_losses_are_where_a_plain_loop_puts_them(
    strategy: Strategy, sizes: list[list[int]], row_length: int, data: st.DataObject
) -> None:
    sections = sections_of(sizes)
    lengths = np.array([sum(each) + 1 for each in sizes], np.int64)
    whole = Ragged(np.arange(len(lengths) + 1), lengths)
    layout = PACKINGS[strategy].packer()(lengths, row_length=row_length, sentences=whole)
    order = np.array(data.draw(st.permutations(range(layout.num_rows))), np.int64)
    layout = shuffle_rows(layout, order)
    total = len(sections.values)
    flags = data.draw(st.lists(st.booleans(), min_size=total, max_size=total))
    for learned in (np.array(flags, np.bool_), learned_sections(sections)):
        assert marked(layout, sections, learned) == plainly(layout, sections, learned)


def test_a_target_that_is_cut_has_a_loss_in_each_of_its_rows() -> None:
    layout = Layout(
        row_length=5,
        row_ptr=np.array([0, 1, 3]),
        start=np.array([0, 0, 1], np.int32),
        length=np.array([5, 1, 2], np.int32),
        doc=np.array([0, 0, 1], np.int32),
        doc_offset=np.array([0, 5, 0]),
    )
    sections = ragged_of([[3, 6], [2]])
    places, counts = learned_ranges(layout, sections, learned_sections(sections))
    assert places.tolist() == [3, 5, 6]
    assert counts.tolist() == [2, 1, 2]
