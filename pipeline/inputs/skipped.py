"""Skipped files: what the patterns of a source match and the run does not read, counted and named.

    data/*   data/a.jsonl   data/b.log    data/out.parquet/part-0.parquet   data/out.parquet/_SUCCESS
             read           excluded      read                              hidden

A file is *excluded* by a glob of `exclude`, *hidden* by its name in a folder that is named like a file
(Spark and Dask write such folders, with notes of their own), *beside* the data that a folder of Hugging
Face's datasets names, or *unknown*: no reader knows its ending, and the source says `skip_unknown`. One
that another source of the run reads is none of these.
"""

from collections.abc import Collection, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase

from pipeline.inputs.listing import ANY_DEPTH
from stages.config import Config
from stages.reading.table import is_named_like_file

NAMED = 3
"""Skipped files that are named, for each reason."""


class SkipReason(StrEnum):
    """Why a file is not read."""

    EXCLUDED = "excluded"
    HIDDEN = "hidden"
    BESIDE = "beside"
    UNKNOWN = "unknown"


_SAID = {
    SkipReason.EXCLUDED: "by exclude",
    SkipReason.HIDDEN: "hidden (name begins with _ or .)",
    SkipReason.BESIDE: "beside the data of a data set",
    SkipReason.UNKNOWN: "that no reader knows",
}


class SkippedFiles(Config):
    """The files of a source that no source of the run reads."""

    source: str
    by: dict[SkipReason, int]
    """How many, by reason."""
    named: dict[SkipReason, tuple[str, ...]]
    """The first of each reason, by their paths below the source's root."""
    idle: tuple[str, ...] = ()
    """Globs of `exclude` that match no file."""

    @property
    def line(self) -> str:
        """Return what people read of them."""
        parts = []
        if self.by:
            listed = [f"{n:,} {_SAID[why]} ({self._names(why)})" for why, n in self.by.items()]
            count = sum(self.by.values())
            parts.append(
                f"{count:,} file{'s are' if count > 1 else ' is'} not read: {', '.join(listed)}"
            )
        parts += [f"exclude: {glob!r} matches no file" for glob in self.idle]
        return f"sources.{self.source}: {'; '.join(parts)}"

    def _names(self, why: SkipReason) -> str:
        more = self.by[why] - len(self.named[why])
        return ", ".join(self.named[why]) + (f" and {more:,} more" if more else "")


def skipped_files(
    source: str,
    skipped: dict[str, SkipReason],
    exclude: Sequence[str],
    *,
    elsewhere: Collection[str] = (),
) -> SkippedFiles | None:
    """Sum up the files of a source that are not read; None if there is nothing to say.

    Args:
        source: its name.
        skipped: path and reason of each.
        exclude: its globs, of which one that matches nothing may be misspelt.
        elsewhere: those of the paths that another source reads; they are no news.
    """
    named: dict[SkipReason, list[str]] = {why: [] for why in SkipReason}
    for path, why in sorted(skipped.items()):
        named[why].append(path)
    out = named[SkipReason.EXCLUDED]
    idle = tuple(glob for glob in exclude if not any(glob_matches(path, glob) for path in out))
    unread = {why: [path for path in paths if path not in elsewhere] for why, paths in named.items()}
    found = {why: paths for why, paths in unread.items() if paths}
    if not found and not idle:
        return None
    return SkippedFiles(
        source=source,
        by={why: len(paths) for why, paths in found.items()},
        named={why: tuple(paths[:NAMED]) for why, paths in found.items()},
        idle=idle,
    )


def glob_matches(path: str, glob: str) -> bool:
    """Say whether a glob of `exclude` matches a file, or a folder that the file is in.

    ("a/b.log", "*.log"), ("tmp/x/b.txt", "tmp"), ("a/x/b.txt", "a/**/b.*") -> True

    Args:
        path: of the file, relative to the source's root.
        glob: without "/" it is held against each name on the path, else against the path from its
            beginning, where `*` is one name and `**` any number of folders.
    """
    parts, wanted = path.split("/"), [part for part in glob.split("/") if part not in ("", ".")]
    if len(wanted) == 1 and "/" not in glob.rstrip("/"):
        return any(fnmatchcase(part, wanted[0]) for part in parts)
    return _begins_with(parts, wanted)


def is_hidden(path: str) -> bool:
    """Say whether a file lies beside the data of a folder that is named like a file.

    "t.parquet/_SUCCESS", "t.parquet/_temporary/0/a.parquet" -> True; "t.parquet/_k=1/a.parquet" -> False

    By the convention of Hadoop, which Spark and Dask keep: names that begin with "_" or "." are no data,
    but for folders of a partition, such as "_k=1".
    """
    parts = path.split("/")
    folder = next((n for n, part in enumerate(parts[:-1]) if is_named_like_file(part)), len(parts))
    inside = parts[folder + 1 :]
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in inside)


def _begins_with(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    if not wanted:
        return True
    if wanted[0] == ANY_DEPTH:
        return any(_begins_with(parts[n:], wanted[1:]) for n in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], wanted[0]) and _begins_with(parts[1:], wanted[1:])
