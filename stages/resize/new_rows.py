"""New rows: what the rows of new ids hold at the start.

    mean     the mean of the rows of all old ids
    pieces   the mean of the rows of the old ids that write the text of the new piece
    normal   drawn around the mean, with the covariance of the rows of old ids
    random   drawn around 0 with a standard deviation of 0.02, as models are before they are trained

`mean` and `pieces` put a new id among the old ids, so a softmax gives it no more than these. With
`random`, its logit is about 0. If a model has learned logits far below 0, new ids then take nearly all
of the probability.

All sums are of 64-bit floats in a fixed order, and all draws are keyed by seed and id. So the rows
do not depend on threads, on the machine, or on what else is in the checkpoint.

Axes: R rows of old ids, K new ids, D channels.

Source: mean and normal: Hewitt 2021, "Initializing New Word Embeddings for Pretrained Language
Models", https://nlp.stanford.edu/~johnhew/vocab-expansion.html. pieces: Gee et al. 2022, "Fast
Vocabulary Transfer for Language Model Compression", arXiv 2402.09977.

Stored numbers: the floats of checkpoints as arrays of numpy, bfloat16 among them, and back.

numpy has no bfloat16, so an array holds it as the 16 leading bits of a 32-bit float:

    1.0   as F32 3f80 0000   as BF16 3f80 (uint16)

What every file of tensors can do, whatever its format.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from stages.errors import DataError
from stages.resize.row_method import RowMethod
from stages.resize.tensors import TensorInfo
from stages.seeding import philox4x32

ARRAYS: Final = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
"""Types that rows can be computed in, by the names of safetensors, and the arrays that hold them."""
Raw = NDArray[np.generic]
"""Numbers as they are stored."""
_HALF = 16
_QUIET = 0x40


def to_floats(stored: Raw, dtype: str) -> NDArray[np.float64]:
    """Return stored numbers of any shape as 64-bit floats, exactly."""
    if dtype != "BF16":
        return stored.astype(np.float64)
    wide = stored.astype(np.uint32) << np.uint32(_HALF)
    return wide.view(np.float32).astype(np.float64)


def from_floats(numbers: NDArray[np.float64], dtype: str) -> Raw:
    """Return 64-bit floats in the type of a tensor, rounded to the nearest, ties to even.

    BF16 is rounded from 32-bit floats, as torch does it.
    """
    if dtype != "BF16":
        return numbers.astype(ARRAYS[dtype])
    single = np.ascontiguousarray(numbers, np.float32)
    bits = single.view(np.uint32)
    odd = bits >> np.uint32(_HALF) & np.uint32(1)
    rounded = (bits + np.uint32(0x7FFF) + odd) >> np.uint32(_HALF)
    nan = (bits >> np.uint32(_HALF)) | np.uint32(_QUIET)
    return np.where(np.isnan(single), nan, rounded).astype("<u2")


RANDOM_DEVIATION = 0.02
"""Of `random`: what GPT-2 and the models after it begin with."""
TERMS = 256
"""Rows that are added up for a row of `normal`; a power of 4, so that its root is exact."""
_BLOCK = 4096
"""Rows that are in memory at once."""
_UNIFORM = 12
"""Numbers of 16 bits that are added up for one of `random`: their variance is 1 then."""


@dataclass(frozen=True)
class Growth:
    """Which rows a tensor has before and after."""

    rows: int
    """Before: old ids and padding."""
    rows_after: int
    old: NDArray[np.int64]
    """(R,) the old ids, ascending."""
    new: NDArray[np.int64]
    """(K,) the new ids, ascending; those below `rows` take rows of the padding."""
    old_ids: Sequence[NDArray[np.integer]]
    """Of each new id the old ids that write its text; none if no text gives it."""

    @property
    def places(self) -> NDArray[np.int64]:
        """Return all rows that are computed: those of new ids, and new padding; ascending."""
        return np.union1d(self.new, np.arange(self.rows, self.rows_after))

    @property
    def reused(self) -> int:
        """Count the rows of the old padding that become those of new ids."""
        return int((self.new < self.rows).sum())

    @property
    def padding(self) -> int:
        """Count the rows after, that belong to no id."""
        return self.rows_after - len(self.old) - len(self.new)


@dataclass(frozen=True)
class NewTensor:
    """What a tensor is to hold."""

    rows: int
    places: NDArray[np.int64]
    """(P,) rows that are not as before, ascending; all rows that were not there are among them."""
    values: Raw
    """(P, D) what they hold."""

    def blocks(self, before: Raw) -> Iterator[Raw]:
        """Yield the rows one block after the other, from the (rows, D) that there were."""
        for begin in range(0, self.rows, _BLOCK):
            end = min(begin + _BLOCK, self.rows)
            block = np.empty((end - begin, before.shape[1]), before.dtype)
            known = before[begin:end]
            block[: len(known)] = known
            first, last = np.searchsorted(self.places, (begin, end))
            block[self.places[first:last] - begin] = self.values[first:last]
            yield block


def resized(
    before: Raw, growth: Growth, *, dtype: str, method: RowMethod, seed: int, stream: int, name: str
) -> NewTensor:
    """Return what a tensor is to hold.

    Args:
        before: (rows, D) as stored.
        growth: which rows are of which ids.
        dtype: of the tensor.
        method: for the rows of new ids; new padding gets the mean, which a softmax minds least.
        seed: of draws, below 2**64.
        stream: tells tensors apart whose rows of `random` are not to be the same.
        name: of the tensor, for messages.

    Raises:
        DataError: the rows hold what is no number.
    """
    mean = _mean(before, growth.old, dtype=dtype)
    if not np.isfinite(mean).all():
        raise DataError(f"{name}: its rows hold NaN or infinity, so nothing can be computed from them")
    places = growth.places
    values = np.broadcast_to(from_floats(mean[None], dtype), (len(places), len(mean))).copy()
    for place, number, old_ids in zip(
        np.searchsorted(places, growth.new).tolist(), growth.new.tolist(), growth.old_ids, strict=True
    ):
        row = mean
        if method is RowMethod.PIECES and len(old_ids):
            row = to_floats(before[old_ids], dtype).sum(axis=0) / len(old_ids)
        elif method is RowMethod.NORMAL:
            row = _normal_row(before, growth.old, mean, dtype=dtype, draw=(seed, number))
        elif method is RowMethod.RANDOM:
            row = _random_row(len(mean), draw=(seed, number), stream=stream)
        values[place] = from_floats(row, dtype)
    return NewTensor(growth.rows_after, places, values)


def _mean(before: Raw, ids: NDArray[np.int64], *, dtype: str) -> NDArray[np.float64]:
    """Return the mean of some rows: (D,)."""
    total = np.zeros(before.shape[1])
    for begin in range(0, len(ids), _BLOCK):
        for row in to_floats(before[ids[begin : begin + _BLOCK]], dtype):
            total += row  # one after the other: no library decides the order
    return total / len(ids)


def _normal_row(
    before: Raw,
    ids: NDArray[np.int64],
    mean: NDArray[np.float64],
    *,
    dtype: str,
    draw: tuple[int, int],
) -> NDArray[np.float64]:
    """Return a row with the mean and the covariance of some rows: (D,).

    It is the mean and 256 ** -0.5 times the sum of 256 rows less the mean, each drawn with its sign. The
    covariance is that of all channels, and needs no matrix. By the central limit theorem the sum is
    close to normal. The draws are the same for all tensors: embedding and head of a new id are those of
    the same old ids.
    """
    numbers = _random_numbers(draw, stream=0, count=TERMS)
    chosen = ids[numbers * np.uint64(len(ids)) >> np.uint64(32)]  # bias below 2**-14 at 2**18 ids
    signs = np.where(_random_numbers(draw, stream=1, count=TERMS) >> np.uint64(31), 1.0, -1.0)
    rows = to_floats(before[chosen], dtype) - mean
    row: NDArray[np.float64] = mean + (rows * signs[:, None]).sum(axis=0) / TERMS**0.5
    return row


def _random_row(channels: int, *, draw: tuple[int, int], stream: int) -> NDArray[np.float64]:
    """Return a row of random numbers: (D,), of mean 0 and the deviation of `random`.

    Each is the sum of 12 uniform numbers, which needs no logarithm, so that the bits are the same on
    every machine.
    """
    numbers = _random_numbers(draw, stream=2 + stream, count=channels * _UNIFORM)
    uniform = (numbers >> np.uint64(16)).astype(np.float64).reshape(channels, _UNIFORM)
    sums: NDArray[np.float64] = (uniform.sum(axis=1) + _UNIFORM / 2) / 2**16 - _UNIFORM / 2
    return sums * RANDOM_DEVIATION


def _random_numbers(draw: tuple[int, int], *, stream: int, count: int) -> NDArray[np.uint64]:
    """Return random words of 32 bits, keyed by seed, id and stream: (count,)."""
    seed, number = draw
    blocks = -(-count // 4)
    counter = np.zeros((blocks, 4), np.uint64)
    counter[:, 0], counter[:, 1], counter[:, 2] = np.arange(blocks), number, stream
    return philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32)).ravel()[:count]


class TensorFile(Protocol):
    """A file of tensors by name."""

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """What is known of each tensor."""
        ...

    def rows(self, name: str) -> Raw:
        """Return a tensor as stored: (rows, D)."""
        ...

    def write(self, target: BinaryIO, changed: Mapping[str, NewTensor]) -> None:
        """Write the file with other rows of some tensors."""
        ...
