"""A Slurm on this machine: munged, slurmctld and three slurmd on loopback, in a folder of its own.

    with slurm_cluster(folder) as cluster: cluster.state(job)

Needs Debian's `slurm-wlm` and `munge`, and root. All nodes have this machine's host name and address.
Each has a port and a spool folder of its own, and two cores, which are the same two.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NODES = ("n1", "n2", "n3")
_CONFIG = """
ClusterName=trial
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdTimeout=20
KillWait=30
ReturnToService=2
MpiDefault=none
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=01:00:00 State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=01:00:00 State=UP PriorityTier=9
"""
_START_SECONDS = 60.0


@dataclass(frozen=True)
class SlurmCluster:
    """A running Slurm.

    Args:
        folder: of its files.
    """

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """What its commands need."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def call(self, *command: str) -> str:
        """Call one of Slurm's commands, and return what it says.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        environment = os.environ | self.environment
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return done.stdout

    def job(self, number: str) -> dict[str, str]:
        """Return what Slurm says of a job, by field: JobState, Restarts, ExitCode and others."""
        said = self.call("scontrol", "show", "job", number).split()
        return dict(field.partition("=")[::2] for field in said)

    def start_node(self, name: str) -> None:
        """Start the slurmd of a node."""
        config = str(self.folder / "slurm.conf")
        subprocess.run(
            ["slurmd", "-N", name, "-f", config], env=os.environ | self.environment, check=True
        )

    def kill_node(self, name: str) -> int:
        """End all processes of a node by SIGKILL, as if its power failed; return how many.

        Slurm's own go first, so that nobody can say that the others ended.
        """
        daemon = int((self.folder / f"slurmd-{name}.pid").read_text())
        tasks = processes_with(b"SLURMD_NODENAME=" + name.encode())
        doomed = [daemon, *sorted({step for task in tasks for step in _steps_above(task)}), *tasks]
        for pid in doomed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(doomed)


def _steps_above(pid: int) -> Iterator[int]:
    """Yield the processes of Slurm that a task is below."""
    while pid > 1:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        if "(slurmstepd" in fields:
            yield pid
        pid = int(fields.rpartition(")")[2].split()[1])


def processes_with(variable: bytes) -> list[int]:
    """Return the processes whose environment has a variable: NAME=VALUE."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if variable in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


@contextlib.contextmanager
def slurm_cluster(folder: Path) -> Iterator[SlurmCluster]:
    """Start Slurm in a folder, which is not there yet, and end it; the folder stays."""
    for name in ("state", *(f"spool/{node}" for node in NODES)):
        (folder / name).mkdir(parents=True)
    cluster = SlurmCluster(folder)
    nodes = "\n".join(
        f"NodeName={node} NodeHostname={_host()} NodeAddr=127.0.0.1 Port={_free_port()} CPUs=2"
        " RealMemory=4000 State=UNKNOWN"
        for node in NODES
    )
    config = _CONFIG.format(host=_host(), port=_free_port(), folder=folder, nodes=nodes)
    (folder / "slurm.conf").write_text(config, encoding="utf-8")
    try:
        _start_munge(folder)
        subprocess.run(["slurmctld", "-f", str(folder / "slurm.conf")], check=True)
        for node in NODES:
            cluster.start_node(node)
        _wait_for_nodes(cluster)
        try:
            yield cluster
        finally:
            _cancel_jobs(cluster)
    finally:
        _end_daemons(folder)


def _host() -> str:
    return socket.gethostname().partition(".")[0]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _start_munge(folder: Path) -> None:
    """Start munged, by whose keys Slurm knows its users."""
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    places = ("socket", "pid", "log", "seed")
    options = {"socket": "--socket", "pid": "--pid-file", "log": "--log-file", "seed": "--seed-file"}
    files = [f"{options[name]}={folder}/munge.{name}" for name in places]
    subprocess.run(["munged", "--force", f"--key-file={key}", *files], check=True, capture_output=True)


def _wait_for_nodes(cluster: SlurmCluster) -> None:
    end = time.monotonic() + _START_SECONDS
    while True:
        with contextlib.suppress(subprocess.CalledProcessError):
            if cluster.call("sinfo", "-h", "-p", "main", "-t", "idle", "-o", "%D").strip() == "3":
                return
        if time.monotonic() > end:
            raise SystemExit(
                f"Slurm did not start in {_START_SECONDS:.0f} s; see {cluster.folder}/*.log"
            )
        time.sleep(0.5)


def _cancel_jobs(cluster: SlurmCluster) -> None:
    """Cancel all jobs, and wait until they have left."""
    if not cluster.call("squeue", "-h"):
        return
    cluster.call("scancel", "--partition=main")
    cluster.call("scancel", "--partition=urgent")
    end = time.monotonic() + _START_SECONDS
    while cluster.call("squeue", "-h") and time.monotonic() < end:
        time.sleep(0.5)


def _end_daemons(folder: Path) -> None:
    """End the daemons by their process ids, with all that is below them."""
    pids = [
        int(path.read_text())
        for name in ("slurmctld", *(f"slurmd-{node}" for node in NODES), "munge")
        if (path := folder / f"{name}.pid").is_file() and path.read_text().strip()
    ]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        end = time.monotonic() + 10
        while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < end:
            time.sleep(0.2)


def missing_programs() -> list[str]:
    """Return which programs of Slurm and munge are not installed."""
    names = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol")
    return [name for name in names if shutil.which(name) is None]
