"""Objects brought to this machine: whole, and held to a digest before anybody sees them.

object -> place.part, hashed as it arrives -> renamed to its place
"""

import hashlib
import os
import uuid
from pathlib import Path

import xxhash

from stages.errors import DataError
from stages.store.digests import FileDigest, sync_path, xxh3_file
from stages.stores.store import Store

_RANGE = 16 << 20


def fetch(store: Store, key: str, digest: FileDigest, place: Path) -> None:
    """Bring an object to a place; a place that holds it already is left alone.

    Args:
        store: where the object is.
        key: of the object.
        digest: that it must have.
        place: of the file; its folder is made.

    Raises:
        DataError: the object is gone, or is another one.
        Stopped: the store has no answer.
    """
    if is_here(place, digest):
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_name(f".{place.name}.{uuid.uuid4().hex}.part")
    sha256, xxh3, size = hashlib.sha256(), xxhash.xxh3_128(), 0
    try:
        with part.open("xb") as file:
            while size < digest.bytes or not size:
                found = store.get(key, size, min(size + _RANGE, max(digest.bytes, 1)))
                if found is None:
                    raise DataError(
                        f"{store.place}/{key}: committed with {digest.bytes:,} bytes, found nothing"
                    )
                if not found.data:
                    break
                file.write(found.data)
                sha256.update(found.data)
                xxh3.update(found.data)
                size += len(found.data)
        if (size, sha256.hexdigest(), xxh3.hexdigest()) != (digest.bytes, digest.sha256, digest.xxh3):
            raise DataError(
                f"{store.place}/{key}: committed with {digest.bytes:,} bytes and the XXH3 {digest.xxh3},"
                f" found {size:,} and {xxh3.hexdigest()}"
            )
        sync_path(part)
        os.replace(part, place)  # noqa: PTH105  # rename(2), said plainly
        sync_path(place.parent)
    finally:
        part.unlink(missing_ok=True)


def is_here(place: Path, digest: FileDigest) -> bool:
    """Say whether a place holds what has a digest."""
    try:
        return place.stat().st_size == digest.bytes and xxh3_file(place) == digest.xxh3
    except (FileNotFoundError, NotADirectoryError):
        return False
