"""Redo: one task of a finished step again, in a folder of its own, and its files and record compared.

The bytes of a file may differ where another version of a library wrote it; what they hold may not.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.engine.tasks import Task, Workspace
from pipeline.state.commit_object import commit_key
from pipeline.steps.again.differences import difference, differing_values, lacking_keys
from pipeline.steps.again.follow import FOR_PEOPLE, MADE_AGAIN
from pipeline.steps.records import CheckRecord, found_in
from pipeline.steps.recount import Found
from stages.errors import ShardmillError, is_of_the_system
from stages.findings import Finding
from stages.store.digests import FileDigest, digest_file
from stages.store.folders import files_below
from stages.store.manifest import MANIFEST_NAME
from stages.store.token_store import SUMS

_UNMADE = (
    *(ShardmillError, OSError, pa.ArrowException),
    *(AssertionError, LookupError, ValueError, TypeError, ArithmeticError),
)
"""What a task raises of files that do not fit together."""
FINGERPRINT = "fingerprint"
"""Of a manifest: the digest of all else in it, to which `verify` holds the manifest itself."""


@dataclass(frozen=True)
class RepeatedTask:
    """A task, and what it committed."""

    task: Task
    files: Mapping[str, FileDigest]
    record: Mapping[str, Any]
    outside: bool = False
    """Whether it reads files beside the run, which may be gone by now, or others."""
    otherwise: frozenset[str] = frozenset()
    """Paths of numbers of its record that are left out if the record lacks keys."""

    @property
    def place(self) -> str:
        """The key of its commit."""
        return commit_key(self.task.step, self.task.unit)


def redo(workspace: Workspace, work: RepeatedTask) -> CheckRecord:
    """Do a task again and say where it gives something else than what is committed."""
    with workspace.scratch() as scratch:
        inner = Workspace(workspace.root, scratch, workspace.cache)
        try:
            record = work.task.function(inner, work.task.payload).model_dump(mode="json")
        except _UNMADE as error:
            return CheckRecord(findings=found_in(list(_unmade(work, error))))
        lacking = [f"{work.place}: {key}" for key in lacking_keys(work.record, record)]
        fewer = list(_fewer_keys(workspace, work, scratch))
        found = list(_compared(workspace, work, record, scratch, derived=bool(fewer)))
        return CheckRecord(findings=found_in(found), lacking=(*lacking, *fewer))


def _fewer_keys(workspace: Workspace, work: RepeatedTask, scratch: Path) -> Iterator[str]:
    """Yield the keys that manifests lack, as those of an earlier version do."""
    for key in sorted(work.files):
        if key.endswith(f"/{MANIFEST_NAME}") and (scratch / key).exists():
            with suppress(OSError, ValueError, AttributeError):  # it is looked at later
                own, made = (
                    json.loads(path.read_bytes()) for path in (workspace.path(key), scratch / key)
                )
                yield from (f"{key}: {name}" for name in lacking_keys(own, made))


def _unmade(work: RepeatedTask, error: Exception) -> Found:
    """Say why a task could not be done again; nothing if that is no fault of what lies in the run."""
    if work.outside:
        return
    if is_of_the_system(error):
        raise error
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    yield work.place, Finding(MADE_AGAIN, f"from what lies there it cannot be made again: {said}")


def _compared(
    workspace: Workspace, work: RepeatedTask, record: Mapping[str, Any], scratch: Path, *, derived: bool
) -> Found:
    """Compare what a task made with what is committed.

    Args:
        workspace: of the run.
        work: the task.
        record: that it made.
        scratch: where its files are.
        derived: whether fingerprints of manifests are left out, since these have fewer keys.
    """
    left_out = {*FOR_PEOPLE, *((FINGERPRINT,) if derived else ())}
    made = {path.relative_to(scratch).as_posix() for path in files_below(scratch)}
    kept, made_record = (
        {name: value for name, value in one.items() if name not in left_out}
        for one in (work.record, record)
    )
    otherwise = work.otherwise if lacking_keys(work.record, record) else frozenset[str]()
    for name, own, again in differing_values(kept, made_record):
        if name not in otherwise:
            yield work.place, Finding(MADE_AGAIN, f"{name} is {own}, and made again it is {again}")
    for key in sorted(made | work.files.keys()):
        of_earlier = derived and key.endswith(f"/{MANIFEST_NAME}")
        yield from _of_file(
            workspace,
            work,
            key,
            scratch if key in made else None,
            left_out=frozenset((FINGERPRINT,)) if of_earlier else None,
        )


def _of_file(
    workspace: Workspace,
    work: RepeatedTask,
    key: str,
    scratch: Path | None,
    *,
    left_out: frozenset[str] | None,
) -> Iterator[tuple[str, Finding]]:
    """Compare a file; of a manifest of an earlier version the keys that it has, but some."""
    if scratch is None:
        yield key, Finding(MADE_AGAIN, "the task that committed it does not make it")
    elif key not in work.files:
        if key.endswith(f"/{SUMS}"):  # an earlier version made the run
            return
        yield key, Finding(MADE_AGAIN, f"is not named by {work.place}, whose task makes it")
    elif digest_file(scratch / key) != work.files[key]:
        try:
            found = difference(workspace.path(key), scratch / key, left_out=left_out)
        except (OSError, ValueError, pa.ArrowException) as error:
            if is_of_the_system(error):
                raise
            found = str(error).splitlines()[0]
        if found is not None:
            yield key, Finding(MADE_AGAIN, found)
