"""Jobs of `shardmill launch slurm` that are requeued, preempted, cut by time, or lose a node.

    slurm_runs.py WORK --json F --continue

plain      nothing happens
requeue    `scontrol requeue` twice, each time once more of the run is committed
node       all processes of a node get signal 9, and its slurmd comes back after the job has left
preempted  a job of a partition that goes first takes all nodes for some seconds
limit      a time limit of two minutes: the job stops before it, and puts itself into the queue again

Slurm runs on this machine, with three nodes on loopback (`slurm_machines`). Each job must end with 0 and
the bytes of a run in one process, and begin as often as the trial says. No process, folder or shared
memory of it may be left, but for the folder of the node that was killed.
"""

import argparse
import functools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from digests import differences, file_digests
from slurm_machines import SlurmCluster, processes_with, slurm_cluster
from trial_lines import Trials, add_trial_options, conduct

ROOT = Path(__file__).resolve().parents[1]
RUN_FILE = ROOT / "examples" / "quickstart.toml"
TRIAL_SECONDS = 1_500.0
_LOOK_SECONDS = 0.5
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")
Disturb = Callable[["SlurmTrial"], None]


class SlurmTrial:
    """One job and its run.

    Args:
        cluster: where the job is.
        work: folder of the trial.
        options: further ones of the launch.
    """

    def __init__(self, cluster: SlurmCluster, work: Path, *options: str) -> None:
        self.cluster, self.work, self.output = cluster, work, work / "out"
        self.killed: tuple[str, ...] = ()
        work.mkdir(parents=True)
        launch = ("-m", "pipeline.main", "launch", "slurm", str(RUN_FILE), "--output", str(self.output))
        environment = {**os.environ, **cluster.environment, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, *launch, "--nodes", "2", "--workers", "2", *options],
            cwd=work,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        self.number = done.stdout.split()[1].rstrip(";")
        self._end = time.monotonic() + TRIAL_SECONDS

    def wait(self, what: Callable[[], bool]) -> None:
        """Wait until something is so, or the time of the trial is over.

        Slurm begins a requeued job after two minutes, which tell nothing, so that it is asked to begin.
        """
        while not what() and time.monotonic() < self._end:
            if self.cluster.job(self.number)["Reason"] == "BeginTime":
                self.cluster.call("scontrol", "update", f"JobId={self.number}", "StartTime=now")
            time.sleep(_LOOK_SECONDS)

    def state(self) -> str:
        """Return the state of the job."""
        return self.cluster.job(self.number)["JobState"]

    def restarts(self) -> int:
        """Return how often the job was begun again."""
        return int(self.cluster.job(self.number)["Restarts"])

    def commits(self) -> int:
        """Return how many units are committed."""
        return sum(1 for _ in (self.output / "commits").rglob("*.json"))

    def wait_for_progress(self, restarts: int) -> None:
        """Wait until the job was begun so often and has committed more than before."""
        before = self.commits()
        self.wait(
            lambda: (
                self.state() in ENDED or (self.restarts() >= restarts and self.commits() > before + 2)
            )
        )

    def left(self) -> list[str]:
        """Return what is left of the job on this machine."""
        mark = f"SLURM_JOB_ID={self.number}".encode()
        folders = [str(path) for path in Path("/tmp").glob(f"shardmill-{self.number}-*")]  # noqa: S108
        known = [f"/tmp/shardmill-{self.number}-{name}" for name in self.killed]  # noqa: S108
        processes = [f"process {pid}" for pid in processes_with(mark)]
        memory = [str(path) for path in Path("/dev/shm").iterdir() if "shardmill" in path.name]  # noqa: S108
        return [*processes, *memory, *(path for path in folders if path not in known)]


def leave_alone(_: SlurmTrial) -> None:
    """Do nothing."""


def requeue_twice(trial: SlurmTrial) -> None:
    """Put the job into the queue again, twice."""
    for restarts in (0, 1):
        trial.wait_for_progress(restarts)
        trial.cluster.call("scontrol", "requeue", trial.number)


