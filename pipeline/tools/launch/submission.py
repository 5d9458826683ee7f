"""Submitting a batch script to Slurm."""

import shutil
import subprocess

from stages.errors import ConfigError


def submit(script: str) -> str:
    """Hand a batch script to sbatch, and return the number of the job.

    Raises:
        ConfigError: sbatch is not installed here, or it refused the script.
    """
    if shutil.which("sbatch") is None:
        raise ConfigError(
            "launch slurm: sbatch is not on PATH, so this machine cannot submit jobs; call it on a login"
            " node of the cluster, or add --dry-run, and submit the printed script there"
        )
    done = subprocess.run(
        ["sbatch", "--parsable"], input=script, check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise ConfigError(
            f"launch slurm: sbatch refused the job (exit code {done.returncode}):"
            f" {' '.join(done.stderr.split())}; change the options, or see the script with --dry-run"
        )
    return done.stdout.strip().partition(";")[0]
