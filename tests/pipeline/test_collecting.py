"""When Python looks for garbage among all objects: not while the program is imported."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.engine.actors import RayWorker
from pipeline.state.worker_place import FolderPlace
from pipeline.system.stopping import LOOKS

COUNTED = """
import gc, os, sys
looks = []
gc.callbacks.append(lambda phase, info: looks.append(info["generation"]))
end = os._exit
os._exit = lambda code: (print(looks.count(2), looks.count(0) > 0, flush=True), end(code))
sys.argv = ["shardmill", "status", sys.argv[1]]
from pipeline.main import main
main()
"""


@pytest.fixture
def as_python_begins() -> Iterator[None]:
    """Let Python look for garbage as often as it does by itself."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_while_a_command_is_imported_only_young_objects_are_looked_at(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, tmp_path / "none"], capture_output=True, text=True, check=False
    )
    assert "none" in done.stderr
    assert done.stdout.splitlines()[-1] == "0 True", "Python looks at all of them two or three times"


@pytest.mark.usefixtures("as_python_begins")
def test_a_worker_on_ray_looks_rarely(tmp_path: Path) -> None:
    RayWorker(FolderPlace(tmp_path, tmp_path), "a")
    assert gc.get_threshold() == (700, 10, LOOKS)
