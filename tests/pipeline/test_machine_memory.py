"""Machine memory: the limit of a container counts, in both versions of control groups."""

from pathlib import Path

import pytest

from pipeline.system.memory import machine_memory

GIB = 1 << 30


def write(root: Path, files: dict[str, str]) -> None:
    """Write what the kernel would say of control groups."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(
    "files",
    [
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1073741824\n"},
        {
            "proc/self/cgroup": "0::/system.slice/job\n",
            "sys/fs/cgroup/system.slice/memory.max": "1073741824\n",
            "sys/fs/cgroup/system.slice/job/memory.max": "max\n",
        },
        {
            "proc/self/cgroup": "7:cpu,cpuacct:/a\n3:memory:/docker/a\n0::/docker/a\n",
            "sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes": "1073741824\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
        {
            "proc/self/cgroup": "3:memory:/docker/outside\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n",
        },
    ],
    ids=["v2", "v2 above", "v1", "v1 in a container"],
)
def test_the_limit_of_a_container_is_heeded(tmp_path: Path, files: dict[str, str]) -> None:
    write(tmp_path, files)
    assert machine_memory(tmp_path) == GIB


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"},
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{1 << 60}\n"},
        {"proc/self/cgroup": "\nno group\n0::/\n", "sys/fs/cgroup/memory.max": "0\n"},
    ],
    ids=["no groups", "no limit", "a limit above what is there", "nonsense"],
)
def test_without_a_lower_limit_it_is_what_the_machine_has(tmp_path: Path, files: dict[str, str]) -> None:
    write(tmp_path, files)
    (tmp_path / "empty").mkdir()
    assert machine_memory(tmp_path) == machine_memory(tmp_path / "empty") > GIB // 2
