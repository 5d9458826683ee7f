"""The bytes that datasets in a store need of the cache, compared with its size before rows are read.

    order of the whole epoch    all shards
    window = W                  two groups: 2 W shards of the largest size
    rows as stored              two shards

A shard counts with the files of its rows, and with those of the epoch on disk that has most. The tables
beside the manifest count too. Datasets that are read together need the sum.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from stages.errors import ConfigError
from stages.loading.split_reader import SplitReader
from stages.stores.cache import BYTES, NodeCache


@dataclass(frozen=True)
class NeededRoom:
    """What one dataset needs of the cache."""

    cache: NodeCache
    place: str
    """The URL, for messages."""
    shards: tuple[int, ...]
    """Bytes of each."""
    beside: int
    """Bytes of the tables."""
    window: int | None
    order: str
    """What needs the room, for messages."""
    takes_window: bool
    """Whether the dataset may be opened with another window."""

    @property
    def needed(self) -> int:
        """Bytes, as the dataset was opened."""
        return self.with_window(self.window)

    @property
    def whole(self) -> int:
        """Bytes of all shards."""
        return self.with_window(None)

    @property
    def most_shards(self) -> int:
        """Shards that a process may use at a time, so that no more bytes are in use than needed."""
        several = len(self.shards)
        return several if self.window is None else min(several, 2 * self.window)

    def with_window(self, window: int | None) -> int:
        """Return the bytes that another window needs."""
        whole = sum(self.shards)
        groups = whole if window is None else 2 * window * max(self.shards, default=0)
        return min(whole, groups) + self.beside

    def at_best(self, window: int) -> int:
        """Return the bytes if the dataset gets that window, or as it is where it takes none."""
        return self.with_window(window) if self.takes_window else self.needed


def room_of(
    readers: Sequence[SplitReader], *, shuffle: bool, window: int | None, interleaved: bool
) -> NeededRoom:
    """Return what a dataset needs of the cache.

    Args:
        readers: of its generations, in a store.
        shuffle: whether an epoch has an order of its own.
        window: shards of a group; None for the order of the whole epoch.
        interleaved: whether rows of sources come in exact shares, from all shards.
    """
    cache = readers[0].cache
    assert cache is not None
    order = "its order mixes rows of all shards" if window is None else f"window = {window}"
    if not shuffle:
        window, order = 1, "rows as they are stored are read from two shards at a time"
    elif interleaved:
        order = 'exact shares (interleave = "exact") are dealt from all shards'
    return NeededRoom(
        cache,
        readers[0].place,
        tuple(size for reader in readers for size in reader.shard_bytes),
        sum(reader.table_bytes for reader in readers),
        window,
        order,
        takes_window=shuffle and not interleaved,
    )


class InCache(Protocol):
    """A dataset, as far as it needs room."""

    @property
    def room(self) -> NeededRoom | None:
        """What it needs; None for one in a folder."""

    def hold_shards(self, shards: int) -> None:
        """Map at most so many shards at a time."""


def hold_to_cache(datasets: Sequence[InCache]) -> None:
    """Have datasets that are read together use no more of the cache than it has.

    Raises:
        ConfigError: it cannot hold them, as their orders need them; with the least size, and the window
            that fits where one may be given.
    """
    rooms = [(dataset, room) for dataset in datasets if (room := dataset.room) is not None]
    for cache in dict.fromkeys(room.cache for _, room in rooms):
        own = [room for _, room in rooms if room.cache is cache]
        _require_room(own, cache)
        all_fit = sum(room.whole for room in own) <= cache.size
        for dataset, room in rooms:
            if room.cache is cache:
                dataset.hold_shards(len(room.shards) if all_fit else room.most_shards)


def _require_room(rooms: Sequence[NeededRoom], cache: NodeCache) -> None:
    needed = sum(room.needed for room in rooms)
    if needed <= cache.size:
        return
    why = rooms[0].order if len(rooms) == 1 else f"{len(rooms)} datasets are read together"
    raise ConfigError(
        f"{', '.join(room.place for room in rooms)}: {why}, which needs {needed:,} bytes of cache, and"
        f" {cache.folder} has {cache.size:,}: {_way_out(rooms, needed, cache.size)}"
    )


def _way_out(rooms: Sequence[NeededRoom], needed: int, size: int) -> str:
    """Say which size is enough, and which window if one may be given."""
    larger = f"give it {needed:,} ({BYTES})"
    if not any(room.takes_window for room in rooms):
        return larger
    most = max(len(room.shards) for room in rooms)
    fits = bisect_right(
        range(1, most + 1), size, key=lambda window: sum(room.at_best(window) for room in rooms)
    )
    if not fits:
        least = sum(room.at_best(1) for room in rooms)
        return f"give it at least {least:,} ({BYTES}), for window = 1"
    what = "the dataset" if len(rooms) == 1 else "those that take a window"
    return f"{larger}, or open {what} with window = {fits}"
