"""A store: named objects below one place, and the six verbs that all else is made of.

    get(key, begin, end)       bytes and tag, or None if there is no such object
    put(key, file)             whole or not at all; replaces what is there
    put_new(key, data)         only if there is no such object
    replace(key, data, tag)    only if the object still has the tag
    list(prefix)               keys, sizes and tags, sorted
    delete(keys)               an absent one is no error

A key is a POSIX path of plain names, none of them `..`. A tag is what the place says of an object's
content; it is compared, and never interpreted. An object that `put_new` or `replace` writes is small: a
lost answer is made up for by reading it back.

Source: the conditions are those of RFC 9110, section 13.1 (`If-None-Match`, `If-Match`).
"""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

_KEY = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


class FoundObject(NamedTuple):
    """What there is of an object."""

    data: bytes
    tag: str


class Listed(NamedTuple):
    """An object, as a listing has it."""

    key: str
    size: int
    tag: str


class Store(Protocol):
    """Where objects lie.

    Raises:
        ConfigError: the place does not allow what is asked of it.
        Stopped: it cannot be reached, or has no answer now.
    """

    @property
    def place(self) -> str:
        """The folder or URL, for messages."""

    def at(self, key: str) -> "Store":
        """Return the store of all that lies below a key."""
        ...

    def get(self, key: str, begin: int = 0, end: int | None = None) -> FoundObject | None:
        """Return the bytes of an object, or a range of them; None if there is no such object.

        Args:
            key: of the object.
            begin: the first byte.
            end: the byte after the last; None is the end of the object. What lies beyond the object is
                left out.
        """

    def put(self, key: str, file: Path) -> str:
        """Write a file under a key, whole or not at all; it replaces what is there.

        Returns:
            The object's tag.
        """

    def put_new(self, key: str, data: bytes) -> str | None:
        """Write an object that is not there yet.

        Returns:
            Its tag; None if there is an object of other bytes.
        """

    def replace(self, key: str, data: bytes, tag: str) -> str | None:
        """Write over an object that has a tag.

        Returns:
            Its new tag; None if it has another tag, or is gone.
        """

    def list(self, prefix: str) -> Iterator[Listed]:
        """Yield the objects whose keys begin with a key and `/`, or all for "", sorted by key.

        What was written or removed a moment ago may be listed late.
        """

    def delete(self, keys: Collection[str]) -> None:
        """Remove objects; one that is not there is no error."""


def is_key(name: str) -> bool:
    """Say whether a name is the key of an object: a POSIX path of plain names, none of them `..`."""
    return _KEY.fullmatch(name) is not None and ".." not in name.split("/")
