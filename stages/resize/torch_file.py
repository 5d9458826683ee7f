"""Torch state dicts: read without running what a pickle says, and written again with other rows.

The file is mapped, so tensors that keep their rows pass from file to file. Tensors that share memory, as
a tied head and embedding do, share it afterwards.
"""

import pickle
from collections.abc import Mapping, MutableMapping
from copy import copy
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np
import torch
from torch import Tensor

from stages.errors import FormatError
from stages.resize.new_rows import ARRAYS, NewTensor, Raw
from stages.resize.safetensors_file import grown_shape
from stages.resize.tensors import TensorInfo

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
}


class TorchFile:
    """A state dict.

    Args:
        path: of the file, for messages.
        state: what it holds.
    """

    def __init__(self, path: Path, state: MutableMapping[str, object]) -> None:
        self._path, self._state = path, state
        self.tensors = {
            name: TensorInfo(
                tuple(value.shape), _NAMES.get(value.dtype, str(value.dtype)), _storage(value)
            )
            for name, value in state.items()
            if isinstance(value, Tensor)
        }

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return the state dict of a file.

        Raises:
            FormatError: it holds none, or something that only code in the file could make.
        """
        try:
            state = _load(path)
        except (RuntimeError, ValueError, EOFError, KeyError, pickle.UnpicklingError) as error:
            said = str(error).strip().splitlines() or [type(error).__name__]
            raise FormatError(
                f"{path}: not a torch state dict, or one that holds more than tensors: {said[0]}"
            ) from error
        names = state.keys() if isinstance(state, MutableMapping) else ()
        if not isinstance(state, MutableMapping) or not all(isinstance(name, str) for name in names):
            raise FormatError(f"{path}: holds a {type(state).__name__}, not a state dict")
        if not any(isinstance(value, Tensor) for value in state.values()):
            raise FormatError(
                f"{path}: holds no tensors by name, but {', '.join(map(str, list(state)[:6]))}; save the"
                " model's state dict alone: torch.save(checkpoint['model'], PATH)"
            )
        return cls(path, state)

    def rows(self, name: str) -> Raw:
        """Return a tensor as stored: (rows, D).

        Raises:
            FormatError: its type is not one that rows can be computed in.
        """
        info = self.tensors[name]
        if info.dtype not in ARRAYS:
            raise FormatError(
                f"{self._path}: {name} is {info.dtype}; rows are computed for {', '.join(ARRAYS)} alone:"
                " resize the model before it is quantised"
            )
        return _array(self._tensor(name)).reshape(info.rows, -1)

    def write(self, target: BinaryIO, changed: Mapping[str, NewTensor]) -> None:
        """Write the state dict with other rows of some tensors."""
        made: dict[str, Tensor] = {}
        state = copy(self._state)  # with what a module's own says of versions
        for name, rows in changed.items():
            info, value = self.tensors[name], self._tensor(name)
            if info.storage not in made:
                grown = torch.empty(grown_shape(info, rows.rows), dtype=value.dtype)
                array, place = _array(grown).reshape(rows.rows, -1), 0
                for block in rows.blocks(self.rows(name)):
                    array[place : place + len(block)] = block
                    place += len(block)
                made[info.storage] = grown
            new = made[info.storage]
            if isinstance(value, torch.nn.Parameter):
                new = torch.nn.Parameter(new, requires_grad=value.requires_grad)
            state[name] = new
        torch.save(state, target)

    def _tensor(self, name: str) -> Tensor:
        value = self._state[name]
        assert isinstance(value, Tensor)
        return value


def _load(path: Path) -> object:
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError as error:
        if "mmap" not in str(error):
            raise
        return torch.load(path, map_location="cpu", weights_only=True)  # the format before torch 1.6


def _storage(value: Tensor) -> str:
    """Name the memory of a tensor."""
    place = value.untyped_storage().data_ptr() + value.storage_offset() * value.element_size()
    return f"{place} {tuple(value.shape)} {value.stride()}"


def _array(value: Tensor) -> Raw:
    """Return the memory of a tensor as an array; bfloat16 as its bits."""
    plain = value.detach().contiguous()
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.int16).numpy().view(np.uint16)
    array: Raw = plain.numpy()
    return array
