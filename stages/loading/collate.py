"""A batch as a model takes it: tensors, and the masks or the lengths that its attention follows from.

    masks     what is added                             for
    none      nothing                                   models that look at padding alone
    dense     attention_mask (N, 1, L, L) bool          scaled_dot_product_attention
              with a dtype: numbers, added to scores    models of transformers, SDPA too
    flex      the same as BlockMasks                    flex_attention
    varlen    cu_seqlens, max_seqlen; columns flat      variable-length kernels; no padding computed

Of an encoder-decoder: encoder_mask, decoder_mask and cross_mask; decoder_cu_seqlens and
decoder_max_seqlen.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, Union

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stages.errors import ConfigError
from stages.loading.attention import dense_masks, flex_block_masks
from stages.loading.dataset import Batch
from stages.loading.masks import (
    ENCODER_DECODER,
    PADDING,
    column,
    cu_seqlens,
    of_lengths,
    one_segment,
    row_segments,
    self_attention,
)

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

Masks = Literal["none", "dense", "flex", "varlen"]
Collated = dict[str, Union[Tensor, int, "BlockMask"]]
_DECODER = ("labels", "decoder_input_ids")


def collate(
    batch: Batch,
    attention: str,
    *,
    masks: Masks = "dense",
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Collated:
    """Return the columns of a batch as tensors, with what its attention needs.

    Args:
        batch: all columns that the dataset gives.
        attention: as the manifest says it.
        masks: what is added; `varlen` leaves padding out of every column of tokens, and gives the
            length of the longest segment as a plain number.
        dtype: of dense masks: the model's, and under autocast the one that it computes in. The masks are
            then numbers that are added to scores, as models of transformers take them. None gives bool,
            which is for SDPA alone: eager attention adds True as 1 and masks nothing.
        device: where the tensors are to be, and where masks are made; None: in main memory.

    Raises:
        ConfigError: the attention is unknown, such masks cannot express it or have no dtype.
        DataError: a column is missing.
    """
    if dtype is not None and masks != "dense":
        raise ConfigError(f'dtype = {dtype}: only masks="dense" have one, and masks = {masks!r}')
    if masks == "varlen":
        return _variable_length(batch, attention, device)
    tensors = {name: torch.from_numpy(array).to(device) for name, array in batch.items()}
    if masks == "dense":
        return {**tensors, **dense_masks(tensors, attention, dtype=dtype)}
    if masks == "flex":
        return {**tensors, **flex_block_masks(tensors, attention)}
    return {**tensors}


def _variable_length(batch: Batch, attention: str, device: torch.device | str | None) -> Collated:
    """Return a batch without its padding, and where its segments begin.

    Of a batch that is padding alone one token stays, because kernels refuse a batch without a sequence,
    and other ranks would wait for this one.
    """
    if attention == ENCODER_DECODER:
        encoder, decoder = (
            _some_token(column(batch, f"{side}_length", attention), 1) for side in ("input", "label")
        )
        lengths = {"": of_lengths(encoder), "decoder_": of_lengths(decoder)}
        inside = one_segment(encoder, batch["input_ids"].shape[-1], np.arange)
        targets = one_segment(decoder, batch["labels"].shape[-1], np.arange)
        of_decoder = {name: batch[name] for name in _DECODER if name in batch}
        of_encoder = {name: array for name, array in batch.items() if name not in of_decoder}
        columns = _flat(of_encoder, inside) | _flat(of_decoder, targets)
    else:
        kind = self_attention(attention)
        if kind.prefix_columns:
            raise ConfigError(
                f"attention = {attention!r}: lengths alone cannot say that a prefix sees itself both"
                ' ways; take masks="dense" or "flex"'
            )
        segment_ids = row_segments(batch, kind, np.arange)
        segment_ids = segment_ids if kind.within_document else np.minimum(segment_ids, 0)
        segment_ids = _some_token(segment_ids, PADDING + 1)
        lengths = {"": cu_seqlens(segment_ids)}
        columns = _flat(batch, segment_ids)
    collated: Collated = {name: torch.from_numpy(array).to(device) for name, array in columns.items()}
    for side, of in lengths.items():
        collated[f"{side}cu_seqlens"] = torch.from_numpy(of.cu_seqlens).to(device)
        collated[f"{side}max_seqlen"] = of.max_seqlen
    return collated


def _some_token(values: NDArray[np.integer], least: int) -> NDArray[np.integer]:
    """Return lengths or segment ids with one of a token at least: the first, if there is none."""
    if (values >= least).any():
        return values
    values = values.copy()
    values.flat[0] = least
    return values


def _flat(batch: Mapping[str, NDArray[np.int64]], segment_ids: NDArray[np.integer]) -> Batch:
    """Return the columns of tokens without their padding, (T,), and all others as they are."""
    covered = segment_ids != PADDING
    return {
        name: array.reshape(covered.shape)[covered] if array.size == covered.size else array
        for name, array in batch.items()
    }
