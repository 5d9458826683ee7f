"""Resources: who does the work of a session, and with how much memory."""

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkerResources:
    """Who does the work."""

    workers: int
    """0: this process, without Ray."""
    address: str | None
    memory: int
    """Of a node, bytes."""
