"""Strays: what lies in a run's folders and is none of its files.

Data that no commit names may have been left by a killed run: files that were moved to their keys and not
committed yet. The same run writes them again; one whose settings changed may not. Nothing here is ever
removed by the program, which cannot know whose it is: `verify` names it.
"""

from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import xxhash

from pipeline.state.commit_object import COMMITS
from pipeline.state.commits import SCAN, Commits
from pipeline.state.storage import is_key
from pipeline.steps.table import written_folders
from pipeline.steps.verify.files import DATA_ENDINGS
from stages.store.folders import entries, walk

FOLDERS = (SCAN, "ledger", *written_folders())
"""Where steps write."""


def stray_files(root: Path, commits: Commits) -> Iterator[str]:
    """Return the keys of the data files that no commit names, by folder and name.

    A step of which a commit is missing or cannot be believed may have written any: then none is named.
    """
    steps = commits.steps()
    if any(commits.survey(step).unreadable for step in steps):
        return
    names = _committed(commits, steps)
    for path in _below(root):
        if path.suffix in DATA_ENDINGS and not path.is_symlink() and path.is_file():
            key = path.relative_to(root).as_posix()
            place = np.uint64(_hash(key))
            at = int(np.searchsorted(names, place))
            if at == len(names) or names[at] != place:
                yield key


def links(root: Path) -> Iterator[str]:
    """Return the keys of the symbolic links in the folders of steps, and of folders that are links."""
    steps = (f"{COMMITS}/{path.name}" for path in entries(root / COMMITS))
    for folder in (COMMITS, *steps, *FOLDERS):
        if (root / folder).is_symlink():
            yield folder
    for path in _below(root):
        if path.is_symlink():
            yield path.relative_to(root).as_posix()


def no_commits(root: Path, commits: Commits) -> Iterator[str]:
    """Return the keys of what lies among the commits and is none: a backup copy, a note."""
    for folder in entries(root / COMMITS):
        if not folder.is_dir() or not is_key(folder.name):
            yield f"{COMMITS}/{folder.name}"
            continue
        survey = commits.survey(folder.name)
        known = {f"{unit}.json" for unit in (*survey.commits, *survey.damaged)}
        for path in entries(folder):
            if path.name not in known and not path.name.startswith("."):
                yield f"{COMMITS}/{folder.name}/{path.name}"


def _below(root: Path) -> Iterator[Path]:
    """Return all that is in the folders of steps; a folder that is a link is not entered."""
    for folder in FOLDERS:
        for parent, folders, files in walk(root / folder):
            folders.sort()
            for name in sorted([*files, *(f for f in folders if (parent / f).is_symlink())]):
                yield parent / name


def _committed(commits: Commits, steps: list[str]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return the hashes of all committed keys, sorted: 8 bytes for each, however long their names."""
    known = array("Q")
    for step in steps:
        for commit in commits.survey(step).commits.values():
            known.extend(_hash(key) for key in commit.files)
    return np.unique(np.frombuffer(known, np.uint64)) if known else np.empty(0, np.uint64)


def _hash(key: str) -> int:
    return xxhash.xxh3_64_intdigest(key.encode())
