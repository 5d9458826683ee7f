"""A competition: contestants take turns, and what each turn cost and wrote is entered.

A contestant that fails takes no further turn. Before the measured turns each takes one that is not
measured, over few documents, so that code is compiled and packages are in the page cache.
"""

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from contestants import Assignment, Contestant, Counts
from process_cost import last_line, measure
from standings import Standing, TurnCost, rotated

WARM_UP = -1
"""Number of the turn that is not measured."""


class FailedError(Exception):
    """A contestant failed; the message is the last line that it said."""


def take_turn(
    contestant: Contestant, task: Assignment, output: Path, *, turn: int, period: float
) -> tuple[TurnCost, Counts]:
    """Run a contestant once in a new folder; return what it cost and what it wrote.

    Raises:
        FailedError: a command failed, or what it wrote cannot be read.
    """
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    costs = []
    for command in contestant.commands(task, output):
        cost = measure(command, output, period=period)
        if cost.exit_code:
            raise FailedError(f"exit code {cost.exit_code}: {last_line(output)}")
        costs.append(cost)
    try:
        counts = contestant.count(output)
    except (OSError, ValueError, KeyError) as error:
        raise FailedError(f"its output cannot be read: {error}") from error
    shutil.rmtree(output)
    together = TurnCost(
        turn,
        sum(cost.cpu_seconds for cost in costs),
        sum(cost.wall_seconds for cost in costs),
        max(cost.peak_mib for cost in costs),
        tuple(costs),
    )
    return together, counts


def compete(
    contestants: Sequence[Contestant],
    standings: dict[str, Standing],
    turn: Callable[[Contestant, int], tuple[TurnCost, Counts]],
    turns: int,
) -> None:
    """Let all take turns, an unmeasured one first, and enter what they cost.

    Args:
        contestants: those that take part.
        standings: theirs by name; one with an error takes no turn.
        turn: does one turn of a contestant; `WARM_UP` is the number of the unmeasured one.
        turns: how many are measured.
    """
    named = {contestant.name: contestant for contestant in contestants}
    for number in range(WARM_UP, turns):
        for name in rotated(list(named), max(number, 0)):
            standing = standings[name]
            if standing.error is not None:
                continue
            try:
                cost, counts = turn(named[name], number)
                if number != WARM_UP:
                    _enter(standing, cost, counts)
            except FailedError as error:
                standing.error = str(error)
            said = standing.error or ("ready" if number == WARM_UP else f"{cost.cpu_seconds:.1f} CPU s")
            when = "unmeasured" if number == WARM_UP else f"turn {number + 1} of {turns}"
            print(f"{when}: {name}: {said}", file=sys.stderr, flush=True)


def _enter(standing: Standing, cost: TurnCost, counts: Counts) -> None:
    """Enter a turn, which must have written as much as those before."""
    if standing.counts not in (None, counts):
        raise FailedError(f"turn {cost.turn + 1} wrote {counts}, an earlier one {standing.counts}")
    standing.counts = counts
    standing.turns.append(cost)


def exit_code(standings: Iterable[Standing]) -> int:
    """Return 1 if any contestant failed, or if there is none."""
    errors = [standing.error for standing in standings]
    return int(not errors or any(error is not None for error in errors))
