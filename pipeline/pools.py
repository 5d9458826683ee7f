"""Pools of a run: how many workers each step gets, and which. Ray starts when one is first needed."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.memory import BASE, WORKER, Need, fitting_workers, show_bytes
from pipeline.progress import Progress
from pipeline.watch import MemoryWatch

if TYPE_CHECKING:
    from pipeline.pool import Pool


@dataclass(frozen=True)
class WorkerResources:
    """Who does the work."""

    workers: int
    """0: this process, without Ray."""
    address: str | None
    memory: int


@dataclass(frozen=True)
class PoolKind:
    """A pool's actors: how many, and what Ray reserves for each; size 0 is this process."""

    size: int
    num_cpus: float = 1.0
    num_gpus: float = 0.0


@dataclass
class Pools:
    """The pools of a run: one for most steps, and others for a few tasks."""

    root: Path
    attempt: str
    resources: WorkerResources
    progress: Progress
    watch: MemoryWatch
    needs: Mapping[str, Need]
    """What a worker of each step may take."""
    _stack: ExitStack = field(default_factory=ExitStack)
    _started: bool = False
    _short: set[str] = field(default_factory=set)
    """Steps that people know to have fewer workers than asked for."""
    _pool: "tuple[PoolKind, Pool] | None" = None

    def require(self, step: str, need: Need) -> None:
        """Have a step need another amount of memory than the run file alone says.

        Raises:
            ConfigError: not even one worker of it fits.
        """
        self.needs = {**self.needs, step: need}
        fitting_workers(
            self.resources.memory,
            min(self.resources.workers, 1),
            step=step,
            need=need.bytes,
            remedy=need.remedy and f"{need.remedy} and run with --replace",
        )

    def on_gpus(self, step: str, tasks: int) -> PoolKind | None:
        """Return a pool of an actor for each GPU, or None if Ray has none to give."""
        if not self.resources.workers:
            return None
        self._start()
        from pipeline.cluster import num_gpus  # noqa: PLC0415  # Ray is imported only where it runs

        size = min(num_gpus(), tasks, self._fitting(step))
        return PoolKind(size, num_cpus=0.0, num_gpus=1.0) if size else None

    def _fitting(self, step: str) -> int:
        """Return how many workers of a step fit into memory, and tell people if not all do."""
        need, workers = self.needs[step], self.resources.workers
        memory = self.resources.memory
        fitting = fitting_workers(memory, workers, step=step, need=need.bytes, remedy=need.remedy)
        if self.resources.address:
            from pipeline.cluster import num_nodes  # noqa: PLC0415  # see on_gpus

            self._start()
            fitting = min(workers, fitting * num_nodes())
        if fitting < workers and step not in self._short:
            self._short.add(step)
            self.progress.note(
                f"resources.memory = {show_bytes(memory)}: a node has room for {fitting} of {workers}"
                f" workers in step {step}"
            )
        return fitting

    @contextmanager
    def for_step(self, step: str, kind: PoolKind | None) -> Iterator["Pool"]:
        """Return the run's pool, with as many actors as fit the step, or one made for a few tasks."""
        from pipeline.pool import InlinePool  # noqa: PLC0415  # see on_gpus

        if not self.resources.workers or (kind and not kind.size):
            yield InlinePool(self.root, self.attempt, watch=self.watch)
        elif kind:
            if self._pool and not self._leaves_room(step, self._pool[0].size, actors=kind.size):
                self._close_pool()
            pool = self._start_pool(kind)
            try:
                yield pool
            finally:
                pool.close()  # with what its libraries hold: only these tasks needed them
        else:
            fitting = self._fitting(step)
            if self._pool is None or self._pool[0].size != fitting:
                self._close_pool()
                self._pool = (PoolKind(fitting), self._start_pool(PoolKind(fitting)))
            yield self._pool[1]

    def close(self) -> None:
        """Let the workers go, and leave Ray."""
        self._close_pool()
        self._stack.close()

    def _start_pool(self, kind: PoolKind) -> "Pool":
        from pipeline.pool import RayPool  # noqa: PLC0415  # see on_gpus

        self._start()
        return RayPool(
            self.root,
            self.attempt,
            size=kind.size,
            num_cpus=kind.num_cpus,
            num_gpus=kind.num_gpus,
            watch=self.watch,
        )

    def _leaves_room(self, step: str, idle: int, *, actors: int) -> bool:
        """Say whether so many workers of a step fit beside the pool's idle ones."""
        return self.resources.memory >= BASE + idle * WORKER + actors * (WORKER + self.needs[step].bytes)

    def _close_pool(self) -> None:
        if self._pool is not None:
            self._pool[1].close()
            self._pool = None

    def _start(self) -> None:
        if self._started or not self.resources.workers:
            return
        from pipeline.cluster import ClusterConfig, ray_cluster  # noqa: PLC0415  # see on_gpus

        self.progress.note("starting Ray" if not self.resources.address else "joining Ray")
        config = ClusterConfig(self.resources.workers, self.resources.address, self.resources.memory)
        self._stack.enter_context(ray_cluster(config))
        self._started = True
