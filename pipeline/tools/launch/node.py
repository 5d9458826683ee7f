"""The process on each node of a job: it starts Ray there, and ends it when its standard input ends.

    python -m pipeline.tools.launch.node < one line of JSON (`step`), then nothing until the end

The job process is at the other end. Whatever ends that process also ends this input, so no Ray is left.
"""

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from pipeline.commands.boundary import say
from pipeline.engine.memory import process_tree
from pipeline.system.stopping import STOPPED
from pipeline.tools.launch.step import RayStep, new_folder, token_environment
from stages.errors import Stopped

_LEAST_STORE, _MOST_STORE = 80 << 20, 1 << 30
_STORE_SHARE = 16
"""Part of a node's memory that Ray's object store gets: messages are small."""
_LOOK_SECONDS = 1.0
_END_SECONDS = 10.0
"""How long Ray has to end by itself."""
_PR_SET_CHILD_SUBREAPER = 36


def main() -> int:
    """Run Ray until the standard input ends, a signal arrives, or Ray ends; return the exit code."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _leave)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what Ray leaves is still ours
    step = RayStep.read(sys.stdin.readline())
    try:
        return _ray_until_end(step)
    except Stopped as error:
        return say(error, STOPPED)


def _ray_until_end(step: RayStep) -> int:
    """Run Ray in a new folder, and leave neither processes nor the folder."""
    name, head = os.environ["SLURMD_NODENAME"], os.environ["SLURM_PROCID"] == "0"
    folder = new_folder(step.folder_of(name))
    try:
        environment = os.environ | token_environment(folder, step.token)
        ray = subprocess.Popen(
            ray_command(step, folder, head=head),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=(folder / "ray.out").open("wb"),
            stderr=subprocess.STDOUT,
        )
        code = _until_end(ray)
        if code is not None:
            say(f"{name}: Ray ended: {_last_lines(folder / 'ray.out')}", code)
        return code or 0
    finally:
        _end_below()
        shutil.rmtree(folder, ignore_errors=True)


def ray_command(step: RayStep, folder: Path, *, head: bool) -> list[str]:
    """Return the command that starts Ray on a node.

    Args:
        step: where the job's Ray is.
        folder: of the node.
        head: whether it is the first node.
    """
    memory = int(os.environ.get("SLURM_MEM_PER_NODE", "0")) << 20 or _machine_memory()
    store = min(max(memory // _STORE_SHARE, _LEAST_STORE), _MOST_STORE)
    place = ["--address", step.address]
    if head:
        place = ["--head", "--node-ip-address", step.host, "--port", str(step.port)]
        place += ["--include-dashboard", "false"]
    return [
        *(sys.executable, "-P", "-m", "ray.scripts.scripts", "start", *place),
        *("--num-cpus", os.environ["SLURM_CPUS_ON_NODE"], "--object-store-memory", str(store)),
        *("--min-worker-port", "0", "--max-worker-port", "0", "--dashboard-agent-listen-port", "0"),
        *("--temp-dir", str(folder), "--disable-usage-stats", "--block"),
    ]


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _until_end(ray: "subprocess.Popen[bytes]") -> int | None:
    """Wait until the standard input ends, and return None; or Ray's exit code, if it ends before."""
    while ray.poll() is None:
        readable, _, _ = select.select([sys.stdin], [], [], _LOOK_SECONDS)
        if readable and not os.read(sys.stdin.fileno(), 1):
            return None
    return ray.returncode or 1


def _last_lines(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    return " | ".join(line.strip() for line in lines if line.strip())[-1000:]


def _leave(number: int, frame: object) -> None:  # noqa: ARG001  # the signature
    """End in order, once."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def _end_below() -> None:
    """End all processes below this one, by SIGTERM, and what is left by SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in _below():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        end = time.monotonic() + _END_SECONDS
        while _below() and time.monotonic() < end:
            time.sleep(0.1)


def _below() -> list[int]:
    """Return the processes below this one that live; those that ended are collected."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return []
    return process_tree(os.getpid())[1:]


if __name__ == "__main__":
    sys.exit(main())
