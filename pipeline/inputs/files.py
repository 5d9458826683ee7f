"""Inputs: which files a run reads, under which names, and what was scanned of each.

A file is known by (source, path relative to the source's root) and by the XXH3-128 of its bytes, so a
copy of the corpus in another folder is the same input. Here files are found; what is in them is the
business of the step scan (`pipeline.session.scanning`), which turns a `FoundFile` into an `InputFile`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import xxhash

from pipeline.inputs.places import (
    Place,
    PlaceStatus,
    check_url,
    is_url,
    local_files,
    place_status,
    relative,
    remote_files,
    require_one_path,
    root_of,
    root_url,
)
from pipeline.run_file.config import RunFile, Source
from stages.errors import ConfigError
from stages.filtering.table import columns_for
from stages.reading.decompress import COMPRESSIONS
from stages.reading.reader import Reader, StreamReader, TableReader, TextSplit
from stages.reading.records import FieldMapping, FieldsForFilters, LanguageColumn
from stages.reading.slices import Slice
from stages.reading.table import ENDINGS, reader_of


@dataclass(frozen=True)
class NamedFile:
    """One file of a source."""

    source: str
    path: str
    """POSIX path relative to the source's root: part of every document's id."""
    place: Place
    """Where it is: part of nothing."""

    @property
    def key(self) -> str:
        """Return the folder of its units: its source and a digest of its path."""
        return f"{self.source}/{xxhash.xxh3_64_hexdigest(self.path.encode())[:12]}"

    @property
    def label(self) -> str:
        """Return what messages call it."""
        return f"sources.{self.source}: {self.place}"


@dataclass(frozen=True)
class FoundFile(NamedFile):
    """A file before anything is known of its bytes."""

    status: PlaceStatus
    fields: FieldMapping
    text_split: TextSplit
    unit_size: int

    @property
    def reader(self) -> Reader:
        """What reads it."""
        reader = reader_of(self.path, self.text_split)
        assert reader is not None, "a file of no format is refused when it is found"
        return reader

    @property
    def is_cut_by_bytes(self) -> bool:
        """Say whether it is cut into ranges of bytes, read in any order."""
        reader = self.reader
        cut = isinstance(reader, StreamReader) and reader.read_slice is not None
        return cut and not self.path.endswith(COMPRESSIONS) and self.status.seekable


@dataclass(frozen=True)
class Blocks:
    """Where the digests of a file's blocks are: a range of a committed array."""

    key: str
    """Of the array, `<u8`."""
    xxh3: str
    """Of the array's file."""
    first: int
    count: int


@dataclass(frozen=True)
class InputFile(NamedFile):
    """A file whose bytes were scanned."""

    size: int
    digest: str
    """XXH3-128 of its bytes; empty if a plan did without."""
    slices: tuple[Slice, ...] | None = None
    """What can be read in any order; None if it is read from front to back."""
    end: int | None = None
    """The position after its last: its bytes, or a table's rows; None if it is compressed."""
    blocks: Blocks = Blocks("", "", 0, 0)
    """Not there if nothing of the file is read in this session."""


def find_files(run: RunFile, base: Path) -> list[FoundFile]:
    """Return all files of a run in canonical order: by source name, then path. None is opened.

    Raises:
        ConfigError: a path that is missing, empty of files, of an unknown ending, or named twice; what
            is no regular file; a table whose server gives no parts of it.
        Stopped: a server cannot be reached.
    """
    files = [
        FoundFile(
            source=source.name,
            path=path,
            place=place.absolute() if isinstance(place, Path) else place,
            status=place_status(place, key=f"sources.{source.name}"),
            fields=fields_of(run, source),
            text_split=source.text_split,
            unit_size=run.ingest.unit_size,
        )
        for source in sorted(run.sources, key=lambda source: source.name)
        for path, place in sorted(_expand(source, base).items())
    ]
    for file in files:
        if isinstance(file.reader, StreamReader) and not file.reader.has_columns and file.fields.beside:
            raise ConfigError(
                f"{file.label}: {file.reader.name} has no columns, and a filter reads column"
                f" {file.fields.beside[0]!r}; set the filter's sources to those that have it"
            )
        if isinstance(file.reader, TableReader) and not file.status.seekable:
            raise ConfigError(
                f"{file.label}: its server gives no parts of a file, and a table is read by parts; copy"
                " it to a disk or another server"
            )
    keys = [file.key for file in files]
    assert len(set(keys)) == len(keys), "two paths of a source share a 48-bit digest"
    return files


def fields_of(run: RunFile, source: Source) -> FieldMapping:
    """Return which fields of a source's records are read, those that its filters ask for among them."""
    content = source.model_dump(include=set(FieldMapping.model_fields))
    asked = columns_for(run.filters, source.name)
    return FieldsForFilters(**content, asked=asked) if asked else FieldMapping(**content)


def _expand(source: Source, base: Path) -> dict[str, Place]:
    """Return a source's files by their path relative to its root."""
    files: dict[str, Place] = {}
    seen: dict[Place, str] = {}
    real: dict[Path, Path] = {}
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
            if isinstance(place, Path):
                require_one_path(place, real, key=f"sources.{source.name}")
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
    """Return the files that a pattern names, if all are of a kind that is read."""
    key = f"sources.{source.name}.paths"
    places: Sequence[Place] = (
        remote_files(pattern, key=key) if is_url(pattern) else local_files(pattern, base, key=key)
    )
    for place in places:
        name = str(place)
        if name != name.encode(errors="replace").decode():
            raise ConfigError(f"{key}: {name!r}: a name that is not UTF-8")
        reader = reader_of(name, source.text_split)
        if reader is None:
            raise ConfigError(f"{key}: {name}: reads {', '.join(ENDINGS)} files only")
        if isinstance(reader, StreamReader) and not reader.has_columns:
            _check_text(source, name, reader.name)
    return places


def _check_text(source: Source, name: str, format_: str) -> None:
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
            f"sources.{source.name}.{key}: {name} is {format_} and has no columns; make its files a"
            ' source of their own, with no such key and one language, such as "en"'
        )
