"""The lease: who works on a run in a store.

    lease.json    {epoch, holder, host, pid, beat, period}

It saves work; that at most one process writes rests on the log. No time of day is in it, since clocks of
two machines are never compared: a newcomer that sees the same tag for a whole period, by its own clock,
takes over with the next epoch. The holder writes a new beat every sixth of a period, and looks whether
it still holds the lease before it puts or deletes anything.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.state.state_files import parse_model
from stages.config import Config, canonical_json
from stages.errors import Stopped
from stages.stores.store import Store

LEASE = "lease.json"
PERIOD = 60.0
"""Seconds without a beat after which another process may take over."""
_BEATS = 6
"""In a period."""
_LOOKS = 12
"""Of a newcomer in a period."""
_WAY_OUT = "remove it if no run is at work there, and run again"


class LeaseObject(Config):
    """What lease.json says."""

    epoch: int
    holder: str
    """Empty if it was given back."""
    host: str = ""
    pid: int = 0
    beat: int = 0
    period: float = PERIOD


@dataclass
class Lease:
    """A lease that this process holds, or wants to.

    Args:
        store: where the run is.
        holder: of this process, like no other's.
        host: of this process, for people.
        pid: of this process.
        period: seconds.
    """

    store: Store
    holder: str
    host: str
    pid: int
    period: float = PERIOD
    epoch: int = 0
    """Of this process, once it holds the lease."""
    _tag: str = ""
    _beat: int = 0
    _lost: Stopped | None = None
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def take(self, *, least: int, tell: Callable[[str], None]) -> None:
        """Wait until the lease is free, take it, and begin to renew it.

        Args:
            least: an epoch that is higher than all of the log.
            tell: is told for whom it waits.

        Raises:
            Stopped: another process is at work.
        """
        found = self._read()
        if found is not None and found[0].holder:
            found = self._waited(*found, tell)
        self.epoch = max(least, found[0].epoch + 1 if found else 1)
        data = self._data()
        tag = (
            self.store.put_new(LEASE, data)
            if found is None
            else self.store.replace(LEASE, data, found[1])
        )
        if tag is None:
            other = self._read()
            raise in_use(self.store, None if other is None else other[0])
        self._tag = tag
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._thread.start()

    def require(self) -> None:
        """Refuse to go on if another process has taken over, as far as is known.

        Raises:
            Stopped: one has.
        """
        if self._lost is not None:
            raise self._lost

    def give_back(self) -> None:
        """End in order: the next process need not wait."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._lost is None and self._tag:
            free = LeaseObject(epoch=self.epoch, holder="", beat=self._beat, period=self.period)
            with contextlib.suppress(Stopped):  # the next process waits a period instead
                self.store.replace(LEASE, canonical_json(free), self._tag)

    def _waited(
        self, seen: LeaseObject, tag: str, tell: Callable[[str], None]
    ) -> tuple[LeaseObject, str] | None:
        """Look at a lease for a whole period.

        Raises:
            Stopped: it was renewed.
        """
        tell(
            f"{self.store.place}: process {seen.pid} of {seen.host} holds this run; waiting"
            f" {seen.period:.0f} s to see whether it is still at work"
        )
        end = time.monotonic() + seen.period
        while time.monotonic() < end:
            time.sleep(seen.period / _LOOKS)
            found = self._read()
            if found is None or not found[0].holder:
                return found
            if found[1] != tag:
                raise in_use(self.store, found[0])
        return seen, tag

    def _renew(self) -> None:
        """Write a beat every sixth of a period, until the end or until another process has the lease."""
        while not self._ended.wait(self.period / _BEATS):
            self._beat += 1
            try:
                tag = self.store.replace(LEASE, self._data(), self._tag)
                found = None if tag is not None else self._read()
            except Stopped:  # no answer: the log says who may write, and the next beat tries again
                continue
            except Exception as error:  # noqa: BLE001  # told by who asks next
                self._lost = Stopped(f"{self.store.place}: the lease cannot be renewed: {error}")
                return
            if tag is None and found is not None and found[0].holder == self.holder:
                tag = found[1]  # written, and its answer was lost
            if tag is None:
                self._lost = in_use(self.store, None if found is None else found[0])
                return
            self._tag = tag

    def _data(self) -> bytes:
        return canonical_json(
            LeaseObject(
                epoch=self.epoch,
                holder=self.holder,
                host=self.host,
                pid=self.pid,
                beat=self._beat,
                period=self.period,
            )
        )

    def _read(self) -> tuple[LeaseObject, str] | None:
        """Return the lease and its tag; None if there is none."""
        found = self.store.get(LEASE)
        if found is None or not found.data:  # a cut request may leave an empty object
            return None
        place = f"{self.store.place}/{LEASE}"
        return parse_model(LeaseObject, found.data, place, way_out=_WAY_OUT), found.tag


def require_epoch(store: Store, epoch: int) -> None:
    """Refuse to go on if the lease has another epoch, in the process of a worker.

    Args:
        store: where the lease is.
        epoch: of the driver.

    Raises:
        Stopped: another process has taken over.
    """
    found = store.get(LEASE)
    if found is not None and found.data:
        lease = parse_model(LeaseObject, found.data, f"{store.place}/{LEASE}", way_out=_WAY_OUT)
        if lease.epoch > epoch:
            raise in_use(store, lease)


def is_in_use(store: Store) -> bool:
    """Say whether somebody holds a run, as far as the lease and this machine tell without a wait."""
    found = store.get(LEASE)
    if found is None or not found.data:
        return False
    lease = parse_model(LeaseObject, found.data, f"{store.place}/{LEASE}", way_out=_WAY_OUT)
    here = lease.host == socket.gethostname()
    return bool(lease.holder) and not (here and not Path(f"/proc/{lease.pid}").exists())


def in_use(store: Store, lease: LeaseObject | None) -> Stopped:
    """Return the error of a run that another process works on."""
    who = "another process" if lease is None else f"process {lease.pid} of {lease.host}"
    return Stopped(f"{store.place}: in use by {who}; wait for it or stop it, then run again")
