"""Pieces: what each id of a tokenizer decodes to, so that many ids are spelled at once.

pieces   "" "a" "bc" "!"
ids      2 1 0 3     sizes  2 1 0 1     spelled  "bca!"
"""

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel


class Pieces(Sequence[bytes]):
    """A list of bytes that also lies end to end.

    Args:
        pieces: what each id decodes to.
    """

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = list(pieces)
        self.sizes: NDArray[np.int64] = np.fromiter(map(len, pieces), np.int64, len(pieces))
        """(V,) bytes of each."""
        self._begins = np.cumsum(self.sizes) - self.sizes
        self._data = np.frombuffer(b"".join(pieces), np.uint8).copy()

    @overload
    def __getitem__(self, number: int) -> bytes: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[bytes]: ...
    def __getitem__(self, number: int | slice) -> bytes | Sequence[bytes]:
        """Give one of them, or some."""
        return self._pieces[number]

    def __len__(self) -> int:
        """Give how many there are."""
        return len(self._pieces)

    def __iter__(self) -> Iterator[bytes]:
        """Give each of them."""
        return iter(self._pieces)

    def spell(self, ids: NDArray[np.integer]) -> NDArray[np.uint8]:
        """Give what some ids decode to: (sum of their sizes,) uint8.

        64 KiB of text: 0.06 ms, where joining them one by one took 6 ms.
        """
        sizes = self.sizes[ids]  # indexing by numpy refuses ids that are none
        spelled = np.empty(int(sizes.sum()), np.uint8)
        _copy(self._data, self._begins[ids], sizes, spelled)
        return spelled


def pieces_of(pieces: Sequence[bytes]) -> Pieces:
    """Give them as they are if they can spell, else such as can."""
    return pieces if isinstance(pieces, Pieces) else Pieces(pieces)


@kernel
def _copy(
    data: NDArray[np.uint8],
    begins: NDArray[np.int64],
    sizes: NDArray[np.int64],
    spelled: NDArray[np.uint8],
) -> None:
    """Copy data[begins[i] : begins[i] + sizes[i]] for every i, one behind the other."""
    place = np.uint64(0)
    for number in range(len(begins)):
        first = np.uint64(begins[number])
        for offset in range(np.uint64(sizes[number])):
            spelled[place] = data[first + offset]
            place += np.uint64(1)
