"""What every file of tensors can do, whatever its format."""

from collections.abc import Mapping
from typing import BinaryIO, Protocol

from stages.resize.chosen import TensorInfo
from stages.resize.new_rows import Resized
from stages.resize.stored import Raw


class TensorFile(Protocol):
    """A file of tensors by name."""

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """What is known of each tensor."""
        ...

    def rows(self, name: str) -> Raw:
        """Return a tensor as stored: (rows, D)."""
        ...

    def write(self, target: BinaryIO, changed: Mapping[str, Resized]) -> None:
        """Write the file with other rows of some tensors."""
        ...
