"""Inputs: which files a run reads, under which names, and what was scanned of each.

A file is known by (source, path relative to the source's root) and by the XXH3-128 of its bytes, so a
copy of the corpus in another folder is the same input. Here files are found; what is in them is the
business of the step scan (`pipeline.session.scanning`), which turns a `FoundFile` into an `InputFile`.
"""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from glob import escape
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

import xxhash

from pipeline.inputs.dataset_folders import DatasetFolders, is_dataset_folder
from pipeline.inputs.listing import is_pattern
from pipeline.inputs.own_files import is_own, own_folders
from pipeline.inputs.places import (
    Place,
    PlaceStatus,
    check_url,
    is_url,
    local_places,
    place_status,
    relative,
    remote_places,
    require_file,
    require_one_path,
    root_of,
    root_url,
)
from pipeline.inputs.skipped import SkippedFiles, SkipReason, glob_matches, is_hidden, skipped_files
from pipeline.run_file.config import RunFile
from pipeline.run_file.source import Source
from stages.errors import ConfigError
from stages.filtering.table import columns_for
from stages.reading.decompress import COMPRESSIONS
from stages.reading.encodings import UTF_8
from stages.reading.reader import Reader, StreamReader, TableReader, TextSplit
from stages.reading.records import FieldMapping, FieldsForFilters, LanguageColumn
from stages.reading.slices import Slice
from stages.reading.table import endings_said, is_named_like_file, reader_of


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
    encoding: str = UTF_8

    @property
    def reader(self) -> Reader:
        """What reads it."""
        reader = reader_of(self.path, self.text_split)
        assert reader is not None, "a file of no format is refused when it is found"
        return reader

    @property
    def is_cut_by_bytes(self) -> bool:
        """Say whether it is cut into ranges of bytes, read in any order."""
        cut = isinstance(self.reader, StreamReader) and self.reader.read_slice is not None
        return cut and self.is_plain and self.status.seekable

    @property
    def is_plain(self) -> bool:
        """Say whether its bytes are read as they are."""
        return not self.path.endswith(COMPRESSIONS) and not self.is_transcoded

    @property
    def is_transcoded(self) -> bool:
        """Say whether it is text in another encoding than UTF-8."""
        reader = self.reader
        return isinstance(reader, StreamReader) and reader.is_text and self.encoding != UTF_8


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
    """The position after its last: its bytes, or a table's rows; None if it is compressed, or in
    another encoding than UTF-8."""
    blocks: Blocks = Blocks("", "", 0, 0)
    """Not there if nothing of the file is read in this session."""


@dataclass(frozen=True)
class FoundInputs:
    """What the sources of a run name."""

    files: list[FoundFile]
    """In canonical order: by source name, then path. None is opened."""
    skipped: tuple[SkippedFiles, ...]
    """What of the sources is not read."""


@dataclass
class _Places:
    """The files of a source, as its patterns name them one after the other."""

    places: dict[str, Place] = field(default_factory=dict)
    """By their path relative to the source's root."""
    paths: dict[Place, str] = field(default_factory=dict)
    real: dict[Path, Path] = field(default_factory=dict)
    skipped: dict[str, SkipReason] = field(default_factory=dict)
    passed: dict[str, Place] = field(default_factory=dict)
    """Where the skipped ones are, by their path."""


def find_inputs(run: RunFile, base: Path, *, output: Path | None = None) -> FoundInputs:
    """Return all files of a run, and what its patterns match and it does not read.

    Args:
        run: whose sources these are.
        base: folder that its paths are relative to.
        output: folder of the run or of a generation: what lies there is no input of it.

    Raises:
        ConfigError: a path that is missing, empty of files, of an unknown ending, or named twice; what
            is no regular file; a table whose server gives no parts of it.
        Stopped: a server cannot be reached.
    """
    sources = sorted(run.file_sources, key=lambda source: source.name)
    own = own_folders(output)
    expanded = [_expand(source, base, own) for source in sources]
    files = []
    for source, found in zip(sources, expanded, strict=True):
        files += [
            FoundFile(
                source=source.name,
                path=path,
                place=place.absolute() if isinstance(place, Path) else place,
                status=place_status(place, key=f"sources.{source.name}"),
                fields=fields_of(run, source),
                text_split=source.text_split,
                encoding=source.encoding,
                unit_size=run.ingest.unit_size,
            )
            for path, place in sorted(found.places.items())
        ]
    for file in files:
        if isinstance(file.reader, StreamReader) and not file.reader.has_columns and file.fields.needed:
            raise ConfigError(
                f"{file.label}: {file.reader.name} has no columns, and a filter reads column"
                f" {file.fields.needed[0]!r}; set the filter's sources to those that have it"
            )
        if isinstance(file.reader, TableReader) and not file.status.seekable:
            raise ConfigError(
                f"{file.label}: its server gives no parts of a file, and a table is read by parts; copy"
                " it to a disk or another server"
            )
    for source in run.file_sources:
        _require_use(source, {file.reader for file in files if file.source == source.name})
    keys = [file.key for file in files]
    assert len(set(keys)) == len(keys), "two paths of a source share a 48-bit digest"
    return FoundInputs(files, _skipped(sources, expanded))


