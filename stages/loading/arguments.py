"""What callers hand over, checked where it comes in: whole numbers, epochs, positions, choices.

Numpy's integers are none to json, and its small ones wrap; behind these functions all are Python's.
"""

import operator
from collections.abc import Collection
from contextlib import suppress
from typing import SupportsIndex, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stages.errors import ConfigError
from stages.seeding import MAX_EPOCHS

_Choice = TypeVar("_Choice", bound=str)


def whole_number(name: str, value: object) -> int:
    """Return a whole number of any integer type.

    Raises:
        ConfigError: it is none.
    """
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        with suppress(TypeError):
            return operator.index(value)
    raise ConfigError(f"{name} = {value!r}: must be a whole number")


def sound_epoch(epoch: object) -> int:
    """Return an epoch that has draws.

    Raises:
        ConfigError: it has none.
    """
    number = whole_number("epoch", epoch)
    if not 0 <= number < MAX_EPOCHS:
        raise ConfigError(f"epoch = {number}: must be at least 0 and below {MAX_EPOCHS:,}")
    return number


def whole_positions(positions: ArrayLike) -> NDArray[np.int64]:
    """Return positions of any integer type as int64, (N,).

    Raises:
        IndexError: they are no whole numbers, as numpy has it.
    """
    given = np.asarray(positions)
    if given.dtype.kind not in "iu" and given.size:  # an empty list is of floats
        raise IndexError(f"positions of type {given.dtype}: must be whole numbers")
    return given.astype(np.int64, copy=False)


def from_begin(positions: ArrayLike, length: int) -> NDArray[np.int64]:
    """Return positions counted from the beginning, of which those below 0 count from the end.

    from_begin([0, -1, -6], 5) -> [0, 4, -6]
    """
    given = whole_positions(positions)
    return np.where((given < 0) & (given >= -length), given + length, given)


def one_of(name: str, value: _Choice, choices: Collection[str]) -> _Choice:
    """Return one of the choices.

    Raises:
        ConfigError: it is none.
    """
    if value not in choices:
        known = ", ".join(f'"{choice}"' for choice in choices)
        raise ConfigError(f"{name} = {value!r}: must be one of {known}")
    return value


def no_rows(place: object, split: str) -> str:
    """Return what is said where rows are needed of a split that has none, and the way out."""
    more = "raise validation.fraction" if split == "validation" else "give the run more documents"
    return f"{place}: the split {split!r} has 0 rows; {more}, or take another split"


def refuse_columns(wanted: Collection[str], there: Collection[str]) -> None:
    """Refuse names that are not all of columns that are there.

    Raises:
        ConfigError: one is not, or there is none.
    """
    if isinstance(wanted, str) or not wanted or set(wanted) - set(there):
        raise ConfigError(f"columns = {wanted!r}: must be a list of some of {', '.join(there)}")
