"""The batch script of a job of Slurm.

    options -> #SBATCH lines, then `exec python -m pipeline.tools.launch.job`

`exec` puts the supervising process in the place of the shell, so that Slurm's SIGTERM reaches it.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path

GRACE_SECONDS = 120
"""SIGTERM comes before the time limit. Slurm may send it up to 60 s earlier still."""


@dataclass(frozen=True, kw_only=True)
class SlurmJob:
    """What a job asks of Slurm, and the run that it makes.

    Args:
        python: the interpreter, on every node.
        run: arguments of `shardmill run`, without `--address`.
        folder: where Slurm writes the job's output, slurm-JOB.out.
        nodes: machines.
        requeues: how often a job that stopped is put into the queue again.
        time: limit, as Slurm reads it; None is the partition's.
        partition: None is the cluster's default.
        cpus_per_node: cores; None takes whole nodes.
        memory_per_node: as Slurm reads it; None takes all, if nodes are whole, or Slurm's default.
        options: further ones of sbatch, such as --account=PROJECT; they win over the others.
    """

    python: Path
    run: tuple[str, ...]
    folder: Path
    nodes: int
    requeues: int
    time: str | None = None
    partition: str | None = None
    cpus_per_node: int | None = None
    memory_per_node: str | None = None
    options: tuple[str, ...] = ()


def batch_script(job: SlurmJob) -> str:
    """Return the text of the script.

    nodes=2, time=1:00:00  ->  #SBATCH --nodes=2 ... #SBATCH --time=1:00:00 ... exec python ...
    """
    call = (
        *(str(job.python), "-P", "-m", "pipeline.tools.launch.job"),
        *("--requeues", str(job.requeues), "--", *job.run),
    )
    lines = [f"#SBATCH {option}" for option in (*_options(job), *job.options)]
    return "\n".join(("#!/bin/bash", *lines, f"exec {shlex.join(call)}", ""))


def _options(job: SlurmJob) -> list[str]:
    """Return the options of sbatch that a job always has, then those that were chosen."""
    options = [
        "--job-name=shardmill",
        f"--nodes={job.nodes}",
        "--ntasks-per-node=1",
        "--requeue",
        "--open-mode=append",
        f"--signal=B:TERM@{GRACE_SECONDS}",
        f"--output={_quoted(job.folder / 'slurm-%j.out')}",
    ]
    if job.cpus_per_node is None:
        options += ["--exclusive", "--mem=0"] if job.memory_per_node is None else ["--exclusive"]
    else:
        options.append(f"--cpus-per-task={job.cpus_per_node}")
    if job.memory_per_node is not None:
        options.append(f"--mem={job.memory_per_node}")
    if job.partition is not None:
        options.append(f"--partition={job.partition}")
    if job.time is not None:
        options.append(f"--time={job.time}")
    return options


def _quoted(path: Path) -> str:
    """Return a path as a line of #SBATCH has it: Slurm reads quotes there as a shell does."""
    return shlex.quote(str(path))
