"""Losses: the tasks whose workers were lost, and those that are set aside for it.

A task that takes down workers again and again is set aside: what does not read it is done, what reads it
does not begin, and it is named at the end.
"""

from collections import defaultdict

from pipeline.engine.schedule import Item, Turn
from pipeline.engine.tasks import Node
from stages.errors import VerificationError

MAX_ATTEMPTS = 3
"""Workers that one task may take down before it is set aside, if all are on one node."""
MAX_NODES = 2
"""Nodes on which one task may take down workers before it is set aside."""


class Losses:
    """What is known of the workers that tasks lost."""

    def __init__(self) -> None:
        self._nodes = defaultdict[Node, list[str]](list)
        """The machines on which tasks lost workers, one for each."""
        self.set_aside: list[tuple[Turn, VerificationError]] = []
        """Tasks that are done no more."""

    def suspect(self, item: Item) -> bool:
        """Say whether a task lost a worker: it shares none, so that no other is blamed for it."""
        return item.task.node in self._nodes

    def count(self, item: Item, machine: str, cause: str) -> str | None:
        """Count a lost worker; return what is wrong with the task if it is to be set aside.

        Args:
            item: the task.
            machine: where the worker was, by Ray's name.
            cause: of the loss.
        """
        machines = self._nodes[item.task.node]
        machines.append(machine)
        if len(machines) < MAX_ATTEMPTS and len(set(machines)) < MAX_NODES:
            return None
        message = (
            f"{item.task.unit}: took down {len(machines)} workers ({cause}); if they ran out of"
            " memory, give the run more or set a smaller ingest.unit_size"
        )
        self.set_aside.append((item.turn, VerificationError(message)))
        return message

    def error(self) -> VerificationError:
        """Return the error that names all tasks that were set aside."""
        first, *more = (error for _, error in sorted(self.set_aside, key=lambda one: one[0]))
        return VerificationError(f"{first}; and {len(more)} more, named above") if more else first
