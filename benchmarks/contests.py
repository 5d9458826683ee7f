"""Contests: the same work done in several ways, timed in turns in one process.

Turns alternate and change their order, so that whatever disturbs the machine disturbs all of them. What
counts is CPU time (of all threads of the process), and of the ratio of two ways the median over turns.
A turn calls a fast way as often as it takes to fill `TURN_SECONDS`.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

TURN_SECONDS = 0.03


@dataclass(frozen=True)
class Way:
    """One way to do the work."""

    name: str
    call: Callable[[], object]
    amount: float
    """Of the contest's unit, done by one call."""


@dataclass(frozen=True)
class Contest:
    """Our way, and what it is compared with: other programs, and limits that do a part of the work."""

    kernel: str
    unit: str
    """What is counted for each second."""
    ours: Way
    others: Sequence[Way]


def hold(
    contest: Contest, *, repeats: int, clock: Callable[[], float] = time.process_time
) -> list[dict[str, Any]]:
    """Return one row for each way that ours is compared with: rates, and ours divided by the other's."""
    ways = [contest.ours, *contest.others]
    calls = [_calls(way, clock) for way in ways]
    seconds: list[list[float]] = [[] for _ in ways]
    for repeat in range(repeats):
        for turn in range(len(ways)):
            number = (turn + repeat) % len(ways)
            taken = _seconds(ways[number], calls[number], clock)
            seconds[number].append(taken / ways[number].amount)
    return [
        {
            "kernel": contest.kernel,
            "unit": contest.unit,
            "ours": 1 / statistics.median(seconds[0]),
            "against": way.name,
            "other": 1 / statistics.median(theirs),
            "ratio": statistics.median(b / a for a, b in zip(seconds[0], theirs, strict=True)),
            "spread": min_max(b / a for a, b in zip(seconds[0], theirs, strict=True)),
        }
        for way, theirs in zip(contest.others, seconds[1:], strict=True)
    ]


def min_max(values: Iterable[float]) -> tuple[float, float]:
    """Return the least and the greatest."""
    held = sorted(values)
    return held[0], held[-1]


def _calls(way: Way, clock: Callable[[], float]) -> int:
    """Return the calls of one turn; the first call of all compiles and fills caches."""
    way.call()
    return max(1, round(TURN_SECONDS / max(_seconds(way, 1, clock), 1e-9)))


def _seconds(way: Way, calls: int, clock: Callable[[], float]) -> float:
    """Return the seconds of one call, on average."""
    began = clock()
    for _ in range(calls):
        way.call()
    return (clock() - began) / calls


def markdown(rows: Iterable[dict[str, Any]]) -> str:
    """Return the rows as a table, rates in three digits."""
    lines = ["| kernel | a second | ours | against | its rate | ours : it | least, greatest |"]
    lines.append("|---|---|---:|---|---:|---:|---:|")
    lines += [
        f"| {row['kernel']} | {row['unit']} | {digits(row['ours'])} | {row['against']}"
        f" | {digits(row['other'])} | {digits(row['ratio'])} | {', '.join(map(digits, row['spread']))} |"
        for row in rows
    ]
    return "\n".join(lines)


def digits(value: float) -> str:
    """Return a number in three digits.

    0.01234 -> 0.0123, 12.34 -> 12.3, 12345.0 -> 12,300
    """
    rounded = float(f"{value:.3g}")
    if rounded >= 100:  # noqa: PLR2004  # three digits before the point
        return f"{rounded:,.0f}"
    return f"{rounded:#.3g}".rstrip(".")
