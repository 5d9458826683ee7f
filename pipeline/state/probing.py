"""Probing: whether a store does what a run rests on, and what this user may do there."""

import contextlib
import uuid
from collections.abc import Iterator

from pipeline.state.lease import LEASE
from stages.errors import ConfigError, NoRightError, ShardmillError
from stages.stores.store import Store


def probe(store: Store) -> None:
    """Try what a run rests on; leave nothing of it, as far as the store lets it.

    Raises:
        ConfigError: names what the store does not do, or what this user may not do, and the object that
            could not be removed.
    """
    key = f"probe/{uuid.uuid4().hex}"
    with _right("delete objects", store):  # first: nothing is written that nobody could remove
        store.delete([key])
    try:
        _probe(store, key)
    except ConfigError as error:
        try:
            store.delete([key])
        except ShardmillError:
            raise type(error)(f"{error}; the object {key} may be left there") from error
        raise


def _probe(store: Store, key: str) -> None:
    """Try what a run rests on: create twice, replace with an old tag, read, list, delete.

    Raises:
        ConfigError: names what the store does not do.
    """
    with _right("write objects", store):
        first = store.put_new(key, b"1")
    with _right("read objects", store):  # what is in the way is read back
        again = store.put_new(key, b"2")
    if first is None or again is not None:
        raise _lacks(store, "it creates an object that is there already (If-None-Match)")
    with _right("write objects", store):
        second = store.replace(key, b"3", first)
        again = None if second is None else store.replace(key, b"4", first)
    if second is None or again is not None:
        raise _lacks(store, "it replaces an object that has changed since (If-Match)")
    with _right("read objects", store):
        found = store.get(key)
    if found is None or found != (b"3", second):
        raise _lacks(store, "it gives another object than was written last")
    with _right("list objects", store):
        listed = {one.key for one in store.list("probe")}
    if key not in listed:
        raise _lacks(store, "it does not list an object that was written")
    with _right("delete objects", store):
        store.delete([key])
    if store.get(key) is not None:
        raise _lacks(store, "it does not delete objects")


@contextlib.contextmanager
def _right(what: str, store: Store) -> Iterator[None]:
    """Name the right that is missing."""
    try:
        yield
    except NoRightError as error:
        raise NoRightError(
            f"{store.place}: a run needs the right to {what}, and has it not: {error}"
        ) from error


def require_nothing_else(store: Store) -> None:
    """Refuse a place that holds objects, but no run.

    Raises:
        ConfigError: names one of them.
    """
    own = (LEASE, "probe/", "log/")
    others = [one.key for one in store.list("") if not one.key.startswith(own)]
    if others:
        more = f" and {len(others) - 1:,} more" if len(others) > 1 else ""
        raise ConfigError(
            f"{store.place}: holds {others[0]!r}{more}, but no run; name a prefix below which"
            " there is nothing"
        )


def _lacks(store: Store, what: str) -> ConfigError:
    return ConfigError(
        f"{store.place}: the store cannot hold a run: {what}; use one that keeps these conditions, such"
        " as Amazon S3, Google Cloud Storage, Azure Blob Storage or SeaweedFS"
    )
