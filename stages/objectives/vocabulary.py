"""The ids of a tokenizer as objectives need them: which are special, which are ordinary."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from stages.errors import FormatError


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Ids by what may become of them.

    Args:
        size: every id is below it.
        special_ids: the reserved ids by name; none is ever chosen, changed or drawn.
        is_special: (size,) bool.
        ordinary: (V,) the other ids, ascending; single bytes are among them.
        starts_word: (size,) bool, the ids that begin a word; None if the tokenizer does not say.
    """

    size: int
    special_ids: Mapping[str, int]
    is_special: NDArray[np.bool_]
    ordinary: NDArray[np.int64]
    starts_word: NDArray[np.bool_] | None = None

    def special(self, ids: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Say which ids are special; an id outside the vocabulary is treated as the nearest inside."""
        return self.is_special.take(ids, mode="clip")

    @cached_property
    def special_ranges(self) -> NDArray[np.int64]:
        """Return the first and last of each range of special ids: (R, 2) int64.

        Special ids 0 1 2 6 -> [[0 2] [6 6]]
        """
        edges = np.flatnonzero(np.diff(self.is_special, prepend=False, append=False))
        ranges: NDArray[np.int64] = edges.reshape(-1, 2) - np.array([0, 1])
        return ranges

    @cached_property
    def sentinels(self) -> NDArray[np.int64]:
        """Return the sentinels' ids in order of use: (K,) int64."""
        names = (f"sentinel_{number}" for number in range(len(self.special_ids)))
        ids = [self.special_ids[name] for name in takewhile(self.special_ids.__contains__, names)]
        return np.array(ids, np.int64)

    def named(self, name: str) -> int:
        """Return the id of a special symbol.

        Raises:
            FormatError: the tokenizer has none of this name.
        """
        if name not in self.special_ids:
            known = ", ".join(list(self.special_ids)[:8])
            raise FormatError(f"special_ids: no {name!r} among {known}; the objective cannot do without")
        return self.special_ids[name]


def vocabulary_of(
    size: int, special_ids: Mapping[str, int], starts_word: NDArray[np.bool_] | None = None
) -> Vocabulary:
    """Sort the ids below `size` into special and ordinary ones.

    (6, {"pad": 3, "mask": 4}) -> ordinary 0 1 2 5

    Raises:
        FormatError: a special id is none of the vocabulary's, or the ids that begin a word are those of
            another vocabulary.
    """
    outside = {name: number for name, number in special_ids.items() if not 0 <= number < size}
    if outside:
        name, number = next(iter(outside.items()))
        raise FormatError(f"special_ids.{name} = {number:,}: must lie below vocab_size = {size:,}")
    if starts_word is not None and starts_word.shape != (size,):
        raise FormatError(f"starts_word: shape {starts_word.shape}, but vocab_size = {size:,}")
    is_special = np.zeros(size, np.bool_)
    is_special[list(special_ids.values())] = True
    return Vocabulary(size, special_ids, is_special, np.flatnonzero(~is_special), starts_word)
