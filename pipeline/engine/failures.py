"""Failures: what the tasks of a session raised, and what is still done before the first of it is raised.

The plain loop meets the first failure in canonical order. So tasks that were given out and came back
undone, and come before the first failure that is known, are done first: one of them may fail, too.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.engine.schedule import Item, Schedule, Turn
from stages.errors import Stopped


class Failures:
    """What tasks raised.

    Args:
        schedule: of the session.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._raised: list[tuple[Turn, Exception]] = []
        self._undone: set[Item] = set()
        """Tasks that were given out and came back."""

    def __bool__(self) -> bool:
        """Say whether there are any."""
        return bool(self._raised)

    def add(self, turn: Turn, error: Exception) -> None:
        """Keep what a task raised, or a step at that turn."""
        self._raised.append((turn, error))

    @contextmanager
    def noting(self, item: Item) -> Iterator[None]:
        """Keep what a task raises, until those at work are finished."""
        try:
            yield
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001  # raised when those at work are finished
            self.add(item.turn, error)

    def give_back(self, item: Item) -> None:
        """Have a task done again that a worker did not come to."""
        self._schedule.give_back(item)
        self._undone.add(item)

    def undone(self) -> list[Item]:
        """Return the tasks that came back and come before the first failure, in canonical order."""
        turn, _ = self._first()
        return sorted(one for one in self._undone if one.turn < turn and self._schedule.is_ready(one))

    def error(self) -> Exception:
        """Return the first one in canonical order."""
        return self._first()[1]

    def _first(self) -> tuple[Turn, Exception]:
        return min(self._raised, key=lambda failure: failure[0])
