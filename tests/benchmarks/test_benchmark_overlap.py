"""What the figures of a dataflow promise: time without work, and time without work that was there."""

from typing import Any

import pytest
from overlap import idle_shares


def event(kind: str, time: float, attempt: str = "b", **fields: Any) -> dict[str, Any]:
    """Return an event of a step."""
    return {"event": kind, "time": time, "attempt": attempt, "step": "ingest", **fields}


def test_idle_time_counts_as_starved_only_while_a_task_is_ready() -> None:
    events = [
        event("dispatch", 0.0, "a", unit="x", waited=0.0),
        event("commit", 900.0, "a", unit="x", seconds=1.0),
        {"event": "workers", "time": 6.0, "attempt": "b", "count": 1},  # before anything is ready
        event("dispatch", 10.0, unit="x", waited=2.0),  # for which it waited with a worker idle
        {"event": "workers", "time": 10.0, "attempt": "b", "count": 2},
        event("dispatch", 12.0, unit="y", waited=1.0),  # ready from 11 to 12, while one was idle
        event("commit", 14.0, unit="x", seconds=4.0),
        event("commit", 14.0, unit="y", seconds=2.0),
        event("dispatch", 16.0, unit="z", waited=0.0),  # from 14 to 16 there was nothing to do
        event("commit", 18.0, unit="z", seconds=2.0),
        {"event": "workers", "time": 29.0, "attempt": "b", "count": 0},  # after the last commit
        {"event": "stop", "time": 30.0, "attempt": "b"},
    ]
    # of 2 + 2 x 8 seconds: one idle for 2 (8 to 10), one for 2, both for 2, one for 2; starved 2 and 1
    assert idle_shares(events) == {"seconds": 10.0, "idle": 0.5556, "idle_while_ready": 0.1667}


def test_a_log_without_ray_says_so() -> None:
    events = [
        event("dispatch", 10.0, unit="x", waited=0.0),
        event("commit", 14.0, unit="x", seconds=4.0),
    ]
    with pytest.raises(ValueError, match="no worker"):
        idle_shares(events)


def test_a_log_without_a_task_says_so() -> None:
    with pytest.raises(ValueError, match="no task"):
        idle_shares([{"event": "start", "time": 1.0, "attempt": "a"}])
