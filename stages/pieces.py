"""Pieces: what each id of a tokenizer decodes to, so that many ids are spelled at once.

pieces   "" "a" "bc" "!"
ids      2 1 0 3     sizes  2 1 0 1     spelled  "bca!"
"""

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from stages.ragged import ranges_of

_AT_ONCE = 1 << 16
"""Ids spelled together: 8 bytes are held for each of their bytes."""


class Pieces(Sequence[bytes]):
    """A list of bytes that also lies end to end.

    Args:
        pieces: what each id decodes to.
    """

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = list(pieces)
        self.sizes: NDArray[np.int64] = np.fromiter(map(len, pieces), np.int64, len(pieces))
        """(V,) bytes of each."""
        self.begins = np.cumsum(self.sizes) - self.sizes
        """(V,) where each begins in `data`."""
        self.data = np.frombuffer(b"".join(pieces), np.uint8).copy()
        """(B,) all of them end to end."""

    @overload
    def __getitem__(self, number: int) -> bytes: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[bytes]: ...
    def __getitem__(self, number: int | slice) -> bytes | Sequence[bytes]:
        """Return one of them, or some."""
        return self._pieces[number]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._pieces)

    def __iter__(self) -> Iterator[bytes]:
        """Return each of them."""
        return iter(self._pieces)

    def spell(self, ids: NDArray[np.integer]) -> NDArray[np.uint8]:
        """Return what some ids decode to: (sum of their sizes,) uint8."""
        sizes, begins = self.sizes[ids], self.begins[ids]  # numpy refuses ids that are none
        spelled = np.empty(int(sizes.sum()), np.uint8)
        place = 0
        for first in range(0, len(sizes), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            part = self.data[ranges_of(begins[some], sizes[some])]
            spelled[place : place + len(part)] = part
            place += len(part)
        return spelled


def pieces_of(pieces: Sequence[bytes]) -> Pieces:
    """Return them as they are if they can spell, else such as can."""
    return pieces if isinstance(pieces, Pieces) else Pieces(pieces)


def is_text(piece: bytes) -> bool:
    """Say whether a piece is whole characters, and not the parts of one."""
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True
