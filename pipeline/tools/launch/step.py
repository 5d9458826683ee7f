"""What the job process and the processes on its nodes agree on.

    {"token": "5be1...", "host": "10.0.0.7", "port": 20007, "folder": "/tmp/shardmill-7"}

One line of JSON on the standard input of each node's process. It never stands on a command line, which
every user of a machine may read.
"""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from stages.errors import Stopped

_FIRST_PORT, _PORTS = 20_000, 10_000
"""Below those that systems hand out by themselves, from 32,768 on."""


@dataclass(frozen=True)
class RayStep:
    """Where the Ray of a job is.

    Args:
        token: the secret of the cluster.
        host: address of the first node.
        port: of Ray's control service there.
        folder: with "-NODE" at its end, the folder of a node.
    """

    token: str
    host: str
    port: int
    folder: str

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"{self.host}:{self.port}"

    def folder_of(self, node: str) -> Path:
        """Return the folder of a node: of token, logs and sockets (107 bytes a path, at most)."""
        return Path(f"{self.folder}-{node}")

    def line(self) -> str:
        """Return the line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def read(cls, line: str) -> Self:
        """Return what a line of JSON says."""
        return cls(**json.loads(line))


def port_of_job(job: int) -> int:
    """Return the port of a job's Ray: jobs that share a node have different ones.

    7 -> 20007, 10007 -> 20007
    """
    return _FIRST_PORT + job % _PORTS


def new_folder(folder: Path) -> Path:
    """Make a folder that only this user may read; what a killed process of the job left there goes.

    Raises:
        Stopped: something with the name cannot be removed, such as another user's folder.
    """
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError as error:
        raise Stopped(
            f"{folder}: cannot be removed; is it another user's? Remove it, and launch again"
        ) from error
    return folder


def token_environment(folder: Path, token: str) -> dict[str, str]:
    """Write the token into a new folder, and return the variables that name it to Ray."""
    file = folder / "token"
    file.touch(mode=0o600, exist_ok=False)
    file.write_text(token)
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(file),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
