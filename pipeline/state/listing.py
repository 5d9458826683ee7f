"""The listing of a run in a store, held to its log: what is missing, changed, or nobody's.

A process that was frozen may have put or removed something after another one took over; no store
prevents it. So before a verdict all objects are listed once. A listing may be behind: what differs is
asked for by itself before it is named.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from pipeline.state.log import CommitEntry, LogState
from stages.stores.store import Listed, Store, is_key


@dataclass(frozen=True)
class Listing:
    """What a listing tells of a run."""

    damaged: dict[str, str] = field(default_factory=dict)
    """By key: what was found in place of what was committed."""
    strays: tuple[str, ...] = ()
    """Keys below the folders of steps that no commit names."""


def compare_listing(store: Store, state: LogState, folders: Collection[str]) -> Listing:
    """Hold all objects of a run to its log.

    Args:
        store: where the run, or a later generation of it, is.
        state: of its log.
        folders: in which steps write.
    """
    there = {one.key: one for one in store.list("") if one.key.partition("/")[0] in folders}
    damaged, named = dict[str, str](), set[str]()
    for entry in _entries(state):
        for key, tag in entry.tags.items():
            named.add(key)
            size = entry.commit.files[key].bytes
            fault = _fault(store, key, size, tag, there.get(key))
            if fault is not None:
                damaged[key] = fault
    return Listing(damaged, tuple(sorted(key for key in there.keys() - named if is_key(key))))


def _entries(state: LogState) -> Iterator[CommitEntry]:
    for units in state.commits.values():
        yield from units.values()


def _fault(store: Store, key: str, size: int, tag: str, listed: Listed | None) -> str | None:
    """Say what is wrong with an object; None if nothing is."""
    if listed is not None and (listed.size, listed.tag) == (size, tag):
        return None
    found = store.get(key, 0, 1) if size else store.get(key)
    if found is None:
        return f"committed with {size:,} bytes, found nothing"
    if found.tag == tag:
        return None
    return f"committed with the tag {tag}, found {found.tag}: it was written over after it was committed"
