r"""Programs: the expressions of a pre-tokenizer as numbers that compiled code follows.

     ?\p{L}+|\s+      0  FORK   3        go on at 1; if that fails, at 3
                      1  TAKE   " ", 0 to 1
                      2  TAKE   \p{L}, 1 to any;  JUMP 4
                      4  DONE

A step takes characters of a set, or says where to go on. With a FORK goes what its first branch can
begin with, so that most branches are never entered.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.tokenizer.splitting.characters import kinds_of
from stages.tokenizer.splitting.pattern import Ahead, Characters, Either, Optional, Sequence, Take

DONE, TAKE, FORK, JUMP, AHEAD, NOT_AHEAD = range(6)
ALL = 0xFFFFFFFFFFFFFFFF
"""The bits of a branch that may begin with anything, or match nothing at all."""


class Splits(NamedTuple):
    """L expressions, each of which cuts what the one before it left, as P steps of programs."""

    starts: NDArray[np.int64]
    """(L,) the first step of each."""
    begins: NDArray[np.uint64]
    """(L,) bits of the sets with which a match of each can begin."""
    steps: NDArray[np.int64]
    """(P, 5) what to do, where else to go on, least and most characters, whether it gives some back."""
    bits: NDArray[np.uint64]
    """(P,) of the sets that a step is about."""
    kinds: NDArray[np.uint8]
    """(0x110000,) the kind of each character."""
    sets: NDArray[np.uint64]
    """(kinds,) a bit for each set that characters of a kind are in."""
    limits: NDArray[np.int64]
    """(L + 1,) room: where the text ends, and then what each expression has cut off it last."""
    stack: NDArray[np.int64]
    """(P + 1, 3) room: where to go on if what is tried fails."""


def splits_of(trees: list[Either]) -> Splits:
    """Return the programs of expressions.

    Raises:
        ValueError: one can match nothing, or they have too many sets of characters.
    """
    writer = _Writer()
    starts, begins = [], []
    for tree in trees:
        starts.append(len(writer.steps))
        begins.append(writer.first((tree,)))
        writer.write((tree,))
        writer.put(DONE)
    if ALL in begins:
        raise ValueError("an expression that can match nothing, or begin with anything")
    kinds = kinds_of(writer.sets)
    return Splits(
        np.array(starts, np.int64),
        np.array(begins, np.uint64),
        np.array(writer.steps, np.int64).reshape(-1, 5),
        np.array(writer.bits, np.uint64),
        kinds.of,
        kinds.sets,
        np.zeros(len(trees) + 1, np.int64),
        np.zeros((len(writer.steps) + 1, 3), np.int64),
    )


@dataclass
class _Writer:
    """Writes programs, one behind the other."""

    sets: list[Characters] = field(default_factory=list)
    steps: list[list[int]] = field(default_factory=list)
    bits: list[int] = field(default_factory=list)

    def put(self, what: int, *, bits: int = 0, least: int = 0, most: int = 0, back: bool = False) -> int:
        """Add a step; return its number."""
        self.steps.append([what, -1, least, most, back])
        self.bits.append(bits)
        return len(self.steps) - 1

    def write(self, sequence: Sequence) -> None:
        """Add the steps of a sequence."""
        for item in sequence:
            match item:
                case Take():
                    self.put(
                        TAKE,
                        bits=self._bit(item.of),
                        least=item.least,
                        most=item.most,
                        back=item.gives_back,
                    )
                case Ahead():
                    self.put(NOT_AHEAD if item.negated else AHEAD, bits=self._bit(item.of))
                case Either():
                    self._write_either(item)
                case Optional():
                    fork = self.put(FORK, bits=self.first((item.inner,)))
                    self._write_either(item.inner)
                    self.steps[fork][1] = len(self.steps)

    def _write_either(self, either: Either) -> None:
        jumps = []
        for number, branch in enumerate(either.branches):
            if number == len(either.branches) - 1:
                self.write(branch)
                continue
            fork = self.put(FORK, bits=self.first(branch))
            self.write(branch)
            jumps.append(self.put(JUMP))
            self.steps[fork][1] = len(self.steps)
        for jump in jumps:
            self.steps[jump][1] = len(self.steps)

    def first(self, sequence: Sequence) -> int:
        """Return the bits of the sets with which a match of a sequence can begin, or `ALL`."""
        found = 0
        for item in sequence:
            match item:
                case Take():
                    found |= self._bit(item.of)
                    if item.least:
                        return found
                case Either():
                    every = [self.first(branch) for branch in item.branches]
                    for bits in every:
                        found |= bits
                    return found
                case Optional():
                    found |= self.first((item.inner,))
                case Ahead():
                    return ALL
        return ALL

    def _bit(self, characters: Characters) -> int:
        if characters not in self.sets:
            self.sets.append(characters)
        return 1 << self.sets.index(characters)
