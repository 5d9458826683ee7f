"""Commits: a unit of work is whole or absent.

    1. a worker writes its files under tmp/ATTEMPT/UNIT/, brings them to the disk, reports digests
    2. the driver checks the digests and moves the files to their final keys
    3. the driver creates commits/STEP/UNIT.json; that object is the commit

A kill before 3 leaves files that nothing refers to; the next run makes them again, the same. Files of
other attempts are under tmp/ only and are swept. A step that is whole has commits/STEP/_step.json.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.state_files import parse_model, readable
from pipeline.storage import LocalStorage
from stages.config import Config, canonical_json
from stages.errors import DataError
from stages.store.digests import FileDigest, xxh3_file
from stages.store.manifest import MANIFEST_NAME

STEP_COMMIT = "_step"


class Commit(Config):
    """What a commit object holds; no time, host or path outside the run."""

    fingerprint: str
    """Of the work: config, code version and inputs."""
    files: dict[str, FileDigest]
    """Final key of every file."""
    record: dict[str, Any]
    """What the work reports: counts, and what later steps need."""


@dataclass(frozen=True)
class Outcome:
    """What a worker hands back: files it wrote under its attempt's folder, and its record."""

    folder: Path
    """Where the files are; their final keys are relative to it."""
    files: Mapping[str, FileDigest]
    record: dict[str, Any] = field(default_factory=dict)
    """Part of the commit: a function of the work alone."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Part of the log: seconds and bytes of memory."""


class Commits:
    """The commits of a run.

    Args:
        storage: where the run is.
    """

    def __init__(self, storage: LocalStorage) -> None:
        self.storage = storage

    def get(self, step: str, unit: str, fingerprint: str) -> Commit | None:
        """Give the commit of a unit, if there is one of the same fingerprint.

        Raises:
            DataError: a committed file is gone or has another size.
        """
        commit = self._read(_key(step, unit))
        if commit is None or commit.fingerprint != fingerprint:
            return None
        for key, digest in commit.files.items():
            path = self.storage.path(key)
            size = path.stat().st_size if path.exists() else -1
            if size != digest.bytes:
                found = f"{size:,} bytes" if size >= 0 else "nothing"
                raise DataError(
                    f"{path}: committed with {digest.bytes:,} bytes, found {found}; someone changed"
                    f" it. Run again with --replace to make step {step.split('.', maxsplit=1)[0]} anew"
                )
        return commit

    def put(self, step: str, unit: str, fingerprint: str, outcome: Outcome) -> Commit:
        """Check, move and commit what a worker made.

        Raises:
            DataError: a file is not what the worker reported (the disk lost or changed bytes).
        """
        for key, digest in outcome.files.items():
            if xxh3_file(outcome.folder / key) != digest.xxh3:
                raise DataError(f"{outcome.folder / key}: changed between writing and commit")
        for key in outcome.files:
            self.storage.publish(outcome.folder / key, key)
        self.storage.settle(outcome.files.keys())
        commit = Commit(fingerprint=fingerprint, files=dict(outcome.files), record=outcome.record)
        if not self.storage.put_new(_key(step, unit), canonical_json(commit)):
            raise DataError(
                f"{self.storage.root}: another process committed {step}/{unit} meanwhile; only one"
                " run may write to a folder"
            )
        return commit

    def all(self, step: str) -> Iterator[tuple[str, Commit]]:
        """Give the commits of a step."""
        prefix = f"commits/{step}"
        for key in self.storage.list(prefix):
            commit = self._read(key)
            if commit is not None:
                yield key.removeprefix(prefix + "/").removesuffix(".json"), commit

    def drop(self, step: str, units: Collection[str] | None = None) -> None:
        """Forget some units of a step, or all: manifests, then commits, then the other files.

        A kill on the way leaves no dataset that looks whole, and no commit without its files.
        """
        commits = [(u, c) for u, c in self.all(step) if units is None or u in units]
        keys = [key for _, commit in commits for key in commit.files]
        for key in keys:
            if key.endswith(f"/{MANIFEST_NAME}"):
                self.storage.delete(key)
        for unit, _ in commits:
            self.storage.delete(_key(step, unit))
        for key in keys:
            self.storage.delete(key)

    def _read(self, key: str) -> Commit | None:
        place = self.storage.path(key)
        way_out = f"delete the folder {place.parent} and run again: the step is made anew"
        with readable(place, way_out=way_out):
            data = self.storage.get(key)
        return None if data is None else parse_model(Commit, data, place, way_out=way_out)


def _key(step: str, unit: str) -> str:
    return f"commits/{step}/{unit}.json"