def kill_a_node(trial: SlurmTrial) -> None:
    """Kill the node that does not have the driver, and start it again when Slurm has seen it."""
    trial.wait_for_progress(0)
    name = "n2"
    trial.killed = (name,)
    trial.cluster.kill_node(name)
    trial.wait(lambda: trial.restarts() > 0 or trial.state() in ENDED)
    trial.cluster.start_node(name)


def preempt(trial: SlurmTrial) -> None:
    """Let a job that goes first take all nodes."""
    trial.wait_for_progress(0)
    about = ("--partition=urgent", "--nodes=3", "--exclusive", "--output=/dev/null")
    trial.cluster.call("sbatch", *about, "--wrap=sleep 5")
    trial.wait(lambda: trial.restarts() > 0 or trial.state() in ENDED)


TRIALS: dict[str, tuple[Disturb, int, tuple[str, ...]]] = {
    "plain": (leave_alone, 0, ("--time", "30")),
    "requeue": (requeue_twice, 2, ("--time", "30")),
    "node": (kill_a_node, 1, ("--time", "30")),
    "preempted": (preempt, 1, ("--time", "30")),
    "limit": (
        leave_alone,
        1,
        ("--time", "2", "--requeues", "20", "--sbatch=--signal=B:TERM@15"),
    ),
}
"""What happens, how often the job begins again at least, and options of the launch."""


def try_one(name: str, cluster: SlurmCluster, work: Path) -> dict[str, Any]:
    """Do one trial; return what came of it."""
    disturb, least, options = TRIALS[name]
    began = time.monotonic()
    trial = SlurmTrial(cluster, work / name, *options)
    disturb(trial)
    trial.wait(lambda: trial.state() in ENDED)
    took = time.monotonic() - began
    job = cluster.job(trial.number)
    wrong = [] if job["JobState"] == "COMPLETED" else [f"{job['JobState']}, {job['ExitCode']}"]
    if trial.restarts() < least:
        wrong.append(f"begun again {trial.restarts()} times, not {least}")
    found, wanted = file_digests(trial.output), file_digests(work / "plain-run")
    wrong += [f"{path} differs" for path in differences(found, wanted)]
    end = time.monotonic() + 60  # Slurm says that a job is complete before its last process ends
    while (left := trial.left()) and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
    wrong += [f"left: {one}" for one in left]
    for path in (f"/tmp/shardmill-{trial.number}-{node}" for node in trial.killed):  # noqa: S108
        shutil.rmtree(path, ignore_errors=True)
    return {
        "job_seconds": round(took, 1),
        "restarts": trial.restarts(),
        "files": len(found),
        "wrong": wrong,
    }


def run_in_one_process(output: Path) -> None:
    """Make the run that all others are compared with."""
    call = ("-m", "pipeline.main", "run", str(RUN_FILE), "--output", str(output), "--workers", "0")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, *call, "--quiet"], env=environment, check=True, capture_output=True)


def campaign(trials: Trials, *, names: list[str]) -> int:
    """Do all trials, and print what came of them."""
    work = trials.new_folder()
    missing = [name for name in names if name not in trials.lines]
    if missing:
        run_in_one_process(work / "plain-run")
        with slurm_cluster(work / "slurm") as cluster:
            for name in missing:
                do = functools.partial(try_one, name, cluster, work)
                trials.trial(name, do, failed=lambda one: bool(one["wrong"]))
    results = {name: trials.lines[name].result for name in names}
    print(json.dumps(results, indent=1))
    return int(any(one["wrong"] for one in results.values()))


def main() -> int:
    """Do the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder with a short path")
    parser.add_argument("--trials", nargs="+", choices=TRIALS, default=list(TRIALS), metavar="NAME")
    add_trial_options(parser)
    given = parser.parse_args()
    chosen = {"names": given.trials}
    return conduct(lambda trials: campaign(trials, **chosen), given, chosen, work=given.work.resolve())


if __name__ == "__main__":
    sys.exit(main())
