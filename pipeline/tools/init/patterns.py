"""Patterns: the globs of a source that match its files, and what these match and it leaves out.

a/1.jsonl  a/2.jsonl  a/3.jsonl (of another shape)      a/*.jsonl, exclude a/3.jsonl
"""

import re
from collections.abc import Sequence
from glob import escape

from pipeline.inputs.skipped import glob_matches, is_hidden
from pipeline.tools.init.folder import FileUse, FolderFile, made_folders
from stages.reading.reader import TableReader

_MOST_NAMED = 20
"""Files that a source names one by one, if no pattern fits them alone."""
_NO_UTF8 = re.compile("[\ud800-\udfff]")


def patterns_of(
    files: Sequence[FolderFile], others: Sequence[FolderFile], *, alone: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return patterns that match the files, and globs of what these match and the source leaves out.

    Args:
        files: of the source.
        others: the files of the folder that are not in it.
        alone: whether files of the same format are in another source, so that each must be named.
    """
    if alone and len(files) <= _MOST_NAMED:
        return tuple(_escaped(file.path) for file in files), ()
    tops = {file.top for file in files}
    is_one = len(tops) == 1 and tops != {""} and files[0].language is None
    top = f"{tops.pop()}/" if is_one else ""
    deep = any("/" in file.path.removeprefix(top) for file in files)
    endings = tuple(sorted({file.ending for file in files}))
    patterns = tuple(f"{_escaped(top)}{'**/' if deep else ''}*{ending}" for ending in endings)
    caught = {
        file: part
        for file in others
        if _is_caught(file) and (part := _caught(file.path, top, endings, deep=deep))
    }
    made = made_folders([file for file in caught if file.use is FileUse.MADE])
    rest = {file: part for file, part in caught.items() if not _is_among(file, made)}
    left_out = {_exactly(file.link or part) for file, part in rest.items()}
    return patterns, (*made, *sorted(left_out))


def _is_caught(file: FolderFile) -> bool:
    """Say whether a run would read a file that a pattern matches; an empty text has no document."""
    if file.use is FileUse.EMPTY:
        return isinstance(file.reader, TableReader)
    return not is_hidden(file.path)


def _caught(path: str, top: str, endings: tuple[str, ...], *, deep: bool) -> str:
    """Return what patterns match of a path: the file, or a folder that is named like one; or nothing.

    ("out.parquet/part-0.parquet", "", (".parquet",), deep=False) -> "out.parquet"
    """
    if not path.startswith(top):
        return ""
    first, *inside = path.removeprefix(top).split("/")
    if not deep:
        return f"{top}{first}" if first.endswith(endings) else ""
    return path if any(name.endswith(endings) for name in (first, *inside)) else ""


def _is_among(file: FolderFile, globs: Sequence[str]) -> bool:
    return any(glob_matches(file.path, glob) for glob in globs)


def _exactly(path: str) -> str:
    """Return a glob of `exclude` that matches one file; a name alone would match in any folder."""
    return _escaped(path) if "/" in path else f"./{_escaped(path)}"


def _escaped(path: str) -> str:
    """Return a pattern of one path; what is no UTF-8 cannot be written, so `?` stands for it."""
    return _NO_UTF8.sub("?", escape(path))
