"""What processes use of a node's cache: what is in use stays.

Each process has a file with what it uses, which is locked for as long as the process lives.
"""

import fcntl
import os
import uuid
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

_LAST = 64
"""Files that are kept of those that are read outside any task."""


class LettingGo(Protocol):
    """The cache that a hold is of."""

    def let_go(self, hold: "Hold") -> None:
        """Keep the files of a hold no longer."""

    def let_go_later(self, hold: "Hold") -> None:
        """Do so once somebody takes the cache's lock; take none now."""


@dataclass(eq=False)
class Hold:
    """What somebody in this process uses, until it is closed."""

    cache: LettingGo
    names: list[str] = field(default_factory=list)
    places: dict[Path, str] = field(default_factory=dict)
    """Links that were seen, and to what."""
    process: int = field(default_factory=os.getpid)

    def close(self) -> None:
        """Use nothing of it any more; in a process that was forked from its own, do nothing."""
        if self.process == os.getpid():
            self.cache.let_go(self)

    def end(self) -> None:
        """Do so as a finalizer, which may run at any moment."""
        if self.process == os.getpid():
            self.cache.let_go_later(self)


@dataclass(eq=False)
class Pins:
    """What this process uses, in a file that is locked for as long as the process lives."""

    folder: Path
    first: Hold
    """Of what is read outside any task: the last files alone, since each is opened at once."""
    process: int = field(default_factory=os.getpid)
    holds: list[Hold] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the file; the cache's lock is held, so it is not taken for that of an ended process."""
        self.holds.append(self.first)
        self.current = self.first
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file = (self.folder / f"{self.process}-{uuid.uuid4().hex}").open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        weakref.finalize(self, self._file.close)

    @property
    def names(self) -> set[str]:
        """All names."""
        return {name for hold in self.holds for name in hold.names}

    def add(self, name: str, hold: Hold) -> None:
        """Note a file; the cache's lock is held."""
        if name not in hold.names[-1:]:
            hold.names.append(name)
            self._file.write(f"{name}\n")
            self._file.flush()
        if hold is self.first and len(hold.names) > 2 * _LAST:
            del hold.names[:-_LAST]
            hold.places.clear()
            self._write()

    def remove(self, hold: Hold) -> None:
        """Forget a hold; the cache's lock is held."""
        if hold in self.holds:
            self.holds.remove(hold)
            self._write()

    def _write(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._file.writelines(f"{name}\n" for name in self.names)
        self._file.flush()
