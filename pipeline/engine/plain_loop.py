"""The plain loop: `--workers 0`. Steps, phases and tasks in canonical order, in this process.

It is the oracle for the dataflow, and shares none of its decisions.
"""

from collections.abc import Sequence

from pipeline.engine.step_run import CommitStore, PhaseRun, StepRun, fitting
from pipeline.engine.tasks import Task, Worker
from pipeline.engine.watch import MemoryShort, MemoryWatch
from pipeline.state.publishing import Outcome
from pipeline.state.worker_place import WorkerPlace


class PlainLoop:
    """Does one task after the other.

    Args:
        place: of the run.
        book: what is committed.
        memory: `resources.memory`, bytes.
        watch: says when memory runs short; then the run stops.
    """

    def __init__(
        self,
        place: WorkerPlace,
        book: CommitStore,
        *,
        memory: int,
        watch: MemoryWatch | None = None,
    ) -> None:
        self._worker = Worker(place)
        self._memory = memory
        self._book = book
        self._watch = watch

    def do(self, steps: Sequence[StepRun]) -> None:
        """Do steps to their ends, each after those that it reads."""
        for step in steps:
            answer = None
            while True:
                try:
                    phase = step.work.send(answer)  # type: ignore[arg-type]  # None begins it
                except StopIteration as end:
                    step.finish(end.value)
                    break
                work = PhaseRun(step, phase, self._book)
                if work.waiting and phase.need is not None:
                    fitting(work, self._memory, 0)
                for first in work.waiting:
                    task: Task | None = first
                    while task is not None:
                        done, task = task.node, work.commit(task, self._do(work, task))
                        self._book.flush()
                        self._worker.tidy([done])
                answer = work.answer()

    def close(self) -> None:
        """Nothing to let go."""

    def _do(self, work: PhaseRun, task: Task) -> Outcome:
        """Do one task while it is watched."""
        work.give(task)
        commits = work.phase.take is None
        if self._watch is None:
            return self._worker.run(task, commits=commits)
        try:
            with self._watch.guard_this_process():
                return self._worker.run(task, commits=commits)
        except (MemoryShort, MemoryError):  # compiled code may turn the one into the other
            if not self._watch.gave_up:
                raise  # it is the system that has no more, as under ulimit -v
        return self._watch.refuse(task.name, step=task.step, remedy=work.need.remedy)
