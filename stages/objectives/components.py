"""Components: a mixture's rows, each drawn by the component that its document copy was given.

    objective_id   0 2 2 1 0       which component each row has; laid out, never drawn

A hash of the document copy, 64 bits, chooses the first component whose T(cumulative weight) lies above
it, T(p) = floor(p 2**64). Copies of one component are packed together, and every epoch draws with the
same one, under the component's own tags: a row has one component, so no draw is used twice.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.errors import FormatError
from stages.objectives.rows import Columns, Restored, StoredRows
from stages.objectives.traits import Objective
from stages.seeding import threshold


class WeightedObjective(NamedTuple):
    """One of several objectives of a dataset."""

    name: str
    weight: float
    """How likely a document copy is to have it, in any unit."""
    objective: Objective


def choose_by_weight(hashed: int, weights: tuple[float, ...]) -> int:
    """Return the component of a document copy by its hash below 2**64, as likely as its weight."""
    return bisect_right(_thresholds(weights), hashed)


@cache
def _thresholds(weights: tuple[float, ...]) -> list[int]:
    """Return where each component's range of hashes ends; the last ends at 2**64 exactly."""
    ends = list(accumulate(weights))
    return [threshold(end / ends[-1]) for end in ends]


def draw_by_component(
    rows: StoredRows, number: int, draw: Callable[[int, StoredRows], Columns]
) -> Columns:
    """Return each row's columns by its component, and `objective_id` (N,) int32.

    Args:
        rows: of a mixture.
        number: of its components.
        draw: gives the columns of rows of one component; the columns of all are alike in name and shape.

    Raises:
        FormatError: a row of no component.
    """
    components = _components(rows, number)
    made: dict[str, NDArray[np.integer]] = {}
    for component, chosen in _groups(components, number):
        columns = draw(component, rows.take(chosen))
        if not made:
            for name, column in columns.items():
                made[name] = np.empty((len(components), *column.shape[1:]), column.dtype)
        assert columns.keys() == made.keys(), (
            "kinds with `mixes` and the same traits make the same columns"
        )
        for name, column in columns.items():
            made[name][chosen] = column
    return {**made, "objective_id": components.astype(np.int32)}


def restore_by_component(
    columns: Columns, number: int, restore: Callable[[int, Columns], Restored], *, pad: int
) -> Restored:
    """Return the clean tokens of rows back, each by the component that `objective_id` names.

    Args:
        columns: of `draw_by_component`.
        number: of the mixture's components.
        restore: gives the clean tokens of rows of one component.
        pad: the id of padding.
    """
    ids = columns["objective_id"]
    lengths = np.zeros(len(ids), np.int64)
    parts = []
    for component, chosen in _groups(ids, number):
        some = {name: column[chosen] for name, column in columns.items()}
        tokens, lengths[chosen] = restore(component, some)
        parts.append((chosen, tokens))
    width = max(tokens.shape[1] for _, tokens in parts)
    restored = np.full((len(ids), width), pad, columns["input_ids"].dtype)
    for chosen, tokens in parts:
        restored[chosen, : tokens.shape[1]] = tokens
    return restored, lengths


def _components(rows: StoredRows, number: int) -> NDArray[np.uint8]:
    """Return the component of each row."""
    components = rows.components
    if components is None:
        raise FormatError("components: none stored, but each row of a mixture has one")
    if len(components) and components.max() >= number:
        row = int(rows.numbers[np.argmax(components)])
        raise FormatError(
            f"components: row {row:,} has component {components.max()}, but the mixture has {number},"
            " counted from 0"
        )
    return components


def _groups(components: NDArray[np.integer], number: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each component that there is, and its rows; the first one always, for its columns."""
    for component in range(number):
        chosen = np.flatnonzero(components == component)
        if len(chosen) or component == 0:
            yield component, chosen
