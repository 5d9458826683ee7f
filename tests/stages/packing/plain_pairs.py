"""Pairs, cut a sentence at a time by Python's own numbers: what the kernel is held to."""

from collections.abc import Iterator

import numpy as np

from stages.packing.pairs import PairRules
from stages.seeding import Key, draw_u64, threshold

_Half = tuple[int, int]
"""(first, last) sentence."""


def plain_rows(
    documents: list[list[int]], *, budget: int, rules: PairRules, key: Key
) -> tuple[list[list[tuple[int, int, int]]], list[int]]:
    """Return (document, first token, tokens) of the halves of each row, and the room of each.

    Args:
        documents: the tokens of each sentence, none longer than half a row; an EOS comes with the last.
        budget: tokens of a row.
        rules: how chunks are made.
        key: of the draws.
    """
    found, rooms = [], []
    for number, sizes in enumerate(documents):
        blocks = np.arange(2 * len(sizes), dtype=np.uint64)
        draws = draw_u64(key, np.full(len(blocks), number, np.uint64), block=blocks).reshape(-1, 4)
        ends = np.cumsum([0, *sizes]).tolist()
        ends[-1] += 1
        for row, room in _chunks(sizes, draws.tolist(), budget=budget, rules=rules):
            found.append([(number, ends[first], ends[last] - ends[first]) for first, last in row])
            rooms.append(room)
    return found, rooms


def _chunks(
    sizes: list[int], draws: list[list[int]], *, budget: int, rules: PairRules
) -> Iterator[tuple[list[_Half], int]]:
    """Yield the halves of each row of a document, and the room that a borrowed half has."""
    short, borrow = threshold(rules.short_rate), threshold(rules.borrow_rate)
    first, count = 0, len(sizes)
    while first < count:
        is_short, target, borrows, cut = draws[first]
        limit = 2 + (target * (budget - 1) >> 64) if is_short < short else budget
        last, total = first + 1, sizes[first]
        while last < count and total + sizes[last] <= limit:
            total += sizes[last]
            last += 1
        if not rules.borrow_rate:
            last = _never_alone(sizes, first, last, budget=budget)
        behind = first + 1 + (cut * (last - first - 1) >> 64)
        if last - first > 1 and (borrows >= borrow or not rules.borrow_rate):
            yield [(first, behind), (behind, last)], 0
            first = last
        else:
            held = sum(sizes[first:behind])
            room = limit - held if limit > held else budget - held
            yield [(first, behind)], room if rules.borrow_rate else 0
            first = behind


def _never_alone(sizes: list[int], first: int, last: int, *, budget: int) -> int:
    """Return the end of a chunk of which each half needs a sentence, as those behind it do."""
    count = len(sizes)
    last = max(last, min(first + 2, count))
    if count - last != 1:
        return last
    if sum(sizes[first:]) <= budget:
        return count
    return last - 1 if last - first > 2 else last
