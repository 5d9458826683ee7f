"""The mask of a batch as a model of transformers takes it.

    full attention everywhere           attention_mask (N, 1, L, L), numbers of the model's dtype
    several kinds of layers             {"full_attention": ..., "sliding_attention": ...}, one of each
    an encoder with a decoder           attention_mask (N, L_in), 1 for a token and 0 for padding
    attn_implementation="flex_attention"    the same as BlockMasks

A mask of four axes goes to the scores as it is. Eager attention of transformers adds it, so True is +1
and masks nothing, and layers with a window see all of their document. Numbers, and a mask for each kind
of layer, are right under eager attention and SDPA.

Source: transformers 5.24, `masking_utils.py`, for what a window or a chunk is.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Union

import torch
from torch import Tensor, nn

from stages.errors import ConfigError
from stages.loading.attention import additive, block_mask, dense_mask, device_of, grids_on
from stages.loading.masks import ENCODER_DECODER, Rule, column, self_attention

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

OneMask = Union[Tensor, "BlockMask"]
_Window = Callable[[Mapping[str, Tensor], torch.device], Rule[Tensor]]
ModelMasks = dict[str, OneMask | dict[str, OneMask]]
_WITHOUT_MASKS = ("flash_attention_2", "flash_attention_3", "flash_attention_4")
_OF_PADDING = 2
"""Axes of a mask that says where a row has tokens; models take it in whatever dtype."""
_FULL, _SLIDING, _CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
_MIXING = {
    "blt": "a transformer over patches of the row, which takes no mask",
    "convbert": "convolutions over neighbouring tokens",
    "cpmant": "a mask of its own, which it makes of lengths",
    "fnet": "a Fourier transform over all tokens of a row",
    "layoutlm": "a mask of padding alone",
    "mobilebert": "embeddings of neighbouring tokens",
    "nystromformer": "landmarks, which are means over the tokens of a row",
    "perceiver": "latents that see the whole row",
    "reformer": "attention within buckets of hashes, which takes a mask of padding alone",
    "rwkv": "a state that goes through the row",
    "xlstm": "a state that goes through the row",
}
"""Types of models that a mask of four axes does not keep from mixing documents, and what does it.

Source: `make clients`, which runs every class of transformers 5.24 (clients/masked_models.py).
"""
_UNUSED_WINDOW = {"moshi"}
"""Types of models whose settings name a window that no layer has."""
_WRAPPERS = ("module", "_orig_mod")
"""Where DDP and torch.compile keep the model that they wrap."""


def model_masks(
    model: nn.Module,
    batch: Mapping[str, Tensor],
    attention: str,
    *,
    device: torch.device | str | None = None,
) -> ModelMasks:
    """Return the arguments of a model's forward that keep documents apart: `attention_mask`.

    >>> outputs = model(input_ids=ids, position_ids=positions, **model_masks(model, batch, attention))

    Call it where the model is called, so that a mask is made on the model's device and of the dtype that
    autocast computes in.

    Args:
        model: of transformers, wrapped or not.
        batch: the loader's columns as tensors, with `segment_ids` or the lengths.
        attention: as the manifest says it.
        device: where the mask is to be; None: where the batch is.

    Raises:
        ConfigError: the model's attention takes no such mask, or its layers mix positions without one.
        DataError: a column that the mask follows from is not there.
    """
    if attention == ENCODER_DECODER:
        lengths = column(batch, "input_length", attention).to(device)
        places = torch.arange(batch["input_ids"].shape[-1], device=lengths.device)
        return {"attention_mask": (places < lengths[..., None]).long()}
    reason = _MIXING.get(str(getattr(_config(model), "model_type", None)))
    if reason is not None:
        raise ConfigError(
            f"{_name(model)} has {reason}, so no mask keeps documents apart; train it on rows of one"
            " document each, or take another model"
        )
    kernel = attention_of(model)
    if kernel in _WITHOUT_MASKS:
        raise ConfigError(
            f"{_name(model)} computes with {kernel}, which takes no mask; pass input_ids[None] and"
            ' position_ids[None] of collate(..., masks="varlen"), without attention_mask'
        )
    where = device_of(batch, attention, device)
    grid = grids_on(batch, attention, where)["attention_mask"]
    dtype = _computed_in(model, where)
    both_ways = self_attention(attention).both_ways
    masks: dict[str, OneMask] = {}
    for kind, window in _kinds_of_layers(model, both_ways=both_ways):
        narrowed = grid if window is None else grid.narrowed(window(batch, where))
        if kernel == "flex_attention":
            masks[kind] = block_mask(narrowed, where)
        else:
            masks[kind] = additive(dense_mask(narrowed, where), dtype)
    if len(masks) == 1:  # also of layers that all have a window: some models take no dict then
        return {"attention_mask": next(iter(masks.values()))}
    return {"attention_mask": masks}


def refuse_boolean_mask(model: nn.Module, attention_mask: OneMask | Mapping[str, OneMask]) -> None:
    """Refuse a mask that the model's attention would add to its scores as 0 and 1.

    >>> refuse_boolean_mask(model, batch["attention_mask"])

    Args:
        model: of transformers, wrapped or not. Of other models it is not known how they attend.
        attention_mask: as it is passed to the model.

    Raises:
        ConfigError: the mask has four axes and is of bool, and a part of the model attends eagerly.
    """
    masks = [*attention_mask.values()] if isinstance(attention_mask, Mapping) else [attention_mask]
    wrong = any(
        isinstance(mask, Tensor) and mask.ndim > _OF_PADDING and mask.dtype == torch.bool
        for mask in masks
    )
    if wrong and "eager" in _kernels(model):
        raise ConfigError(
            f"{_name(model)}: its attention is eager, and adds the mask to the scores. A mask of bool"
            " adds 1 where a position may attend, and masks nothing; pass dtype=model.dtype to collate"
            ' or dense_masks, or make the model with attn_implementation="sdpa"'
        )


def attention_of(model: nn.Module) -> str | None:
    """Return how a model of transformers attends: "eager", "sdpa", ...; None if it does not say."""
    found = getattr(_config(model), "_attn_implementation", None)
    return None if found is None else str(found)


def _kernels(model: nn.Module) -> set[str]:
    """Return how all parts of a model attend."""
    configs = [getattr(part, "config", None) for part in model.modules()]
    return {str(getattr(config, "_attn_implementation", None)) for config in configs}


def _name(model: nn.Module) -> str:
    """Return the name of a model's class."""
    return type(_unwrapped(model)).__name__


