"""Blocks of characters are those of Unicode: whole columns of sixteen, none in two of them."""

from itertools import chain, pairwise

from stages.tokenizer.coverage import BLOCKS

INNER = {0x7E, 0xA0, 0x2027, 0x205E, 0xD7A3}
"""Ends without the controls beside them, and that of Hangul syllables, which is within a column."""


def test_blocks_begin_and_end_with_a_column_and_share_no_character() -> None:
    ranges = sorted(chain.from_iterable(BLOCKS.values()))
    for first, last in ranges:
        assert first % 16 == 0, hex(first)
        assert last % 16 == 15 or last in INNER, hex(last)
    assert all(last < first for (_, last), (first, _) in pairwise(ranges))
