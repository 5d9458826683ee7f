"""What the manifests for KubeRay promise.

The job's entrypoint repeats a stopped run a bounded number of times, and nothing else. Job and cluster
have the same pods, which do not run as root, share one volume and ask for a token.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # PyYAML ships no types

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = {name: ROOT / "docker" / "kuberay" / f"{name}.yaml" for name in ("rayjob", "raycluster")}
READ: dict[str, Any] = {
    name: yaml.safe_load(path.read_text(encoding="utf-8")) for name, path in MANIFESTS.items()
}
JOB: dict[str, Any] = READ["rayjob"]["spec"]
CLUSTER: dict[str, Any] = READ["raycluster"]["spec"]
GROUPS = [CLUSTER["headGroupSpec"], *CLUSTER["workerGroupSpecs"]]


def write_program(folder: Path, text: str) -> dict[str, str]:
    """Write a program that stands for `shardmill`, and return the environment that finds it."""
    program = folder / "shardmill"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def called_with(folder: Path, codes: list[int]) -> tuple[int, list[str]]:
    """Call the entrypoint where runs end with these codes; return its own, and the calls."""
    cases = " ".join(f"{number}) exit {code};;" for number, code in enumerate(codes, 1))
    text = f'echo "$*" >> calls\ncase "$(wc -l < calls | tr -d " ")" in {cases} esac\nexit 99'
    environment = write_program(folder, text)
    done = subprocess.run(["/bin/sh", "-c", JOB["entrypoint"]], cwd=folder, env=environment, check=False)
    return done.returncode, (folder / "calls").read_text().splitlines()


@pytest.mark.parametrize("stops", [0, 1, 9])
@pytest.mark.parametrize("last", [0, 1, 2, 3, 137])
def test_a_stopped_run_is_called_again_until_it_ends(stops: int, last: int, tmp_path: Path) -> None:
    code, calls = called_with(tmp_path, [75] * stops + [last])
    assert code == last
    assert len(calls) == stops + 1
    assert set(calls) == {"run /data/run.toml --output /data/out --address auto --workers 4"}


def test_a_run_that_never_ends_is_called_ten_times(tmp_path: Path) -> None:
    code, calls = called_with(tmp_path, [75] * 20)
    assert (code, len(calls)) == (75, 10)


def test_a_job_that_is_stopped_calls_no_further_run(tmp_path: Path) -> None:
    """As `ray job stop` does: SIGTERM to the group, where the run ends with 75."""
    text = "echo called >> calls\ntrap 'exit 75' TERM\necho begun\nwhile :; do sleep 0.1; done"
    job = subprocess.Popen(
        ["/bin/sh", "-c", JOB["entrypoint"]],
        cwd=tmp_path,
        env=write_program(tmp_path, text),
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert job.stdout is not None
    assert job.stdout.readline() == b"begun\n"
    os.killpg(job.pid, signal.SIGTERM)
    job.communicate()
    assert job.returncode == 75
    assert (tmp_path / "calls").read_text() == "called\n"


def test_job_and_cluster_have_the_same_pods() -> None:
    assert JOB["rayClusterSpec"] == CLUSTER
    assert JOB["backoffLimit"] == 0  # the entrypoint alone repeats


def test_the_entrypoint_reaches_a_shell_as_it_is_written() -> None:
    """Other modes quote it again, which would expand its variables too early."""
    assert JOB["submissionMode"] == "HTTPMode"


def test_the_cluster_asks_for_a_token_and_has_the_ray_of_the_image() -> None:
    assert CLUSTER["authOptions"] == {"mode": "token"}
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert re.findall(r"^ray==(.+)$", constraints, re.MULTILINE) == [CLUSTER["rayVersion"]]


@pytest.mark.parametrize("group", GROUPS, ids=["head", "workers"])
def test_a_pod_is_not_root_and_has_shared_memory_for_the_object_store(group: dict[str, Any]) -> None:
    pod = group["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] == 10001
    (container,) = pod["containers"]
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert set(mounts) == {"/data", "/dev/shm"}  # noqa: S108  # as Ray has it
    assert volumes[mounts["/data"]]["persistentVolumeClaim"] == {"claimName": "shardmill-data"}
    assert volumes["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Gi"}
    assert mounts["/dev/shm"] == "shm"  # noqa: S108  # likewise
    assert int(group["rayStartParams"]["object-store-memory"]) <= 1 << 30


def test_the_workers_offer_the_cores_that_the_run_asks_for() -> None:
    workers = re.findall(r"--workers (\d+)", JOB["entrypoint"])
    cores = [int(one["rayStartParams"]["num-cpus"]) * one["replicas"] for one in GROUPS[1:]]
    assert workers == [str(sum(cores))]
    assert GROUPS[0]["rayStartParams"]["num-cpus"] == "0"


@pytest.mark.parametrize("path", MANIFESTS.values(), ids=MANIFESTS)
def test_the_linter_finds_nothing(path: Path) -> None:
    linter = Path(sys.executable).parent / "yamllint"
    done = subprocess.run([linter, "--strict", path], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
