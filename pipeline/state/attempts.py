"""Attempts: the files of one run of the program that no commit names yet, and how they go.

    tmp/ATTEMPT/WORKER/STEP/UNIT/KEY    a file of a unit at work, and .commit, its commit
    KEY                                 the same file, once its worker has published it

A worker has a folder of its own. One that is only out of reach, and writes on, touches no file of the
worker that does its task again.
"""

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Collection
from pathlib import Path

from pipeline.state.commit_object import COMMITS, commit_key
from pipeline.state.storage import TEMPORARY
from stages.errors import DataError
from stages.store.digests import sync_path
from stages.store.folders import entries, files_below
from stages.stores.store import is_key

_HALF_WRITTEN = (".status.json.", ".metrics.prom.")
"""What a kill leaves of the files that tell how far a run is."""
_ATTEMPT = re.compile("[0-9a-f]{12}")


def new_attempt() -> str:
    """Return a name for the files under `tmp/` of one run of the program, or of one of its workers."""
    return secrets.token_hex(6)


def sweep(root: Path) -> None:
    """Remove what other attempts left: their files, files half written, commits without a key.

    The names of commits are synced: who made the last one may have been killed before the sync.

    Raises:
        DataError: `tmp` is a link.
    """
    for path in entries(root):
        if path.name.startswith(_HALF_WRITTEN):
            path.unlink(missing_ok=True)
    temporary = root / TEMPORARY
    if temporary.is_symlink():
        raise DataError(
            f"{temporary}: is a symbolic link; finished files are linked from there into the run, so it"
            " must be a folder. Remove the link"
        )
    for attempt in entries(temporary):
        if _ATTEMPT.fullmatch(attempt.name):
            withdraw(root, entries(attempt))
            shutil.rmtree(attempt, ignore_errors=True)
    for step in entries(root / COMMITS):
        for path in entries(step):
            if path.name.startswith("."):  # half written
                path.unlink(missing_ok=True)
        sync_path(step)
    if (root / COMMITS).exists():
        sync_path(root / COMMITS)


def withdraw(root: Path, workers: Collection[Path]) -> None:
    """Remove the folders of workers that are at work no more, and what they published in vain.

    Args:
        root: the run's folder.
        workers: their folders, `tmp/ATTEMPT/WORKER`.
    """
    for worker in workers:
        aside = worker.with_name(f".{worker.name}")
        with contextlib.suppress(FileNotFoundError):
            worker.rename(aside)  # whoever is only out of reach publishes nothing from now on
        for unit in (unit for step in entries(aside) for unit in entries(step)):
            if not (root / commit_key(unit.parent.name, unit.name)).exists():
                _unpublish(root, unit)
        shutil.rmtree(aside, ignore_errors=True)


def _unpublish(root: Path, unit: Path) -> None:
    """Remove the other names of the files of a unit that was not committed."""
    for path in files_below(unit):
        key = path.relative_to(unit).as_posix()
        if is_key(key):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if os.path.samestat(path.lstat(), (root / key).lstat()):
                    (root / key).unlink()
