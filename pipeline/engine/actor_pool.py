"""The actors of a run on their nodes: what memory is reserved there, how they start, stay and end."""

import os
import time
from contextlib import ExitStack
from pathlib import Path

import ray

from pipeline.engine.actors import START_SECONDS, Actor, LostError, start_actor
from pipeline.engine.cluster import ClusterConfig, num_gpus, ray_cluster
from pipeline.engine.memory import BASE, WorkerResources, unreclaimable_bytes
from pipeline.engine.node_watch import NodeWatches
from pipeline.engine.nodes import Nodes, Question, some_of
from pipeline.engine.progress import Progress
from pipeline.engine.schedule import Item
from pipeline.engine.watch import MemoryWatch, end_process
from pipeline.state.attempts import withdraw
from pipeline.state.worker_place import FolderPlace, WorkerPlace
from stages.errors import Stopped


class ActorPool:
    """Actors that stay until they are ended; Ray starts with the first.

    Args:
        place: of the run.
        resources: how many actors, where, and their memory.
        progress: tells people.
        watch: of this node.
    """

    def __init__(
        self,
        place: WorkerPlace,
        resources: WorkerResources,
        progress: Progress,
        watch: MemoryWatch,
    ) -> None:
        self.workers = resources.workers
        """Actors that there may be, besides those with a task or a GPU of their own."""
        self.actors: list[Actor] = []
        self._nodes: Nodes | None = None
        self._watches = NodeWatches(resources.memory, watch)
        self.num_gpus = 0
        self._place = place
        self._resources = resources
        self._progress = progress
        self._own_node = ""
        self._missing = 0
        """Actors that the cluster had no room for."""
        self._ray = ExitStack()

    @property
    def busy(self) -> int:
        """Actors that work or start; those with a GPU do not count."""
        return sum(bool(one.running) or not one.has_started for one in self.actors if not one.num_gpus)

    @property
    def free_gpus(self) -> int:
        """GPUs that no actor has."""
        return self.num_gpus - sum(actor.num_gpus > 0 for actor in self.actors)

    @property
    def num_started(self) -> int:
        """Actors that have started."""
        return sum(actor.has_started for actor in self.actors)

    def idle(self) -> list[Actor]:
        """Return the actors that wait for a task."""
        return [one for one in self.actors if one.has_started and not one.running and not one.given_up]

    def room(self, node: str) -> int:
        """Return the bytes of a node that are not reserved."""
        reserved = (one.reserved for one in self.actors if one.node == node)
        return self._memory_of(node) - BASE - sum(reserved)

    @property
    def nodes(self) -> list[str]:
        """The nodes that get work, by Ray's names; none before Ray has started."""
        return [] if self._nodes is None else self._nodes.names

    @property
    def memory(self) -> int:
        """Bytes that the run may hold on the node that has most."""
        return max((self._memory_of(node) for node in self.nodes), default=self._resources.memory)

    def _memory_of(self, node: str) -> int:
        """Return the bytes that the run may hold on a node."""
        assert self._nodes is not None, "Ray has started"
        return min(self._resources.memory, self._nodes.memory.get(node, self._resources.memory))

    def node_with(self, need: int) -> str | None:
        """Return the node that has most room, if it has so much."""
        room, node = max((self.room(node), node) for node in self.nodes)
        return node if room >= need else None

    def start_ray(self) -> None:
        """Start or join Ray, unless it runs."""
        if self._nodes is not None:
            return
        resources = self._resources
        self._progress.note("joining Ray" if resources.address else "starting Ray")
        config = ClusterConfig(resources.workers, resources.address, resources.memory)
        self._ray.enter_context(ray_cluster(config, self._progress.note))
        self._nodes, self.num_gpus = Nodes(self._progress.note), num_gpus()
        self._own_node = ray.get_runtime_context().get_node_id()
        self._follow_cores()

    def look_at_nodes(self) -> list[Actor]:
        """Note which nodes came and went; return the actors of those that went.

        Raises:
            Stopped: no node is left, or Ray does not answer.
            ConfigError: all nodes were left out.
        """
        if self._nodes is None:
            return []
        gone = self._nodes.look()
        for node in gone:
            self._watches.drop(node)
        self._follow_cores()
        return [actor for actor in self.actors if actor.node in gone]

    def _follow_cores(self) -> None:
        """Have as many actors as the cluster that was joined has cores, if no number was asked for."""
        if self._resources.follows_cores and self._nodes is not None:
            self.workers = max(1, self._nodes.cores - self._missing)

    def welcome(self, actor: Actor) -> list[Actor]:
        """Note that an actor has started, or died meanwhile; return the actors that are to be ended.

        Raises:
            Stopped: no node is left on which actors start.
            ConfigError: no node of the cluster is fit for the work.
        """
        assert self._nodes is not None, "Ray has started"
        try:
            fit = self._nodes.welcome(actor.node, actor.greet())
        except LostError as lost:
            if actor.node in self.nodes:
                self._nodes.count_failed_start(actor.node, lost.__cause__)
            ended = [actor]
        else:
            ended = [] if fit else [one for one in self.actors if one.node == actor.node]
        self._nodes.require()
        return ended

    def start(self, node: str, only_item: Item | None = None, *, num_gpus: float = 0.0) -> None:
        """Start an actor on a node; one that is alone is given its task once it has started."""
        assert self._nodes is not None, "Ray has started"
        known = node == self._own_node or node in self._nodes.memory
        inputs = some_of(self._resources.inputs)
        question = None if known else Question(_question(self._place), inputs)
        joined = self._resources.address is not None  # else all workers are children of this process
        actor = start_actor(
            self._place,
            node,
            question,
            only_item=only_item,
            num_gpus=num_gpus,
            node_watch=self._watches.on(node) if joined else None,
        )
        self.actors.append(actor)

    def drop(self, actor: Actor) -> list[Item]:
        """End an actor, and what it published in vain; return the tasks that it had been given."""
        self.actors.remove(actor)
        actor.end()
        temporary = self._place.temporary
        withdraw(temporary.parent.parent, [temporary / actor.name])
        waiting = [] if actor.only_item is None or actor.running else [actor.only_item]
        return [*actor.items, *waiting]

    def drop_late(self) -> list[Item]:
        """End actors that do not start: the cluster has less than it says, or than was asked for.

        Returns:
            The tasks that they had been given.

        Raises:
            Stopped: no actor is left.
        """
        late = time.monotonic() - START_SECONDS
        missing = [one for one in self.actors if not one.has_started and one.started < late]
        if not missing or ray.wait([one.hello for one in missing], timeout=0, fetch_local=False)[0]:
            return []
        items = [item for actor in missing for item in self.drop(actor)]
        if any(actor.num_gpus for actor in missing):
            self.num_gpus = 0
            self._progress.note("no GPU of the cluster is free: going on without")
        elif not self.actors:
            raise Stopped(
                f"none of {len(missing)} Ray actors started in {START_SECONDS:.0f} s; the cluster has"
                f" {ray.available_resources().get('CPU', 0):.0f} CPUs free"
            )
        else:
            self._missing += len(missing)
            self.workers = max(1, self.workers - len(missing))  # for good
        return items

    def given_up(self) -> list[Actor]:
        """Return the actors whose processes a watch has ended."""
        self._watches.look(self.actors)
        return [actor for actor in self.actors if actor.given_up]

    def has_given_up(self, actor: Actor) -> bool:
        """Say whether a watch has ended the process of a lost actor."""
        return self._watches.has_given_up(actor)

    def give_up(self) -> None:
        """End the actor of this node that is furthest over its reservation; on the watch's thread."""
        here = [actor for actor in list(self.actors) if actor.node == self._own_node]
        actors = [actor for actor in here if actor.has_started and not actor.given_up]
        if actors:
            actor = max(actors, key=lambda one: unreclaimable_bytes(one.pid) - one.reserved)
            actor.given_up = True
            end_process(actor.pid, os.getpid())

    def close(self) -> None:
        """Let the actors go, and leave Ray."""
        for actor in self.actors:
            actor.end()
        self.actors = []
        self._watches.close()
        if self._nodes is not None:
            self._nodes.close()
        self._ray.close()


def _question(place: WorkerPlace) -> Path | None:
    """Write a file that every node of a run in a folder should see; None for a run in a store."""
    if not isinstance(place, FolderPlace):
        return None
    question = place.temporary / "nodes" / "driver"
    question.parent.mkdir(parents=True, exist_ok=True)
    question.touch()
    return question
