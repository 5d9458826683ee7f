"""Laws of rows in compiled code, where numpy would go over every row many times."""

import numpy as np
from numpy.typing import NDArray

from stages.kernels import lean_kernel


@lean_kernel
def check_segments(
    segments: NDArray[np.integer],
    positions: NDArray[np.integer],
    counts: NDArray[np.int64],
    borders: NDArray[np.bool_],
    covered: NDArray[np.bool_],
    wrong: NDArray[np.bool_],
) -> None:
    """Hold rows to the law of segments and to that of positions.

    Args:
        segments: (N, L) ids of segments; -1 on padding.
        positions: (N, L).
        counts: (N,) the segments that each row is to have.
        borders: (N, L) where segments are to begin; of no rows if that may be anywhere.
        covered: (N, L) where there is to be no padding, if borders are given.
        wrong: (2, N) filled in: rows that break the first law, and the second.
    """
    for row in range(len(segments)):
        number, begun, before = -1, 0, -1
        for place in range(segments.shape[1]):
            segment = segments[row, place]
            opens = segment >= 0 and (place == 0 or segment != before)
            if opens:
                number += 1
                begun = place
                wrong[0, row] |= place > 0 and before < 0  # behind padding
            wrong[0, row] |= segment != (number if segment >= 0 else -1)
            wrong[1, row] |= positions[row, place] != (place - begun if segment >= 0 else 0)
            if len(borders):
                wrong[0, row] |= opens != borders[row, place]
                wrong[0, row] |= (segment >= 0) != covered[row, place]
            before = segment
        wrong[0, row] |= number + 1 != counts[row]
