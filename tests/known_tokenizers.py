"""The same tokenizer is trained once in a process of tests, however many runs there train it.

A third of the time of a run over a small corpus is its tokenizer's. What was trained or measured is
known by the payload of the task and the bytes of each file that it reads: whoever asks the same again
gets the same files and the same record. Runs on Ray or in a process of their own train their own
tokenizer, and are compared with the runs here. So bytes that differ from training to training are seen.
"""

import functools
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.tasks import Workspace
from pipeline.run_file.config import FairnessSection
from pipeline.steps.tokenizer import parallel, step, training
from pipeline.steps.tokenizer.load import FOLDER


def _sampled(workspace: Workspace, work: training.TokenizerTraining) -> list[Path]:
    keys = (training.sample_key, training.measured_key)
    return [workspace.path(key(unit)) for unit in work.units for key in keys]


def _trained(workspace: Workspace, work: FairnessSection) -> list[Path] | None:
    if work.parallel is not None or work.compare:  # files that are not the run's
        return None
    return sorted(path for path in workspace.path(FOLDER).iterdir() if path.is_file())


def _once(
    task: Callable[..., Any], files: Callable[[Workspace, Any], list[Path] | None]
) -> Callable[..., Any]:
    """Return a task that remembers what it made of a payload and of files; None if it should not."""
    known: dict[bytes, tuple[dict[str, bytes], Any]] = {}

    @functools.wraps(task)
    def remembered(workspace: Workspace, work: Any) -> Any:
        read = files(workspace, work)
        if read is None:
            return task(workspace, work)
        asked = hashlib.sha256(repr(work).encode())
        for path in read:
            asked.update(hashlib.sha256(path.read_bytes()).digest())
        key = asked.digest()
        if key not in known:
            record = task(workspace, work)
            made = (path for path in workspace.folder.rglob("*") if path.is_file())
            written = {path.relative_to(workspace.folder).as_posix(): path.read_bytes() for path in made}
            known[key] = written, record
            return record
        written, record = known[key]
        for name, data in written.items():
            workspace.create(name).write_bytes(data)
        return record

    return remembered


@contextmanager
def tokenizers_known() -> Iterator[None]:
    """Let runs in this process remember the tokenizers that they trained and measured."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, files in (
            (training, "train_tokenizer", _sampled),
            (parallel, "measure_parallel", _trained),
        ):
            remembered = _once(getattr(module, name), files)
            for place in (module, step):  # in its own module too: so it is sent to Ray by its name
                patch.setattr(place, name, remembered)
        yield
