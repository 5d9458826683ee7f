"""The process of a job's batch script: Ray on all nodes, the run on the first, then what its end means.

    python -m pipeline.tools.launch.job --requeues 3 -- RUN.toml --output DIR

    run ends with            the job
    0, 2, 3, and others      ends with it
    75, or by a signal       goes into the queue again, at most --requeues times, and ends with 75

Slurm itself counts how often a job was begun again (SLURM_RESTART_COUNT), for whatever reason.
"""

import argparse
import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from typing import Self

from pipeline.commands.boundary import say
from pipeline.system.stopping import STOPPED
from pipeline.tools.launch.step import RayStep, new_folder, port_of_job, token_environment
from stages.errors import Stopped

START_SECONDS = 300.0
"""How long Ray has to start on all nodes."""
_LOOK_SECONDS = 1.0
_ANY_PORT = 9
_END_SECONDS = 60.0
"""How long the nodes have to end Ray."""


class ChildRun:
    """The run as a child process, which gets the first SIGTERM of this process, and no other one."""

    def __init__(self) -> None:
        self.asked = False
        """Whether SIGTERM arrived."""
        self._child: subprocess.Popen[bytes] | None = None
        self._unsent = [signal.SIGTERM]

    def __enter__(self) -> Self:
        """Take SIGTERM."""
        signal.signal(signal.SIGTERM, self._arrive)
        return self

    def __exit__(self, *_: object) -> None:
        """Ignore it from now on: what the job's end means is decided."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def wait(self, command: Sequence[str], environment: dict[str, str]) -> int:
        """Run a command to its end and return its exit code, negative for a signal."""
        self._child = subprocess.Popen(command, env=environment)
        self._pass_on()  # what arrived before there was a child
        return self._child.wait()

    def _arrive(self, number: int, frame: object) -> None:  # noqa: ARG002  # the signature
        self.asked = True
        self._pass_on()

    def _pass_on(self) -> None:
        """Send the signal if it has arrived and was not sent; `pop` cannot be interrupted."""
        if self.asked and self._child is not None:
            with contextlib.suppress(IndexError):
                self._child.send_signal(self._unsent.pop())


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the run of a job and return the job's exit code."""
    parser = argparse.ArgumentParser(prog="shardmill-job")
    parser.add_argument("--requeues", type=int, required=True)
    parser.add_argument("run", nargs="+")
    options = parser.parse_args(arguments)
    with ChildRun() as run:
        try:
            code = _run_on_nodes(run, options.run)
        except Stopped as error:
            code = say(error, STOPPED)
    return end_job(code, requeues=options.requeues)


def end_job(code: int, *, requeues: int) -> int:
    """Put the job into the queue again if its run stopped, and return the exit code.

    Args:
        code: of the run, negative for a signal.
        requeues: how often a job may be put into the queue again.
    """
    if code != STOPPED and code >= 0:
        return code
    job, count = os.environ["SLURM_JOB_ID"], int(os.environ.get("SLURM_RESTART_COUNT", "0"))
    if count >= requeues:
        return say(
            f"job {job}: stopped, and begun again {count:,} times, the most that --requeues {requeues}"
            " allows; launch it again to resume",
            STOPPED,
        )
    if "JobState=RUNNING" not in (_scontrol("show", "job", job) or "").split():
        return say(f"job {job}: stopped by Slurm, which decides what becomes of it", STOPPED)
    if _scontrol("requeue", job) is None:
        return say(f"job {job}: stopped, and not in the queue again; launch it to resume", STOPPED)
    return say(f"job {job}: stopped; in the queue again, {count + 1:,} of {requeues:,}", STOPPED)


def _run_on_nodes(run: ChildRun, arguments: Sequence[str]) -> int:
    """Start Ray on all nodes, make the run, and end Ray."""
    job = int(os.environ["SLURM_JOB_ID"])
    folder = f"/tmp/shardmill-{job}"  # noqa: S108  # short: sockets lie below it; mode 700
    step = RayStep(secrets.token_hex(32), own_host(), port_of_job(job), folder)
    with _nodes(step) as nodes, _token_beside(step) as names:
        os.environ.update(names)
        _wait_for_nodes(step, nodes, run)
        command = (sys.executable, "-P", "-m", "pipeline.main", "run", *arguments)
        return run.wait((*command, "--address", step.address), dict(os.environ))


