"""Figures of a run from its log.jsonl: what each step took, and whether its commits kept their promises.

Pure functions of the log's events; `pipeline.state.journal` writes and reads them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Event = Mapping[str, Any]
_OF_A_STEP = ("begin", "dispatch", "commit", "step")
_COLUMNS = ("units", "wall_seconds", "worker_seconds", "cpu_seconds", "longest_cpu_seconds", "peak_rss")


def step_figures(events: Iterable[Event]) -> dict[str, dict[str, float]]:
    """Return commits, seconds and the largest VmHWM of a worker (bytes) for each step, in order.

    The wall of a step is the time from its first event to its last, added up over attempts; worker and
    CPU seconds are those of the tasks that were committed, the longest ones those of a single task.
    """
    figures: dict[str, dict[str, float]] = {}
    spans: dict[tuple[str, str], tuple[float, float]] = {}
    for event in events:
        if event["event"] not in _OF_A_STEP:
            continue
        name = event["step"]
        step = figures.setdefault(name, dict.fromkeys(_COLUMNS, 0.0))
        began, _ = spans.get((name, event["attempt"]), (event["time"], 0.0))
        spans[name, event["attempt"]] = (began, event["time"])
        if event["event"] == "commit":
            step["units"] += 1
            step["worker_seconds"] += event.get("seconds", 0.0)
            step["cpu_seconds"] += (cpu := event.get("cpu_seconds", 0.0))
            step["longest_cpu_seconds"] = max(step["longest_cpu_seconds"], cpu)
            step["peak_rss"] = max(step["peak_rss"], event.get("peak_rss", 0.0))
    for (name, _), (began, ended) in spans.items():
        figures[name]["wall_seconds"] += ended - began
    return figures


def edges(events: Sequence[Event]) -> tuple[float, float] | None:
    """Return the times of the first event of any step and of the last event of the log."""
    of_steps = [event["time"] for event in events if event["event"] in _OF_A_STEP]
    return (of_steps[0], events[-1]["time"]) if of_steps else None


def next_commit(events: Iterable[Event], after: float) -> float | None:
    """Return the time of the first commit after a moment, or None."""
    times = (e["time"] for e in events if e["event"] == "commit" and e["time"] > after)
    return min(times, default=None)


def committed(events: Iterable[Event], until: float) -> set[str]:
    """Return the units that were committed up to a moment, each as STEP/UNIT."""
    return {f"{e['step']}/{e['unit']}" for e in events if e["event"] == "commit" and e["time"] <= until}


def current_step(events: Iterable[Event], moment: float) -> str:
    """Return the step that was at work at a moment; "" before the first."""
    steps = [e["step"] for e in events if e["event"] in _OF_A_STEP and e["time"] <= moment]
    return str(steps[-1]) if steps else ""


def broken_promises(events: Iterable[Event]) -> list[str]:
    """Return each unit committed twice or given out after its commit, and each step of two fingerprints.

    commit a, dispatch a -> "dedup/a: given out after its commit"

    A step that a user asked to replace starts anew.
    """
    done: set[tuple[str, str]] = set()
    fingerprints: dict[str, str] = {}
    broken = []
    for event in events:
        kind, name = event["event"], (event.get("step", ""), event.get("unit", ""))
        if kind == "replace":
            done = {unit for unit in done if unit[0] != name[0]}
            fingerprints.pop(name[0], None)
        elif kind == "commit":
            if name in done:
                broken.append(f"{'/'.join(name)}: committed twice")
            done.add(name)
        elif kind == "dispatch" and name in done:
            broken.append(f"{'/'.join(name)}: given out after its commit")
        elif (
            kind == "step"
            and fingerprints.setdefault(name[0], event["fingerprint"]) != (event["fingerprint"])
        ):
            broken.append(f"{name[0]}: committed under two fingerprints")
    return broken


def first_of_uniform(number: int, draw: float) -> float:
    """Return the least of so many uniform points in [0, 1), from one uniform draw."""
    return float(1.0 - (1.0 - draw) ** (1.0 / number))


def progress(times: Sequence[float], commits: int, since: float) -> float:
    """Return the seconds that the reference took to come as far.

    times 1.0 1.5 4.0, two commits, 0.5 seconds ago -> 2.0; 9 seconds ago -> 4.0

    Args:
        times: of the reference's commits, ascending.
        commits: that the run has.
        since: seconds since the last of them; it counts up to the reference's next commit.
    """
    number = min(commits, len(times))
    before = times[number - 1] if number else 0.0
    following = times[number] if number < len(times) else before
    return min(before + since, following)


def commit_times(events: Sequence[Event]) -> list[float]:
    """Return the seconds from the log's first event to each commit, ascending."""
    return sorted(e["time"] - events[0]["time"] for e in events if e["event"] == "commit")
