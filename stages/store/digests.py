"""Digests of files: how a commit, a manifest and a verification say that bytes are the same."""

import hashlib
import os
from pathlib import Path

import xxhash

from stages.config import Config
from stages.store.folders import walk

_BLOCK_BYTES = 1 << 22


class FileDigest(Config):
    """What a file's bytes must be."""

    bytes: int
    sha256: str
    xxh3: str
    """XXH3-128: thirteen times as fast as SHA-256 to check."""


_ALL_FIELDS = set(FileDigest.model_fields)
"""One set for all digests: of its own each would have 216 bytes."""


def digest_file(path: Path) -> FileDigest:
    """Return size, SHA-256 and XXH3-128 of a file in one pass."""
    sha256, xxh3, size = hashlib.sha256(), xxhash.xxh3_128(), 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            sha256.update(block)
            xxh3.update(block)
            size += len(block)
    return FileDigest.model_construct(
        _ALL_FIELDS, bytes=size, sha256=sha256.hexdigest(), xxh3=xxh3.hexdigest()
    )


def xxh3_file(path: Path) -> str:
    """Return the XXH3-128 of a file, hexadecimal."""
    xxh3 = xxhash.xxh3_128()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            xxh3.update(block)
    return xxh3.hexdigest()


def sync_files(folder: Path) -> None:
    """Bring the files below a folder to the disk; their names are the business of who moves them."""
    for parent, _, names in walk(folder):
        for name in names:
            sync_path(parent / name)


def sync_path(path: Path) -> None:
    """Bring one file or directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        error.filename = str(path)  # the system names no file here
        raise
    finally:
        os.close(descriptor)
