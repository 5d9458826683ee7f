"""How much of a run's workers' time was idle, and how much of that while a task was ready.

    python benchmarks/overlap.py RUN_FOLDER --workers 2

Of the last attempt in a log, from its first task to its last commit: the span in seconds, the share
of the workers' time in which they did nothing, and the share in which they did nothing although as
many tasks were ready (whether or not these fitted into memory: so it is an upper bound).
"""

import argparse
import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from run_log import Event

from pipeline.state.journal import read_log


def idle_shares(events: Iterable[Event], workers: int) -> dict[str, float]:
    """Return seconds and shares of the last attempt.

    A task is ready from the moment that its dispatch tells until its dispatch, and at work for the
    seconds before its commit that the commit tells.

    Args:
        events: of a run's log.
        workers: how many there were.

    Raises:
        ValueError: nothing was done.
    """
    listed = [event for event in events if event.get("step") != "scan"]
    attempts = [event["attempt"] for event in listed if event["event"] == "dispatch"]
    if not attempts:
        raise ValueError("the log tells of no task")
    changes: list[tuple[float, int, int]] = []
    for event in (event for event in listed if event["attempt"] == attempts[-1]):
        if event["event"] == "dispatch":
            changes += [(event["time"] - event["waited"], 0, 1), (event["time"], 0, -1)]
        elif event["event"] == "commit" and "seconds" in event:
            changes += [(event["time"] - event["seconds"], 1, 0), (event["time"], -1, 0)]
    changes.sort()
    busy = ready = 0
    idle = starved = 0.0
    for (now, started, became), (then, _, _) in pairwise(changes):
        busy, ready = busy + started, ready + became
        free = max(workers - busy, 0)
        idle += free * (then - now)
        starved += min(free, ready) * (then - now)
    seconds = changes[-1][0] - changes[0][0]
    whole = max(workers * seconds, 1e-9)
    return {
        "seconds": round(seconds, 2),
        "idle": round(idle / whole, 4),
        "idle_while_ready": round(starved / whole, 4),
    }


def main() -> None:
    """Print the shares of a run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, help="a run's folder")
    parser.add_argument("--workers", type=int, required=True, help="that the last attempt had")
    arguments = parser.parse_args()
    print(json.dumps(idle_shares(read_log(arguments.run), arguments.workers)))


if __name__ == "__main__":
    main()
