"""What launching promises: a job that can be read before it is submitted, and an end for Slurm.

Slurm's commands are foreign: where a test needs their answers, shell scripts on PATH give them. Real
jobs are in benchmarks/slurm_runs.py.
"""

import os
import shlex
import signal
import stat
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from pipeline.tools.launch import job
from pipeline.tools.launch.batch_script import SlurmJob, batch_script
from pipeline.tools.launch.job import ChildRun, end_job
from pipeline.tools.launch.node import ray_command
from pipeline.tools.launch.step import RayStep, new_folder, port_of_job, token_environment
from pipeline.tools.launch.submission import submit
from stages.errors import ConfigError, Stopped
from tests.called import called
from tests.laws.tiny_run import TINY, write_tiny_corpus

ROOT = Path(__file__).resolve().parents[2]
STEP = RayStep("5be1", "10.0.0.7", 20_007, "/tmp/shardmill-7")  # noqa: S108  # nothing is written there


def write_command(folder: Path, name: str, text: str) -> None:
    """Write a shell script that stands for one of Slurm's commands, and notes its calls."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f'#!/bin/sh\necho "{name} $*" >> {folder}/calls\n{text}\n')
    program.chmod(0o755)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder at the front of PATH, with a scontrol whose job 7 runs."""
    folder = tmp_path / "slurm"
    write_command(folder, "scontrol", "echo JobId=7 JobState=RUNNING Restarts=0")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
    return folder


def calls_of(folder: Path) -> list[str]:
    """Return the calls of commands that stand for Slurm's."""
    file = folder / "calls"
    return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Return a folder with a run file and its texts."""
    folder = tmp_path / "a corpus"
    write_tiny_corpus(folder)
    (folder / "run.toml").write_text(TINY, encoding="utf-8")
    return folder


def options_of(script: str) -> list[str]:
    """Return the options of sbatch that a script has."""
    return [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH ")]


def call_of(script: str) -> list[str]:
    """Return the words of the last line, which starts the job's process."""
    return shlex.split(script.splitlines()[-1])


def test_the_printed_script_makes_the_run_that_was_asked_for(corpus: Path) -> None:
    given = ("--nodes", "3", "--workers", "24", "--time", "12:00:00", "--partition", "long")
    more = ("--cpus-per-node", "8", "--memory-per-node", "64G", "--requeues", "5")
    setting = ("--set", "name='a b'", "--sbatch=--account=lab", "--dry-run")
    done = called("launch", "slurm", "run.toml", "--output", "out", *given, *more, *setting, cwd=corpus)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("#!/bin/bash\n#SBATCH ")
    assert options_of(done.stdout) == [
        *("--job-name=shardmill", "--nodes=3", "--ntasks-per-node=1", "--requeue", "--open-mode=append"),
        *("--signal=B:TERM@120", f"--output='{corpus}/slurm-%j.out'", "--cpus-per-task=8", "--mem=64G"),
        *("--partition=long", "--time=12:00:00", "--account=lab"),
    ]
    run = [str(corpus / "run.toml"), "--output", str(corpus / "out"), "--workers", "24"]
    assert call_of(done.stdout) == [
        *("exec", sys.executable, "-P", "-m", "pipeline.tools.launch.job", "--requeues", "5", "--"),
        *(*run, "--set", "name='a b'"),
    ]


def test_without_options_a_job_takes_whole_nodes_and_leaves_the_workers_to_the_run(corpus: Path) -> None:
    done = called(
        *("launch", "slurm", "run.toml", "--output", "s3://bucket/run", "--nodes", "2", "--dry-run"),
        cwd=corpus,
    )
    options = options_of(done.stdout)
    assert {"--exclusive", "--mem=0"} <= set(options)
    assert not [one for one in options if one.startswith(("--time", "--partition", "--cpus"))]
    run = call_of(done.stdout)[6:]
    assert run == ["3", "--", str(corpus / "run.toml"), "--output", "s3://bucket/run"]


