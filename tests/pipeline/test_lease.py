"""What the lease of a run in a store promises: one holder, who is named, and who need not be asked."""

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from pipeline.state import lease as leases
from pipeline.state.lease import LEASE, Lease, LeaseObject, is_in_use, require_epoch
from stages.config import canonical_json
from stages.errors import Stopped
from tests.material.memory_store import MemoryStore

SHORT = 0.04
"""A period; a beat is each sixth of it."""
BUSY = "s3://memory/run: in use by process 7 of elsewhere; wait for it or stop it, then run again"


@dataclass
class Clock:
    """A clock that goes as far as somebody sleeps."""

    now: float = 1_000.0
    at: dict[int, Callable[[], object]] = field(default_factory=dict)
    """What happens while somebody sleeps, by number of the sleep."""
    sleeps: int = 0

    def monotonic(self) -> float:
        """Return the seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Go on."""
        self.now += seconds
        self.sleeps += 1
        self.at.get(self.sleeps, bool)()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock by which a newcomer waits without waiting."""
    clock = Clock()
    monkeypatch.setattr(leases, "time", clock)
    return clock


def held_by_other(store: MemoryStore, beat: int = 0, **changed: object) -> None:
    """Have another process hold the lease."""
    one = LeaseObject(epoch=4, holder="other", host="elsewhere", pid=7, beat=beat)
    store.write(LEASE, canonical_json(one.model_copy(update=changed)))


def lease_in(store: MemoryStore) -> LeaseObject:
    """Return what the lease says."""
    return LeaseObject.model_validate_json(store.objects[LEASE])


def wait_until(is_so: Callable[[], object]) -> None:
    """Wait until the thread of the lease has done something."""
    end = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_a_free_lease_is_taken_at_once_and_given_back(clock: Clock) -> None:
    store, said = MemoryStore(), list[str]()
    first = Lease(store, "one", "here", 1)
    first.take(least=3, tell=said.append)
    assert lease_in(store) == LeaseObject(epoch=3, holder="one", host="here", pid=1)
    first.give_back()
    assert lease_in(store).holder == ""
    second = Lease(store, "two", "here", 2)
    second.take(least=1, tell=said.append)
    assert second.epoch == 4, "higher than all before it"
    second.give_back()
    assert (said, clock.sleeps) == ([], 0)


def test_who_waits_says_for_whom_and_takes_over_after_one_period(clock: Clock) -> None:
    store, said = MemoryStore(), list[str]()
    held_by_other(store, period=30.0)
    begun = clock.now
    own = Lease(store, "own", "here", 1)
    own.take(least=1, tell=said.append)
    own.give_back()
    assert clock.now - begun == pytest.approx(30.0)
    assert own.epoch == 5
    (line,) = said
    assert line == (
        "s3://memory/run: process 7 of elsewhere holds this run; waiting 30 s to see whether it is"
        " still at work"
    )


def test_a_lease_that_is_renewed_is_not_taken(clock: Clock) -> None:
    store = MemoryStore()
    held_by_other(store)
    clock.at[3] = lambda: held_by_other(store, beat=1)
    with pytest.raises(Stopped) as error:
        Lease(store, "own", "here", 1).take(least=1, tell=print)
    assert str(error.value) == BUSY
    assert clock.sleeps == 3, "nobody waits for the end of the period"
    assert lease_in(store).holder == "other"


def given_back(store: MemoryStore) -> None:
    """Have the other process give the lease back."""
    held_by_other(store, holder="")


def removed(store: MemoryStore) -> None:
    """Have somebody remove the lease."""
    store.delete([LEASE])


@pytest.mark.parametrize(("end", "epoch"), [(given_back, 5), (removed, 2)])
def test_a_lease_that_ends_meanwhile_is_taken_at_once(
    end: Callable[[MemoryStore], None], epoch: int, clock: Clock
) -> None:
    store = MemoryStore()
    held_by_other(store)
    clock.at[2] = lambda: end(store)
    own = Lease(store, "own", "here", 1)
    own.take(least=2, tell=print)
    own.give_back()
    assert clock.sleeps == 2
    assert own.epoch == epoch


def test_of_two_newcomers_one_takes_the_lease(clock: Clock) -> None:
    store = MemoryStore()
    held_by_other(store, holder="gone", pid=1)
    read = store.get

    def late(*asked: object) -> object:
        """Have another newcomer be faster, after the last look."""
        found = read(*asked)  # type: ignore[arg-type]
        if clock.sleeps == 12:
            clock.sleeps += 1
            held_by_other(store, epoch=5)
        return found

    store.get = late  # type: ignore[method-assign, assignment]
    with pytest.raises(Stopped) as error:
        Lease(store, "own", "here", 1).take(least=1, tell=print)
    assert str(error.value) == BUSY


def test_a_holder_renews_its_lease_and_finds_its_own_late_or_unanswered_beat() -> None:
    store = MemoryStore()
    own = Lease(store, "own", "here", 1, period=SHORT)
    own.take(least=1, tell=print)
    wait_until(lambda: lease_in(store).beat >= 2)
    store.loses = True
    wait_until(lambda: not store.loses)
    beat = lease_in(store).beat
    wait_until(lambda: lease_in(store).beat > beat + 1)
    own.require()
    own.give_back()
    assert lease_in(store).holder == ""


def test_a_holder_that_was_frozen_and_finds_its_own_tag_goes_on() -> None:
    store = MemoryStore()
    own = Lease(store, "own", "here", 1, period=SHORT)
    replace = store.replace
    frozen = [True]

    def slow(key: str, data: bytes, tag: str) -> str | None:
        if frozen and frozen.pop():
            time.sleep(2 * SHORT)  # longer than a period
        return replace(key, data, tag)

    store.replace = slow  # type: ignore[method-assign]
    own.take(least=1, tell=print)
    wait_until(lambda: lease_in(store).beat >= 2)
    own.require()
    own.give_back()


def test_a_holder_that_finds_the_tag_of_another_is_stopped_and_leaves_its_lease() -> None:
    store = MemoryStore()
    own = Lease(store, "own", "here", 1, period=SHORT)
    own.take(least=1, tell=print)
    own.require()
    held_by_other(store)
    wait_until(lambda: own._lost)  # noqa: SLF001  # the thread has seen it
    with pytest.raises(Stopped) as error:
        own.require()
    assert str(error.value) == BUSY
    own.give_back()
    assert lease_in(store).holder == "other"


def test_a_lease_that_somebody_removed_stops_its_holder() -> None:
    store = MemoryStore()
    own = Lease(store, "own", "here", 1, period=SHORT)
    own.take(least=1, tell=print)
    store.delete([LEASE])
    wait_until(lambda: own._lost)  # noqa: SLF001  # the thread has seen it
    with pytest.raises(Stopped, match="in use by another process; wait for it"):
        own.require()
    own.give_back()
    assert LEASE not in store.objects


def test_a_worker_puts_nothing_once_a_higher_epoch_has_the_lease() -> None:
    store = MemoryStore()
    require_epoch(store, 3)  # no lease, as after it was removed: the log decides
    held_by_other(store)
    for epoch in (4, 5):
        require_epoch(store, epoch)
    with pytest.raises(Stopped) as error:
        require_epoch(store, 3)
    assert str(error.value) == BUSY


def test_a_run_is_in_use_unless_its_process_is_known_to_be_gone() -> None:
    store = MemoryStore()
    assert not is_in_use(store)
    held_by_other(store)
    assert is_in_use(store), "nobody here can tell"
    held_by_other(store, host=socket.gethostname(), pid=os.getpid())
    assert is_in_use(store)
    held_by_other(store, host=socket.gethostname(), pid=1 << 30)
    assert not is_in_use(store)
    given_back(store)
    assert not is_in_use(store)
