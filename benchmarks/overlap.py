"""How much of a run's workers' time was idle, and how much of that while a task was ready.

    python benchmarks/overlap.py RUN_FOLDER

Of the last attempt in a log, from when its first task was ready to its last commit: the span in seconds,
the share of the workers' time in which they did nothing, and the share in which they did nothing though
as many tasks were ready (whether or not these fitted into memory: so it is an upper bound). A worker's
time begins when its process has started.
"""

import argparse
import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from run_log import Event

from pipeline.state.journal import read_log


def idle_shares(events: Iterable[Event]) -> dict[str, float]:
    """Return seconds and shares of the last attempt.

    A task is ready from the moment that its dispatch tells until its dispatch, and at work for the
    seconds before its commit that the commit tells.

    Args:
        events: of the log of a run on Ray.

    Raises:
        ValueError: nothing was done, or not on Ray.
    """
    listed = [event for event in events if event.get("step") != "scan"]
    attempts = [event["attempt"] for event in listed if event["event"] == "dispatch"]
    if not attempts:
        raise ValueError("the log tells of no task")
    if not any(e["event"] == "workers" for e in listed if e["attempt"] == attempts[-1]):
        raise ValueError("the log tells of no worker: the run was not on Ray")
    changes: list[tuple[float, int, int, int]] = []
    there = 0
    for event in (event for event in listed if event["attempt"] == attempts[-1]):
        time = event["time"]
        if event["event"] == "dispatch":
            changes += [(time - event["waited"], 0, 1, 0), (time, 0, -1, 0)]
        elif event["event"] == "commit" and "seconds" in event:
            changes += [(time - event["seconds"], 1, 0, 0), (time, -1, 0, 0)]
        elif event["event"] == "workers":
            changes.append((time, 0, 0, event["count"] - there))
            there = event["count"]
    changes.sort()
    first = min(at for at, _, became, _ in changes if became)
    last = max(at for at, started, _, _ in changes if started)
    busy = ready = workers = 0
    whole = idle = starved = 0.0
    for (at, started, became, came), (after, _, _, _) in pairwise(changes):
        busy, ready, workers = busy + started, ready + became, workers + came
        now, then = (min(max(moment, first), last) for moment in (at, after))
        free = max(workers - busy, 0)
        whole += workers * (then - now)
        idle += free * (then - now)
        starved += min(free, ready) * (then - now)
    seconds, whole = last - first, max(whole, 1e-9)
    return {
        "seconds": round(seconds, 2),
        "idle": round(idle / whole, 4),
        "idle_while_ready": round(starved / whole, 4),
    }


def main() -> None:
    """Print the shares of a run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, help="a run's folder")
    arguments = parser.parse_args()
    try:
        print(json.dumps(idle_shares(read_log(arguments.run))))
    except ValueError as error:
        parser.error(f"{arguments.run}: {error}")


if __name__ == "__main__":
    main()