def _skipped(sources: Sequence[Source], expanded: Sequence[_Places]) -> tuple[SkippedFiles, ...]:
    """Return what each source skips and no other source of the run reads."""
    read = {_one_name(place) for found in expanded for place in found.places.values()}
    skipped = (
        skipped_files(
            source.name,
            found.skipped,
            source.exclude,
            elsewhere={path for path, place in found.passed.items() if _one_name(place) in read},
        )
        for source, found in zip(sources, expanded, strict=True)
    )
    return tuple(filter(None, skipped))


def _one_name(place: Place) -> str:
    """Return one name of a file, whatever links and base its source has."""
    return os.path.realpath(place) if isinstance(place, Path) else str(place)


def _require_use(source: Source, readers: Collection[Reader]) -> None:
    """Refuse the encoding, the delimiter and the quoting of a source of which no file has one."""
    streams = [reader for reader in readers if isinstance(reader, StreamReader)]
    kinds = ", ".join(sorted({reader.name for reader in readers}))
    if source.encoding != UTF_8 and not any(reader.is_text for reader in streams):
        raise ConfigError(
            f"sources.{source.name}.encoding = {source.encoding!r}: all its files are {kinds}, which say"
            " their encoding themselves; leave it out"
        )
    for key, value in (("delimiter", source.delimiter), ("quoting", source.quoting)):
        if value is not None and not any(reader.has_delimiter for reader in streams):
            raise ConfigError(
                f"sources.{source.name}.{key} = {str(value)!r}: all its files are {kinds}, whose fields"
                " no character delimits; leave it out"
            )


def fields_of(run: RunFile, source: Source) -> FieldMapping:
    """Return which fields of a source's records are read, with those that its filters and dedup read."""
    content = source.model_dump(include=set(FieldMapping.model_fields))
    asked, compared = columns_for(run.filters, source.name), run.dedup.columns
    if not asked and not compared:
        return FieldMapping(**content)
    return FieldsForFilters(**content, asked=asked, compared=compared)


def _expand(source: Source, base: Path, own: Sequence[Path]) -> _Places:
    """Return a source's files, each by its path relative to the root; none of the folders of the run."""
    found = _Places()
    for pattern in source.paths:
        places = _named(source, base, pattern)
        folders = DatasetFolders(f"sources.{source.name}.paths")
        root = _root(source, base, pattern)
        for place in places:
            path = relative(place, root)
            if path is None:
                raise ConfigError(f"sources.{source.name}: {place} is outside of root {root}")
            is_one_file = not is_pattern(pattern) and _name(place) == _name(pattern)
            if not is_one_file and escape(str(place)) != pattern and is_own(place, own):
                continue
            reason = _skip_reason(source, path, is_one_file=is_one_file, folder=_name(root))
            if reason is None and folders.is_beside(place):
                reason = SkipReason.BESIDE
            if reason is None:
                _require_reader(source, place, is_one_file=is_one_file)
                _take(found, source, path, place)
            else:
                found.skipped[path], found.passed[path] = reason, place
    if not found.places:
        skipped = skipped_files(source.name, found.skipped, ())
        if skipped is None:
            raise ConfigError(f"sources.{source.name}.paths: match nothing but what this run wrote")
        raise ConfigError(f"{skipped.line}; no file is left to read")
    return found


