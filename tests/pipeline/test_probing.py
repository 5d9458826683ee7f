"""What the probe of a store promises: it names what is missing, and leaves nothing.

The store here lies in memory, and fails in one way.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pytest

from pipeline.state.probing import probe
from stages.errors import ConfigError, NoRightError, Stopped
from stages.stores.store import FoundObject, Listed
from tests.material.memory_store import MemoryStore

RIGHTS = {
    "no write": "write objects",
    "no read": "read objects",
    "no replace": "write objects",
    "no list": "list objects",
    "no delete": "delete objects",
    "retained": "delete objects",
}
"""By what a user may not do, the right that is named."""
LACKS = {
    "all create": "creates an object that is there already (If-None-Match)",
    "none create": "creates an object that is there already (If-None-Match)",
    "all replace": "replaces an object that has changed since (If-Match)",
    "none replace": "replaces an object that has changed since (If-Match)",
    "gives old bytes": "gives another object than was written last",
    "lists none": "does not list an object that was written",
    "deletes none": "does not delete objects",
}
"""By what a server does, what is said of it."""


@dataclass(eq=False)
class FaultyStore(MemoryStore):
    """Objects in memory, in a store that fails in one way."""

    fault: str = ""
    """What the store or its user does not do; of the two tables above."""

    @property
    def writes(self) -> int:
        """Objects that were written so far."""
        return sum(verb == "write" for verb, _ in self.asked)

    def get(self, key: str, begin: int = 0, end: int | None = None) -> FoundObject | None:
        """Return an object."""
        self._allow("no read")
        found = super().get(key, begin, end)
        if found is None or self.fault != "gives old bytes":
            return found
        return FoundObject(b"1", found.tag)

    def put_new(self, key: str, data: bytes) -> str | None:
        """Write an object; what is in the way is read."""
        self._allow("no write")
        if key in self.objects:
            self._allow("no read")
        tag = self.write(key, data) if self.fault == "all create" else super().put_new(key, data)
        return None if self.fault == "none create" else tag

    def replace(self, key: str, data: bytes, tag: str) -> str | None:
        """Write over an object."""
        self._allow("no replace")
        if self.fault == "all replace":
            return self.write(key, data)
        return None if self.fault == "none replace" else super().replace(key, data, tag)

    def list(self, prefix: str) -> Iterator[Listed]:
        """Yield objects."""
        self._allow("no list")
        if self.fault == "away":
            raise Stopped(f"{self.place}: no answer")
        yield from () if self.fault == "lists none" else super().list(prefix)

    def delete(self, keys: Collection[str]) -> None:
        """Remove objects."""
        self._allow("no delete")
        if not self.objects.keys().isdisjoint(keys):
            self._allow("retained")
        if self.fault != "deletes none":
            super().delete(keys)

    def _allow(self, fault: str) -> None:
        if self.fault == fault:
            raise NoRightError(f"{self.place}: the server said 403 AccessDenied (drawn)")


@pytest.mark.parametrize("fault", RIGHTS)
def test_the_right_that_is_missing_is_named_and_what_the_server_said(fault: str) -> None:
    store = FaultyStore(fault=fault)
    with pytest.raises(NoRightError) as found:
        probe(store)
    said = str(found.value)
    assert said.startswith(
        f"s3://memory/run: a run needs the right to {RIGHTS[fault]}, and has it not: s3://memory/run:"
        " the server said 403 AccessDenied"
    )
    left = [f"; the object {key} may be left there" for key in store.objects]
    assert len(left) == (fault == "retained")
    assert said.endswith("".join(left) or "(drawn)")


def test_who_may_delete_nothing_has_written_nothing() -> None:
    store = FaultyStore(fault="no delete")
    with pytest.raises(NoRightError):
        probe(store)
    assert store.writes == 0


@pytest.mark.parametrize("fault", LACKS)
def test_what_a_server_does_not_keep_is_named_and_nothing_is_left(fault: str) -> None:
    store = FaultyStore(fault=fault)
    with pytest.raises(ConfigError) as found:
        probe(store)
    said = f"s3://memory/run: the store cannot hold a run: it {LACKS[fault]}; use one that"
    assert str(found.value).startswith(said)
    assert not isinstance(found.value, NoRightError)
    assert store.writes > 0
    assert len(store.objects) == (fault == "deletes none")


def test_a_server_without_an_answer_is_not_said_to_lack_something() -> None:
    with pytest.raises(Stopped, match="no answer"):
        probe(FaultyStore(fault="away"))


def test_a_store_that_does_all_passes_and_nothing_is_left() -> None:
    store = FaultyStore()
    probe(store)
    assert store.writes == 2
    assert store.objects == {}
