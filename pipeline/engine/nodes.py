"""The nodes of a cluster while a run goes on: which are there, and which can do its work.

Ray is asked again and again on a thread of its own. A node that joined is used; the work of one that is
gone is done by others. The first worker of a node says what the node has. A node with other code or
packages, or without the folder of the run or its inputs, is left out, and people are told once.
"""

import os
import platform
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import ray
from ray.exceptions import ActorUnschedulableError, RayError

from pipeline.engine.cluster import ANSWER_SECONDS, code_digest
from pipeline.system.memory import machine_memory
from stages.errors import ConfigError, Stopped

NODE_SECONDS = 5.0
"""Between two questions to Ray about its nodes."""
FOLDER_SECONDS = 60.0
"""How long a file of one node may take to be seen on another: network mounts keep names for so long."""
MAX_FAILED_STARTS = 3
"""Workers that may die one after the other while they start, before their node is left out."""
MAX_LOOKED_FOR = 1_000
"""Inputs that a node is asked for; of more, so many that are spread evenly."""
_PACKAGES = ("numpy", "pyarrow", "sentencepiece", "datasketch", "zstandard", "numba")
"""Those whose version may change what a worker makes."""


class ClusterNode(NamedTuple):
    """A node that can hold workers, as Ray has it."""

    name: str
    """Of Ray."""
    host: str
    cores: int


class Question(NamedTuple):
    """What the first worker of a node is asked."""

    file: Path | None
    """Of the driver in the folder that all nodes share; None if they share none."""
    inputs: tuple[tuple[Path, int], ...]
    """Local files that the run reads, with their bytes."""


class Greeting(NamedTuple):
    """What a worker says first."""

    pid: int
    digest: str
    """Of its code."""
    versions: dict[str, str]
    """Of Python and of packages."""
    memory: int
    """That its node or container has, bytes."""
    missing: str
    """The file of the driver that it does not see; empty if it sees it."""
    answer: str
    """The file that it wrote beside it; empty if there is no shared folder."""
    lack: str = ""
    """Why it cannot do the work, as it sees itself."""


