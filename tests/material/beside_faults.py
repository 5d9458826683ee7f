"""Faults of what stands beside the ids of rows: columns of theirs, sentences, frequencies, losses."""

from collections.abc import Callable

import numpy as np

from stages.store.manifest import (
    LOSS_MASK,
    OBJECTIVE_ID,
    PROMPT,
    ROOM,
    SEGMENT_PROMPT,
    SENTENCES,
    UNIGRAM,
    WORD_STARTS,
)
from tests.material.fault_copies import Array, Copy, NoPlaceError, change_array
from tests.material.stored_faults import Plant


def _beside(name: str, change: Callable[[Array], Array | None], *, split: bool = False) -> Plant:
    """Change a file that only some objectives have."""

    def plant(copy: Copy) -> None:
        path = (copy.split if split else copy.shard) / name
        if not path.exists():
            raise NoPlaceError
        change_array(path, change)

    return plant


def _first_up(column: Array) -> Array:
    """Change one entry, one that is not 0 if there is one."""
    number = int(np.argmax(column > 0))
    column[number] += 1
    return column


def _shifted_mask(mask: Array) -> Array:
    return np.roll(mask, 1, axis=1)


def _losses(choose: Callable[[Array], Array]) -> Plant:
    """Invert the loss mask at one token of those chosen: of the masks that it has, (R, L) bool."""

    def plant(copy: Copy) -> None:
        pad = copy.vocabulary.named("pad")
        if LOSS_MASK not in copy.by_row():
            raise NoPlaceError
        ids = np.load(copy.shard / "input_ids.npy")

        def change(mask: Array) -> None:
            places = np.argwhere(choose(mask == 1) & (ids != pad))
            row, place = places[len(places) // 2]
            mask[row, place] = 1 - mask[row, place]

        copy.change(LOSS_MASK, change)

    return plant


def _padding_learned(copy: Copy) -> None:
    padding = np.argwhere(np.load(copy.shard / "input_ids.npy") == copy.vocabulary.named("pad"))
    if LOSS_MASK not in copy.by_row() or not len(padding):
        raise NoPlaceError

    def change(mask: Array) -> None:
        mask[tuple(padding[0])] = 1

    copy.change(LOSS_MASK, change)


def _component(column: Array) -> Array:
    column[0] = 1 - min(int(column[0]), 1)
    return column


def sentence_moved(ends: Array) -> None:
    """Say that a sentence ends a token later than it does."""
    number = int(np.argmax(np.diff(ends) > 1))
    ends[number] += 1


BESIDE: dict[str, Plant] = {
    "a component is another one": _beside(f"{OBJECTIVE_ID}.npy", _component),
    "room to borrow off by 1": _beside(f"{ROOM}.npy", _first_up),
    "a prompt off by 1": _beside(f"{PROMPT}.npy", _first_up),
    "a prompt of a segment off by 1": _beside(SEGMENT_PROMPT, _first_up),
    "the loss mask shifted by 1": _beside(f"{LOSS_MASK}.npy", _shifted_mask),
    "a loss on one token of a prompt": _losses(lambda mask: ~mask),
    "a token of a target without a loss": _losses(lambda mask: mask),
    "a loss on padding": _padding_learned,
    "the end of a sentence moved": _beside(f"{SENTENCES}/ends.npy", sentence_moved),
    "a frequency wrong": _beside(UNIGRAM, _first_up),
    "the beginnings of words wrong": _beside(WORD_STARTS, np.logical_not, split=True),
}
"""What is planted beside the ids of a shard's rows."""
