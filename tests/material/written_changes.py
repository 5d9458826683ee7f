"""How what is written out is damaged: columns of an epoch on disk, changed in one place or many."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stages.objectives.rows import IGNORED
from tests.material.fault_copies import Array, Copy, NoPlaceError
from tests.material.stored_faults import OTHER, Plant

Columns = dict[str, Array]
Change = Callable[[Columns, Copy], Mapping[str, Array]]
"""From the columns as they are, those that are to be others."""


def change_columns(change: Change, *needed: str) -> Plant:
    """Return a fault that changes columns of an epoch, of datasets that have them."""

    def plant(copy: Copy) -> None:
        found = copy.columns()
        if not found.keys() >= set(needed):
            raise NoPlaceError
        changed = change({name: column.copy() for name, column in found.items()}, copy)
        if all(np.array_equal(column, found[name]) for name, column in changed.items()):
            raise NoPlaceError
        for name, column in changed.items():
            path = copy.drawn / f"{name}.npy"
            path.unlink()
            np.save(path, np.ascontiguousarray(column, found[name].dtype))

    return plant


def first_place(wanted: Array) -> tuple[int, ...]:
    """Return a place where something holds, from the middle of all of them."""
    places = np.argwhere(wanted)
    if not len(places):
        raise NoPlaceError
    return tuple(places[len(places) // 2].tolist())


def change_entry(
    name: str, where: Callable[[Columns, Copy], Array], value: Callable[[Any, Copy], int]
) -> Plant:
    """Change one entry of a column."""

    def change(columns: Columns, copy: Copy) -> Mapping[str, Array]:
        place = first_place(where(columns, copy))
        columns[name][place] = value(columns[name][place], copy)
        return {name: columns[name]}

    return change_columns(change, name)


def only_of(*conventions: str) -> Callable[[Change], Change]:
    """Let a change have a place in datasets of some label conventions alone."""

    def limited(change: Change) -> Change:
        def only(columns: Columns, copy: Copy) -> Mapping[str, Array]:
            if copy.traits.label_convention not in conventions:
                raise NoPlaceError
            return change(columns, copy)

        return only

    return limited


def unlabelled(columns: Columns, copy: Copy) -> Array:
    """Say where an ordinary token stands that has no label of its own."""
    ids = columns["input_ids"]
    plain: Array = ~copy.vocabulary.special(ids) & (ids != OTHER)
    if copy.traits.label_convention == "masked":
        plain &= columns["labels"] == IGNORED
    return plain
