"""The cache of a node: files of stores, by digest, which any process of the machine may use.

    FOLDER/objects/ab/ab12...        a file, by its SHA-256; whole, or not there
    FOLDER/objects/ab/ab12....at     where links to it are, one path a line
    FOLDER/objects/ab/ab12....sound  the session that has hashed it last
    FOLDER/pins/PID-...              what a process uses, one SHA-256 a line; locked while it lives
    FOLDER/lock                      held by who fills, pins or removes
    FOLDER/used                      bytes of all files

A file is filled by one process, and others wait for it. When the cache is full, the file goes that was
used longest ago and that no process uses. If all are in use, the cache grows beyond its size for a
while: nobody ever waits for another's room, so nothing can be stuck. The cache is never truth; its
folder may be removed between any two runs. What an earlier session left is hashed once more before it is
used, by the first process of a session that asks for it.
"""

import contextlib
import errno
import fcntl
import os
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from stages.errors import ConfigError, Stopped
from stages.store.digests import FileDigest, xxh3_file
from stages.store.folders import entries, files_below
from stages.stores.fetch import fetch
from stages.stores.pins import Hold, Pins
from stages.stores.store import Store

_OBJECTS, _PINS, _LOCK, _USED = "objects", "pins", "lock", "used"
_LINKS, _SOUND = ".at", ".sound"
FOLDER, BYTES = "SHARDMILL_CACHE", "SHARDMILL_CACHE_BYTES"
"""Environment variables."""
DEFAULT_BYTES = 100 << 30
_SPARE = 16
"""A full cache is emptied by this part of its size."""


