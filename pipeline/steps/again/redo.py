"""Redo: one task of a finished step again, in a folder of its own, and its files and record compared.

The bytes of a file may differ where another version of a library wrote it; what they hold may not.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.engine.tasks import Task, Workspace
from pipeline.state.commit_object import commit_key
from pipeline.steps.again.differences import difference, differing_values
from pipeline.steps.again.follow import MADE_AGAIN
from pipeline.steps.findings import CheckRecord, found_in
from pipeline.steps.recount import Found
from stages.errors import ConfigError, ShardmillError, is_of_the_system
from stages.findings import Finding
from stages.store.digests import FileDigest, digest_file
from stages.store.folders import files_below


@dataclass(frozen=True)
class Redo:
    """A task, and what it committed."""

    task: Task
    files: Mapping[str, FileDigest]
    record: Mapping[str, Any]
    outside: bool = False
    """Whether it reads files beside the run, which may be gone by now, or others."""

    @property
    def place(self) -> str:
        """The key of its commit."""
        return commit_key(self.task.step, self.task.unit)


def redo(workspace: Workspace, work: Redo) -> CheckRecord:
    """Do a task again and say where it gives something else than what is committed."""
    with workspace.scratch() as scratch:
        return CheckRecord(findings=found_in(list(_compared(workspace, work, scratch))))


def _compared(workspace: Workspace, work: Redo, scratch: Path) -> Found:
    inner = Workspace(workspace.root, scratch, workspace.cache)
    try:
        record = work.task.function(inner, work.task.payload).model_dump(mode="json")
    except (
        ShardmillError,
        OSError,
        pa.ArrowException,
        AssertionError,
        LookupError,
        ValueError,
    ) as error:
        if work.outside or isinstance(error, ConfigError):  # a limit that was set lower since
            return
        if is_of_the_system(error):
            raise
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        yield work.place, Finding(MADE_AGAIN, f"from what lies there it cannot be made again: {said}")
        return
    made = {path.relative_to(scratch).as_posix() for path in files_below(scratch)}
    texts = {key for key in made & work.files.keys() if key.endswith(".json")}
    earlier = record.keys() - work.record.keys() or any(
        _is_earlier(workspace.path(key), scratch / key) for key in texts
    )
    for name, own, again in () if earlier else differing_values(dict(work.record), record):
        yield work.place, Finding(MADE_AGAIN, f"{name} is {own}, and made again it is {again}")
    for key in sorted((made | work.files.keys()) - (texts if earlier else set())):
        yield from _of_file(workspace, work, key, scratch if key in made else None)


def _is_earlier(own: Path, again: Path) -> bool:
    """Say whether a JSON file is of a version of this program that wrote less, by its own rules."""
    try:
        kept, made = (json.loads(path.read_bytes()) for path in (own, again))
    except (OSError, ValueError):
        return False  # what it holds is looked at later
    return isinstance(kept, dict) and isinstance(made, dict) and bool(made.keys() - kept.keys())


def _of_file(
    workspace: Workspace, work: Redo, key: str, scratch: Path | None
) -> Iterator[tuple[str, Finding]]:
    if scratch is None:
        yield key, Finding(MADE_AGAIN, "the task that committed it does not make it")
    elif key not in work.files:
        yield key, Finding(MADE_AGAIN, f"is not named by {work.place}, whose task makes it")
    elif digest_file(scratch / key) != work.files[key]:
        try:
            found = difference(workspace.path(key), scratch / key)
        except (OSError, ValueError, pa.ArrowException) as error:
            if is_of_the_system(error):
                raise
            found = str(error).splitlines()[0]
        if found is not None:
            yield key, Finding(MADE_AGAIN, found)
