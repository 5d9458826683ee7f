"""Inputs: which files a run reads, under which names, and what is in them.

A file is known by (source, path relative to the source's root) and by the XXH3-128 of its bytes, so a
copy of the corpus in another folder is the same input. Digests are remembered in DIR/inputs.json
under the file's place, size and time of change, so planning again reads nothing.
"""

import glob
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import xxhash

from pipeline.config import RunFile, Source
from stages.errors import ConfigError
from stages.store.digests import xxh3_file

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
CACHE_NAME = "inputs.json"
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class InputFile:
    """One file of a source."""

    source: str
    path: str
    """POSIX path relative to the source's root: part of every document's id."""
    place: Path
    """Where it is on this machine: part of nothing."""
    size: int
    digest: str

    @property
    def key(self) -> str:
        """Give the folder of its units: its source and a digest of its path."""
        return f"{self.source}/{xxhash.xxh3_64_hexdigest(self.path.encode())[:12]}"


def find_inputs(run: RunFile, base: Path, *, output: Path) -> list[InputFile]:
    """Give all files of a run in canonical order: by source name, then path.

    Raises:
        ConfigError: a path that is missing, empty of files, of an unknown ending, or named twice.
    """
    known = _read_cache(output)
    found = [
        _describe(source.name, path, place, known)
        for source in sorted(run.sources, key=lambda source: source.name)
        for path, place in sorted(_expand(source, base).items())
    ]
    keys = [file.key for file in found]
    assert len(set(keys)) == len(keys), "two paths of a source share a 48-bit digest"
    return found


def remember_digests(files: Sequence[InputFile], output: Path) -> None:
    """Keep the digests of a run's files for the next time it is planned."""
    cache = {_stamp(file.place): file.digest for file in files}
    (output / CACHE_NAME).write_text(json.dumps(cache, indent=0, sort_keys=True), encoding="utf-8")


def _expand(source: Source, base: Path) -> dict[str, Path]:
    """Give a source's files by their path relative to its root."""
    files: dict[str, Path] = {}
    seen: dict[Path, str] = {}
    for pattern in source.paths:
        root = base / source.root if source.root else _root_of(base, pattern)
        for place in _matches(source, base, pattern):
            if not place.is_relative_to(root):
                raise ConfigError(f"sources.{source.name}: {place} is outside of root {root}")
            path = place.relative_to(root).as_posix()
            if seen.setdefault(place, path) != path:
                raise ConfigError(
                    f"sources.{source.name}: {place} matches twice, as {seen[place]!r} and {path!r};"
                    " set root, or make the patterns disjoint"
                )
            if files.setdefault(path, place) != place:
                raise ConfigError(
                    f"sources.{source.name}: {files[path]} and {place} would both be {path!r};"
                    " set root to a folder above both, or make them two sources"
                )
    return files


def _matches(source: Source, base: Path, pattern: str) -> list[Path]:
    wild = bool(_WILD.search(pattern))
    places = (
        [base / match for match in sorted(glob.glob(pattern, root_dir=base, recursive=True))]  # noqa: PTH207  # Path.glob takes no absolute pattern
        if wild
        else [base / pattern]
    )
    places = [place for place in places if not (wild and place.is_dir())]
    if not places:
        raise ConfigError(
            f"sources.{source.name}.paths: {pattern!r} matches no file in {base.resolve()}"
        )
    for place in places:
        if not place.exists():
            raise ConfigError(f"sources.{source.name}.paths: {place}: no such file")
        if place.is_dir():
            raise ConfigError(
                f"sources.{source.name}.paths: {place} is a folder; write {pattern.rstrip('/')}"
                "/*.jsonl.zst, or the ending that its files have"
            )
        if place.name != place.name.encode(errors="replace").decode():
            raise ConfigError(f"sources.{source.name}.paths: {str(place)!r}: a name that is not UTF-8")
        if not place.name.endswith(ENDINGS):
            raise ConfigError(
                f"sources.{source.name}.paths: {place}: reads {', '.join(ENDINGS)} files only"
            )
    return places


def _root_of(base: Path, pattern: str) -> Path:
    """Give the folder of a glob before any wildcard."""
    parts = Path(pattern).parts
    fixed = next((n for n, part in enumerate(parts) if _WILD.search(part)), len(parts) - 1)
    return base.joinpath(*parts[:fixed])


def _describe(source: str, path: str, place: Path, known: dict[str, str]) -> InputFile:
    try:
        digest = known.get(_stamp(place)) or xxh3_file(place)
        return InputFile(source, path, place, place.stat().st_size, digest)
    except OSError as error:
        raise ConfigError(f"sources.{source}: {place}: {error.strerror}") from error


def _stamp(place: Path) -> str:
    status = place.stat()
    return f"{place.resolve()}|{status.st_size}|{status.st_mtime_ns}"


def _read_cache(output: Path) -> dict[str, str]:
    try:
        return dict(json.loads((output / CACHE_NAME).read_text(encoding="utf-8")))
    except (OSError, TypeError, ValueError):  # a cache: without it the files are read once more
        return {}
