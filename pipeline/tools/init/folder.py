"""Folder: the files below a folder, by what reads them.

corpus/web/a.jsonl.zst   corpus/web/README.md   corpus/.git/config   corpus/b.pdf
data                     a note about the data  hidden, not listed   no reader

Copies: compressed files that hold the same bytes as another file beside them, and would be read too.

a.jsonl  a.jsonl.gz  b.jsonl.gz      a.jsonl.gz is a copy, if it decompresses to a.jsonl
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path, PurePosixPath

from xxhash import xxh3_128

from pipeline.inputs.listing import ANY_DEPTH, is_folder, local_matches
from pipeline.inputs.own_files import COMMITS, LOG, TRIAL
from stages.errors import ConfigError, DataError
from stages.reading.decompress import COMPRESSIONS, stream_chunks
from stages.reading.reader import Reader, StreamReader, TextSplit
from stages.reading.source_code import CODE_ENDINGS
from stages.reading.table import ENDINGS, reader_of

_LANGUAGES = {ending: language for language, endings in CODE_ENDINGS.items() for ending in endings}
_NOTES = ("readme", "license", "licence", "copying", "notice", "changelog", "requirements", "robots")
"""How the names of files begin that say something about the data beside them."""
_FOR_MACHINES = ("dataset_info.json", "dataset_dict.json", "dataset_infos.json", "state.json")
"""Files that Hugging Face's datasets write beside the data."""
_OF_OTHERS = ("node_modules", "__pycache__", "site-packages", "vendor", "_vendor", "third_party")
"""Folders of code that others wrote, or a program, wherever they are."""
_BUILT = ("build", "dist", "target")
"""Likewise, but deeper in a tree these may be modules, and beside no code they are data."""


class FileUse(StrEnum):
    """What a file is to a run."""

    DATA = "data"
    CODE = "code"
    NOTE = "a note about the data"
    MADE = "in a folder of code that others wrote or a program made"
    UNKNOWN = "no reader knows it"
    EMPTY = "empty"
    LINK = "a link to what is read already, or to nothing"
    IRREGULAR = "no regular file"
    COPY = "a compressed copy of another file here, byte for byte"
    RUN = "in the folder of a run, which wrote it"


@dataclass(frozen=True)
class FolderFile:
    """One file below a folder."""

    path: str
    """POSIX path relative to the folder."""
    place: Path
    size: int
    """Bytes on disk."""
    use: FileUse
    link: str = ""
    """Path of the folder that it lies in and that is a link, or a run's."""

    @property
    def reader(self) -> Reader:
        """What reads it."""
        reader = reader_of(self.path, TextSplit.FILE)
        assert reader is not None, "asked of data and code"
        return reader

    @property
    def ending(self) -> str:
        """How its name ends: ".jsonl.zst"; of an unknown one the last part alone."""
        fitting = [ending for ending in ENDINGS if self.path.endswith(ending)]
        return max(fitting, key=len, default=PurePosixPath(self.path).suffix)

    @property
    def language(self) -> str | None:
        """The language of source code; None of any other file."""
        return _LANGUAGES.get(unpacked(self.ending))

    @property
    def is_built(self) -> bool:
        """Whether it is in a folder that programs make beside source code."""
        return self.top.lower() in _BUILT

    @property
    def top(self) -> str:
        """The first folder of its path; empty if it lies in the folder itself."""
        return self.path.partition("/")[0] if "/" in self.path else ""


def files_below(folder: Path) -> list[FolderFile]:
    """Return the files below a folder, in the order of their paths; hidden ones are left out.

    Raises:
        ConfigError: there is no such folder, or one in it may not be listed.
    """
    if not folder.is_dir():
        kind = "no folder" if folder.exists() else "no such folder"
        raise ConfigError(f"{folder}: {kind}; name the folder that holds the texts")
    places = sorted(local_matches(ANY_DEPTH, folder, key=str(folder)))
    files = [place for place in places if not is_folder(place, key=str(folder))]
    plain = {place for place in files if not _link_of(place, folder) and not place.is_symlink()}
    runs = _run_folders(files)
    known = {place for place in files if reader_of(place.name, TextSplit.FILE) is not None}
    read = {place.resolve() for place in plain & known}
    found = []
    for place in files:
        run = next((one for one in runs if place.is_relative_to(one)), None)
        if run is not None:
            path, inside = (one.relative_to(folder).as_posix() for one in (place, run))
            found.append(FolderFile(path, place, 0, FileUse.RUN, inside.removeprefix(".")))
            continue
        is_read = place not in plain and place.resolve() in read
        if place in known and place not in plain:
            read.add(place.resolve())
        found.append(_file(place, folder, is_read=is_read))
    return sorted(found, key=lambda file: file.path)


