"""Folders listed whole, and names that lead out of none.

`Path.glob`, `Path.rglob` and `os.walk` pass over what they may not list, so a file that is there would
count as none.

Names in manifests: plain, relative, and of the documented form, so that none leads out of its folder.

    shard            epoch-0000/00000               drawn shard   drawn/epoch-0000/00000
    file of a shard  input_ids.npy, segments/doc.npy
    column           input_ids                      tokenizer     ../../../tokenizer/tokenizer.model

A part of a path begins with a letter, a digit or `_`, and goes on with these, `.` and `-`. So there is
no `..`, no absolute path, no empty part, no drive and no hidden file.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field


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


_PART = "[A-Za-z0-9_][A-Za-z0-9_.-]*"

ShardPath = Annotated[str, Field(pattern="^epoch-[0-9]{4,}/[0-9]{5,}$")]
"""The folder of a shard, relative to the manifest."""
DrawnPath = Annotated[str, Field(pattern="^drawn/epoch-[0-9]{4,}/[0-9]{5,}$")]
"""The folder of a shard in an epoch that was written out, relative to the manifest."""
FileName = Annotated[str, Field(pattern=f"^{_PART}(/{_PART})*$")]
"""A file in the folder of a shard, or beside the manifest."""
ColumnName = Annotated[str, Field(pattern="^[A-Za-z0-9_]+$")]
"""A column; its file is named after it."""
TokenizerPath = Annotated[str, Field(pattern=f"^([.][.]/){{0,3}}{_PART}(/{_PART})*$")]
"""The tokenizer, relative to the manifest: it lies in the folder of the run, three levels up at most."""


def refuse_repeated(names: Iterable[str]) -> None:
    """Refuse names of which two are the same.

    Raises:
        ValueError: says which.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{name!r} is named twice; each shard has a folder of its own")
        seen.add(name)
