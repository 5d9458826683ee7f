r"""Automata: the expressions of a pre-tokenizer as tables, for compiled code to follow.

     ?a+|b      state    " "    a     b    other, end
                1         2     3     4      -          it begins
                2         -     3     -      -          a space
                3        (-)    3    (-)    (-)         some a; (..) it matches what came before
                4        (-)   (-)   (-)    (-)         b

A state is where a backtracking matcher could be, with the ways that it would try first in front. Where
one way comes to its end, those behind it are dropped. So the last match on the path is the one that the
matcher would find, and no character is looked at twice.

Source: Cox 2010, "Regular Expression Matching in the Wild", https://swtch.com/~rsc/regexp/regexp3.html,
for automata whose states are in an order.

Matching: where expressions cut a text.

    text       "it's  7up"
    pieces     "it" "'s" " " " " "7" "up"

What an expression matches is a piece, and so is what lies between two matches.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.byte_kernels import ASCII, code_point
from stages.kernels import lean_kernel
from stages.tokenizer.splitting.characters import Kinds, kinds_of
from stages.tokenizer.splitting.pattern import (
    MANY,
    Alternation,
    Characters,
    Lookahead,
    PatternPart,
    Repeat,
)

OVER = 0
"""The state from which nothing goes on."""
_MOST_PLACES, _MOST_STATES = 1 << 12, 1 << 10


class Splits(NamedTuple):
    """L expressions, each of which cuts what the one before it left, with S states in all."""

    starts: NDArray[np.int64]
    """(L,) where the moves of the first state of each begin."""
    moves: NDArray[np.int32]
    """(S * (K + 1),) of each state, by the kind of the next character and at the end: where the moves of
    the next state begin << 1, and 1 if what came before matches."""
    kinds: NDArray[np.uint8]
    """(0x110000,) which of K kinds each character is."""
    limits: NDArray[np.int64]
    """(L + 1,) room: where the text ends, and then what each expression has cut off it last."""
    num_kinds: int
    """K."""


def splits_of(trees: list[Alternation]) -> Splits:
    """Return the automata of expressions.

    Raises:
        ValueError: one can match nothing, or they are too large.
    """
    graphs = [_Graph() for _ in trees]
    sets: dict[Characters, int] = {}
    for graph, tree in zip(graphs, trees, strict=True):
        graph.begin = graph.add((tree,), graph.end)
        for place in graph.places:
            if place.of is not None:
                sets.setdefault(place.of, len(sets))
    kinds = kinds_of(list(sets))
    moves = [[OVER] * (len(kinds.sets) + 1)]
    starts = []
    for graph in graphs:
        starts.append(len(moves))
        moves += _moves(graph, kinds, sets, first=len(moves))
        if any(move & 1 for move in moves[starts[-1]]):
            raise ValueError("an expression that can match nothing")
    table, width = np.array(moves, np.int32), len(kinds.sets) + 1
    return Splits(
        np.array(starts, np.int64) * width,
        ((table >> 1) * width << 1 | table & 1).ravel(),
        kinds.of,
        np.zeros(len(trees) + 1, np.int64),
        len(kinds.sets),
    )


@dataclass
class _PatternPlace:
    """A place in an expression."""

    of: Characters | None = None
    """What stands there, or ahead of it."""
    ahead: bool = False
    negated: bool = False
    """Whether nothing of the set may be ahead."""
    then: list[int] = field(default_factory=list)
    """Where to go on, the way to be tried first in front."""


@dataclass
class _Graph:
    """The places of an expression."""

    places: list[_PatternPlace] = field(default_factory=lambda: [_PatternPlace()])
    begin: int = 0
    end: int = 0

    def add(self, sequence: tuple[PatternPart, ...], then: int) -> int:
        """Add a sequence before a place; return where it begins."""
        for node in reversed(sequence):
            match node:
                case Characters():
                    then = self._put(_PatternPlace(node, then=[then]))
                case Lookahead():
                    then = self._put(
                        _PatternPlace(node.of, ahead=True, negated=node.negated, then=[then])
                    )
                case Alternation():
                    then = self._put(
                        _PatternPlace(then=[self.add(branch, then) for branch in node.branches])
                    )
                case Repeat():
                    then = self._repeat(node, then)
        return then

    def _repeat(self, node: Repeat, then: int) -> int:
        order = -1 if node.lazy else 1
        after = then
        if node.most == MANY:
            then = self._put(_PatternPlace())
            inner = self.add((node.of,), then)
            self.places[then].then = [inner, after][::order]
            if self._reaches(inner, then):
                raise ValueError("a group that may be empty, as often as may be")
        else:
            for _ in range(node.most - node.least):
                then = self._put(_PatternPlace(then=[self.add((node.of,), then), after][::order]))
        for _ in range(node.least):
            then = self.add((node.of,), then)
        return then

    def _reaches(self, place: int, goal: int) -> bool:
        """Say whether one place leads to another though no character is taken."""
        seen, open_ = {place}, [place]
        while open_:
            at = self.places[open_.pop()]
            for then in at.then if at.of is None or at.ahead else ():
                if then not in seen:
                    seen.add(then)
                    open_.append(then)
        return goal in seen

    def _put(self, place: _PatternPlace) -> int:
        if len(self.places) >= _MOST_PLACES:
            raise ValueError("an expression of too many places")
        self.places.append(place)
        return len(self.places) - 1


def _moves(graph: _Graph, kinds: Kinds, sets: dict[Characters, int], *, first: int) -> list[list[int]]:
    """Return the moves of an expression's states, of which the first has a number."""
    states: dict[tuple[int, ...], int] = {(graph.begin,): first}
    found: list[list[int]] = []
    inside = [int(bits) for bits in kinds.sets]
    for state in _growing(states):
        row = []
        for bits in (*inside, None):
            after, matches = _step(graph, state, bits, sets)
            number = states.setdefault(after, first + len(states)) if after else OVER
            row.append(number << 1 | matches)
        found.append(row)
        if len(states) > _MOST_STATES:
            raise ValueError("an expression of too many states")
    return found