def _run_folders(files: Sequence[Path]) -> list[Path]:
    """Return the folders of runs among the files, and those of the inputs of their trials."""
    runs = [one.parent for one in files if one.name == LOG and (one.parent / COMMITS).is_dir()]
    return [*runs, *(run.with_name(f"{run.name}{TRIAL}") for run in runs)]


def _link_of(place: Path, folder: Path) -> str:
    """Return the folder that is a link and that a file lies in, relative to the root; or nothing."""
    parents = [one for one in place.parents if one.is_relative_to(folder) and one != folder]
    links = [one for one in reversed(parents) if one.is_symlink()]
    return links[0].relative_to(folder).as_posix() if links else ""


def made_folders(files: Sequence[FolderFile]) -> tuple[str, ...]:
    """Return globs of those folders of the files whose code others wrote or a program made."""
    parts = [file.path.split("/")[:-1] for file in files]
    tops = {folders[0] for folders in parts if folders}
    inside = {name for folders in parts for name in folders}
    return (
        *(name for name in _OF_OTHERS if name in inside),
        *(f"./{name}" for name in _BUILT if name in tops),
    )


def _file(place: Path, folder: Path, *, is_read: bool) -> FolderFile:
    path, link = place.relative_to(folder).as_posix(), _link_of(place, folder)
    if is_read or not place.exists():
        return FolderFile(path, place, 0, FileUse.LINK, link)
    if not place.is_file():
        return FolderFile(path, place, 0, FileUse.IRREGULAR, link)
    size = place.stat().st_size
    return FolderFile(path, place, size, _use(path, size), link)


def _use(path: str, size: int) -> FileUse:
    *folders, name = path.lower().split("/")
    reader = reader_of(path, TextSplit.FILE)
    if reader is None:
        return FileUse.UNKNOWN
    if not size:
        return FileUse.EMPTY
    if set(folders) & set(_OF_OTHERS):
        return FileUse.MADE
    ending = next(ending for ending in sorted(ENDINGS, key=len, reverse=True) if path.endswith(ending))
    if unpacked(ending) in _LANGUAGES:
        return FileUse.CODE
    is_text = isinstance(reader, StreamReader) and reader.is_whole
    if name in _FOR_MACHINES or (is_text and name.startswith(_NOTES)):
        return FileUse.NOTE
    return FileUse.DATA


def unpacked(name: str) -> str:
    """Take the ending of a compression off: ".py.gz" -> ".py", "a/b.jsonl" -> "a/b.jsonl"."""
    return next((name.removesuffix(packed) for packed in COMPRESSIONS if name.endswith(packed)), name)


_COMPARED = 1 << 16
"""Decompressed bytes of both that are compared first."""
_MOST = 1 << 30
"""Decompressed bytes up to which files are compared whole; larger ones are all read."""
_READ = (FileUse.DATA, FileUse.CODE, FileUse.NOTE)


def with_copies_marked(files: Sequence[FolderFile]) -> list[FolderFile]:
    """Return the files of a folder, of which compressed copies are marked."""
    by_name: dict[str, list[FolderFile]] = defaultdict(list)
    for file in files:
        if file.use in _READ:
            by_name[unpacked(file.path)].append(file)
    copies: set[FolderFile] = set()
    for same_name in by_name.values():
        first, *others = sorted(same_name, key=lambda file: (_is_packed(file), file.path))
        copies.update(other for other in others if _is_copy(other, first))
    return [replace(file, use=FileUse.COPY) if file in copies else file for file in files]


def _is_packed(file: FolderFile) -> bool:
    return unpacked(file.path) != file.path


def _is_copy(packed: FolderFile, first: FolderFile) -> bool:
    """Say whether two files hold the same bytes, decompressed; very large ones are not compared."""
    if not _is_packed(first) and first.size > _MOST:
        return False
    try:
        if _beginning(packed.place) != _beginning(first.place):
            return False
        return _digest(packed.place) == _digest(first.place) is not None
    except DataError:
        return False  # it is damaged, which is said where it is looked at


def _beginning(place: Path) -> bytes:
    found = b""
    for chunk in stream_chunks(place):
        found += chunk
        if len(found) >= _COMPARED:
            break
    return found[:_COMPARED]


def _digest(place: Path) -> bytes | None:
    """Return the digest of a file's bytes, decompressed; None if there are too many."""
    digest, size = xxh3_128(), 0
    for chunk in stream_chunks(place):
        digest.update(chunk)
        size += len(chunk)
        if size > _MOST:
            return None
    return digest.digest()
