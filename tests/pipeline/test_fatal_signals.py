"""What would kill a process without a word ends it with a line and a code."""

import subprocess
import sys
from pathlib import Path

READS = """
import mmap, sys
from pipeline.system.stopping import end_at_fatal_signals
end_at_fatal_signals()
with open(sys.argv[1], "r+b") as file:
    mapped = mmap.mmap(file.fileno(), 0)
    file.truncate(0)
    print(mapped[5000])
"""


def test_a_file_that_is_cut_while_it_is_mapped_is_a_line_and_a_code(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(8192))
    done = subprocess.run(
        [sys.executable, "-c", READS, str(tmp_path / "a")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 75
    assert done.stderr.startswith(
        "shardmill: the system could not give a page of a mapped file (SIGBUS)"
    )
    assert done.stderr.endswith("run again to resume\n")


GIVES_UP = """
import os, resource, sys
if sys.argv[1] == "limited":
    resource.setrlimit(resource.RLIMIT_AS, (1 << 45, resource.getrlimit(resource.RLIMIT_AS)[1]))
from pipeline.system.stopping import end_at_fatal_signals
end_at_fatal_signals()
os.abort()
"""


def test_a_library_that_gives_up_within_a_limit_is_a_line_and_a_code() -> None:
    done = subprocess.run(
        [sys.executable, "-c", GIVES_UP, "limited"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 75
    assert "(SIGABRT): this process may have 3.277e+04 GiB of address space (ulimit -v)" in done.stderr


def test_a_library_that_gives_up_for_another_reason_is_no_stop() -> None:
    done = subprocess.run(
        [sys.executable, "-c", GIVES_UP, "free"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (-6, "")


def test_a_line_that_cannot_be_written_does_not_keep_the_process(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(8192))
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", READS, str(tmp_path / "a")], stderr=full, check=False, timeout=60
        )
    assert done.returncode == 75
