"""The masks of `stages.loading.masks` as torch has them: dense ones, and blocks for FlexAttention.

    batch, attention -> rules -+-> dense_masks         (N, 1, L, L) bool, for SDPA alone
                               |   with a dtype        (N, 1, L, L) numbers that are added to scores
                               +-> flex_block_masks    BlockMask, for flex_attention; torch >= 2.5

A rule says of one pair of positions whether the first may attend to the second; True is "may attend".
All masks are the same rule, asked of all pairs or of blocks of them.

`scaled_dot_product_attention` (SDPA) takes True as "may attend". Eager attention of transformers adds
the mask to the scores, and True is then +1, which masks nothing. Numbers are right in both.

Axes: N rows, L tokens, L_in and L_out those of an encoder and a decoder, V views of a row.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from stages.errors import ConfigError
from stages.loading.masks import ENCODER_DECODER, PADDING, SelfAttention, column, self_attention

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""(row, head, query, key) -> bool, each of any shape, as FlexAttention's `mask_mod` is called."""


class Grid(NamedTuple):
    """A rule and the pairs it is about."""

    rule: Rule
    rows: int
    queries: int
    keys: int
    device: torch.device

    def narrowed(self, other: Rule) -> "Grid":
        """Return the pairs that another rule allows too; a position still sees itself."""

        def both(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return self.rule(row, head, query, key) & (other(row, head, query, key) | (query == key))

        return self._replace(rule=both)


def attention_mask(
    kind: SelfAttention,
    segment_ids: Tensor,
    *,
    prefix_length: Tensor | None = None,
    in_prefix: Tensor | None = None,
) -> Tensor:
    """Say which position may attend to which: (N, 1, L, L) bool, the attending one first.

    Args:
        kind: who attends to whom.
        segment_ids: (N, L), the document within the row, -1 on padding.
        prefix_length: (N,) tokens of each row's prefix, for PREFIX alone.
        in_prefix: (N, L), not 0 in the prefix of each document, for PREFIX_WITHIN_DOCUMENT alone.
    """
    count, length = segment_ids.shape
    rule = _self_rule(kind, segment_ids, prefix_length=prefix_length, in_prefix=in_prefix)
    return dense_mask(Grid(rule, count, length, length, segment_ids.device))


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
    masks = {name: dense_mask(grid) for name, grid in _grids(batch, attention, device).items()}
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
    return {name: block_mask(grid) for name, grid in _grids(batch, attention, device).items()}


def block_mask(grid: Grid) -> "BlockMask":
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
    return create_block_mask(grid.rule, grid.rows, None, grid.queries, grid.keys, device=grid.device)


def grid_of(batch: Mapping[str, Tensor], attention: str, device: torch.device | str | None) -> Grid:
    """Return the rule of an attention of one sequence."""
    return _grids(batch, attention, device)["attention_mask"]


def _self_rule(
    kind: SelfAttention,
    segment_ids: Tensor,
    *,
    prefix_length: Tensor | None = None,
    in_prefix: Tensor | None = None,
) -> Rule:
    """Return the rule of `masks.attention_mask`."""
    if not kind.within_document:
        segment_ids = segment_ids.clamp(max=0)
    prefix = prefix_length if kind is SelfAttention.PREFIX else None
    shown = in_prefix != 0 if in_prefix is not None and kind.prefix_columns == ("in_prefix",) else None

    def may_attend(row: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        document = segment_ids[row, query]
        seen = (document == segment_ids[row, key]) & (document != PADDING)
        if not kind.both_ways:
            earlier = key <= query
            if prefix is not None:
                earlier = earlier | (key < prefix[row])
            if shown is not None:
                earlier = earlier | shown[row, key]
            seen = seen & earlier
        return seen | (query == key)

    return may_attend


def _cross_rule(input_length: Tensor) -> Rule:
    """Return the rule of `masks.cross_mask`."""
    seen = input_length.clamp(min=1)

    def may_attend(row: Tensor, _head: Tensor, _query: Tensor, key: Tensor) -> Tensor:
        return key < seen[row]

    return may_attend


def _grids(
    batch: Mapping[str, Tensor], attention: str, device: torch.device | str | None
) -> dict[str, Grid]:
    """Return the rules of an attention, by the names of `masks.masks_of`."""
    if attention == ENCODER_DECODER:
        inputs, labels = (
            column(batch, name, attention).to(device) for name in ("input_length", "label_length")
        )
        count, width_in, width_out = len(inputs), batch["input_ids"].shape[-1], batch["labels"].shape[-1]
        encoder = _self_rule(SelfAttention.BIDIRECTIONAL, _one(inputs, width_in))
        decoder = _self_rule(SelfAttention.CAUSAL, _one(labels, width_out))
        return {
            "encoder_mask": Grid(encoder, count, width_in, width_in, inputs.device),
            "decoder_mask": Grid(decoder, count, width_out, width_out, inputs.device),
            "cross_mask": Grid(_cross_rule(inputs), count, width_out, width_in, inputs.device),
        }
    kind = self_attention(attention)
    segment_ids = _segments(batch, kind).to(device)
    prefix = {name: column(batch, name, attention).to(device) for name in kind.prefix_columns}
    count, length = segment_ids.shape
    rule = _self_rule(kind, segment_ids, **prefix)
    return {"attention_mask": Grid(rule, count, length, length, segment_ids.device)}


def dense_mask(grid: Grid) -> Tensor:
    """Return a rule asked of all pairs: (N, 1, queries, keys) bool."""
    row, query, key = (
        torch.arange(size, device=grid.device) for size in (grid.rows, grid.queries, grid.keys)
    )
    mask = grid.rule(row[:, None, None, None], row[:1], query[:, None], key)
    return mask.expand(grid.rows, 1, grid.queries, grid.keys)


def _one(lengths: Tensor, width: int) -> Tensor:
    """Return the segment ids, (..., width), of rows that hold one text each."""
    covered = torch.arange(width, device=lengths.device) < lengths[..., None]
    return covered.long() - 1


def _segments(batch: Mapping[str, Tensor], kind: SelfAttention) -> Tensor:
    """Return the segment ids, (N, L) or (N V, L), that an attention follows from."""
    shape = column(batch, "input_ids", kind).shape
    if not kind.within_document and "input_length" in batch:
        segment_ids = _one(batch["input_length"], shape[-1])
    else:
        segment_ids = column(batch, "segment_ids", kind)
    if segment_ids.ndim < len(shape):  # one row of segments for all views
        segment_ids = segment_ids[:, None].expand(shape)
    return segment_ids.reshape(-1, shape[-1])