@dataclass(eq=False)
class NodeCache:
    """The cache in a folder of this machine.

    Args:
        folder: made if need be; a local disk.
        size: bytes that it may hold.
    """

    folder: Path
    size: int
    session: str = ""
    """Of whom this process works for; empty: it takes what is here as it is."""
    _pins: Pins | None = None
    _ended: deque[Hold] = field(default_factory=deque)
    """Holds that ended: a finalizer may run where the lock is taken already, so it takes none."""

    def __reduce__(self) -> tuple[Callable[[Path, int], "NodeCache"], tuple[Path, int]]:
        """Go to another process without what this one uses."""
        return shared_cache, (self.folder, self.size)

    def bring(
        self, store: Store, key: str, digest: FileDigest, place: Path, hold: Hold | None = None
    ) -> None:
        """Have an object of a store at a place, which is below the cache's folder.

        Args:
            store: where the object is.
            key: of the object.
            digest: that its bytes have.
            place: of the link.
            hold: that keeps it; None is what was begun last, as by `using`.

        Raises:
            DataError: the object is gone, or has other bytes.
            Stopped: the store has no answer.
        """
        if self._is_known(digest.sha256, place, hold):
            return
        if self._is_sound(digest.sha256) and self._is_linked(digest, place, hold):
            return
        with self._filling(digest.sha256):
            self._hash(digest)
            if not self._is_linked(digest, place, hold):
                self._make_room(digest.bytes)
                try:
                    self._fill(store, key, digest, place, hold)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    self._make_room(digest.bytes, anyway=True)
                    self._fill_or_stop(store, key, digest, place, hold)

    def make_room(self, wanted: int) -> None:
        """Remove files that nobody uses, because the disk is full, until some bytes fit."""
        self._make_room(wanted, anyway=True)

    def has(self, digest: FileDigest) -> bool:
        """Say whether a file is here now."""
        return self._object(digest.sha256).exists()

    def drop(self, digest: FileDigest) -> None:
        """Remove a file that was found to have other bytes than it is named by."""
        object_ = self._object(digest.sha256)
        with self._locked(fcntl.LOCK_EX):
            if object_.exists():
                self._remove(object_)
            if self._pins is not None:
                for hold in self._pins.holds:
                    hold.places = {p: name for p, name in hold.places.items() if name != object_.name}

    def _fill_or_stop(
        self, store: Store, key: str, digest: FileDigest, place: Path, hold: Hold | None
    ) -> None:
        try:
            self._fill(store, key, digest, place, hold)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise Stopped(
                f"{self.folder}: the disk of the cache is full, and all that is in it is in use; it"
                f" needs {digest.bytes:,} bytes more for {store.place}/{key}. Free some, and run again"
            ) from error

    def _fill(self, store: Store, key: str, digest: FileDigest, place: Path, hold: Hold | None) -> None:
        object_ = self._object(digest.sha256)
        part = object_.with_name(f".{object_.name}.{uuid.uuid4().hex}.part")
        try:
            fetch(store, key, digest, part)
            self._take(part, digest, place, hold)
        finally:
            part.unlink(missing_ok=True)

    def add(self, file: Path, digest: FileDigest, place: Path) -> None:
        """Take in a file that this process has written; it is moved to the place.

        Args:
            file: on the disk of the cache.
            digest: of its bytes.
            place: of the link.
        """
        self._make_room(digest.bytes)
        self._take(file, digest, place, None)

    @contextlib.contextmanager
    def using(self) -> Iterator[None]:
        """Keep what is brought inside here until the end of it."""
        hold = self.hold()
        pins = self._pins
        assert pins is not None
        before, pins.current = pins.current, hold
        try:
            yield
        finally:
            pins.current = before
            hold.close()

    def hold(self) -> Hold:
        """Return what keeps files until it is closed."""
        hold = Hold(self)
        with self._locked(fcntl.LOCK_EX):
            self._own_pins().holds.append(hold)
        return hold

    def let_go(self, hold: Hold) -> None:
        """Keep the files of a hold no longer."""
        self._ended.append(hold)
        with contextlib.suppress(OSError), self._locked(fcntl.LOCK_EX):  # which forgets it
            pass

    def let_go_later(self, hold: Hold) -> None:
        """Keep the files of a hold no longer, once somebody takes the lock; takes none itself."""
        self._ended.append(hold)

    def _is_known(self, name: str, place: Path, hold: Hold | None) -> bool:
        """Say whether a place was seen to be a link in the same hold: what is in use stays."""
        pins = self._pins
        if pins is None or pins.process != os.getpid():
            return False
        own = pins.current if hold is None else hold
        return own is not pins.first and own.places.get(place) == name

    def _is_sound(self, name: str) -> bool:
        """Say whether a file, if it is here, need not be hashed before it is used."""
        if not self.session:
            return True
        with contextlib.suppress(OSError):
            return self._mark(name).read_text(encoding="utf-8") == self.session
        return False

    def _hash(self, digest: FileDigest) -> None:
        """Remove a file that an earlier session left here, if its bytes have changed since."""
        object_ = self._object(digest.sha256)
        if self._is_sound(digest.sha256) or not object_.exists():
            return
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile, for another's room
            if xxh3_file(object_) == digest.xxh3:
                self._mark(digest.sha256).write_text(self.session, encoding="utf-8")
            else:
                self.drop(digest)

    def _mark(self, name: str) -> Path:
        object_ = self._object(name)
        return object_.with_name(f"{object_.name}{_SOUND}")

    def _is_linked(self, digest: FileDigest, place: Path, hold: Hold | None) -> bool:
        """Say whether a file is here; then it is kept, and the place is a link to it."""
        name = digest.sha256
        object_ = self._object(name)
        with self._locked(fcntl.LOCK_EX):
            self._pin(name, hold)
            try:
                os.utime(object_)
            except FileNotFoundError:
                return False
            if object_.stat().st_size != digest.bytes:  # as a power cut may leave it
                self._remove(object_)
                return False
            self._link(object_, place)
            self._note(name, place, hold)
        return True

    def _take(self, file: Path, digest: FileDigest, place: Path, hold: Hold | None) -> None:
        """Make a file an object, and the place a link to it."""
        object_ = self._object(digest.sha256)
        object_.parent.mkdir(parents=True, exist_ok=True)
        with self._locked(fcntl.LOCK_EX):
            self._pin(digest.sha256, hold)
            os.replace(file, object_)  # noqa: PTH105  # rename(2), said plainly
            self._link(object_, place)
            self._note(digest.sha256, place, hold)
            self._write_used(self._used() + digest.bytes)
            if self.session:
                self._mark(digest.sha256).write_text(self.session, encoding="utf-8")

    def _link(self, object_: Path, place: Path) -> None:
        """Make a place a link to an object."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if place.samefile(object_):
                return
        place.parent.mkdir(parents=True, exist_ok=True)
        with object_.with_name(f"{object_.name}{_LINKS}").open("a", encoding="utf-8") as links:
            links.write(f"{place}\n")
        beside = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
        beside.hardlink_to(object_)
        os.replace(beside, place)  # noqa: PTH105  # rename(2), said plainly

    def _make_room(self, wanted: int, *, anyway: bool = False) -> None:
        """Remove files that nobody uses, the one used longest ago first, until some bytes fit.

        Args:
            wanted: bytes.
            anyway: whether so many go even if the cache is not full, because the disk is.
        """
        if self._used() + wanted <= self.size and not anyway:
            return
        room = self.size - self.size // _SPARE  # so that not every file looks for room again
        with self._locked(fcntl.LOCK_EX):
            objects = [path for path in files_below(self.folder / _OBJECTS) if "." not in path.name]
            known = [(one.stat(), one) for one in objects]
            used = sum(stat.st_size for stat, _ in known)
            room = min(room, used) if anyway else room
            kept = self._kept()
            for stat, object_ in sorted(known, key=lambda one: (one[0].st_mtime_ns, one[1].name)):
                if used + wanted <= room:
                    break
                if object_.name not in kept:
                    self._remove(object_)
                    used -= stat.st_size
            self._write_used(used)

    def _remove(self, object_: Path) -> None:
        """Remove an object with the links to it."""
        links = object_.with_name(f"{object_.name}{_LINKS}")
        with contextlib.suppress(FileNotFoundError):
            for line in links.read_text(encoding="utf-8").splitlines():
                place = Path(line)
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    if place.samefile(object_):
                        place.unlink()
        object_.unlink()
        links.unlink(missing_ok=True)
        self._mark(object_.name).unlink(missing_ok=True)

    def _kept(self) -> set[str]:
        """Return the names of the files that some process uses; forget processes that have ended."""
        kept: set[str] = set()
        for path in entries(self.folder / _PINS):
            with contextlib.suppress(FileNotFoundError), path.open("r+") as pins:
                try:
                    fcntl.flock(pins, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    kept.update(pins.read().split())
                else:
                    path.unlink()
        if self._pins is not None:  # a process may lock its own file twice
            kept.update(self._pins.names)
        return kept

    def _used(self) -> int:
        try:
            return int((self.folder / _USED).read_text())
        except (FileNotFoundError, ValueError):
            return self.size + 1  # not known: counted anew

    def _write_used(self, used: int) -> None:
        (self.folder / _USED).write_text(str(used))

    def _object(self, name: str) -> Path:
        return self.folder / _OBJECTS / name[:2] / name

    def _pin(self, name: str, hold: Hold | None) -> None:
        pins = self._own_pins()
        pins.add(name, pins.current if hold is None else hold)

    def _note(self, name: str, place: Path, hold: Hold | None) -> None:
        own = self._own_pins().current if hold is None else hold
        own.places[place] = name

    def _own_pins(self) -> Pins:
        """Return what this process uses; the cache's lock is held, so nobody takes a new one for old."""
        if self._pins is None or self._pins.process != os.getpid():
            self._pins = Pins(self.folder / _PINS, Hold(self))
        return self._pins

    @contextlib.contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / _LOCK).open("a") as lock:
            fcntl.flock(lock, how)
            try:
                self._drain()
                yield
            finally:  # a process forked meanwhile has the lock too, unless it is given back
                fcntl.flock(lock, fcntl.LOCK_UN)

    def _drain(self) -> None:
        """Forget the holds that ended while nobody could take the lock."""
        while self._ended:
            hold = self._ended.popleft()
            if self._pins is not None and self._pins.process == os.getpid():
                with contextlib.suppress(OSError):  # a full disk: they stay a while
                    self._pins.remove(hold)

    @contextlib.contextmanager
    def _filling(self, name: str) -> Iterator[None]:
        """Be the one process that fills a file; what others left half filled goes."""
        folder = self._object(name).parent
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                for part in entries(folder):
                    if part.suffix == ".part":
                        part.unlink(missing_ok=True)
                yield
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)


def node_cache(folder: str = "", size: int | None = None) -> NodeCache:
    """Return the cache of this machine.

    Args:
        folder: of it; empty for that of the environment, or else the user's.
        size: bytes; None for those of the environment, or else 100 GiB.

    Raises:
        ConfigError: the environment names no number of bytes.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = Path(folder or os.environ.get(FOLDER) or home / "shardmill").resolve()
    said = os.environ.get(BYTES) or str(DEFAULT_BYTES)
    if size is None and not said.isdecimal():
        raise ConfigError(f"{BYTES} = {said}: must be a number of bytes, such as {DEFAULT_BYTES}")
    return shared_cache(place, int(said) if size is None else size)


@cache
def shared_cache(folder: Path, size: int) -> NodeCache:
    """Return the cache in a folder: one value in a process, so that what one task uses, all know."""
    return NodeCache(folder, size)