def _unwrapped(model: nn.Module) -> nn.Module:
    for name in _WRAPPERS * 2:
        model = getattr(model, name, model)
    return model


def _config(model: nn.Module) -> object:
    """Return the settings of the model, or of its part that reads text."""
    config: object = getattr(_unwrapped(model), "config", None)
    text = getattr(config, "get_text_config", None)
    return config if text is None else text()


def _computed_in(model: nn.Module, device: torch.device) -> torch.dtype:
    """Return the dtype of the scores: that of autocast inside it, else that of the model."""
    if torch.is_autocast_enabled(device.type):
        return torch.get_autocast_dtype(device.type)
    dtypes = (parameter.dtype for parameter in model.parameters())
    return next((dtype for dtype in dtypes if dtype.is_floating_point), torch.get_default_dtype())


def _kinds_of_layers(model: nn.Module, *, both_ways: bool) -> Iterator[tuple[str, _Window | None]]:
    """Yield the kinds of a model's layers, each with what makes the rule of its window."""
    config = _config(model)
    size, chunk = getattr(config, "sliding_window", None), getattr(config, "attention_chunk_size", None)
    if getattr(config, "model_type", None) in _UNUSED_WINDOW:
        size = None
    kinds = getattr(config, "layer_types", None) or [_FULL if size is None else _SLIDING]
    windows: dict[str, _Window | None] = {_FULL: None}
    if size is not None:
        windows[_SLIDING] = lambda _batch, _device: _within(size, both_ways=both_ways)
    if chunk is not None:
        windows[_CHUNKED] = lambda batch, device: _same_chunk(
            chunk, column(batch, "position_ids", _CHUNKED).to(device)
        )
    for kind in dict.fromkeys(kinds):
        if kind not in windows:
            raise ConfigError(
                f"{_name(model)} has layers of {kind}, which no mask keeps from mixing documents; train"
                " it on rows of one document each, or take another model"
            )
        yield kind, windows[kind]


def _within(size: int, *, both_ways: bool) -> Rule[Tensor]:
    """Return the rule of a window: `size` tokens with one's own, or `size` to either side."""

    def near(_row: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query - key).abs() <= size if both_ways else query - key < size

    return near


def _same_chunk(size: int, position_ids: Tensor) -> Rule[Tensor]:
    """Return the rule of chunks, which are counted from the beginning of each document."""
    chunks = position_ids // size

    def same(row: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return chunks[row, query] == chunks[row, key]

    return same
