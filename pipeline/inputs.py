"""Inputs: which files a run reads, under which names, what is in them, and how they are cut.

A file is known by (source, path relative to the source's root) and by the XXH3-128 of its bytes, so a
copy of the corpus in another folder is the same input. Digests and slices are remembered in
DIR/inputs.json under the file's place, size and time of change, so planning again reads nothing.
"""

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from pipeline.config import RunFile, Source
from pipeline.places import (
    Place,
    check_url,
    is_url,
    local_files,
    open_place,
    place_status,
    relative,
    remote_files,
    root_of,
    root_url,
)
from stages.errors import ConfigError
from stages.reading.arrow import arrow_slices
from stages.reading.formats import (
    COMPRESSED,
    ENDINGS,
    TABLES,
    Format,
    Slice,
    TextSplit,
    byte_slices,
    format_of,
)
from stages.reading.parquet import parquet_slices
from stages.reading.records import FieldMapping, LanguageColumn

CACHE_NAME = "inputs.json"
_BLOCK_BYTES = 4 << 20
_LINE_FEED = ord("\n")


@dataclass(frozen=True)
class InputFile:
    """One file of a source."""

    source: str
    path: str
    """POSIX path relative to the source's root: part of every document's id."""
    place: Place
    """Where it is: part of nothing."""
    size: int
    digest: str
    slices: tuple[Slice, ...] | None = None
    """What can be read in any order; None if it is read from front to back."""
    known: dict[str, Any] = field(default_factory=dict, compare=False)
    """What to remember of it."""

    @property
    def key(self) -> str:
        """Give the folder of its units: its source and a digest of its path."""
        return f"{self.source}/{xxhash.xxh3_64_hexdigest(self.path.encode())[:12]}"


def find_inputs(run: RunFile, base: Path, *, output: Path) -> list[InputFile]:
    """Give all files of a run in canonical order: by source name, then path.

    Tables are looked into first, since what a source takes may not be in them.

    Raises:
        ConfigError: a path that is missing, empty of files, of an unknown ending, or named twice; a
            table without the columns that its source takes.
        DataError: a table that is cut or damaged.
    """
    known = _read_cache(output)
    found = [
        (source, path, place)
        for source in sorted(run.sources, key=lambda source: source.name)
        for path, place in sorted(_expand(source, base).items())
    ]
    tables = [item for item in found if format_of(item[1]) in TABLES]
    for source, _, place in tables:
        known |= _table_slices(source, place, run.ingest.unit_size, known)
    files = [_describe(*item, run.ingest.unit_size, known) for item in found]
    keys = [file.key for file in files]
    assert len(set(keys)) == len(keys), "two paths of a source share a 48-bit digest"
    return files


def remember_digests(files: Sequence[InputFile], output: Path) -> None:
    """Keep the digests and slices of a run's files for the next time it is planned."""
    cache = {key: value for file in files for key, value in file.known.items()}
    (output / CACHE_NAME).write_text(json.dumps(cache, indent=0, sort_keys=True), encoding="utf-8")


def _expand(source: Source, base: Path) -> dict[str, Place]:
    """Give a source's files by their path relative to its root."""
    files: dict[str, Place] = {}
    seen: dict[Place, str] = {}
    for pattern in source.paths:
        places = _matches(source, base, pattern)
        root = _root(source, base, pattern)
        for place in places:
            path = relative(place, root)
            if path is None:
                raise ConfigError(f"sources.{source.name}: {place} is outside of root {root}")
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


def _root(source: Source, base: Path, pattern: str) -> Place:
    if source.root is None:
        return root_of(base, pattern)
    if not is_url(source.root):
        return base / source.root
    check_url(source.root, key=f"sources.{source.name}.root")
    return root_url(source.root)


def _matches(source: Source, base: Path, pattern: str) -> Sequence[Place]:
    """Give the files that a pattern names, if all are of a kind that is read."""
    key = f"sources.{source.name}.paths"
    places: Sequence[Place] = (
        remote_files(pattern, key=key) if is_url(pattern) else local_files(pattern, base, key=key)
    )
    for place in places:
        name = str(place)
        if name != name.encode(errors="replace").decode():
            raise ConfigError(f"{key}: {name!r}: a name that is not UTF-8")
        kind = format_of(name)
        if kind is None:
            raise ConfigError(f"{key}: {name}: reads {', '.join(ENDINGS)} files only")
        if kind is Format.TEXT:
            _check_text(source, name)
    return places