def _take(found: _Places, source: Source, path: str, place: Place) -> None:
    """Add a file, unless it is no file, or one that is there already."""
    key = f"sources.{source.name}"
    if isinstance(place, Path):
        require_file(place, key=f"{key}.paths")
    if found.paths.setdefault(place, path) != path:
        raise ConfigError(
            f"{key}: {place} matches twice, as {found.paths[place]!r} and {path!r};"
            " set root, or make the patterns disjoint"
        )
    if isinstance(place, Path):
        require_one_path(place, found.real, key=key)
    if found.places.setdefault(path, place) != place:
        raise ConfigError(
            f"{key}: {found.places[path]} and {place} would both be {path!r};"
            " set root to a folder above both, or make them two sources"
        )


def _name(place: Place) -> str:
    return PurePosixPath(str(place)).name


def _skip_reason(source: Source, path: str, *, is_one_file: bool, folder: str) -> SkipReason | None:
    """Say why a file is not read, or None if it is.

    Args:
        source: its source.
        path: below the root.
        is_one_file: `paths` name this very file, so it is meant.
        folder: name of the root.
    """
    if any(glob_matches(path, glob) for glob in source.exclude):
        return SkipReason.EXCLUDED
    if is_one_file:
        return None
    if is_hidden(f"{folder}/{path}"):
        return SkipReason.HIDDEN
    unknown = source.skip_unknown and reader_of(path, source.text_split) is None
    return SkipReason.UNKNOWN if unknown else None


def _root(source: Source, base: Path, pattern: str) -> Place:
    if source.root is None:
        return root_of(base, pattern)
    if not is_url(source.root):
        return base / source.root
    check_url(source.root, key=f"sources.{source.name}.root")
    return root_url(source.root)


def _named(source: Source, base: Path, pattern: str) -> list[Place]:
    """Return the files that a pattern names."""
    key = f"sources.{source.name}.paths"
    is_data = partial(_is_data, key=key)
    if is_url(pattern):
        places: list[Place] = [*remote_places(pattern, key=key, is_data=is_data)]
    else:
        places = [*local_places(pattern, base, key=key, is_data=is_data)]
    for name in map(str, places):
        if name != name.encode(errors="replace").decode():
            raise ConfigError(f"{key}: {name!r}: a name that is not UTF-8")
    return places


def _is_data(folder: Place, *, key: str) -> bool:
    """Say whether a folder stands for the files in it: it is named like one, or a dataset."""
    if is_named_like_file(str(folder)):
        return True
    DatasetFolders(key).require_one_split(folder)
    return is_dataset_folder(folder)


def _require_reader(source: Source, place: Place, *, is_one_file: bool) -> None:
    """Refuse a file that nothing reads, or that lacks what its source takes."""
    name = str(place)
    reader = reader_of(name, source.text_split)
    if reader is None:
        ending = PurePosixPath(name).suffix
        glob = f"*{ending}" if ending else _name(name)
        way = (
            f"set skip_unknown = true, which leaves out all such files and counts them, or"
            f" exclude = [{glob!r}]"
        )
        if is_one_file:
            way = "remove it from paths, or give it the ending of what it holds"
        raise ConfigError(
            f"sources.{source.name}.paths: {name}: no reader knows this file; {way}. Files are read by"
            f" their endings: {endings_said()}"
        )
    for library in reader.libraries:
        if find_spec(library.name) is None:
            raise ConfigError(
                f"sources.{source.name}.paths: {name}: reading {reader.name} needs {library.name}, which"
                f" is not installed: pip install 'shardmill[{library.extra}]'"
            )
    if isinstance(reader, StreamReader) and source.chat is not None and not reader.has_columns:
        raise ConfigError(
            f"sources.{source.name}.chat: {name} is {reader.name}, which has no fields with messages;"
            " write its dialogues as JSON lines, JSON, CSV, Parquet or Arrow"
        )
    if isinstance(reader, StreamReader) and not reader.has_columns:
        _check_text(source, name, reader.name)


def _check_text(source: Source, name: str, format_: str) -> None:
    """Refuse columns of a file that has none."""
    key = None
    if isinstance(source.language, LanguageColumn):
        key = f"language.column = {source.language.column!r}"
    elif source.id_column is not None:
        key = f"id_column = {source.id_column!r}"
    elif source.section_columns:
        key = f"section_columns = {list(source.section_columns)}"
    elif source.keep_columns:
        key = f"keep_columns = {list(source.keep_columns)}"
    if key is not None:
        raise ConfigError(
            f"sources.{source.name}.{key}: {name} is {format_} and has no columns; make its files a"
            ' source of their own, with no such key and one language, such as "en"'
        )
