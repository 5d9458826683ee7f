"""What is mapped at a time: values by key, few of them; the least recently used goes first."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class Kept(Generic[_Key, _Value]):
    """At most so many values; each is made when it is first asked for, and again once it was let go.

    Threads may share it. There is no lock, which a fork could find held for ever: each step is one call
    of a dict, and between two of them another thread may have let go of anything. Two threads may make
    the same value, and one of the two is kept.

    Args:
        bound: how many, at least 1.
    """

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self._values: OrderedDict[_Key, _Value] = OrderedDict()

    def __getstate__(self) -> dict[str, object]:
        """Give what another process needs: it makes the values itself."""
        return {"bound": self.bound, "_values": OrderedDict()}

    def __len__(self) -> int:
        """Values kept now."""
        return len(self._values)

    def get(self, key: _Key, make: Callable[[_Key], _Value]) -> _Value:
        """Give a value, made if it is not kept."""
        value = self._values.get(key)
        if value is None:
            value = make(key)
        self._values[key] = value
        try:  # suppress() takes as long as all the rest
            self._values.move_to_end(key)
            while len(self._values) > self.bound:
                self._values.popitem(last=False)
        except KeyError:  # another thread let go of it, and goes on until few enough are left
            pass
        return value
