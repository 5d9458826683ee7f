"""A Ray cluster of two nodes on this machine: the driver's, on which no worker fits, and another one.

Called as a module, with the number of CPUs, it prints both and ends them when its input ends.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = {"RAY_agent_register_timeout_ms": "120000", "RAY_raylet_start_wait_time_s": "120"}
"""A busy machine needs more time than Ray gives its own processes."""
AUTHENTICATION = "RAY_AUTH_MODE"


class TwoNodes(NamedTuple):
    """A cluster of two nodes."""

    address: str
    raylet: int
    """The process of Ray on the node that is not the driver's; all workers there are below it."""
    environment: Mapping[str, str]
    """Of a driver that joins."""


@contextmanager
def two_nodes(cpus: int) -> Iterator[TwoNodes]:
    """Start a cluster and end it again.

    Args:
        cpus: of the node that is not the driver's; the driver's has none.
    """
    alone = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment = {**alone, **_PATIENCE, AUTHENTICATION: "disabled", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.material.two_nodes", str(cpus)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:  # closes its input and waits
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        yield TwoNodes(said["address"], said["raylet"], environment)


def main() -> None:
    """Start a cluster, say where it is, and end it when the input ends."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415  # slow to import, and needed here alone

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    other = cluster.add_node(num_cpus=int(sys.argv[1]))
    raylet = other.all_processes["raylet"][0].process.pid
    said = {"address": cluster.address, "raylet": raylet}
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