@contextlib.contextmanager
def _nodes(step: RayStep) -> Iterator["subprocess.Popen[str]"]:
    """Start a process on each node; they end when their standard input does."""
    node = (sys.executable, "-P", "-m", "pipeline.tools.launch.node")
    spread = ("--ntasks-per-node=1", "--whole", "--cpu-bind=none")
    separate = ("--kill-on-bad-exit=0", "--wait=0")  # a node that is lost ends no other one
    srun = subprocess.Popen(
        ("srun", f"--nodes={os.environ['SLURM_JOB_NUM_NODES']}", *spread, *separate, *node),
        stdin=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert srun.stdin is not None
    try:
        with contextlib.suppress(BrokenPipeError):
            srun.stdin.write(step.line())
            srun.stdin.flush()
        yield srun
    finally:
        with contextlib.suppress(BrokenPipeError):
            srun.stdin.close()
        try:
            srun.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            srun.kill()
            srun.wait()


@contextlib.contextmanager
def _token_beside(step: RayStep) -> Iterator[dict[str, str]]:
    """Write the token for the run, and yield the variables that name it to Ray."""
    folder = new_folder(step.folder_of("job"))
    try:
        yield token_environment(folder, step.token)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for_nodes(step: RayStep, nodes: "subprocess.Popen[str]", run: ChildRun) -> None:
    """Wait until Ray is up on all nodes.

    Raises:
        Stopped: it is not in time, its processes ended, or SIGTERM arrived.
    """
    wanted, up = int(os.environ["SLURM_JOB_NUM_NODES"]), 0
    end = time.monotonic() + START_SECONDS
    while (up := _nodes_of_ray(step.address)) < wanted:
        if run.asked:
            raise Stopped("SIGTERM: stopped while Ray started; run again to resume")
        if nodes.poll() is not None:
            raise Stopped(f"Ray did not start on {wanted:,} nodes: srun ended with {nodes.returncode}")
        if time.monotonic() > end:
            raise Stopped(
                f"Ray is up on {up:,} of {wanted:,} nodes after {START_SECONDS:.0f} s; the others may"
                f" not reach {step.address}, or may lack {sys.executable}"
            )
        time.sleep(_LOOK_SECONDS)


def _nodes_of_ray(address: str) -> int:
    """Return how many nodes are in the cluster at an address; 0 if it does not answer yet."""
    from ray._raylet import GcsClient  # noqa: PLC0415  # after the token is in the environment

    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=_LOOK_SECONDS).close()
        nodes = GcsClient(address=address).get_all_node_info(timeout=10)
    except Exception:  # noqa: BLE001  # Ray raises errors of many kinds while it starts
        return 0
    return sum(node.state == 0 for node in nodes.values())  # ALIVE


def own_host() -> str:
    """Return the address of this node as Slurm knows it; one that other nodes reach, if that is known.

    Where a node's own name leads to its loopback, as Debian's `127.0.1.1` does, it is the address from
    which this node reaches the last node of the job.

    Raises:
        Stopped: an address has no number.
    """
    name = os.environ["SLURMD_NODENAME"]
    address = _address_of(name)
    if not ip_address(address).is_loopback or int(os.environ["SLURM_JOB_NUM_NODES"]) == 1:
        return address
    names = (_scontrol("show", "hostnames", os.environ["SLURM_JOB_NODELIST"]) or name).split()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect((_address_of(names[-1]), _ANY_PORT))  # which sends nothing
        except OSError:  # there is no way: what does not join is said later
            return address
        return str(asked.getsockname()[0])


def _address_of(name: str) -> str:
    """Return the number of a node's address."""
    fields = dict(field.partition("=")[::2] for field in (_scontrol("show", "node", name) or "").split())
    address = fields.get("NodeAddr", name)
    try:
        return socket.gethostbyname(address)
    except OSError as error:
        raise Stopped(f"{name}: its address {address} cannot be resolved: {error}") from error


def _scontrol(*arguments: str) -> str | None:
    """Return what scontrol says, or None if it fails; then it has said why."""
    done = subprocess.run(("scontrol", *arguments), check=False, stdout=subprocess.PIPE, text=True)
    return None if done.returncode else done.stdout


if __name__ == "__main__":
    sys.exit(main())
