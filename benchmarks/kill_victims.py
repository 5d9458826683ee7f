"""The processes of a run that a campaign kills or freezes, by kind.

    driver      the program itself
    worker      an actor of Ray that does tasks
    frozen      a worker, which gets no time for 30 seconds and lives on
    raylet      Ray's daemon of the machine
    gcs_server  Ray's daemon of the cluster
    agent       what Ray starts beside them: its agents, dashboard and monitors

After the loss of a worker, the run continues. After the loss of one of Ray's daemons, it ends with 75,
and so it may after the loss of an agent, with which Ray's daemons end, too.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from run_processes import RunProcess

FREEZE_SECONDS = 30.0
_AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
_SCRIPTS = ("dashboard.py", "monitor.py", "log_monitor.py", "agent.py", "main.py")
KINDS = ("driver", "worker", "frozen", "raylet", "gcs_server", "agent")


def kind_of(process: RunProcess) -> str | None:
    """Return the kind of a process of a run, other than its driver."""
    if process.is_worker:
        return "worker"
    name = process.label
    if name in {"raylet", "gcs_server"}:
        return name
    is_agent = process.command.startswith(_AGENTS) or name.split()[-1] in _SCRIPTS
    return "agent" if is_agent and "shardmill" not in process.command else None


def drawn_victim(
    driver: RunProcess, others: Sequence[RunProcess], kinds: Sequence[str], chance: random.Random
) -> tuple[str, RunProcess]:
    """Draw a kind of those that are there, and one process of it.

    Args:
        driver: of the run.
        others: its other processes.
        kinds: that may be drawn; without any of them it is the driver.
        chance: draws.
    """
    found: dict[str, list[RunProcess]] = {"driver": [driver]}
    for process in sorted(others, key=lambda one: one.pid):
        kind = kind_of(process)
        if kind is not None and process.pid != driver.pid:
            found.setdefault(kind, []).append(process)
    if "worker" in found:
        found["frozen"] = found["worker"]
    kind = chance.choice([name for name in kinds if name in found] or ["driver"])
    return kind, chance.choice(found[kind])


def strike(kind: str, victim: RunProcess) -> None:
    """Kill a process, or freeze it for a time."""
    if kind != "frozen":
        os.kill(victim.pid, signal.SIGKILL)
        return
    os.kill(victim.pid, signal.SIGSTOP)
    threading.Thread(target=_thaw, args=(victim,), daemon=True).start()


def _thaw(victim: RunProcess) -> None:
    time.sleep(FREEZE_SECONDS)
    with suppress(ProcessLookupError):  # the run may have ended meanwhile
        os.kill(victim.pid, signal.SIGCONT)