def _check_text(source: Source, name: str) -> None:
    """Refuse columns of a file that has none."""
    key = None
    if isinstance(source.language, LanguageColumn):
        key = f"language.column = {source.language.column!r}"
    elif source.id_column is not None:
        key = f"id_column = {source.id_column!r}"
    elif source.section_columns:
        key = f"section_columns = {list(source.section_columns)}"
    if key is not None:
        raise ConfigError(
            f"sources.{source.name}.{key}: {name} is plain text and has no columns; make its files a"
            ' source of their own, with no such key and one language, such as "en"'
        )


def _describe(source: Source, path: str, place: Place, unit: int, known: dict[str, Any]) -> InputFile:
    """Give a file with its digest and slices, reading it only if they are not known."""
    try:
        status = place_status(place)
        cut = _cut_name(status.stamp, source, path, unit)
        by_bytes = _is_cut_by_bytes(source, path) and status.seekable
        size = status.size
        if size is None or status.stamp not in known or (by_bytes and cut not in known):
            size, known[status.stamp], line_feeds = _scan(place, unit if by_bytes else None)
            if by_bytes:
                known[cut] = [astuple(item) for item in byte_slices(size, unit, line_feeds)]
    except OSError as error:
        raise ConfigError(f"sources.{source.name}: {place}: {error.strerror or error}") from error
    slices = None
    if by_bytes or format_of(path) in TABLES:
        slices = tuple(Slice(*item) for item in known[cut])
    kept = {name: known[name] for name in (status.stamp, cut) if status.lasting and name in known}
    return InputFile(source.name, path, place, size, known[status.stamp], slices, kept)


def _table_slices(
    source: Source, place: Place, unit: int, known: dict[str, Any]
) -> dict[str, list[tuple[int, ...]]]:
    """Give the slices of a table under their name in the cache, reading its footer if need be."""
    key, name = f"sources.{source.name}", str(place)
    try:
        cut = _cut_name(place_status(place).stamp, source, name, unit)
        if cut in known:
            return {}
        fields = FieldMapping(**source.model_dump(include=set(FieldMapping.model_fields)))
        slices_of = parquet_slices if format_of(name) is Format.PARQUET else arrow_slices
        with open_place(place) as file:
            slices = slices_of(file, fields, unit=unit, name=name, key=key)
    except OSError as error:
        raise ConfigError(f"{key}: {place}: {error.strerror or error}") from error
    return {cut: [astuple(item) for item in slices]}


def _cut_name(stamp: str, source: Source, path: str, unit: int) -> str:
    """Name a file's slices in the cache: with all that decides them, or that was checked."""
    columns = {"text_column", "section_columns", "id_column", "language"}
    used = columns if format_of(path) in TABLES else {"text_split"}
    return f"{stamp}|{unit}|{source.model_dump_json(include=used)}"


def _is_cut_by_bytes(source: Source, path: str) -> bool:
    kind = format_of(path)
    lines = kind is Format.JSONL or source.text_split is TextSplit.BLANK_LINE
    return lines and kind not in TABLES and not path.endswith(COMPRESSED)


def _scan(place: Place, unit: int | None) -> tuple[int, str, list[int]]:
    """Give a file's size, digest and, if it is cut by bytes, the line feeds of each slice."""
    xxh3, size, line_feeds = xxhash.xxh3_128(), 0, [0]
    with open_place(place) as file:
        while block := file.read(
            _BLOCK_BYTES if unit is None else min(_BLOCK_BYTES, unit - size % unit)
        ):
            xxh3.update(block)
            if unit is not None:
                line_feeds += [0] * (size // unit + 1 - len(line_feeds))
                line_feeds[-1] += int(np.count_nonzero(np.frombuffer(block, np.uint8) == _LINE_FEED))
            size += len(block)
    return size, xxh3.hexdigest(), line_feeds


def _read_cache(output: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((output / CACHE_NAME).read_text(encoding="utf-8")))
    except (OSError, TypeError, ValueError):  # a cache: without it the files are read once more
        return {}
