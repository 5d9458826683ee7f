"""The watches of the nodes of a cluster that was joined: its workers are no children of the driver.

On each node one small actor looks at what the run's workers hold there, and ends the one that is
furthest over its reservation, as the driver's own watch does where Ray is the run's own. Workers tell
that actor themselves what they may hold; the driver asks it now and then, and when it loses a worker.
"""

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pipeline.engine.actors import Actor
from pipeline.engine.memory import BASE, WORKER, process_tree, unreclaimable_bytes
from pipeline.engine.watch import MemoryWatch, end_process
from pipeline.system.memory import machine_memory

DAEMONS = BASE - WORKER
"""Bytes that are left for Ray on each node, and on the driver's for the driver: `BASE` is for them and
for the actor of this module."""
LOOK_SECONDS = 2.0
"""Between two questions of the driver."""
_ANSWER_SECONDS = 5.0
"""Longest wait for what became of a lost worker."""


class NodeMemory(NamedTuple):
    """What was seen on a node."""

    peak: int
    """The most bytes since the last question, with those that are left for Ray."""
    bound: int
    """Bytes that the run may hold there."""
    given_up: frozenset[int]
    """Processes that were ended because memory was short."""


class NodeWatch:
    """Watches the memory of a run's workers on its node; an ordinary class that Ray makes an actor of.

    Args:
        memory: `resources.memory`, bytes; where the node has less, that counts.
        leader: the process below which those of the workers are.
    """

    def __init__(self, memory: int, leader: int) -> None:
        self._leader = leader
        self._reserved: dict[int, int] = {}
        self._given_up: set[int] = set()
        self._bound = min(memory, machine_memory())
        watch = MemoryWatch(self._bound - DAEMONS, lambda _: None, processes=self._processes)
        self._watching = ExitStack()
        self._watch = self._watching.enter_context(watch)
        self._watching.enter_context(watch.guard(self._give_up))
        self._peak = watch.new_peak()

    def reserve(self, pid: int, reserved: int) -> None:
        """Note that a worker of the run may hold so many bytes from now on."""
        self._reserved[pid] = reserved

    def seen(self) -> NodeMemory:
        """Return what was seen since the last question."""
        peak = self._watch.end_peak(self._peak)
        self._peak = self._watch.new_peak()
        return NodeMemory(DAEMONS + peak, self._bound, frozenset(self._given_up))

    def close(self) -> None:
        """Watch no more."""
        self._watching.close()

    def _processes(self) -> list[int]:
        """Return this process, and the workers that live with all below them."""
        for pid in list(self._reserved):
            if not Path(f"/proc/{pid}").exists():
                del self._reserved[pid]
        return process_tree(os.getpid(), *self._reserved)

    def _give_up(self) -> None:
        """End the worker that is furthest over its reservation; on the watch's thread."""
        left = {pid: most for pid, most in list(self._reserved.items()) if pid not in self._given_up}
        if left:
            pid = max(left, key=lambda one: unreclaimable_bytes(one) - left[one])
            self._given_up.add(pid)
            end_process(pid, self._leader)


class _RayNodeWatch(NodeWatch):
    """A node's watch as a Ray actor: the node's Ray is the parent of it and of all workers."""

    def __init__(self, memory: int) -> None:
        super().__init__(memory, os.getppid())


class NodeWatches:
    """The watches of all nodes, as the driver knows them.

    Args:
        memory: `resources.memory`, bytes.
        watch: of the driver's own node; it is told the peaks of the others.
    """

    def __init__(self, memory: int, watch: MemoryWatch) -> None:
        self._memory = memory
        self._watch = watch
        self._handles: dict[str, ActorHandle[Any]] = {}
        self._asked: dict[str, Any] = {}
        """Where answers arrive, by node."""
        self._silent: set[str] = set()
        """Nodes that did not answer in time."""
        self._looked = 0.0

    def on(self, node: str) -> ActorHandle[Any]:
        """Return the watch of a node, begun if it is not there; Ray starts one again that ended."""
        if node not in self._handles:
            kind = ray.remote(
                num_cpus=0.0,
                max_restarts=-1,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            )(_RayNodeWatch)
            self._handles[node] = kind.remote(self._memory)
        return self._handles[node]

    def look(self, actors: Sequence[Actor]) -> None:
        """Note what the watches answered, and ask them again; it waits for none.

        Args:
            actors: those whose processes were ended are marked as given up.
        """
        if not self._handles or time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        for node, ref in list(self._asked.items()):
            if ray.wait([ref], timeout=0)[0]:
                del self._asked[node]
                self._note(node, ref, actors)
        for node in self._handles.keys() - self._asked.keys():
            self._asked[node] = self._handles[node].seen.remote()

    def has_given_up(self, actor: Actor) -> bool:
        """Ask the watch of a lost actor's node whether it ended its process."""
        if not actor.given_up and actor.node in self._handles and actor.node not in self._silent:
            self._note(actor.node, self._handles[actor.node].seen.remote(), [actor])
        return actor.given_up

    def drop(self, node: str) -> None:
        """Let go of the watch of a node that is gone."""
        self._asked.pop(node, None)
        self._silent.discard(node)
        handle = self._handles.pop(node, None)
        if handle is not None:
            ray.kill(handle)

    def close(self) -> None:
        """Let all go."""
        for node in list(self._handles):
            self.drop(node)

    def _note(self, node: str, ref: Any, actors: Sequence[Actor]) -> None:
        """Note an answer; a watch that does not answer is asked again at the next look."""
        try:
            seen: NodeMemory = ray.get(ref, timeout=_ANSWER_SECONDS)
        except RayError:
            self._silent.add(node)
            return
        self._silent.discard(node)
        self._watch.note_elsewhere(seen.peak)
        for actor in actors:
            if actor.node == node and actor.pid in seen.given_up:
                actor.given_up, self._watch.least = True, seen.bound
