"""The masks of `stages.loading.masks` as torch has them: dense ones, and blocks for FlexAttention.

    batch, attention -> rules -+-> dense_masks         (N, 1, L, L) bool, for SDPA alone
                               |   with a dtype        (N, 1, L, L) numbers that are added to scores
                               +-> flex_block_masks    BlockMask, for flex_attention; torch >= 2.5

`scaled_dot_product_attention` (SDPA) takes True as "may attend". Eager attention of transformers adds
the mask to the scores, and True is then +1, which masks nothing. Numbers are right in both.

Axes: N rows, L tokens.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from stages.errors import ConfigError
from stages.loading.masks import Grid, SelfAttention, column, grids_of, self_grid

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

_FOLLOWED = ("segment_ids", "in_prefix", "input_length", "label_length", "prefix_length")
"""Columns that masks follow from."""


def attention_mask(
    kind: SelfAttention,
    segment_ids: Tensor,
    *,
    prefix_length: Tensor | None = None,
    in_prefix: Tensor | None = None,
) -> Tensor:
    """Say which position may attend to which: (N, 1, L, L) bool, as `masks.self_grid` does."""
    grid = self_grid(kind, segment_ids, prefix_length=prefix_length, in_prefix=in_prefix)
    return dense_mask(grid, segment_ids.device)


def dense_masks(
    batch: Mapping[str, Tensor],
    attention: str,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> dict[str, Tensor]:
    """Return the masks that `masks.masks_of` gives, with an axis for heads: (N, 1, L, L).

    The masks are made on the device, from columns of N x L numbers. So call this in the training loop,
    and not in the loader's workers, if rows are long.

    Args:
        batch: the loader's columns as tensors.
        attention: as the manifest says it.
        dtype: of the masks: the model's, and under autocast the one that it computes in. They are then
            added to scores: 0 where a position may attend, and the least number of the dtype elsewhere.
            Models of transformers need this, unless their attention is SDPA. None gives bool, True where
            a position may attend, which is for SDPA alone.
        device: where the masks are to be; None: where the batch is.

    Raises:
        ConfigError: the attention is unknown, or the dtype has no fractions.
        DataError: a column that it needs is not there.
    """
    if dtype is not None and not dtype.is_floating_point:
        raise ConfigError(
            f"dtype = {dtype}: must be that of the model, such as torch.bfloat16; None gives bool"
        )
    where = device_of(batch, attention, device)
    masks = {name: dense_mask(grid, where) for name, grid in grids_on(batch, attention, where).items()}
    return masks if dtype is None else {name: additive(mask, dtype) for name, mask in masks.items()}


def additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a mask of numbers that are added to scores: 0 for True, the least of the dtype for False.

    The least number, and not infinity: a softmax over nothing but infinities is no number.
    """
    least = torch.finfo(dtype).min
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, least)


def flex_block_masks(
    batch: Mapping[str, Tensor], attention: str, *, device: torch.device | str | None = None
) -> "dict[str, BlockMask]":
    """Return the same masks as blocks, under the same names, for `flex_attention`.

    One for all heads. Making them takes the memory of the dense mask for a moment.

    Source: Dong et al. 2024, "Flex Attention", section 3, arXiv 2412.05496.

    Args:
        batch: as for `dense_masks`.
        attention: as the manifest says it.
        device: where the masks are to be; None: where the batch is.

    Raises:
        ConfigError: the attention is unknown, or this torch has no FlexAttention.
        DataError: a column that it needs is not there.
    """
    where = device_of(batch, attention, device)
    return {name: block_mask(grid, where) for name, grid in grids_on(batch, attention, where).items()}


def block_mask(grid: Grid[Tensor], device: torch.device) -> "BlockMask":
    """Return a rule asked of blocks of pairs.

    Raises:
        ConfigError: this torch has no FlexAttention.
    """
    try:
        from torch.nn.attention.flex_attention import (  # noqa: PLC0415  # torch 2.4 has no such module
            create_block_mask,
        )
    except ImportError as error:
        raise ConfigError(
            f"torch {torch.__version__} has no FlexAttention, which came with 2.5; install torch>=2.5,"
            " or take dense_masks"
        ) from error

    def rule(row: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return grid.rule(row, query, key)

    return create_block_mask(rule, grid.rows, None, grid.queries, grid.keys, device=device)


def device_of(
    batch: Mapping[str, Tensor], attention: str, device: torch.device | str | None
) -> torch.device:
    """Return where masks are to be: None is where the batch is."""
    return torch.device(column(batch, "input_ids", attention).device if device is None else device)


def grids_on(
    batch: Mapping[str, Tensor], attention: str, device: torch.device
) -> dict[str, Grid[Tensor]]:
    """Return the rules of an attention, by the names of `masks.masks_of`, for masks on a device."""
    placed = {name: one.to(device) for name, one in batch.items() if name in _FOLLOWED}
    return grids_of({**batch, **placed}, attention, partial(torch.arange, device=device))


def dense_mask(grid: Grid[Tensor], device: torch.device) -> Tensor:
    """Return a rule asked of all pairs: (rows, 1, queries, keys) bool."""
    return grid.mask(partial(torch.arange, device=device))[:, None]
