"""Objects in a bucket, from any process: a client is of the process that made it.

    the process that asks first      a client of its own
    a process forked from that       a helper process, which has a client of its own
    a process spawned, or of Ray     a client of its own: it is sent the URL alone

The client's threads do not live on in a forked process, and a call there would never return. So a forked
process asks a helper that was begun anew, and which ends with it.
"""

import atexit
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stages.errors import ShardmillError, Stopped
from stages.stores.bucket import Bucket, Endpoint, client_of
from stages.stores.store import FoundObject, Listed
from stages.stores.url import StoreUrl

if TYPE_CHECKING:
    from stages.stores.bucket import Client


class ObjectStore:
    """A bucket, below a prefix.

    Args:
        url: the place.
        endpoint: which server is asked; None is that of the environment.
    """

    def __init__(self, url: StoreUrl, endpoint: Endpoint | None = None) -> None:
        self.url = url
        self._endpoint = Endpoint.of_environment() if endpoint is None else endpoint
        self._clients: dict[int, Client] = {}
        """By process: one of this process, or of that from which it was forked."""
        self._answered: set[int] = set()
        """Processes whose client has had an answer."""

    def at(self, key: str) -> "ObjectStore":
        """Return the store of all that lies below a key; it has the same client."""
        store = ObjectStore(self.url.at(key), self._endpoint)
        store._clients, store._answered = self._clients, self._answered  # of the same bucket
        return store

    def __reduce__(self) -> tuple[type["ObjectStore"], tuple[StoreUrl, Endpoint]]:
        """Go to another process as the place alone: that finds credentials of its own."""
        return ObjectStore, (self.url, self._endpoint)

    @property
    def place(self) -> str:
        """The URL, for messages."""
        return str(self.url)

    def get(self, key: str, begin: int = 0, end: int | None = None) -> FoundObject | None:
        """Return the bytes of an object, or a range of them; None if there is no such object."""
        return self._asked.get(key, begin, end)

    def put(self, key: str, file: Path) -> str:
        """Write a file under a key, whole or not at all; it replaces what is there."""
        return self._asked.put(key, file)

    def put_new(self, key: str, data: bytes) -> str | None:
        """Write an object that is not there yet; None if there is one of other bytes."""
        return self._asked.put_new(key, data)

    def replace(self, key: str, data: bytes, tag: str) -> str | None:
        """Write over an object that has a tag; None if it has another, or is gone."""
        return self._asked.replace(key, data, tag)

    def list(self, prefix: str) -> Iterator[Listed]:
        """Yield the objects below a prefix, sorted by key."""
        yield from self._asked.list(prefix)

    def delete(self, keys: Collection[str]) -> None:
        """Remove objects; one that is not there is no error."""
        self._asked.delete(tuple(keys))

    @property
    def _asked(self) -> "Bucket | _ByHelper":
        """What does a request: this process's client, or its helper."""
        process = os.getpid()
        if _USED and process not in _USED:  # forked from a process that has a client
            return _ByHelper(self)
        if process not in self._clients:
            _USED.add(process)
            self._clients[process] = client_of(self.url, self._endpoint)
        return Bucket(self.url, self._clients[process], self._answered)


_USED: set[int] = set()
"""The process that asked first, if any has: its children, forked, have this too."""


class _ByHelper:
    """A bucket, as the helper of this process asks it."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def get(self, key: str, begin: int, end: int | None) -> FoundObject | None:
        """Return the bytes of an object, or a range of them."""
        found = self._ask("get", key, begin, end)
        assert found is None or isinstance(found, FoundObject)
        return found

    def put(self, key: str, file: Path) -> str:
        """Write a file under a key."""
        return str(self._ask("put", key, file))

    def put_new(self, key: str, data: bytes) -> str | None:
        """Write an object that is not there yet."""
        return _tag(self._ask("put_new", key, data))

    def replace(self, key: str, data: bytes, tag: str) -> str | None:
        """Write over an object that has a tag."""
        return _tag(self._ask("replace", key, data, tag))

    def list(self, prefix: str) -> Iterator[Listed]:
        """Yield the objects below a prefix."""
        found = self._ask("list", prefix)
        assert isinstance(found, list)
        yield from found

    def delete(self, keys: Collection[str]) -> None:
        """Remove objects."""
        self._ask("delete", tuple(keys))

    def _ask(self, verb: str, *args: object) -> object:
        return _helper().ask(self._store, verb, *args)


def _tag(found: object) -> str | None:
    return None if found is None else str(found)


class _Helper:
    """A process that asks buckets for this one."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._lock = threading.Lock()
        self._child = subprocess.Popen(  # this program
            [sys.executable, "-c", "from stages.stores.objects import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        atexit.register(self.end)

    def ask(self, store: ObjectStore, verb: str, *args: object) -> object:
        """Have one request done.

        Raises:
            ShardmillError: as the request raises it.
            Stopped: the helper has ended.
        """
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with self._lock:
            try:
                pickle.dump((store, verb, args), self._child.stdin)
                self._child.stdin.flush()
                answer: object = pickle.load(self._child.stdout)  # noqa: S301  # of our own process
            except (OSError, EOFError) as error:
                self.kill()
                raise Stopped(
                    f"{store.place}: the process that reads it for this one has ended"
                ) from error
            except BaseException:  # a signal: the answer on its way must not be the next one's
                self.kill()
                raise
        if isinstance(answer, ShardmillError):
            raise answer
        return answer

    def kill(self) -> None:
        """End the helper at once; the next request begins another one."""
        self._child.kill()
        self._child.wait()
        _HELPERS.clear()

    def end(self) -> None:
        """Let the helper go."""
        if self.process == os.getpid() and self._child.stdin is not None:
            self._child.stdin.close()
            self._child.wait()


_HELPERS: list[_Helper] = []
"""One, of this process or of that from which it was forked."""


_BEGINNING: dict[int, threading.Lock] = {}
"""By process; held while a helper begins, since some threads may ask at once."""


def _helper() -> _Helper:
    with _BEGINNING.setdefault(os.getpid(), threading.Lock()):
        if not _HELPERS or _HELPERS[0].process != os.getpid():
            _HELPERS[:] = [_Helper()]
        return _HELPERS[0]


def serve() -> None:
    """Do requests until there are no more: the work of the helper."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks says what it means
    stores: dict[str, ObjectStore] = {}
    while True:
        try:
            asked, verb, args = pickle.load(sys.stdin.buffer)  # noqa: S301  # of the process that began this
        except EOFError:
            return
        store = stores.setdefault(asked.place, asked)
        try:
            answer = getattr(store, verb)(*args)
            answer = list(answer) if verb == "list" else answer
        except ShardmillError as error:
            answer = error
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()
