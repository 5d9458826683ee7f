"""Copies: compressed files that hold the same bytes as another file beside them, and would be read too.

a.jsonl  a.jsonl.gz  b.jsonl.gz      a.jsonl.gz is a copy, if it decompresses to a.jsonl
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from xxhash import xxh3_128

from pipeline.tools.init.folder import FileUse, FolderFile, unpacked
from stages.errors import DataError
from stages.reading.decompress import stream_chunks

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
