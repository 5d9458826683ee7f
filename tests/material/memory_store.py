"""A store in memory: the six verbs and tags, for tests of what is made of them alone."""

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stages.errors import Stopped
from stages.stores.store import FoundObject, Listed


@dataclass(eq=False)
class MemoryStore:
    """Objects in memory."""

    objects: dict[str, bytes] = field(default_factory=dict)
    """By their whole keys."""
    server: str = "one"
    """Another server has other tags for the same bytes."""
    prefix: str = ""
    listed: list[Listed] | None = None
    """What a listing is that is behind; None if it is not."""
    loses: bool = False
    """Whether the answer of the next request that writes is lost."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Verbs and keys of the requests so far."""

    def now(self) -> list[Listed]:
        """Return all objects as a listing has them that is not behind."""
        keys = [key for key in sorted(self.objects) if key.startswith(self.prefix)]
        found = [(key.removeprefix(self.prefix), self.objects[key]) for key in keys]
        return [Listed(key, len(data), self._tag(data)) for key, data in found]

    @property
    def place(self) -> str:
        """The URL, for messages."""
        return f"s3://memory/run/{self.prefix}".rstrip("/")

    def at(self, key: str) -> "MemoryStore":
        """Return the store of all that lies below a key."""
        return MemoryStore(self.objects, self.server, f"{self.prefix}{key}/", asked=self.asked)

    def get(self, key: str, begin: int = 0, end: int | None = None) -> FoundObject | None:
        """Return the bytes of an object, or a range of them; None if there is no such object."""
        self.asked.append(("get", key))
        data = self.objects.get(self.prefix + key)
        return None if data is None else FoundObject(data[begin:end], self._tag(data))

    def put(self, key: str, file: Path) -> str:
        """Write a file under a key."""
        return self.write(key, file.read_bytes())

    def put_new(self, key: str, data: bytes) -> str | None:
        """Write an object that is not there yet; None if there is one of other bytes."""
        there = self.objects.get(self.prefix + key)
        return self.write(key, data) if there is None or there == data else None

    def replace(self, key: str, data: bytes, tag: str) -> str | None:
        """Write over an object that has a tag; None if it has another, or is gone."""
        there = self.objects.get(self.prefix + key)
        return self.write(key, data) if there is not None and self._tag(there) == tag else None

    def list(self, prefix: str) -> Iterator[Listed]:
        """Yield the objects below a prefix, sorted by key."""
        self.asked.append(("list", prefix))
        begin = f"{prefix}/" if prefix else ""
        found = self.now() if self.listed is None else self.listed
        yield from (one for one in found if one.key.startswith(begin))

    def delete(self, keys: Collection[str]) -> None:
        """Remove objects."""
        for key in keys:
            self.objects.pop(self.prefix + key, None)

    def write(self, key: str, data: bytes) -> str:
        """Write an object, whatever is there; return its tag."""
        self.asked.append(("write", key))
        self.objects[self.prefix + key] = data
        if self.loses:
            self.loses = False
            raise Stopped(f"{self.place}/{key}: no answer")
        return self._tag(data)

    def _tag(self, data: bytes) -> str:
        return hashlib.sha256(self.server.encode() + data).hexdigest()[:16]
