"""What standard streams promise: whatever the caller did to them, exit codes and files are the same."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign import some_of

pytestmark = pytest.mark.slow

TEXT = "дир é 😀"
CLOSED = [numbers for count in (1, 2, 3) for numbers in itertools.combinations((0, 1, 2), count)]
OPENS = """
import os, sys
from pipeline.system.standard_streams import prepare_standard_streams
prepare_standard_streams()
with open(sys.argv[1], "wb") as file:
    assert file.fileno() > 2, file.fileno()
    assert all(os.get_inheritable(number) for number in (0, 1, 2))
    sys.stdin.read()
    print("to stdout", flush=True)
    print("to stderr", file=sys.stderr, flush=True)
    os.write(2, b"straight to 2")
"""


def call(
    *words: str | Path,
    closed: tuple[int, ...] = (),
    cwd: Path,
    environment: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run Python with some of its standard streams closed."""
    redirections = " ".join(f"{number}{'<' if not number else '>'}&-" for number in closed)
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, *words],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize("closed", CLOSED)
def test_no_file_gets_the_descriptor_of_a_closed_stream(closed: tuple[int, ...], tmp_path: Path) -> None:
    result = call("-c", OPENS, tmp_path / "file", closed=closed, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "file").read_bytes() == b""
    assert result.stdout == (b"" if 1 in closed else b"to stdout\n")
    assert result.stderr == (b"" if 2 in closed else b"to stderr\nstraight to 2")


CALLS = """
import os, sys
from pathlib import Path
closed = [int(number) for number in sys.argv[1]]
filled = [os.open(os.devnull, os.O_RDWR) for _ in closed]
assert filled == closed  # so that nothing here gets their numbers
import pipeline.session.session
from pipeline.main import main
from pipeline.state.journal import run_lock

def code_of(*more):
    child = os.fork()
    if not child:
        for number in closed:
            os.close(number)
        sys.argv = ["shardmill", "run", "run.toml", "-o", "out", "--workers", "0", *more]
        main()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

codes = [code_of("--until", "none")]
with run_lock(Path("out")):
    codes.append(code_of())
codes.append(code_of("--until", "scan"))
Path("codes").write_text(str(codes))
"""
"""Calls a command three times for one import of all that it needs, each with some streams closed."""


@pytest.mark.parametrize("closed", some_of([(0, 1, 2), (1,), (2,)], 1))
def test_a_closed_stream_changes_no_exit_code(closed: tuple[int, ...], tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "run.toml").write_text(
        '[[sources]]\nname = "a"\npaths = ["a.jsonl"]\n[[datasets]]\nname = "clm"\n'
    )
    (tmp_path / "out").mkdir()
    result = call("-c", CALLS, "".join(map(str, closed)), closed=closed, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "codes").read_text() == "[2, 75, 0]"
    assert int((tmp_path / "out/lock").read_text()) > 0
    status = json.loads((tmp_path / "out/status.json").read_text())
    assert status["state"] == "stopped as asked"


BOTH = """
import os, sys
from pipeline.main import main
if other := os.fork():
    assert os.waitpid(other, 0)[1] == 0
    sys.argv.append("--json")
main()
"""
"""Calls a command as it is and then with `--json`, for one import of all that it needs."""


@pytest.mark.parametrize(
    "encoding",
    some_of(
        [
            {"PYTHONIOENCODING": "latin-1"},
            {"PYTHONIOENCODING": "ascii:strict"},
            {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
            {"PYTHONIOENCODING": "utf-8"},
        ],
        1,
    ),
)
def test_what_an_encoding_has_not_is_written_out(encoding: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "commits/scan").mkdir(parents=True)
    status = {"state": "stopped", "pid": 1, "step": "ingest", "error": TEXT}
    (tmp_path / "status.json").write_text(json.dumps(status))
    done = call("-c", BOTH, "status", ".", cwd=tmp_path, environment=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    plain, brace, machine = done.stdout.partition(b"{")
    shown = {
        "latin-1": r"\u0434\u0438\u0440 é \U0001f600".encode("latin-1"),
        "utf-8": TEXT.encode(),
    }
    wanted = shown.get(encoding.get("PYTHONIOENCODING", ""), rb"\u0434\u0438\u0440 \xe9 \U0001f600")
    assert wanted in plain
    assert json.loads(brace + machine)["error"] == TEXT


SAYS = """
import sys
from pathlib import Path
from pipeline.system.standard_streams import prepare_standard_streams
prepare_standard_streams()
sys.stdin.readline()  # until nobody reads
stream = getattr(sys, sys.argv[1])
for _ in range(3):
    print("x" * 100_000, file=stream, flush=True)
Path("done").write_text(str(stream.isatty()))
"""


def says(stream: str, to: int, *, cwd: Path) -> subprocess.Popen[bytes]:
    """Start a process that says much on one of its streams once it is given a line."""
    return subprocess.Popen(
        [sys.executable, "-c", SAYS, stream],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.PIPE,
        stdout=to if stream == "stdout" else None,
        stderr=to if stream == "stderr" else None,
    )


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_each_stream_knows_by_itself_whether_it_is_a_terminal(stream: str, tmp_path: Path) -> None:
    reading, writing = os.openpty()
    (reader, other), asks = os.pipe(), SAYS.replace("range(3)", "range(0)")
    ends = {name: writing if name == stream else other for name in ("stdout", "stderr")}
    for asked in ends:
        subprocess.run(
            [sys.executable, "-c", asks, asked],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            stdin=subprocess.DEVNULL,
            check=True,
            **ends,  # type: ignore[call-overload]
        )
        assert (tmp_path / "done").read_text() == str(asked == stream)
    for end in (reading, writing, reader, other):
        os.close(end)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("kind", ["pipe", "terminal"])
def test_a_reader_that_goes_ends_nothing(stream: str, kind: str, tmp_path: Path) -> None:
    reading, writing = os.pipe() if kind == "pipe" else os.openpty()
    process = says(stream, writing, cwd=tmp_path)
    os.close(writing)
    os.close(reading)
    process.communicate(b"\n")
    assert process.returncode == 0
    assert (tmp_path / "done").read_text() == "False"


@pytest.mark.parametrize(("stream", "code"), [("stdout", 1), ("stderr", 0)])
def test_a_full_disk_loses_messages_and_never_a_result(stream: str, code: int, tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        process = says(stream, full.fileno(), cwd=tmp_path)
    process.communicate(b"\n")
    assert process.returncode == code


def test_a_slow_reader_of_a_pipe_that_does_not_wait_gets_all(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    process = says("stderr", writing, cwd=tmp_path)
    os.close(writing)
    assert process.stdin is not None
    process.stdin.close()
    with os.fdopen(reading, "rb") as pipe:
        assert len(pipe.read()) == 3 * 100_001
    assert process.wait() == 0