def _growing(states: dict[tuple[int, ...], int]) -> Iterator[tuple[int, ...]]:
    """Yield the keys of a dictionary, also those that are added meanwhile."""
    done = 0
    while done < len(states):
        yield list(states)[done]
        done += 1


def _step(
    graph: _Graph, state: tuple[int, ...], bits: int | None, sets: dict[Characters, int]
) -> tuple[tuple[int, ...], bool]:
    """Return the places after a character, and whether what is before it matches.

    Args:
        graph: the expression.
        state: the places before it.
        bits: of the sets that the character is in; None at the end.
        sets: the bit of each.
    """
    after: dict[int, None] = {}
    seen = set[int]()
    open_ = list(reversed(state))
    while open_:
        number = open_.pop()
        if number in seen:
            continue
        seen.add(number)
        if number == graph.end:
            return tuple(after), True
        place = graph.places[number]
        stands = place.of is not None and bits is not None and bool(bits >> sets[place.of] & 1)
        if place.of is None or (place.ahead and stands != place.negated):
            open_ += reversed(place.then)
        elif stands and not place.ahead:
            after.setdefault(place.then[0])
    return tuple(after), False


_NONE = -1


@lean_kernel
def begin_text(place: int, end: int, splits: Splits) -> None:
    """Go to the beginning of a text."""
    splits.limits[:] = place
    splits.limits[0] = end


@lean_kernel
def next_pre_token(place: int, data: NDArray[np.uint8], splits: Splits) -> int:
    """Return where the piece ends that begins at a place before the end of the text."""
    limits, last = splits.limits, len(splits.starts)
    level = last
    while level > 0 and limits[level] == place:
        level -= 1
    while level < last:
        limits[level + 1] = _pre_token_end(splits.starts[level], place, limits[level], data, splits)
        level += 1
    return np.int64(limits[last])  # type: ignore[return-value]


@lean_kernel
def _pre_token_end(start: int, place: int, end: int, data: NDArray[np.uint8], splits: Splits) -> int:
    """Return where an expression matches to; if it does not match here, where it matches next."""
    found = _match(start, place, end, data, splits)
    if found != _NONE:
        return found
    while place < end:
        place += code_point(data, place)[1]
        if place < end and _match(start, place, end, data, splits) != _NONE:
            return place
    return end


@lean_kernel
def _match(state: int, place: int, end: int, data: NDArray[np.uint8], splits: Splits) -> int:
    """Return where an expression matches to from a place, or `_NONE`."""
    moves, kinds, found = splits.moves, splits.kinds, _NONE
    while True:
        kind, size = splits.num_kinds, 0
        if place < end:
            point, size = int(data[place]), 1
            if point >= ASCII:
                point, size = code_point(data, place)
            kind = kinds[point]
        move = int(moves[state + kind])
        if move & 1:
            found = place
        state = move >> 1
        if state == OVER:
            return found
        place += size