def some_of(inputs: tuple[tuple[Path, int], ...]) -> tuple[tuple[Path, int], ...]:
    """Return the inputs that a node is asked for: all, or `MAX_LOOKED_FOR` at most, spread evenly."""
    return inputs[:: -(-len(inputs) // MAX_LOOKED_FOR) or 1]


def greeting(file: Path | None, inputs: Sequence[tuple[Path, int]] = ()) -> Greeting:
    """Say what this process is.

    Args:
        file: of the driver in the folder that all nodes share; None if they share none.
        inputs: files that it should have, with their bytes.
    """
    missing = answer = ""
    lack = _absent_input(inputs)
    if file is not None and not lack:
        if not _appears(file):
            missing = str(file)
        else:
            own = file.with_name(f"{socket.gethostname()}-{os.getpid()}")
            try:
                own.touch()
                answer = str(own)
            except OSError as error:
                lack = f"it cannot write to {own.parent}: {error.strerror}; let it be written there"
    return Greeting(os.getpid(), code_digest(), versions(), machine_memory(), missing, answer, lack)


def _absent_input(inputs: Sequence[tuple[Path, int]]) -> str:
    """Say which input is not here as the driver has it; nothing if all are."""
    for path, size in inputs:
        try:
            found = path.stat().st_size
        except OSError as error:
            return f"it cannot read the input {path}: {error.strerror}; mount the same folder there"
        if found != size:
            return f"its input {path} has {found:,} bytes and not {size:,}; mount the same folder there"
    return ""


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages whose version may change what is made."""
    found = {"Python": ".".join(platform.python_version_tuple()[:2])}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def fault_of(said: Greeting) -> str | None:
    """Return why a node is not fit for this run's work, with the way out; None if it is."""
    if said.digest != code_digest():
        return "it runs other code than the driver; install the same version there"
    for name, own in versions().items():
        if said.versions.get(name) != own:
            theirs = said.versions.get(name, "none")
            return f"it has {name} {theirs} and the driver {own}; install the same there"
    if said.lack:
        return said.lack
    folder = Path(said.missing or said.answer).parent
    if said.missing:
        return (
            f"it does not see what the driver writes in {folder}; mount the same folder there, or let"
            " --output be a store"
        )
    if said.answer and not _appears(Path(said.answer)):
        return (
            f"the driver does not see what it writes in {folder}; mount the same folder there, or let"
            " --output be a store"
        )
    return None


def _appears(file: Path) -> bool:
    """Wait for a file of another node."""
    deadline = time.monotonic() + FOLDER_SECONDS
    while not file.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
        if file.parent.is_dir():
            list(file.parent.iterdir())  # asks the server of a network mount anew
    return True


class Nodes:
    """The nodes of the cluster that this process is in.

    Args:
        note: tells people.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self.left_out: dict[str, str] = {}
        """Why nodes get no work, by name."""
        self.memory: dict[str, int] = {}
        """Bytes that nodes have, by name, once a worker of theirs has said so."""
        self._failed_starts: dict[str, int] = {}
        self._note = note
        self._known: dict[str, ClusterNode] = {}
        self._answer = _ask()
        self._answered = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="ask-ray", daemon=True)
        self._thread.start()
        self.look()

    def close(self) -> None:
        """Ask no more."""
        self._ended.set()
        self._thread.join(timeout=1.0)

    def look(self) -> set[str]:
        """Note which nodes came and went since the last look; return the names of those that went.

        Raises:
            Stopped: none is left, or Ray's control service does not answer.
            ConfigError: those that are there were all left out, and would be again.
        """
        if time.monotonic() - self._answered > NODE_SECONDS + ANSWER_SECONDS:
            raise Stopped("Ray's control service does not answer; run again to resume")
        found = {node.name: node for node in self._answer}
        gone = self._known.keys() - found.keys()
        new = found.keys() - self._known.keys()
        first = not self._known
        for name in gone:
            self._note(f"node {self._known[name].host} is gone: others do its work")
        for name in () if first else new:
            self._note(f"node {found[name].host} joined")
        self._known = found
        self.require()
        return gone

    def require(self) -> None:
        """Stop the run if no node is left that gets work.

        Raises:
            Stopped: all are gone, or workers died on them.
            ConfigError: all were left out, and would be again.
        """
        if not self._known:
            raise Stopped("no Ray node is left; run again to resume")
        if self.names:
            return
        reasons = "; ".join(f"{node.host}: {self.left_out[node.name]}" for node in self._known.values())
        if all(self._failed_starts.get(name, 0) >= MAX_FAILED_STARTS for name in self._known):
            raise Stopped(f"no Ray node is left: {reasons}; run again to resume")
        raise ConfigError(f"no node of the cluster can do the work: {reasons}")

    @property
    def names(self) -> list[str]:
        """The nodes that get work."""
        return [name for name in self._known if name not in self.left_out]

    @property
    def cores(self) -> int:
        """Of all nodes that get work."""
        return sum(self._known[name].cores for name in self.names)

    def leave_out(self, name: str, reason: str) -> None:
        """Let a node get no more work, and tell people once."""
        if name not in self.left_out:
            self.left_out[name] = reason
            host = self._known[name].host if name in self._known else name
            self._note(f"warning: node {host} is left out: {reason}")

    def welcome(self, name: str, said: Greeting) -> bool:
        """Note what the first worker of a node says of it; return whether the node gets work."""
        self._failed_starts.pop(name, None)
        if name not in self.memory and name not in self.left_out:
            fault = fault_of(said)
            if fault is not None:
                self.leave_out(name, fault)
            else:
                self.memory[name] = said.memory
        return name not in self.left_out

    def count_failed_start(self, name: str, cause: BaseException | None) -> None:
        """Note that a worker died while it started; a node on which that happens again is left out."""
        if isinstance(cause, ActorUnschedulableError):  # the node is gone, and the next look says so
            self._failed_starts[name], self.left_out[name] = MAX_FAILED_STARTS, "it is gone"
            return
        count = self._failed_starts[name] = self._failed_starts.get(name, 0) + 1
        if count >= MAX_FAILED_STARTS:
            self.leave_out(name, f"{count} workers died while they started ({type(cause).__name__})")

    def _look_on(self) -> None:
        while not self._ended.wait(NODE_SECONDS):
            try:
                self._answer = _ask()
            except (RayError, ConnectionError, RuntimeError, TimeoutError):
                continue  # if that lasts, the next look stops the run
            self._answered = time.monotonic()


def _ask() -> list[ClusterNode]:
    """Return the nodes of the cluster that can hold workers."""
    return [
        ClusterNode(str(node["NodeID"]), str(node["NodeManagerHostname"]), int(cores))
        for node in ray.nodes()
        if node["Alive"] and (cores := node["Resources"].get("CPU", 0)) > 0
    ]
