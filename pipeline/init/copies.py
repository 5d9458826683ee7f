"""Copies: compressed files beside the same files uncompressed, which would be read twice.

a.jsonl  a.jsonl.gz  b.jsonl.gz      a.jsonl.gz is a copy, if both begin with the same bytes
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.init.folder import FileUse, FolderFile, unpacked
from stages.errors import DataError
from stages.reading.decompress import stream_chunks

_COMPARED = 1 << 16
"""Decompressed bytes of both that are compared."""
_OVERHEAD = 64
"""Bytes that compressing adds to a file that it cannot make smaller."""
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
    """Say whether a file begins as another one does, which may be a part of it if it is smaller."""
    if not _is_packed(first) and first.size + _OVERHEAD < packed.size:
        return False
    try:
        return _beginning(packed.place) == _beginning(first.place)
    except DataError:
        return False  # it is damaged, which is said where it is looked at


def _beginning(place: Path) -> bytes:
    found = b""
    for chunk in stream_chunks(place):
        found += chunk
        if len(found) >= _COMPARED:
            break
    return found[:_COMPARED]
