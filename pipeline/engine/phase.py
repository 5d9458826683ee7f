"""Phases: tasks of a step that may run in any order, one phase after another."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from pipeline.engine.memory import Need
from pipeline.engine.tasks import Task
from pipeline.state.commit_object import Commit
from pipeline.state.commits import Outcome

_Value = TypeVar("_Value")


class Where(Enum):
    """Who does the tasks of a phase."""

    WORKERS = "workers"
    ALONE = "alone"
    """On an actor of its own, which ends with the task."""
    DRIVER = "driver"
    """Tasks that only sum up what others committed."""
    TRAINER = "trainer"
    """Likewise, with a GPU if there is one."""


@dataclass(frozen=True)
class Each:
    """Tasks of which each is made of a commit of another step, as soon as it is there."""

    step: str
    """Its name in the plan; it is still at work."""
    task: Callable[[Commit], Task]
    order: Callable[[], Sequence[str]]
    """Returns the tasks' units in canonical order, once that step is done."""


@dataclass(frozen=True)
class Phase:
    """Tasks of a step that may run in any order."""

    title: str
    """What people read."""
    tasks: Sequence[Task]
    """In canonical order."""
    where: Where = Where.WORKERS
    follow: Callable[[Task, Commit], Task | None] | None = None
    """Returns the task that goes on from one that is committed."""
    need: Need | None = None
    """The memory of a worker, where it is known only now."""
    until: Sequence[str] = ()
    """Names in the plan of steps that must be done, too, before the work goes on."""
    urgent: bool = False
    """Whether its tasks come before those of earlier steps, which would keep later steps waiting."""
    take: Callable[[Task, Outcome], None] | None = None
    """Takes what tasks found that leave no file and are not committed."""
    each: Each | None = None
    """Where more tasks come from."""


Phases = Generator[Phase, dict[str, Commit], _Value]
"""Yields phases, is sent their commits by unit in canonical order, and returns what they led to."""
