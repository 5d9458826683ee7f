"""Seen: which pieces of an evaluation set begin as some stretch of the text that was trained on.

A held-out document of one run may be a training document of another: the loss on it is then no measure
of what a model knows of text that it has not read. Each piece of an evaluation set is known by a hash
of its first 32 tokens, which is looked for at every place of the rows that are trained on.

Axes: N rows, L tokens, P pieces.
"""

import numpy as np
from numpy.typing import NDArray

from stages.verify.rows import NO_LABEL, PADDING, LabelledRows

WINDOW = 32
"""Tokens: a power of two."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that powers of it lose no bit of a token; of splitmix64."""


class SeenPieces:
    """The pieces of an evaluation set, and which of them were seen.

    Args:
        rows: of the evaluation set.
    """

    def __init__(self, rows: LabelledRows) -> None:
        self._hashes = np.unique(_beginnings(rows))
        self._pieces = _beginnings(rows)
        self._found = np.zeros(len(self._hashes), np.bool_)

    def look(self, rows: LabelledRows) -> None:
        """Look for the pieces in rows that are trained on."""
        if len(self._hashes):
            hashes = np.unique(_windows(rows.input_ids))
            self._found |= np.isin(self._hashes, hashes, assume_unique=True)

    @property
    def share(self) -> float | None:
        """Return the share of the pieces that were seen; None if no piece has 32 tokens."""
        if not len(self._pieces):
            return None
        return float(self._found[np.searchsorted(self._hashes, self._pieces)].mean())


def _beginnings(rows: LabelledRows) -> NDArray[np.uint64]:
    """Return the hashes of the first tokens of each piece that has as many, and labels there, (P,)."""
    segments = rows.segment_ids
    if segments.shape[1] < WINDOW:
        return np.zeros(0, np.uint64)
    before = np.pad(segments[:, :-1], ((0, 0), (1, 0)), constant_values=PADDING)
    begins = (segments != PADDING) & (segments != before)
    last = segments.shape[1] - WINDOW + 1
    asked = np.cumsum(np.pad(rows.labels != NO_LABEL, ((0, 0), (1, 0))), axis=1)
    places = begins[:, :last] & (segments[:, :last] == segments[:, WINDOW - 1 :])
    places &= asked[:, WINDOW:] > asked[:, :last]
    found: NDArray[np.uint64] = _windows(rows.input_ids)[places]
    return found


def _windows(ids: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the hash of every stretch of 32 tokens of each row, (N, L - 31)."""
    if ids.shape[1] < WINDOW:
        return np.zeros((len(ids), 0), np.uint64)
    hashes, length = _mixed(ids.astype(np.uint64)), 1
    while length < WINDOW:
        factor = np.uint64(pow(int(_FACTOR), length, 1 << 64))
        hashes = hashes[:, :-length] * factor + hashes[:, length:]
        length *= 2
    return hashes


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the values of splitmix64: neighbouring ids have nothing in common."""
    values = (values + np.uint64(1)) * _FACTOR
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
