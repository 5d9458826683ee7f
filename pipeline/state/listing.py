"""The listing of a run in a store, held to its log: what is missing, changed, or nobody's.

A process that was frozen may have put or removed something after another one took over; no store
prevents it. So before a verdict all objects are listed once. A listing may be behind: what differs is
asked for by itself before it is named. A tool that copied the run to another bucket left the same bytes
under other tags: what has another tag is read, and is sound if it has its digest.
"""

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import xxhash

from pipeline.state.log import CommitEntry, LogState
from stages.store.digests import FileDigest
from stages.stores.store import Store, is_key

_AT_ONCE, _RANGE = 8, 4 << 20
"""Objects that are read at once, and bytes of a request: 32 MiB together."""


@dataclass(frozen=True)
class Listing:
    """What a listing tells of a run."""

    damaged: dict[str, str] = field(default_factory=dict)
    """By key: what was found in place of what was committed."""
    strays: tuple[str, ...] = ()
    """Keys below the folders of steps that no commit names."""
    copied: tuple[CommitEntry, ...] = ()
    """Commits of objects that have their bytes under other tags, with these tags."""


def compare_listing(store: Store, state: LogState, folders: Collection[str]) -> Listing:
    """Hold all objects of a run to its log.

    Args:
        store: where the run, or a later generation of it, is.
        state: of its log.
        folders: in which steps write.
    """
    there = {one.key: one for one in store.list("") if one.key.partition("/")[0] in folders}
    named, other = set[str](), list[tuple[CommitEntry, str]]()
    for entry in _entries(state):
        for key, digest in entry.commit.files.items():
            named.add(key)
            listed = there.get(key)
            if listed is None or (listed.size, listed.tag) != (digest.bytes, entry.tags.get(key)):
                other.append((entry, key))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(lambda one: _found(store, *one), other))
    damaged, copied = dict[str, str](), dict[tuple[str, str], CommitEntry]()
    for (entry, key), (fault, tag) in zip(other, found, strict=True):
        unit = (entry.commit.step, entry.commit.unit)
        if fault is not None:
            damaged[key] = fault
        elif tag and tag != entry.tags.get(key):
            tags = {**copied.get(unit, entry).tags, key: tag}
            copied[unit] = entry.model_copy(update={"tags": tags})
    strays = sorted(key for key in there.keys() - named if is_key(key))
    return Listing(damaged, tuple(strays), tuple(copied.values()))


def _entries(state: LogState) -> Iterator[CommitEntry]:
    for units in state.commits.values():
        yield from units.values()


def _found(store: Store, entry: CommitEntry, key: str) -> tuple[str | None, str]:
    """Ask for an object by itself; one with another tag is read and held to its digest.

    Returns:
        What is wrong with it, None if nothing is; and its tag, empty if none was seen.
    """
    digest, tag = entry.commit.files[key], entry.tags.get(key)
    tags, xxh3, size = set[str](), xxhash.xxh3_128(), 0
    for begin in range(0, digest.bytes + 1, _RANGE):  # one byte more than there should be
        found = store.get(key, begin, min(begin + _RANGE, digest.bytes + 1))
        if found is None:
            return f"committed with {digest.bytes:,} bytes, found nothing", ""
        if found.tag == tag:
            return None, found.tag
        tags |= {found.tag} - {""}  # there is none where there are no bytes
        xxh3.update(found.data)
        size += len(found.data)
    if len(tags) < 2 and (size, xxh3.hexdigest()) == (digest.bytes, digest.xxh3):  # noqa: PLR2004
        return None, "".join(tags)
    return _changed(digest, tag, tags), ""


def _changed(digest: FileDigest, tag: str | None, tags: Collection[str]) -> str:
    own = f" and the tag {tag}" if tag else ""
    found = f"the tag {', '.join(sorted(tags))}" if tags else "no bytes"
    return (
        f"committed with {digest.bytes:,} bytes{own}, found other bytes under {found}: it was written"
        " over after it was committed"
    )
