"""Draft: the sources of a run file that is not written yet, and the patterns that match their files.

Patterns: the globs of a source that match its files, and what these match and it leaves out.

a/1.jsonl  a/2.jsonl  a/3.jsonl (of another shape)      a/*.jsonl, exclude a/3.jsonl
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from pipeline.inputs.skipped import glob_matches, is_hidden
from pipeline.tools.init.fields import FieldChoice
from pipeline.tools.init.folder import FileUse, FolderFile, made_folders
from stages.reading.delimiters import Quoting
from stages.reading.reader import TableReader
from stages.reading.source_code import is_code_language


@dataclass(frozen=True)
class DraftSource:
    """One source of a run file to be, and what was seen of it."""

    name: str
    format: str
    folder: Path
    """Below which its patterns are."""
    patterns: tuple[str, ...]
    """Relative to the folder."""
    files: int
    size: int
    """Bytes on disk."""
    documents: float
    """About."""
    text_bytes: float
    """About."""
    lengths: tuple[int, ...]
    """Bytes of some documents."""
    choice: FieldChoice
    exclude: tuple[str, ...] = ()
    language: str | None = None
    """One for all of it."""
    encoding: str | None = None
    """Another than UTF-8."""
    delimiter: str | None = None
    """Another than the ending of its files says."""
    quoting: tuple[Quoting, str] | None = None
    """Likewise, with the reason."""
    bad: float = 0.0
    """Share of the records looked at that give no document."""
    foreign: float = 0.0
    """Share of the files looked at that are not UTF-8."""
    languages: tuple[str, ...] = ()
    """Those that its records name, of the ones looked at."""
    characters: frozenset[str] = frozenset()
    """That stand in the texts looked at."""

    @property
    def is_code(self) -> bool:
        """Say whether it is source code: most of its languages are those of programs."""
        named = self.languages or (self.language or "",)
        return sum(map(is_code_language, named)) > len(named) / 2

    @property
    def has_answers(self) -> bool:
        """Say whether its documents are dialogues, or prompts with what is learned behind them."""
        return self.choice.chat is not None or self.choice.section is not None


@dataclass(frozen=True)
class Draft:
    """What folders hold."""

    sources: tuple[DraftSource, ...]
    left_out: tuple[tuple[str, int, str], ...]
    """What is not read: why, how many files, and one of them."""

    @property
    def text_bytes(self) -> float:
        """Of all sources, about."""
        return sum(source.text_bytes for source in self.sources)

    @property
    def documents(self) -> float:
        """Of all sources, about."""
        return sum(source.documents for source in self.sources)


_MOST_NAMED = 20
"""Files that a source names one by one, if no pattern fits them alone."""
_NO_UTF8 = re.compile("[\ud800-\udfff]")


def patterns_of(
    files: Sequence[FolderFile], others: Sequence[FolderFile], *, by_name: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return patterns that match the files, and globs of what these match and the source leaves out.

    Args:
        files: of the source.
        others: the files of the folder that are not in it.
        by_name: whether files of the same format are in another source, so that each must be named.
    """
    if by_name and len(files) <= _MOST_NAMED:
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
