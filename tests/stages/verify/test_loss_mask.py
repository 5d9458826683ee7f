"""What the check of loss masks promises: any token with a wrong loss is found, and no sound mask is."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.packing.best_fit import pack_best_fit
from stages.packing.sections import learned_sections
from stages.ragged import Ragged, ragged_of
from stages.store.manifest import SEGMENT_COLUMNS
from stages.verify.mechanics import SegmentedRows
from stages.verify.row_frames import check_loss_mask
from tests.campaign import examples

SIZES = [[3, 4], [2], [9, 1, 5], [1, 1]]
"""Tokens of each document's sections, the EOS with the last."""
ROW_LENGTH = 8


def built(sizes: list[list[int]], learned: np.ndarray | None = None) -> tuple[SegmentedRows, Ragged]:
    """Return a mask in packed rows, token by token, and where sections end."""
    sections = ragged_of([np.cumsum(each).tolist() for each in sizes])
    flags = learned_sections(sections) if learned is None else learned
    lengths = np.array([sum(each) for each in sizes], np.int64)
    layout = pack_best_fit(lengths, row_length=ROW_LENGTH)
    mask = np.zeros((layout.num_rows, ROW_LENGTH), np.uint8)
    for segment, row in enumerate(layout.segment_rows().tolist()):
        doc, offset = int(layout.doc[segment]), int(layout.doc_offset[segment])
        own = np.repeat(flags[sections.ptr[doc] : sections.ptr[doc + 1]], sizes[doc])
        start, length = int(layout.start[segment]), int(layout.length[segment])
        mask[row, start : start + length] = own[offset : offset + length]
    segments = {name: np.asarray(getattr(layout, name), np.int64) for name in SEGMENT_COLUMNS}
    return SegmentedRows(mask, segments), sections


def found(
    mask: SegmentedRows, sizes: list[list[int]], sections: Ragged, learned: np.ndarray
) -> list[str]:
    """Return what the check says."""
    lengths = np.array([sum(each) for each in sizes], np.int64)
    findings = check_loss_mask(mask, lengths=lengths, sections=sections, learned=learned)
    assert all(finding.check == "loss_mask" for finding in findings)
    return [finding.message for finding in findings]


@settings(deadline=None, max_examples=examples(100))
@given(
    st.lists(st.lists(st.integers(1, 20), min_size=1, max_size=4), max_size=8),
    st.integers(0, 2**32),
)
def test_nothing_is_found_of_a_mask_as_sections_have_it_and_each_inverted_token_is(
    sizes: list[list[int]], seed: int
) -> None:
    draws = np.random.default_rng(seed)
    learned = draws.random(sum(map(len, sizes))) < 0.5
    mask, sections = built(sizes, learned)
    assert found(mask, sizes, sections, learned) == []
    if mask.input_ids.size:
        place = tuple(int(draws.integers(size)) for size in mask.input_ids.shape)
        mask.input_ids[place] = 1 - mask.input_ids[place]
        (message,) = found(mask, sizes, sections, learned)
        assert message.startswith(("1 tokens of 1 documents", "1 positions of padding"))


def test_a_mask_that_is_shifted_is_found_with_the_first_document() -> None:
    mask, sections = built(SIZES)
    shifted = SegmentedRows(np.roll(mask.input_ids, 1, axis=1), mask.segments)
    messages = found(shifted, SIZES, sections, learned_sections(sections))
    assert "documents have a loss and are to have none, or the other way round" in messages[0]


def test_a_mark_that_is_neither_0_nor_1_is_found() -> None:
    mask, sections = built(SIZES)
    changed = SegmentedRows(mask.input_ids * np.uint8(2), mask.segments)
    messages = found(changed, SIZES, sections, learned_sections(sections))
    assert messages[0].startswith(f"{int(mask.input_ids.sum())} tokens of 4 documents")
