"""The log: what is committed of a run in a store, and who may write.

    log/00000001.json, log/00000002.json, ...    entries, in their order
    log/state-00001000.json                      all that holds after the first 1,000, in one object

A number is written once, by `put_new`, and never removed. So two processes that both believe that they
may write cannot both do: one of them finds its number taken. The end of the log is the first number that
is absent; a listing only says where to begin, because it may be behind.

    take     a process begins, with a higher epoch than all before it
    plan     what run.json says
    commit   a commit as a folder has it, with the tags of its objects
    drop     a step, or some of its units, is committed no more
    end      the process ended in order

How entries are cut into objects depends on time: what becomes ready while one object is written goes
into the next. The entries, and what they come to, do not.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter

from pipeline.state.commit_object import Commit
from pipeline.state.state_files import parse_model
from stages.config import Config, canonical_json
from stages.errors import FormatError, Stopped
from stages.stores.store import Store

LOG_FOLDER = "log"
_STATE = "state-"
MOST_ENTRIES, MOST_BYTES = 1_000, 8 << 20
"""Of one object."""
STATE_EVERY = 1_000
"""Objects after which all that holds is put into one."""
_FIRST, _AHEAD = 2, 16
"""Objects that are read at once: few behind a state, which is mostly the end."""


class TakeEntry(Config):
    """A process begins."""

    kind: Literal["take"] = "take"
    host: str
    pid: int


class PlanEntry(Config):
    """What run.json says."""

    kind: Literal["plan"] = "plan"
    plan: dict[str, Any]


class CommitEntry(Config):
    """A commit."""

    kind: Literal["commit"] = "commit"
    commit: Commit
    tags: dict[str, str]
    """Of its objects, by key."""


class DropEntry(Config):
    """A step that is committed no more."""

    kind: Literal["drop"] = "drop"
    step: str
    units: tuple[str, ...] | None = None
    """None is all of them."""


class EndEntry(Config):
    """A process ended in order."""

    kind: Literal["end"] = "end"


LogEntry = Annotated[
    TakeEntry | PlanEntry | CommitEntry | DropEntry | EndEntry, Field(discriminator="kind")
]
_ENTRY: TypeAdapter[LogEntry] = TypeAdapter(LogEntry)


class LogObject(Config):
    """One object of the log."""

    number: int
    epoch: int
    holder: str
    """Of the process that wrote it, like no other's."""
    entries: tuple[LogEntry, ...]


class StateObject(Config):
    """All that holds after a number of objects: their entries, without those that others undid."""

    number: int
    epoch: int
    holder: str
    entries: tuple[LogEntry, ...]


@dataclass
class LogState:
    """What the log comes to."""

    number: int = 0
    """Of the last object."""
    epoch: int = 0
    """Of the last process that began."""
    holder: str = ""
    taken: TakeEntry | None = None
    ended: bool = True
    """Whether that process ended in order."""
    plan: dict[str, Any] | None = None
    commits: dict[str, dict[str, CommitEntry]] = field(default_factory=dict)
    """By step and unit."""

    def add(self, one: LogObject | StateObject) -> None:
        """Take in an object, which is the next, or all up to its number."""
        self.add_entries(one.entries)
        self.number = one.number
        if one.epoch >= self.epoch:
            self.epoch, self.holder = one.epoch, one.holder

    def add_entries(self, entries: Iterable[LogEntry]) -> None:
        """Take in entries, in their order."""
        for entry in entries:
            self._add(entry)

    def _add(self, entry: LogEntry) -> None:
        match entry:
            case TakeEntry():
                self.taken, self.ended = entry, False
            case EndEntry():
                self.ended = True
            case PlanEntry():
                self.plan = entry.plan
            case CommitEntry():
                self.commits.setdefault(entry.commit.step, {})[entry.commit.unit] = entry
            case DropEntry():
                units = self.commits.get(entry.step, {})
                for unit in list(units) if entry.units is None else entry.units:
                    units.pop(unit, None)

    def entries(self) -> Iterable[LogEntry]:
        """Yield entries that come to the same."""
        if self.taken is not None:
            yield self.taken
        if self.plan is not None:
            yield PlanEntry(plan=self.plan)
        for units in self.commits.values():
            yield from units.values()
        if self.taken is not None and self.ended:
            yield EndEntry()


class RunLog:
    """The log of a run in a store.

    Args:
        store: where the run is.
        way_out: what a user does about a damaged log.
    """

    def __init__(self, store: Store, *, way_out: str) -> None:
        self.store = store
        self.state = LogState()
        self._way_out = way_out

    def read(self) -> Self:
        """Read to the end.

        Raises:
            FormatError: an object is damaged.
        """
        if not self.state.number:
            self._begin()
        ahead = _FIRST
        with ThreadPoolExecutor(_AHEAD) as pool:
            while True:
                first = self.state.number + 1
                keys = [number_key(first + n) for n in range(ahead)]
                ahead = _AHEAD
                found = list(pool.map(self.store.get, keys))
                for number, one in enumerate(found, first):
                    if one is None or not one.data:  # a cut request may leave an empty object
                        return self
                    self.state.add(self._parsed(one.data, number))

    def append(self, entries: Iterable[LogEntry], *, epoch: int, holder: str) -> None:
        """Write entries behind the last object.

        Raises:
            Stopped: another process has taken over.
        """
        wanted = tuple(entries)
        while True:
            number = self.state.number + 1
            one = LogObject(number=number, epoch=epoch, holder=holder, entries=wanted)
            if self.store.put_new(number_key(number), canonical_json(one)) is not None:
                self.state.add(one)
                return
            there = self.store.get(number_key(number))
            if there is None or not there.data:
                continue
            other = self._parsed(there.data, number)
            self.state.add(other)
            if other.epoch >= epoch:
                raise taken_over(self.store, self.state)

    def put_state(self) -> None:
        """Put all that holds into one object, so that nobody needs to read what came before."""
        state = self.state
        one = StateObject(
            number=state.number, epoch=state.epoch, holder=state.holder, entries=tuple(state.entries())
        )
        self.store.put_new(state_key(state.number), canonical_json(one))

    def _begin(self) -> None:
        """Take in the newest state that a listing has."""
        states = [one.key for one in self.store.list(LOG_FOLDER) if is_state(one.key)]
        if not states:
            return
        found = self.store.get(states[-1])
        if found is not None:
            self.state.add(
                parse_model(StateObject, found.data, self._place(states[-1]), way_out=self._way_out)
            )

    def _parsed(self, data: bytes, number: int) -> LogObject:
        place = self._place(number_key(number))
        one = parse_model(LogObject, data, place, way_out=self._way_out)
        if one.number != number:
            raise FormatError(f"{place}: is object {one.number:,} of the log; {self._way_out}")
        return one

    def _place(self, key: str) -> str:
        return f"{self.store.place}/{key}"


def taken_over(store: Store, state: LogState) -> Stopped:
    """Return the error of a process whose run another one has taken over."""
    taken = state.taken
    who = "another process" if taken is None else f"process {taken.pid} of {taken.host}"
    return Stopped(f"{store.place}: in use by {who}, which took over; wait for it, then run again")


def number_key(number: int) -> str:
    """Return the key of an object of the log."""
    return f"{LOG_FOLDER}/{number:08d}.json"


def state_key(number: int) -> str:
    """Return the key of the state after an object of the log."""
    return f"{LOG_FOLDER}/{_STATE}{number:08d}.json"


def is_state(key: str) -> bool:
    """Say whether a key of the log is that of a state."""
    return key.startswith(f"{LOG_FOLDER}/{_STATE}")