def test_the_shell_of_the_script_becomes_the_process_of_the_job(tmp_path: Path) -> None:
    """So that a signal for the shell is one for the process; no argument is split or expanded."""
    python = tmp_path / "a python"
    python.write_text('#!/bin/sh\necho "$$"\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    run = ("run.toml", "--set", "name='$HOME `id` \"x\"'")
    script = batch_script(SlurmJob(python=python, run=run, folder=tmp_path, nodes=1, requeues=3))
    shell = subprocess.Popen(["/bin/bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    said, _ = shell.communicate(script)
    assert said.splitlines()[0] == str(shell.pid)
    assert said.splitlines()[-3:] == list(run)


def test_a_run_file_with_a_mistake_is_refused_before_a_job_waits(corpus: Path) -> None:
    done = called(
        *("launch", "slurm", "run.toml", "--output", "out", "--nodes", "2", "--dry-run"),
        *("--set", "packing.seq_len=0"),
        cwd=corpus,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "packing.seq_len" in done.stderr


def test_without_sbatch_the_launch_is_refused_and_says_what_to_do(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = called("launch", "slurm", "run.toml", "--output", "out", "--nodes", "2", cwd=corpus)
    assert (done.returncode, done.stdout) == (2, "")
    assert "sbatch is not on PATH" in done.stderr
    assert "--dry-run" in done.stderr


def test_a_submitted_script_is_what_sbatch_reads(slurm: Path) -> None:
    write_command(slurm, "sbatch", f"cat > {slurm}/script; echo '41;cluster'")
    assert submit("#!/bin/bash\nexec true\n") == "41"
    assert calls_of(slurm) == ["sbatch --parsable"]
    assert (slurm / "script").read_text() == "#!/bin/bash\nexec true\n"


def test_what_sbatch_refuses_is_shown(slurm: Path) -> None:
    write_command(slurm, "sbatch", "echo 'sbatch: error: invalid partition' >&2; exit 1")
    with pytest.raises(ConfigError, match=r"exit code 1.*invalid partition.*--dry-run"):
        submit("#!/bin/bash\n")


@pytest.mark.parametrize("code", [0, 1, 2, 3, 130])
def test_a_run_that_has_ended_ends_its_job(code: int, slurm: Path) -> None:
    assert end_job(code, requeues=3) == code
    assert calls_of(slurm) == []


@pytest.mark.parametrize("code", [75, -9, -15])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_run_that_stopped_goes_into_the_queue_again(
    code: int, count: int, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if count:
        monkeypatch.setenv("SLURM_RESTART_COUNT", str(count))
    assert end_job(code, requeues=3) == 75
    assert calls_of(slurm) == ["scontrol show job 7", "scontrol requeue 7"]


@pytest.mark.parametrize(("requeues", "count"), [(3, 3), (3, 4), (0, 0)])
def test_it_does_so_at_most_as_often_as_was_asked(
    requeues: int,
    count: int,
    slurm: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SLURM_RESTART_COUNT", str(count))
    assert end_job(75, requeues=requeues) == 75
    assert calls_of(slurm) == []
    assert f"--requeues {requeues} allows; launch it again to resume" in capsys.readouterr().err


@pytest.mark.parametrize("state", ["COMPLETING", "CANCELLED", "PENDING"])
def test_a_job_that_slurm_itself_ends_is_not_put_into_the_queue(state: str, slurm: Path) -> None:
    """`scancel` ends it, and a preempted job is in the queue by then."""
    write_command(slurm, "scontrol", f"echo JobId=7 JobState={state}")
    assert end_job(75, requeues=3) == 75
    assert calls_of(slurm) == ["scontrol show job 7"]


def test_what_scontrol_refuses_is_said(slurm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_command(slurm, "scontrol", 'echo JobState=RUNNING; test "$1" = show')
    assert end_job(75, requeues=3) == 75
    assert calls_of(slurm) == ["scontrol show job 7", "scontrol requeue 7"]
    assert "not in the queue again; launch it to resume" in capsys.readouterr().err


COUNTING = """
import signal, sys, time
count = 0
def arrive(*_):
    global count
    count += 1
signal.signal(signal.SIGTERM, arrive)
print("ready", flush=True)
while not count:
    time.sleep(0.01)
print("stopping", flush=True)
sys.stdin.readline()
sys.exit(100 + count)
"""
SUPERVISING = f"""
import os, sys
from pipeline.tools.launch.job import ChildRun
with ChildRun() as run:
    sys.exit(run.wait((sys.executable, "-c", {COUNTING!r}), dict(os.environ)))
"""


def test_a_run_gets_one_sigterm_however_many_arrive() -> None:
    job_process = subprocess.Popen(
        [sys.executable, "-c", SUPERVISING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert job_process.stdin is not None
    assert job_process.stdout is not None
    assert job_process.stdout.readline() == "ready\n"
    job_process.terminate()
    assert job_process.stdout.readline() == "stopping\n"
    for _ in range(3):
        job_process.terminate()
        time.sleep(0.05)  # signals that wait are one
    job_process.communicate("\n")
    assert job_process.returncode == 101


def test_a_sigterm_that_comes_before_the_run_is_handed_on_to_it() -> None:
    with ChildRun() as run:
        os.kill(os.getpid(), signal.SIGTERM)
        assert run.asked
        assert run.wait(("/bin/sleep", "60"), dict(os.environ)) == -signal.SIGTERM


def test_a_cluster_that_does_not_come_up_in_time_is_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "START_SECONDS", 0.0)
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "3")
    step = RayStep("t", "127.0.0.1", 1, "/tmp/none")  # noqa: S108  # nobody listens at port 1
    nodes = subprocess.Popen(["/bin/sleep", "60"], text=True)
    try:
        with pytest.raises(Stopped, match=r"0 of 3 nodes after 0 s.*127\.0\.0\.1:1"):
            job._wait_for_nodes(step, nodes, ChildRun())  # noqa: SLF001  # without a Slurm
    finally:
        nodes.kill()
        nodes.wait()


def test_nodes_read_what_the_job_writes() -> None:
    assert RayStep.read(STEP.line()) == STEP
    assert STEP.line().count("\n") == 1
    assert STEP.address == "10.0.0.7:20007"


def test_the_token_is_in_a_private_file_and_on_no_command_line(tmp_path: Path) -> None:
    (tmp_path / "n1").mkdir()
    (tmp_path / "n1" / "token").write_text("of a killed process")
    names = token_environment(new_folder(tmp_path / "n1"), "5be1")
    file = Path(names["RAY_AUTH_TOKEN_PATH"])
    assert file.read_text() == "5be1"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert names["RAY_AUTH_MODE"] == "token"


def test_a_folder_that_cannot_be_removed_is_a_stop(tmp_path: Path) -> None:
    (tmp_path / "n1").touch()
    with pytest.raises(Stopped, match=f"{tmp_path}/n1: cannot be removed"):
        new_folder(tmp_path / "n1")


@pytest.mark.parametrize("head", [True, False])
def test_a_node_starts_ray_with_its_own_share_and_the_port_of_the_job(
    head: bool,  # noqa: FBT001  # a case
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "8")
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "4096")
    command = ray_command(STEP, STEP.folder_of("n1"), head=head)
    options = dict(pairwise(command))
    assert options["--num-cpus"] == "8"
    assert options["--object-store-memory"] == str(256 << 20)
    assert options["--temp-dir"] == "/tmp/shardmill-7-n1"  # noqa: S108  # of the job and the node
    assert ("--address" in options) is not head
    assert options.get("--port") == ("20007" if head else None)
    assert STEP.token not in command


def test_a_node_whose_name_leads_to_itself_is_known_by_the_address_that_reaches_the_others(
    slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = 'case "$2 $3" in "node n1") echo NodeAddr=127.0.1.1;; "node n2") echo NodeAddr=127.0.0.9;;'
    write_command(slurm, "scontrol", f"{hosts} *) echo n1 n2;; esac")
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    assert job.own_host() == "127.0.0.1"  # from which 127.0.0.9 is reached
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "1")
    assert job.own_host() == "127.0.1.1"


def test_jobs_that_follow_each_other_have_ports_of_their_own() -> None:
    ports = [port_of_job(number) for number in range(1, 10_001)]
    assert len(set(ports)) == 10_000
    assert min(ports) >= 20_000
    assert max(ports) < 32_768


@pytest.mark.slow
def test_a_job_of_one_node_makes_its_run_on_ray_and_leaves_nothing(corpus: Path, slurm: Path) -> None:
    """The srun here starts the node's process on this machine."""
    number = str(os.getpid())
    write_command(slurm, "scontrol", "echo NodeAddr=127.0.0.1 JobState=RUNNING")
    own = 'while [ "${1#--}" != "$1" ]; do shift; done'
    write_command(slurm, "srun", f'{own}; SLURM_PROCID=0 exec "$@"')
    place = {"SLURM_JOB_ID": number, "SLURM_JOB_NUM_NODES": "1", "SLURMD_NODENAME": "n1"}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pipeline.tools.launch.job", "--requeues", "3", "--"),
            *(str(corpus / "run.toml"), "--output", str(corpus / "out"), "--workers", "1"),
        ],
        env={**os.environ, **place, "SLURM_CPUS_ON_NODE": "1", "PYTHONPATH": str(ROOT)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "verify mlm: PASS" in done.stdout
    assert [call.split()[0] for call in calls_of(slurm)] == ["scontrol", "srun"]
    folders = {path.name for path in Path("/tmp").iterdir()}  # noqa: S108  # where a job has them
    assert not [name for name in folders if name.startswith(f"shardmill-{number}-")]
    assert not [line for line in done.stderr.splitlines() if "Traceback" in line]
