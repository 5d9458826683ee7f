"""Folders listed whole: one that the system does not let be read is an error, never an empty one.

`Path.glob`, `Path.rglob` and `os.walk` pass over what they may not list, so a file that is there would
count as none.
"""

import os
from collections.abc import Iterator
from pathlib import Path


def walk(folder: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield each folder from one on, with the names of folders and of files in it.

    Links to folders are among the names and are not entered; names that are taken out of a list of
    folders are not entered either. A folder that is not there is like an empty one.

    Raises:
        OSError: a folder cannot be listed.
    """
    for parent, folders, names in os.walk(folder, onerror=_refuse):
        yield Path(parent), folders, names


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, and links to files, in no order.

    Raises:
        OSError: a folder cannot be listed.
    """
    for parent, _, names in walk(folder):
        for name in names:
            path = parent / name
            if path.is_file():
                yield path


def entries(folder: Path) -> list[Path]:
    """Return what is in a folder, sorted; nothing if the folder is not there.

    Raises:
        OSError: the folder cannot be listed.
    """
    for parent, folders, names in walk(folder):
        return sorted(parent / name for name in (*folders, *names))
    return []


def _refuse(error: OSError) -> None:
    """Take a folder that is not there, or no longer, for an empty one."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error
