"""Stand-ins for packages that a trainer imports, but does not need in order to read rows and to train.

They are left out because PyPI's wheels ask for another build of torch (torchvision, torchaudio), or
because they are clients of a service (mcli, wandb).
"""

import sys
import types
from importlib.machinery import ModuleSpec


class Unused:
    """Whatever is imported from a stand-in."""


class _StandIn(types.ModuleType):
    """A module that has every name, so that imports from it succeed."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None)  # transformers looks for one
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> type[Unused]:
        if name.startswith("__"):
            raise AttributeError(name)
        return Unused


def stand_in(*names: str) -> None:
    """Put stand-ins where imports look for modules; each name is a module's whole name."""
    for name in names:
        sys.modules[name] = _StandIn(name)
        if "." in name:
            parent, last = name.rsplit(".", 1)
            setattr(sys.modules[parent], last, sys.modules[name])
