"""Strays: data in a run's folders that no commit names.

A killed run may leave some: files that were moved to their keys and not committed yet. The same run
writes them again. A run whose settings changed may not, so a run with --replace removes them.
"""

from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import xxhash

from pipeline.commits import Commits
from pipeline.execution import Execution
from pipeline.steps.verify_files import DATA_ENDINGS

FOLDERS = (
    "scan",
    "ingest",
    "dedup",
    "ledger",
    "tokenizer",
    "split",
    "tokens",
    "sentences",
    "datasets",
    "work",
)
"""Where steps write."""


def stray_files(root: Path, commits: Commits) -> Iterator[str]:
    """Return the keys of the data files that no commit names, by folder and name."""
    names = _committed(commits)
    for path in _below(root):
        if path.is_file() and not path.is_symlink() and path.suffix in DATA_ENDINGS:
            key = path.relative_to(root).as_posix()
            place = np.uint64(_hash(key))
            at = int(np.searchsorted(names, place))
            if at == len(names) or names[at] != place:
                yield key


def linked_folders(root: Path) -> Iterator[str]:
    """Return the keys of the symbolic links to folders."""
    for path in _below(root):
        if path.is_symlink() and path.is_dir():
            yield path.relative_to(root).as_posix()


def remove_strays(execution: Execution) -> None:
    """Remove the data files that no commit names, and say so.

    Nothing is removed if a commit cannot be read: it may name them.
    """
    storage = execution.commits.storage
    steps = {key.split("/")[1] for key in storage.list("commits")}
    if any(execution.commits.survey(step).damaged for step in steps):
        return
    keys = list(stray_files(execution.root, execution.commits))
    for key in keys:
        storage.delete(key)
    if keys:
        execution.journal.log("strays", files=len(keys))
        execution.progress.note(f"removed {len(keys):,} files that no commit names, such as {keys[0]}")


def _below(root: Path) -> Iterator[Path]:
    for folder in FOLDERS:
        yield from sorted((root / folder).rglob("*"))


def _committed(commits: Commits) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return the hashes of all committed keys, sorted: 8 bytes for each, however long their names."""
    known = array("Q")
    for step in sorted({key.split("/")[1] for key in commits.storage.list("commits")}):
        for commit in commits.survey(step).commits.values():
            known.extend(_hash(key) for key in commit.files)
    return np.unique(np.frombuffer(known, np.uint64)) if known else np.empty(0, np.uint64)


def _hash(key: str) -> int:
    return xxhash.xxh3_64_intdigest(key.encode())
