"""Digit groups: pieces that make plain BPE take digits in threes from the left, exactly.

    12345     pairs of one score, the leftmost first    12 3 4 5
              groups of three before further pairs      123 4 5   ->   123 45

All pairs have one score, and all groups of three a better one. SentencePiece merges the best pair first,
of equals the leftmost. So a group of three is complete before another pair begins behind it. No other
piece has a digit and something else, so nothing reaches into a group.

Groups of the digits 0 to 9 alone: those of other scripts stay single, since each script would take as
many pieces again.
"""

from itertools import product

DIGITS = "0123456789"
"""Each has a piece where groups have: a reader that merges pieces alone finds groups only by these."""
_PAIR, _THREE = 1.0, 2.0
"""Scores: above those of what is learned, which are 0 and below."""


def digit_groups() -> dict[str, float]:
    """Return the groups of two and three digits with their scores: 1,100."""
    return {
        "".join(group): score
        for size, score in ((2, _PAIR), (3, _THREE))
        for group in product(DIGITS, repeat=size)
    }


NUM_GROUPS = 1_100
